//! REMAP keep against a map of names: after any commands and power failures every name reads what it should,
//! entries of BAM are at the newest names, and a reset leaves those only.
//!
//! ```text
//!   model:  logical page -> page { word, names in the order in which they came, entry of BAM }
//! ```

use granary_device::vendor::pebble::{BamNames, BamRead, BamReset, Facts, FsWrite, Remap, RemapKeep};
use granary_device::{BamEntry, BamName, Command, Drive, DriveError, FileEnd, RemapRange, Structure};
use granary_mssd::{BamConfig, DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Lpa, Nanos, Page, TxId};

const WHAT: Structure = Structure::Data;
const NAMES: u32 = 60;
/// So few that the table is full now and then.
const FEW: u32 = 20;

fn config(names: u32) -> DriveConfig {
    let mut c = DriveConfig::tiny(Mode::Cache).with_bam();
    c.flash.over_provisioning_permille = 350;
    c.firmware.bam = Some(BamConfig { entries: 400, files: 9, names, ..BamConfig::default() });
    c
}

#[derive(Clone, Debug, PartialEq)]
struct Held {
    word: u64,
    names: Vec<u64>,
    entry: Option<usize>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    pages: Vec<Held>,
    entries: Vec<BamEntry>,
}

impl Model {
    fn of(&self, lpa: u64) -> Option<usize> {
        self.pages.iter().position(|p| p.names.contains(&lpa))
    }

    fn word(&self, lpa: u64) -> u64 {
        self.of(lpa).map_or(0, |at| self.pages[at].word)
    }

    /// The name ends; the entry that goes with it, where nobody shares the page.
    fn end(&mut self, lpa: u64) -> Option<usize> {
        let at = self.of(lpa)?;
        self.pages[at].names.retain(|&n| n != lpa);
        if self.pages[at].names.is_empty() { self.pages.remove(at).entry } else { None }
    }

    fn write(&mut self, lpa: u64, word: u64) {
        let entry = self.end(lpa);
        self.pages.push(Held { word, names: vec![lpa], entry });
    }

    fn fs_write(&mut self, lpa: u64, word: u64, entry: BamEntry) {
        self.end(lpa);
        self.entries.push(entry);
        self.pages.push(Held { word, names: vec![lpa], entry: Some(self.entries.len() - 1) });
    }

    fn keep(&mut self, src: u64, dst: u64) {
        if self.of(src).is_some_and(|at| self.pages[at].names.last() == Some(&dst)) || src == dst {
            return;
        }
        self.end(dst);
        if let Some(at) = self.of(src) {
            self.pages[at].names.push(dst);
        }
    }

    fn moves(&mut self, src: u64, dst: u64) {
        if src == dst {
            return;
        }
        self.end(dst);
        let Some(at) = self.of(src) else { return };
        if self.pages[at].names.last() == Some(&src) {
            *self.pages[at].names.last_mut().expect("a name") = dst;
        } else {
            let word = self.pages[at].word;
            self.end(src);
            self.pages.push(Held { word, names: vec![dst], entry: None });
        }
    }

    fn reset(&mut self) {
        self.entries.clear();
        for p in &mut self.pages {
            p.names.drain(..p.names.len() - 1);
            p.entry = None;
        }
    }

    fn names(&self) -> Vec<BamName> {
        let pairs = |p: &Held| {
            let (newest, older) = p.names.split_last().expect("a name");
            older.iter().map(|&n| BamName { src: Lpa(n), dst: Lpa(*newest) }).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.pages.iter().flat_map(pairs).collect();
        all.sort_by_key(|n| n.src);
        all
    }

    /// Entries in the order of their arrival, each at the newest name.
    fn list(&self) -> Vec<BamEntry> {
        let mut all: Vec<_> = self.pages.iter().filter_map(|p| Some((p.entry?, *p.names.last()?))).collect();
        all.sort_unstable();
        all.into_iter().map(|(n, lpa)| BamEntry { lpa: Lpa(lpa), ..self.entries[n] }).collect()
    }
}

struct Rig {
    drive: Mssd,
    now: Nanos,
    /// When everything is acknowledged.
    last: Nanos,
    model: Model,
    rng: Stream,
    word: u64,
    full: u32,
    /// Power failures that found REMAP keep undone and done.
    cut: [u32; 2],
}

/// How many names the drive says that it has room for.
fn names(drive: &Mssd) -> u64 {
    let mut facts = Facts::default();
    drive.identify(&mut facts);
    facts.names
}

impl Rig {
    fn new(seed: u64) -> Rig {
        let drive = Mssd::new(&config(FEW)).expect("valid");
        assert_eq!(names(&drive), FEW as u64);
        drive.track_in_flight(!seed.is_multiple_of(3));
        let rng = Stream::new(seed, "names");
        Rig {
            drive,
            now: Nanos::ZERO,
            last: Nanos::ZERO,
            model: Model::default(),
            rng,
            word: 0,
            full: 0,
            cut: [0; 2],
        }
    }

