//! The whole drive against a plain model: what reads return while it runs, and what survives power loss.
//!
//! ```text
//!   for each line:  durable     content that power loss must leave, unless something in `maybe` landed over it
//!                   maybe       newer contents on their way: any of them may be there afterwards
//!                   live        what a read returns now
//!   for each tx:    its lines, all of them or none after RECOVER; none unless COMMIT was submitted
//! ```
//!
//! The drive is tiny (8 KiB of log a half, 8 pages of write buffer, 16 pages of cache), so that cleaning, eviction and
//! gc run all the time.

use granary_mssd::{Command, Drive, DriveConfig, DriveError, Mode, Mssd, Structure};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, LINE_SIZE, LINES_PER_PAGE, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use proptest::prelude::*;
use std::collections::BTreeMap;

const PAGES: u64 = 40;
const WHAT: Structure = Structure::Inode;

type Content = [u8; LINE_SIZE];

#[derive(Clone)]
struct Line {
    durable: Content,
    /// (acknowledged at, or none for a posted line that no verify has covered; content)
    maybe: Vec<(Option<Nanos>, Content)>,
    live: Content,
}

struct Tx {
    lines: BTreeMap<u64, Content>,
    /// COMMIT's completion, once submitted.
    commit: Option<Nanos>,
}

struct Model {
    drive: Mssd,
    log: bool,
    now: Nanos,
    lines: Vec<Line>,
    txs: BTreeMap<TxId, Tx>,
    next_tx: u32,
    stamp: u64,
    power: Stream,
    crashes: u32,
}

#[derive(Clone, Debug)]
enum Op {
    /// Stores bytes outside transactions and flushes their lines.
    Store {
        at: u64,
        len: usize,
    },
    Verify,
    /// A new transaction with lines in up to two pages.
    Begin {
        page: u64,
        line: u64,
        lines: u64,
        second: u64,
    },
    /// Commits the oldest running transaction.
    Commit {
        wait: bool,
    },
    Write {
        page: u64,
        count: u64,
        wait: bool,
    },
    Trim {
        page: u64,
        wait: bool,
    },
    Read {
        page: u64,
    },
    Load {
        at: u64,
        len: usize,
    },
    Idle {
        micros: u64,
    },
    Settle,
    /// Power loss, perhaps with a store still in the write-combining buffers.
    Crash {
        pending: Option<u64>,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let byte = 0..PAGES * PAGE_SIZE as u64 - 600;
    let page = 0..PAGES;
    prop_oneof![
        8 => (byte.clone(), 1usize..500).prop_map(|(at, len)| Op::Store { at, len }),
        8 => (page.clone(), 0u64..64).prop_map(|(p, l)| Op::Store { at: p * 4096 + l * 64, len: 64 }),
        6 => Just(Op::Verify),
        6 => (page.clone(), 0u64..60, 1u64..5, page.clone())
            .prop_map(|(page, line, lines, second)| Op::Begin { page, line, lines, second }),
        6 => any::<bool>().prop_map(|wait| Op::Commit { wait }),
        5 => (0..PAGES - 4, 1u64..4, any::<bool>()).prop_map(|(page, count, wait)| Op::Write { page, count, wait }),
        1 => (page.clone(), any::<bool>()).prop_map(|(page, wait)| Op::Trim { page, wait }),
        4 => page.prop_map(|page| Op::Read { page }),
        4 => (byte.clone(), 1usize..500).prop_map(|(at, len)| Op::Load { at, len }),
        3 => (0u64..300).prop_map(|micros| Op::Idle { micros }),
        1 => Just(Op::Settle),
        2 => proptest::option::of(byte).prop_map(|pending| Op::Crash { pending }),
    ]
}

impl Model {
    fn new(mode: Mode, seed: u64) -> Model {
        let drive = Mssd::new(&DriveConfig::tiny(mode)).expect("valid");
        drive.track_in_flight(true);
        let zero = Line { durable: [0; LINE_SIZE], maybe: Vec::new(), live: [0; LINE_SIZE] };
        Model {
            drive,
            log: mode == Mode::Log,
            now: Nanos::ZERO,
            lines: vec![zero; PAGES as usize * LINES_PER_PAGE],
            txs: BTreeMap::new(),
            next_tx: 0,
            stamp: 0,
            power: Stream::new(seed, "power"),
            crashes: 0,
        }
    }

