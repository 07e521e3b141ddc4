//! The whole drive beside a plain model: the results of reads while it runs, and the content after power
//! loss.
//!
//! ```text
//!   for each line:  durable     content that power loss must leave, unless something in `maybe` landed over
//!                               it
//!                   maybe       newer contents on their way: any of them may be there afterwards
//!                   live        what a read returns now
//!   for each tx:    its lines, all of them or none after RECOVER; none unless COMMIT was submitted
//!   for each page:  which block of which file BAM says it is: durable, maybe, live, as for lines
//! ```
//!
//! With a flash that fails, a read that finds its page unreadable is asked again (the failures pass), and a
//! drive that has no spare blocks left takes nothing more but loses nothing either.

use granary_device::vendor::pebble::{BamRead, BamReset, FsWrite, Remap};
use granary_device::vendor::transactions::{Commit, Recover};
use granary_device::{BamEntry, Command, Drive, DriveError, FileEnd, Structure};
use granary_flash::Faults;
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, LINE_SIZE, LINES_PER_PAGE, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use std::collections::BTreeMap;

/// Pages that are touched.
pub const PAGES: u64 = 40;
/// Which structure does not matter here.
pub const WHAT: Structure = Structure::Inode;

type Content = [u8; LINE_SIZE];

#[derive(Clone)]
struct Line {
    durable: Content,
    /// (acknowledged at, or none for a posted line that no verify has covered; content)
    maybe: Vec<(Option<Nanos>, Content)>,
    live: Content,
}

/// Which block of which file a page is.
type Block = Option<(u64, u32)>;

#[derive(Clone, Default)]
struct Owner {
    durable: Block,
    /// (acknowledged at, block)
    maybe: Vec<(Nanos, Block)>,
    live: Block,
}

struct Tx {
    lines: BTreeMap<u64, Content>,
    /// COMMIT's completion, once submitted.
    commit: Option<Nanos>,
}

/// A drive and what it should hold.
pub struct Model {
    /// The drive.
    pub drive: Mssd,
    log: bool,
    /// Now.
    pub now: Nanos,
    lines: Vec<Line>,
    /// Of each page, where the drive has BAM.
    owners: Vec<Owner>,
    txs: BTreeMap<TxId, Tx>,
    next_tx: u32,
    stamp: u64,
    power: Stream,
    /// Power failures so far.
    pub crashes: u32,
    /// The flash fails now and then.
    faulty: bool,
    /// The drive takes no more data.
    pub dead: bool,
    /// Reads that had to be repeated.
    pub unreadable: u64,
    /// Power failures during RECOVER, and during power-up.
    pub interrupted: [u32; 2],
}

/// Steps of the host.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "fields named like the drive's")]
pub enum Op {
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
    /// Blocks of a file, where the drive has BAM.
    FsWrite {
        page: u64,
        count: u64,
        ino: u64,
        offset: u32,
        wait: bool,
    },
    Remap {
        src: u64,
        dst: u64,
        count: u64,
        wait: bool,
    },
    BamReset {
        wait: bool,
    },
    BamRead,
    /// Power loss, perhaps with a store still in the write-combining buffers.
    Crash {
        pending: Option<u64>,
    },
}

impl Model {
    /// A drive whose flash fails as `faults` says.
    pub fn on(config: &DriveConfig, seed: u64, faults: Option<Faults>) -> Model {
        let drive = Mssd::new(config).expect("valid");
        let (faulty, drive_has_bam) = (faults.is_some(), drive.info().answers("FS_WRITE"));
        drive.set_faults(faults);
        drive.track_in_flight(true);
        let zero = Line { durable: [0; LINE_SIZE], maybe: Vec::new(), live: [0; LINE_SIZE] };
        Model {
            drive,
            log: config.firmware.mode == Mode::Log,
            now: Nanos::ZERO,
            lines: vec![zero; PAGES as usize * LINES_PER_PAGE],
            owners: vec![Owner::default(); if drive_has_bam { PAGES as usize } else { 0 }],
            txs: BTreeMap::new(),
            next_tx: 0,
            stamp: 0,
            power: Stream::new(seed, "power"),
            crashes: 0,
            faulty,
            dead: false,
            unreadable: 0,
            interrupted: [0; 2],
        }
    }