    fn ask(&mut self, command: Command<'_>) -> Result<Nanos, DriveError> {
        self.now += Nanos(self.rng.below(3000));
        self.drive.submit(self.now, command)
    }

    fn place(&mut self, count: u64) -> u64 {
        let pages = if self.rng.chance(0.7) { 40 } else { self.drive.info().pages };
        self.rng.below(pages - count)
    }

    fn range(&mut self) -> RemapRange {
        let count = 1 + self.rng.below(5);
        let src = self.place(count);
        let dst =
            if self.rng.chance(0.3) { src.saturating_sub(2) + self.rng.below(5) } else { self.place(count) };
        RemapRange { src: Lpa(src), dst: Lpa(dst), count }
    }

    /// As the firmware goes through a range: from the end at which nothing is overwritten before its turn.
    fn each(r: RemapRange, mut one: impl FnMut(u64, u64)) {
        let all: Vec<u64> = if r.dst > r.src { (0..r.count).rev().collect() } else { (0..r.count).collect() };
        all.into_iter().filter(|_| r.src != r.dst).for_each(|i| one(r.src.0 + i, r.dst.0 + i));
    }

    fn step(&mut self) {
        let (mut after, mut wait) = (self.model.clone(), self.rng.chance(0.5));
        let done = match self.rng.below(100) {
            0..25 => {
                // Much of it elsewhere, so that gc of the flash is at work.
                let count = if self.rng.chance(0.5) { 1 } else { 12 };
                let (lpa, word) = (self.place(count), self.word + 1);
                self.word += count;
                (0..count).for_each(|i| after.write(lpa + i, word + i));
                let pages: Vec<Page> = (0..count).map(|i| Page::word(word + i)).collect();
                self.ask(Command::Write { lpa: Lpa(lpa), pages: &pages, what: WHAT })
            }
            25..35 => {
                let (lpa, word) = (self.place(2), self.word + 1);
                self.word += 2;
                let (ino, offset) = (self.rng.below(8), self.rng.below(9) as u32);
                let end = FileEnd { valid: 1 + self.rng.below(4096) as u16, grew: self.rng.chance(0.5) };
                let pages = [Page::word(word), Page::word(word + 1)];
                let entry = BamEntry { ino, offset, lpa: Lpa(lpa), end: FileEnd { valid: 4096, ..end } };
                after.fs_write(lpa, word, entry);
                after.fs_write(lpa + 1, word + 1, BamEntry { offset: offset + 1, end, ..entry });
                self.ask(Command::Vendor(&mut FsWrite {
                    lpa: Lpa(lpa),
                    pages: pages.to_vec(),
                    ino,
                    offset,
                    end,
                    what: WHAT,
                }))
            }
            35..65 => {
                let ranges: Vec<_> = (0..1 + self.rng.below(3)).map(|_| self.range()).collect();
                ranges.iter().for_each(|&r| Rig::each(r, |src, dst| after.keep(src, dst)));
                let crash = self.rng.chance(0.2);
                if crash {
                    // The commands before it are acknowledged: only this one is in flight.
                    self.now = self.now.max(self.last);
                }
                match self.ask(Command::Vendor(&mut RemapKeep { ranges: ranges.to_vec() })) {
                    Ok(done) if crash => return self.crash(done, after),
                    done => done,
                }
            }
            65..75 => {
                let r = self.range();
                Rig::each(r, |src, dst| after.moves(src, dst));
                self.ask(Command::Vendor(&mut Remap { src: r.src, dst: r.dst, count: r.count }))
            }
            75..87 => {
                let lpa = self.place(2);
                for l in lpa..lpa + 2 {
                    after.end(l);
                }
                self.ask(Command::Trim { lpa: Lpa(lpa), count: 2 })
            }
            87..96 => {
                // A part of a page: the rest has to come along.
                let lpa = self.place(1);
                self.word += 1;
                if after.word(lpa) == 0 {
                    return;
                }
                let bytes = self.word.to_le_bytes();
                let at = ByteAddr(lpa * 4096);
                let t = self.drive.store(self.now, at, &bytes, TxId::NONE, WHAT).expect("stores");
                let t = self.drive.flush_lines(t, at, 8).expect("flushes");
                let t = self.drive.verify(t).expect("verifies");
                let mut rest = vec![0; 4088];
                self.now = self.drive.load(t, at.offset(8), &mut rest, WHAT).expect("loads");
                let word = self.model.word(lpa);
                assert!(rest.chunks_exact(8).all(|b| b == word.to_le_bytes()), "the rest of page {lpa}");
                // One word for the whole page again.
                after.write(lpa, self.word);
                let page = Page::word(self.word);
                self.ask(Command::Write { lpa: Lpa(lpa), pages: &[page], what: WHAT })
            }
            _ => {
                // A write on its way may end a name after the reset, which then ended the page.
                self.now = self.now.max(self.last);
                after.reset();
                wait = true;
                self.ask(Command::Vendor(&mut BamReset))
            }
        };
        match done {
            Ok(done) => {
                self.model = after;
                self.last = self.last.max(done);
                if wait {
                    self.now = self.now.max(done);
                }
            }
            Err(DriveError::BamFull(_)) => {
                self.full += 1;
                self.examine();
                self.now = self.ask(Command::Vendor(&mut BamReset)).expect("resets");
                self.model.reset();
            }
            Err(e) => panic!("{e}"),
        }
    }