    /// Content that nothing else has.
    fn fresh(&mut self) -> Content {
        self.stamp += 1;
        let mut c = [0xa5; LINE_SIZE];
        for (i, b) in c.iter_mut().enumerate() {
            *b = (self.stamp >> (8 * (i % 4))) as u8 ^ i as u8;
        }
        c
    }

    /// Whether a running transaction holds a line of the page (the host's TxTable would block others).
    fn locked(&self, page: u64) -> bool {
        self.txs.values().any(|tx| tx.lines.keys().any(|l| l / LINES_PER_PAGE as u64 == page))
    }

    /// What has been acknowledged by now is durable.
    fn settle_time(&mut self) {
        let now = self.now;
        for line in &mut self.lines {
            if let Some(last) = line.maybe.iter().rposition(|(done, _)| done.is_some_and(|d| d <= now)) {
                line.durable = line.maybe[last].1;
                line.maybe.drain(..=last);
            }
        }
        let done: Vec<TxId> = self
            .txs
            .iter()
            .filter(|(_, tx)| tx.commit.is_some_and(|d| d <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in done {
            let tx = self.txs.remove(&id).expect("listed");
            for (l, content) in tx.lines {
                self.lines[l as usize].durable = content;
                self.lines[l as usize].maybe.clear();
            }
        }
    }

    fn store_bytes(&mut self, at: u64, len: usize) {
        let pages = at / 4096..=(at + len as u64 - 1) / 4096;
        if pages.clone().any(|p| self.locked(p)) {
            return;
        }
        let data: Vec<u8> = (0..len).map(|i| self.stamp as u8 ^ (i as u8).wrapping_mul(31)).collect();
        self.stamp += 1;
        self.now = self.drive.store(self.now, ByteAddr(at), &data, TxId::NONE, WHAT).expect("stores");
        self.now = self.drive.flush_lines(self.now, ByteAddr(at), len).expect("flushes");
        for l in at / 64..=(at + len as u64 - 1) / 64 {
            let line = &mut self.lines[l as usize];
            for (i, b) in line.live.iter_mut().enumerate() {
                let byte = l * 64 + i as u64;
                if (at..at + len as u64).contains(&byte) {
                    *b = data[(byte - at) as usize];
                }
            }
            line.maybe.push((None, line.live));
        }
    }

    fn verify(&mut self) {
        self.now = self.drive.verify(self.now).expect("verifies");
        self.verified();
    }

    /// A non-posted read has come back: every posted line is durable.
    fn verified(&mut self) {
        for line in &mut self.lines {
            if let Some(last) = line.maybe.iter().rposition(|(done, _)| done.is_none()) {
                line.durable = line.maybe[last].1;
                line.maybe.drain(..=last);
            }
        }
    }

    fn begin(&mut self, page: u64, line: u64, lines: u64, second: u64) {
        if !self.log || self.locked(page) || self.locked(second) || self.txs.len() >= 3 {
            return;
        }
        self.next_tx += 1;
        let id = TxId(self.next_tx);
        let mut tx = Tx { lines: BTreeMap::new(), commit: None };
        for (first, n) in [(page * 64 + line, lines), (second * 64 + 63 - line, 1)] {
            let mut data = Vec::new();
            for l in first..first + n {
                let content = self.fresh();
                data.extend_from_slice(&content);
                tx.lines.insert(l, content);
                self.lines[l as usize].live = content;
            }
            let at = ByteAddr(first * 64);
            match self.drive.store(self.now, at, &data, id, WHAT) {
                Ok(t) => self.now = t,
                Err(e) => panic!("{e}"),
            }
            self.now = self.drive.flush_lines(self.now, at, data.len()).expect("flushes");
        }
        self.txs.insert(id, tx);
        self.verify();
    }

    fn commit(&mut self, wait: bool) {
        let Some(id) = self.txs.iter().find(|(_, tx)| tx.commit.is_none()).map(|(id, _)| *id) else { return };
        let done = self.drive.submit(self.now, Command::Commit { tx: id }).expect("commits");
        self.txs.get_mut(&id).expect("listed").commit = Some(done);
        if wait {
            self.now = done;
        }
    }

    fn write(&mut self, page: u64, count: u64, wait: bool) {
        if (page..page + count).any(|p| self.locked(p)) {
            return;
        }
        let mut pages = Vec::new();
        for _ in 0..count {
            let mut p = Page::word(self.stamp);
            self.stamp += 1;
            if self.stamp.is_multiple_of(2) {
                p.bytes_mut()[70] ^= 0x55;
            }
            pages.push(p);
        }
        let done = self
            .drive
            .submit(self.now, Command::Write { lpa: Lpa(page), pages: &pages, what: WHAT })
            .expect("writes");
        for (i, p) in pages.iter().enumerate() {
            self.page_becomes(page + i as u64, p, done);
        }
        if wait {
            self.now = done;
        }
    }

    fn page_becomes(&mut self, page: u64, content: &Page, done: Nanos) {
        let bytes = content.to_bytes();
        for (i, part) in bytes.chunks_exact(LINE_SIZE).enumerate() {
            let line = &mut self.lines[page as usize * LINES_PER_PAGE + i];
            line.live.copy_from_slice(part);
            line.maybe.push((Some(done), line.live));
        }
    }

    fn trim(&mut self, page: u64, wait: bool) {
        if self.locked(page) {
            return;
        }
        let done = self.drive.submit(self.now, Command::Trim { lpa: Lpa(page), count: 1 }).expect("trims");
        self.page_becomes(page, &Page::ZERO, done);
        if wait {
            self.now = done;
        }
    }

    fn live_page(&self, page: u64) -> Page {
        let mut bytes = [0; PAGE_SIZE];
        for (i, part) in bytes.chunks_exact_mut(LINE_SIZE).enumerate() {
            part.copy_from_slice(&self.lines[page as usize * LINES_PER_PAGE + i].live);
        }
        Page::from_bytes(&bytes)
    }

    fn read_page(&mut self, page: u64) -> Page {
        let mut out = [Page::ZERO];
        let read = Command::Read { lpa: Lpa(page), out: &mut out, what: WHAT };
        self.now = self.drive.submit(self.now, read).expect("reads");
        let [got] = out;
        got
    }

    fn load(&mut self, at: u64, len: usize) {
        let mut out = vec![0; len];
        self.now = self.drive.load(self.now, ByteAddr(at), &mut out, WHAT).expect("loads");
        let live: Vec<u8> =
            (at..at + len as u64).map(|b| self.lines[(b / 64) as usize].live[(b % 64) as usize]).collect();
        assert_eq!(out, live, "load of {len} bytes at {at:#x}");
        self.verified();
    }

    fn crash(&mut self, pending: Option<u64>) {
        self.crashes += 1;
        if let Some(at) = pending
            && !self.locked(at / 4096)
        {
            let line = at / 64;
            let content = self.fresh();
            self.drive.store(self.now, ByteAddr(line * 64), &content, TxId::NONE, WHAT).expect("stores");
            self.lines[line as usize].maybe.push((None, content));
        }
        self.settle_time();
        self.drive.power_fail(self.now, &mut self.power);
        self.now = self.drive.power_on(self.now + Nanos(1)).expect("powers on");
        self.drive.check().expect("consistent after power-up");
        if self.log {
            self.now = self.drive.submit(self.now, Command::Recover).expect("recovers");
        }
        self.drive.check().expect("consistent after recovery");
        self.examine();
    }

    /// Every line holds what it may hold; transactions are whole or absent.
    fn examine(&mut self) {
        let txs = std::mem::take(&mut self.txs);
        let mut present: BTreeMap<TxId, (usize, usize)> = BTreeMap::new();
        for page in 0..PAGES {
            let bytes = self.read_page(page).to_bytes();
            for (i, got) in bytes.chunks_exact(LINE_SIZE).enumerate() {
                let l = page * LINES_PER_PAGE as u64 + i as u64;
                let got: Content = got.try_into().expect("a line");
                let writer = txs.iter().find(|(_, tx)| tx.lines.contains_key(&l));
                let line = &mut self.lines[l as usize];
                let expected = got == line.durable || line.maybe.iter().any(|(_, c)| *c == got);
                if let Some((id, tx)) = writer {
                    let count = present.entry(*id).or_default();
                    if got == tx.lines[&l] {
                        count.0 += 1;
                    } else {
                        assert!(expected, "line {l} of {id:?}: neither old nor new");
                        count.1 += 1;
                    }
                } else {
                    assert!(
                        expected,
                        "line {l} (page {page}) holds {got:02x?}, durable {:02x?}, {} maybe",
                        line.durable,
                        line.maybe.len()
                    );
                }
                (line.durable, line.live) = (got, got);
                line.maybe.clear();
            }
        }
        // Numbers are given in the order of beginning; commits are submitted in that order too.
        let landed: Vec<bool> =
            txs.keys().filter(|id| txs[id].commit.is_some()).map(|id| present[id].0 > 0).collect();
        assert!(landed.windows(2).all(|w| w[0] || !w[1]), "commits landed out of order: {landed:?}");
        for (id, (new, old)) in present {
            assert!(new == 0 || old == 0, "{id:?} is torn: {new} lines new, {old} old");
            assert!(new == 0 || txs[&id].commit.is_some(), "{id:?} was never committed but is there");
        }
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Store { at, len } => self.store_bytes(at, len),
            Op::Verify => self.verify(),
            Op::Begin { page, line, lines, second } if page != second => {
                self.begin(page, line, lines, second)
            }
            Op::Begin { .. } => {}
            Op::Commit { wait } => self.commit(wait),
            Op::Write { page, count, wait } => self.write(page, count, wait),
            Op::Trim { page, wait } => self.trim(page, wait),
            Op::Read { page } => {
                let live = self.live_page(page);
                assert_eq!(self.read_page(page).to_bytes(), live.to_bytes(), "page {page}");
            }
            Op::Load { at, len } => self.load(at, len),
            Op::Idle { micros } => self.now += Nanos::from_micros(micros),
            Op::Settle => self.now = self.drive.settle(self.now).expect("settles"),
            Op::Crash { pending } => self.crash(pending),
        }
        self.settle_time();
    }

    fn finish(&mut self) {
        self.now = self.drive.settle(self.now).expect("settles");
        for page in 0..PAGES {
            let peek = self.drive.peek(Lpa(page)).expect("peeks");
            assert_eq!(peek.to_bytes(), self.live_page(page).to_bytes(), "page {page} in the end");
        }
        self.drive.check().expect("consistent in the end");
    }
}

fn run(mode: Mode, seed: u64, ops: &[Op]) -> Model {
    let mut m = Model::new(mode, seed);
    for op in ops {
        m.run(op);
    }
    m.finish();
    m
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, max_shrink_iters: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_mode_drive_keeps_its_promises(seed: u64, ops in proptest::collection::vec(op(), 1..400)) {
        run(Mode::Log, seed, &ops);
    }

    #[test]
    fn a_cache_mode_drive_keeps_its_promises(seed: u64, ops in proptest::collection::vec(op(), 1..400)) {
        run(Mode::Cache, seed, &ops);
    }
}

/// A long run of the same operations, to get through many cleanings; and its twin gives the same everything.
#[test]
fn the_same_operations_give_the_same_drive() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let ops = proptest::collection::vec(op(), 6000).new_tree(&mut runner).expect("generates").current();
    for mode in [Mode::Log, Mode::Cache] {
        let (a, b) = (run(mode, 1, &ops), run(mode, 1, &ops));
        assert_eq!((a.now, a.drive.counters()), (b.now, b.drive.counters()));
        let c = a.drive.counters();
        assert!(a.crashes > 50 && c.flash.erases > 100, "{} crashes, {c:?}", a.crashes);
        if mode == Mode::Log {
            let l = c.log;
            assert!(l.cleanings > 50 && l.entries_migrated > 20 && l.pages_read > 50 && l.pages_voided > 50);
            assert!(l.lines_superseded > 20 && l.lines_dropped > 20 && l.lines_lost > 20, "{l:?}");
        } else {
            assert!(c.cache.write_backs > 100 && c.cache.hits > 100 && c.cache.dropped > 10, "{:?}", c.cache);
        }
    }
}

/// A log full of uncommitted transactions says so; committing or recovering frees it.
#[test]
fn a_log_full_of_uncommitted_lines_refuses_more() {
    let d = Mssd::new(&DriveConfig::tiny(Mode::Log)).expect("valid");
    let mut now = Nanos::ZERO;
    let store = |now: Nanos, line: u64, tx: u32| -> Result<Nanos, DriveError> {
        let at = ByteAddr(line * 64);
        let t = d.store(now, at, &[line as u8; 64], TxId(tx), WHAT)?;
        d.flush_lines(t, at, 64)
    };
    let mut refused = None;
    for line in 0..300 {
        match store(now, line, 1) {
            Ok(t) => now = t,
            Err(e) => {
                refused = Some((line, e));
                break;
            }
        }
    }
    let (line, e) = refused.expect("refused at some point");
    assert_eq!(e, DriveError::LogFull);
    assert!(line >= 95, "only {line} lines of 80 B fitted into 8 KiB");
    now = d.submit(now, Command::Commit { tx: TxId(1) }).expect("commits");
    now = store(now, 299, 2).expect("room again");
    now = d.submit(now, Command::Recover).expect("recovers");
    d.check().expect("consistent");
    let c = d.counters().log;
    assert_eq!((c.recoveries, c.recovery_dropped), (1, 1));
    assert_eq!(d.peek(Lpa(0)).expect("peeks").to_bytes()[63 * 64], 63);
    assert_eq!(d.peek(Lpa(4)).expect("peeks").to_bytes()[4095], 0, "line 299 was never committed");
    assert!(d.settle(now).is_ok());
}

/// Stores faster than cleaning wait for room, and lose nothing.
#[test]
fn a_burst_of_stores_waits_for_cleaning() {
    let d = Mssd::new(&DriveConfig::tiny(Mode::Log)).expect("valid");
    let mut now = Nanos::ZERO;
    for page in 0..60 {
        let at = ByteAddr(page * 4096);
        now = d.store(now, at, &[page as u8 + 1; 2048], TxId::NONE, WHAT).expect("stores");
        now = d.flush_lines(now, at, 2048).expect("flushes");
    }
    let c = d.counters().log;
    assert!(c.stalls > 5 && c.stall_time > Nanos::from_micros(100), "{c:?}");
    d.check().expect("consistent");
    for page in 0..60 {
        let bytes = d.peek(Lpa(page)).expect("peeks").to_bytes();
        assert_eq!((bytes[2047], bytes[2048]), (page as u8 + 1, 0));
    }
    assert!(d.settle(now).is_ok());
}

/// However fast the host stores, what a running transaction has in the old half finds room in the new one.
#[test]
fn a_running_transaction_survives_cleaning_under_pressure() {
    let d = Mssd::new(&DriveConfig::tiny(Mode::Log)).expect("valid");
    let mut now = Nanos::ZERO;
    let store = |now: Nanos, at: u64, data: &[u8], tx: u32| -> Nanos {
        let t = d.store(now, ByteAddr(at), data, TxId(tx), WHAT).expect("stores");
        d.flush_lines(t, ByteAddr(at), data.len()).expect("flushes")
    };
    // 60 entries of 80 B: more than half of the 8 KiB.
    for line in 0..60 {
        now = store(now, 30 * 4096 + line * 64, &[line as u8 + 1; 64], 1);
    }
    for page in 0..60 {
        now = store(now, (page % 25) * 4096, &[page as u8 + 1; 1024], 0);
    }
    let c = d.counters().log;
    assert!(c.cleanings > 5 && c.entries_migrated >= 5 * 60, "{c:?}");
    d.check().expect("consistent");
    now = d.submit(now, Command::Commit { tx: TxId(1) }).expect("commits");
    d.power_fail(now, &mut Stream::new(1, "power"));
    now = d.power_on(now).expect("powers on");
    d.submit(now, Command::Recover).expect("recovers");
    d.check().expect("consistent");
    let bytes = d.peek(Lpa(30)).expect("peeks").to_bytes();
    assert!((0..60).all(|line| bytes[line * 64] == line as u8 + 1));
}