    /// Asks the drive until it answers; `None` where it takes no more data, or no more entries in BAM's
    /// tables.
    fn ask(&mut self, mut call: impl FnMut(&Mssd, Nanos) -> Result<Nanos, DriveError>) -> Option<Nanos> {
        for _ in 0..1000 {
            match call(&self.drive, self.now) {
                Ok(done) => return Some(done),
                Err(DriveError::Unreadable(_)) if self.faulty => {
                    self.unreadable += 1;
                    self.now += Nanos(1000);
                }
                Err(DriveError::ReadOnly(_)) if self.faulty => {
                    self.dead = true;
                    return None;
                }
                Err(DriveError::BamFull(_)) => return None,
                Err(e) => panic!("{e}"),
            }
        }
        panic!("a page stays unreadable")
    }

    /// The same for a call during which the host waits.
    fn wait(&mut self, call: impl FnMut(&Mssd, Nanos) -> Result<Nanos, DriveError>) -> bool {
        let done = self.ask(call);
        self.now = self.now.max(done.unwrap_or(Nanos::ZERO));
        done.is_some()
    }

    /// Stores and flushes; false where the drive refused part of it.
    fn post(&mut self, at: u64, data: &[u8], tx: TxId) -> bool {
        self.wait(|d, now| {
            let now = d.store(now, ByteAddr(at), data, tx, WHAT)?;
            d.flush_lines(now, ByteAddr(at), data.len())
        })
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

    /// Changes that have been acknowledged by now are durable.
    fn settle_time(&mut self) {
        let now = self.now;
        for line in &mut self.lines {
            if let Some(last) = line.maybe.iter().rposition(|(done, _)| done.is_some_and(|d| d <= now)) {
                line.durable = line.maybe[last].1;
                line.maybe.drain(..=last);
            }
        }
        for owner in &mut self.owners {
            if let Some(last) = owner.maybe.iter().rposition(|(done, _)| *done <= now) {
                owner.durable = owner.maybe[last].1;
                owner.maybe.drain(..=last);
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
        let posted = self.post(at, &data, TxId::NONE);
        for l in at / 64..=(at + len as u64 - 1) / 64 {
            let line = &mut self.lines[l as usize];
            let before = line.live;
            for (i, b) in line.live.iter_mut().enumerate() {
                let byte = l * 64 + i as u64;
                if (at..at + len as u64).contains(&byte) {
                    *b = data[(byte - at) as usize];
                }
            }
            line.maybe.push((None, line.live));
            if !posted {
                // Some of it is there and some is not.
                line.maybe.push((None, before));
            }
        }
    }

    fn verify(&mut self) {
        if self.wait(|d, now| d.verify(now)) && !self.dead {
            self.verified();
        }
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
            let at = first * 64;
            self.post(at, &data, id);
        }
        self.txs.insert(id, tx);
        self.verify();
    }

    fn commit(&mut self, wait: bool) {
        let Some(id) = self.txs.iter().find(|(_, tx)| tx.commit.is_none()).map(|(id, _)| *id) else { return };
        let Some(done) = self.ask(|d, now| d.submit(now, Command::Vendor(&mut Commit { tx: id }))) else {
            return;
        };
        self.txs.get_mut(&id).expect("listed").commit = Some(done);
        if wait {
            self.now = done;
        }
    }

    /// Pages that nothing else has.
    fn fresh_pages(&mut self, count: u64) -> Vec<Page> {
        let fresh = |_| {
            let mut p = Page::word(self.stamp);
            self.stamp += 1;
            if self.stamp.is_multiple_of(2) {
                p.bytes_mut()[70] ^= 0x55;
            }
            p
        };
        (0..count).map(fresh).collect()
    }

    fn write(&mut self, page: u64, count: u64, wait: bool) {
        if (page..page + count).any(|p| self.locked(p)) {
            return;
        }
        let pages = self.fresh_pages(count);
        let write =
            |d: &Mssd, now| d.submit(now, Command::Write { lpa: Lpa(page), pages: &pages, what: WHAT });
        let Some(done) = self.ask(write) else { return };
        for (i, p) in pages.iter().enumerate() {
            self.page_becomes(page + i as u64, p, done);
        }
        if wait {
            self.now = done;
        }
    }

    fn fs_write(&mut self, page: u64, count: u64, ino: u64, offset: u32, wait: bool) {
        if self.owners.is_empty() || (page..page + count).any(|p| self.locked(p)) {
            return;
        }
        let pages = self.fresh_pages(count);
        let done = self.ask(|d, now| {
            d.submit(
                now,
                Command::Vendor(&mut FsWrite {
                    lpa: Lpa(page),
                    pages: pages.to_vec(),
                    ino,
                    offset,
                    end: FileEnd::WHOLE,
                    what: WHAT,
                }),
            )
        });
        let Some(done) = done else {
            // The tables are full: a checkpoint of the host's.
            if !self.dead {
                self.bam_reset(true);
            }
            return;
        };
        for (i, p) in (0..).zip(&pages) {
            self.page_becomes(page + i, p, done);
            self.owner_becomes(page + i, Some((ino, offset + i as u32)), done);
        }
        if wait {
            self.now = done;
        }
    }

    fn remap(&mut self, src: u64, dst: u64, count: u64, wait: bool) {
        let pages = || (src..src + count).chain(dst..dst + count);
        if self.owners.is_empty() || src == dst || pages().any(|p| self.locked(p)) {
            return;
        }
        // The pages that a host moves have arrived.
        self.verify();
        let remap = |d: &Mssd, now| {
            d.submit(now, Command::Vendor(&mut Remap { src: Lpa(src), dst: Lpa(dst), count }))
        };
        let Some(done) = self.ask(remap) else { return };
        let before: Vec<(Page, Block)> =
            (src..src + count).map(|p| (self.live_page(p), self.owners[p as usize].live)).collect();
        for p in (src..src + count).filter(|p| !(dst..dst + count).contains(p)) {
            self.page_becomes(p, &Page::ZERO, done);
            self.owner_becomes(p, None, done);
        }
        for (p, (content, block)) in (dst..).zip(before) {
            self.page_becomes(p, &content, done);
            self.owner_becomes(p, block, done);
        }
        if wait {
            self.now = done;
        }
    }

    fn bam_reset(&mut self, wait: bool) {
        if self.owners.is_empty() {
            return;
        }
        let Some(done) = self.ask(|d, now| d.submit(now, Command::Vendor(&mut BamReset))) else { return };
        (0..PAGES).for_each(|p| self.owner_becomes(p, None, done));
        if wait {
            self.now = done;
        }
    }

    fn owner_becomes(&mut self, page: u64, block: Block, done: Nanos) {
        if let Some(owner) = self.owners.get_mut(page as usize) {
            owner.live = block;
            owner.maybe.push((done, block));
        }
    }

    /// The file block of each page, from BAM.
    fn read_owners(&mut self) -> Vec<Block> {
        let mut entries: Vec<BamEntry> = Vec::new();
        self.wait(|d, now| {
            let (found, done) = BamRead::ask(d, now, None)?;
            entries = found;
            Ok(done)
        });
        let mut found = vec![None; PAGES as usize];
        for e in entries {
            let before = found[e.lpa.0 as usize].replace((e.ino, e.offset));
            assert_eq!(before, None, "{e:?}: two entries of a page");
        }
        found
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
        let trim = |d: &Mssd, now| d.submit(now, Command::Trim { lpa: Lpa(page), count: 1 });
        let Some(done) = self.ask(trim) else { return };
        self.page_becomes(page, &Page::ZERO, done);
        self.owner_becomes(page, None, done);
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
        let readable =
            self.wait(|d, now| d.submit(now, Command::Read { lpa: Lpa(page), out: &mut out, what: WHAT }));
        assert!(readable, "a drive that takes no more data can be read");
        let [got] = out;
        got
    }

    fn load(&mut self, at: u64, len: usize) {
        let mut out = vec![0; len];
        let readable = self.wait(|d, now| d.load(now, ByteAddr(at), &mut out, WHAT));
        assert!(readable, "a drive that takes no more data can be read");
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
            self.wait(|d, now| d.store(now, ByteAddr(line * 64), &content, TxId::NONE, WHAT));
            self.lines[line as usize].maybe.push((None, content));
        }
        self.settle_time();
        self.lose_power(self.now);
        if self.log {
            let begun = self.now;
            let recovered = self.ask(|d, now| d.submit(now, Command::Vendor(&mut Recover)));
            if let Some(done) = recovered {
                self.now = done;
                if self.power.chance(0.3) {
                    // In the middle of RECOVER: once more.
                    self.interrupted[0] += 1;
                    let at = begun + Nanos(self.power.below((done - begun).0 + 1));
                    self.lose_power(at);
                    self.wait(|d, now| d.submit(now, Command::Vendor(&mut Recover)));
                }
            }
        }
        self.check("after recovery");
        self.examine();
    }

    /// Power fails at `at` and comes back, sometimes twice.
    fn lose_power(&mut self, at: Nanos) {
        self.drive.power_fail(at, &mut self.power);
        let on = at + Nanos(1);
        let ready = self.drive.power_on(on).expect("powers on");
        self.now = ready;
        if self.power.chance(0.2) {
            self.interrupted[1] += 1;
            let at = on + Nanos(self.power.below((ready - on).0 + 1));
            self.drive.power_fail(at, &mut self.power);
            self.now = self.drive.power_on(at + Nanos(1)).expect("powers on again");
        }
        self.check("after power-up");
    }

    fn check(&self, when: &str) {
        if let Err(bad) = self.drive.check() {
            panic!("{when}: {}", bad.join("; "));
        }
    }

    /// Every line holds what it may hold; transactions are whole or absent.
    fn examine(&mut self) {
        let whole = !self.dead;
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
        if !self.owners.is_empty() {
            let found = self.read_owners();
            for (page, (owner, got)) in self.owners.iter_mut().zip(found).enumerate() {
                let expected = got == owner.durable || owner.maybe.iter().any(|(_, b)| *b == got);
                assert!(expected, "page {page} is {got:?}, durable {:?}, {:?}", owner.durable, owner.maybe);
                *owner = Owner { durable: got, maybe: Vec::new(), live: got };
            }
        }
        if !whole {
            // RECOVER was refused, so that uncommitted lines are still to be seen.
            return;
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

    /// Does one operation.
    pub fn run(&mut self, op: &Op) {
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
            Op::Settle => {
                self.wait(|d, now| d.settle(now));
            }
            Op::FsWrite { page, count, ino, offset, wait } => self.fs_write(page, count, ino, offset, wait),
            Op::Remap { src, dst, count, wait } => self.remap(src, dst, count, wait),
            Op::BamReset { wait } => self.bam_reset(wait),
            Op::BamRead => {
                let live: Vec<Block> = self.owners.iter().map(|o| o.live).collect();
                assert!(
                    live.is_empty() || self.read_owners() == live,
                    "BAM names other blocks than {live:?}"
                );
            }
            Op::Crash { pending } => self.crash(pending),
        }
        self.settle_time();
    }

    /// Everything has reached the flash, or its last state is examined where the drive takes no more data.
    pub fn finish(&mut self) {
        if self.dead || !self.wait(|d, now| d.settle(now)) {
            for page in 0..PAGES {
                self.read_page(page);
            }
            self.crash(None);
            return;
        }
        for page in 0..PAGES {
            let peek =
                if self.faulty { self.read_page(page) } else { self.drive.peek(Lpa(page)).expect("peeks") };
            assert_eq!(peek.to_bytes(), self.live_page(page).to_bytes(), "page {page} in the end");
        }
        self.check("in the end");
    }
}