    /// REMAP keep is in flight, after which the model is `after`, and power fails.
    fn crash(&mut self, done: Nanos, after: Model) {
        let before = std::mem::replace(&mut self.model, after);
        self.last = Nanos::ZERO;
        let at = if self.rng.chance(0.3) { done } else { self.now };
        let mut power = Stream::new(self.rng.next_u64(), "power");
        self.drive.power_fail(at, &mut power);
        self.now = self.drive.power_on(at.max(done) + Nanos(1)).expect("powers on");
        let whole = self.matches(&self.model.clone());
        if !whole {
            assert!(at < done && self.matches(&before), "neither done nor undone");
            self.model = before;
        }
        self.cut[whole as usize] += 1;
        self.examine();
    }

    fn matches(&mut self, model: &Model) -> bool {
        let words = (0..self.drive.info().pages).all(|l| {
            let page = self.drive.peek(Lpa(l)).expect("peeks");
            page == Page::word(model.word(l))
        });
        words && self.names() == model.names() && self.entries() == model.list()
    }

    fn names(&mut self) -> Vec<BamName> {
        let out;
        (out, self.now) = BamNames::ask(&self.drive, self.now).expect("reads");
        out
    }

    fn entries(&mut self) -> Vec<BamEntry> {
        let out;
        (out, self.now) = BamRead::ask(&self.drive, self.now, None).expect("reads");
        out
    }

    /// Compares the drive with the model, once all commands are acknowledged.
    fn examine(&mut self) {
        self.now = self.now.max(self.last);
        let model = self.model.clone();
        assert_eq!(self.names(), model.names());
        assert_eq!(self.entries(), model.list());
        for l in 0..self.drive.info().pages {
            let mut page = [Page::ZERO];
            let read = Command::Read { lpa: Lpa(l), out: &mut page, what: WHAT };
            self.now = self.drive.submit(self.now, read).expect("reads");
            assert!(page[0] == Page::word(model.word(l)), "page {l}");
        }
        self.drive.check().unwrap_or_else(|bad| panic!("{}", bad.join("\n")));
    }
}

#[test]
fn every_name_reads_what_the_map_of_names_says() {
    let (mut full, mut cut) = (0, [0; 2]);
    for seed in 0..9 {
        let mut rig = Rig::new(seed);
        for i in 0..1500 {
            rig.step();
            if i % 29 == 0 {
                rig.examine();
            }
        }
        rig.examine();
        let c = rig.drive.counters();
        assert!(c.bam.names > 200 && c.bam.names_ended > 50 && c.bam.names_reset > 20, "{:?}", c.bam);
        assert!(c.flash.programs(granary_flash::Cause::Gc) > 0, "gc never ran: {:?}", c.flash);
        full += rig.full;
        (0..2).for_each(|i| cut[i] += rig.cut[i]);
    }
    assert!(full > 20 && cut.iter().all(|&n| n > 20), "{full} {cut:?}");
}

/// Power fails while REMAP keep is in flight: all of its ranges or none, at its completion instant all.
#[test]
fn power_takes_a_remap_keep_whole_or_not_at_all() {
    let (mut cut, ranges) = ([0; 2], [(0, 20, 3), (10, 30, 3), (20, 40, 3)]);
    let ranges = ranges.map(|(src, dst, count)| RemapRange { src: Lpa(src), dst: Lpa(dst), count });
    for seed in 0..60 {
        let d = Mssd::new(&config(NAMES)).expect("valid");
        d.track_in_flight(true);
        let pages: Vec<Page> = (1..=13).map(Page::word).collect();
        let mut now = Nanos::ZERO;
        now = d.submit(now, Command::Write { lpa: Lpa(0), pages: &pages, what: WHAT }).expect("writes");
        let done =
            d.submit(now, Command::Vendor(&mut RemapKeep { ranges: ranges.to_vec() })).expect("carried out");
        let at = if seed % 4 == 0 { done } else { now };
        // In flight it is seen already, chain and all.
        let mut seen = [Page::ZERO];
        d.submit(now, Command::Read { lpa: Lpa(40), out: &mut seen, what: WHAT }).expect("reads");
        assert!(seen[0] == Page::word(1));
        d.power_fail(at, &mut Stream::new(seed, "power"));
        d.power_on(done).expect("powers on");
        let whole = d.peek(Lpa(30)).expect("peeks") != Page::ZERO;
        for (i, dst) in [(1u64, 20u64), (11, 30), (1, 40)] {
            for k in 0..3 {
                let word = Page::word(if whole { i + k } else { 0 });
                assert!(d.peek(Lpa(dst + k)).expect("peeks") == word, "half of it, seed {seed}");
            }
        }
        (0..13).for_each(|l| assert!(d.peek(Lpa(l)).expect("peeks") == Page::word(l + 1)));
        assert!(whole || at < done, "acknowledged and not there");
        cut[whole as usize] += 1;
        d.check().expect("consistent");
    }
    assert!(cut[0] > 5 && cut[1] > 20, "{cut:?}");
}

/// The names of a chain of one interval, and what ends each.
#[test]
fn a_chain_keeps_all_names_until_each_ends_by_itself() {
    let d = Mssd::new(&config(NAMES)).expect("valid");
    let mut now = Nanos::ZERO;
    let mut ask = |command: Command<'_>| now = d.submit(now, command).expect("carried out");
    let keep = |src, dst| [RemapRange { src: Lpa(src), dst: Lpa(dst), count: 1 }];
    let word = |l| {
        let page = d.peek(Lpa(l)).expect("peeks").to_bytes();
        u64::from_le_bytes(page[..8].try_into().expect("8 bytes"))
    };
    ask(Command::Write { lpa: Lpa(0), pages: &[Page::word(7)], what: WHAT });
    ask(Command::Vendor(&mut RemapKeep { ranges: keep(0, 1).to_vec() }));
    ask(Command::Vendor(&mut RemapKeep { ranges: keep(1, 2).to_vec() }));
    assert_eq!([word(0), word(1), word(2)], [7; 3], "the checkpoint names 0, a marked node 1, memory 2");
    // Gc of the flash moves the page with all its names.
    for round in 0..40 {
        for l in 100..200 {
            ask(Command::Write { lpa: Lpa(l), pages: &[Page::word(round * 1000 + l)], what: WHAT });
        }
    }
    assert!(d.counters().flash.erases > 0);
    assert_eq!([word(0), word(1), word(2)], [7; 3]);
    ask(Command::Trim { lpa: Lpa(1), count: 1 });
    assert_eq!([word(0), word(1), word(2)], [7, 0, 7], "a trim ends one name");
    ask(Command::Write { lpa: Lpa(2), pages: &[Page::word(8)], what: WHAT });
    assert_eq!([word(0), word(2)], [7, 8], "the old name outlives the newest");
    ask(Command::Vendor(&mut RemapKeep { ranges: keep(2, 3).to_vec() }));
    // A host that recovers to name 2 trims 3: the reset leaves 2.
    ask(Command::Trim { lpa: Lpa(3), count: 1 });
    ask(Command::Vendor(&mut RemapKeep { ranges: keep(0, 4).to_vec() }));
    ask(Command::Vendor(&mut BamReset));
    assert_eq!([word(0), word(2), word(3), word(4)], [0, 8, 0, 7]);
    let programs = d.counters().bam;
    assert_eq!((programs.keeps, programs.names, programs.names_reset, programs.pages_copied), (4, 4, 1, 0));
    d.check().expect("consistent");
}

#[test]
fn full_tables_change_nothing_and_ask_for_a_reset_before() {
    let d = Mssd::new(&config(NAMES)).expect("valid");
    let pages: Vec<Page> = (1..=60).map(Page::word).collect();
    let mut now =
        d.submit(Nanos::ZERO, Command::Write { lpa: Lpa(0), pages: &pages, what: WHAT }).expect("writes");
    let keep = |src, dst, count| [RemapRange { src: Lpa(src), dst: Lpa(dst), count }];
    now = d
        .submit(now, Command::Vendor(&mut RemapKeep { ranges: keep(0, 100, 53).to_vec() }))
        .expect("carried out");
    assert!(!d.wants_attention());
    now = d
        .submit(now, Command::Vendor(&mut RemapKeep { ranges: keep(53, 153, 1).to_vec() }))
        .expect("carried out");
    assert!(d.wants_attention(), "54 of 60");
    let two = [keep(54, 154, 5)[0], keep(59, 159, 2)[0]];
    let refused = d.submit(now, Command::Vendor(&mut RemapKeep { ranges: two.to_vec() }));
    assert_eq!(refused, Err(DriveError::BamFull("names")));
    assert!(d.peek(Lpa(154)).expect("peeks") == Page::ZERO, "nothing is changed");
    now = d
        .submit(now, Command::Vendor(&mut RemapKeep { ranges: keep(54, 154, 6).to_vec() }))
        .expect("the drive goes on");
    now = d.submit(now, Command::Vendor(&mut BamReset)).expect("resets");
    d.submit(now, Command::Vendor(&mut RemapKeep { ranges: two.to_vec() })).expect("there is room");
    d.check().expect("consistent");
    // Ranges that the drive does not have, too many, too large.
    let end = d.info().pages;
    let long = vec![keep(0, 9, 1)[0]; 257];
    for ranges in [&keep(0, end - 1, 2)[..], &keep(end, 0, 1), &long] {
        let refused = d.submit(now, Command::Vendor(&mut RemapKeep { ranges: ranges.to_vec() }));
        assert!(matches!(refused, Err(DriveError::OutOfRange { .. })), "{refused:?}");
    }
    let large = vec![keep(0, end / 2, end / 2)[0]; (1 << 16) / (end as usize / 2) + 1];
    let refused = d.submit(now, Command::Vendor(&mut RemapKeep { ranges: large.to_vec() }));
    assert!(matches!(refused, Err(DriveError::OutOfRange { .. })), "{refused:?}");
}

#[test]
fn a_drive_without_room_for_names_refuses() {
    let c = config(0);
    let log = DriveConfig::tiny(Mode::Log).with_bam();
    for c in [c, log, DriveConfig::tiny(Mode::Cache)] {
        let d = Mssd::new(&c).expect("valid");
        assert_eq!(names(&d), 0);
        assert!(!d.info().answers("REMAP keep"));
        let ranges = [RemapRange { src: Lpa(0), dst: Lpa(1), count: 1 }];
        for command in [
            Command::Vendor(&mut RemapKeep { ranges: ranges.to_vec() }),
            Command::Vendor(&mut BamNames::default()),
        ] {
            let refused = d.submit(Nanos::ZERO, command);
            assert!(matches!(refused, Err(DriveError::Unsupported(_))), "{refused:?}");
        }
    }
}
