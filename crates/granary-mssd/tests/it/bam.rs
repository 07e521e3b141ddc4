//! BAM against naive lists: FS_WRITE, REMAP, BAM_RESET and BAM_READ on a drive whose gc runs all the time.
//!
//! ```text
//!   model:  page -> word      list of (file, block, page), in the order of arrival; a page is in it once
//! ```
//!
//! Commands in flight when power fails: a block of FS_WRITE is there with its entry or not at all, REMAP and
//! BAM_RESET are carried out whole or not at all.

use granary_device::vendor::pebble::{BamRead, BamReset, FsWrite, Remap};
use granary_device::vendor::transactions::Recover;
use granary_device::{BamEntry, Command, Drive, DriveError, FileEnd, Structure};
use granary_mssd::{BamConfig, DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Bytes, Lpa, Nanos, Page, TxId};

const WHAT: Structure = Structure::Data;
const ENTRIES: u32 = 300;
const FILES: u32 = 6;

fn config(mode: Mode) -> DriveConfig {
    let mut c = DriveConfig::tiny(mode).with_bam();
    c.flash.over_provisioning_permille = 350;
    c.firmware.bam = Some(BamConfig { entries: ENTRIES, files: FILES, ..BamConfig::default() });
    c
}

#[derive(Clone, Debug, PartialEq)]
struct State {
    /// Word of each page; `None`: never written or trimmed.
    words: Vec<Option<u64>>,
    /// Dead entries keep their room.
    entries: Vec<Option<BamEntry>>,
    files: Vec<u64>,
}

impl State {
    fn kill(&mut self, lpa: u64) {
        for e in &mut self.entries {
            if e.is_some_and(|e| e.lpa.0 == lpa) {
                *e = None;
            }
        }
    }

    fn has_room(&self, ino: u64, pages: usize) -> bool {
        self.entries.len() + pages <= ENTRIES as usize
            && (self.files.contains(&ino) || self.files.len() < FILES as usize)
    }

    fn block(&mut self, lpa: u64, word: u64, ino: u64, offset: u32) {
        self.words[lpa as usize] = Some(word);
        self.kill(lpa);
        self.entries.push(Some(BamEntry { ino, offset, lpa: Lpa(lpa), end: FileEnd::WHOLE }));
        if !self.files.contains(&ino) {
            self.files.push(ino);
        }
    }

    /// As if all had been read, then written, then trimmed.
    fn remap(&mut self, src: u64, dst: u64, count: u64) {
        let before = self.clone();
        let (from, to) = (src..src + count, dst..dst + count);
        for l in from.clone().chain(to.clone()) {
            self.words[l as usize] = None;
        }
        for i in 0..count {
            self.words[(dst + i) as usize] = before.words[(src + i) as usize];
        }
        for (new, old) in self.entries.iter_mut().zip(&before.entries) {
            let Some(e) = old else { continue };
            *new = if from.contains(&e.lpa.0) {
                Some(BamEntry { lpa: Lpa(dst + e.lpa.0 - src), ..*e })
            } else {
                Some(*e).filter(|e| !to.contains(&e.lpa.0))
            };
        }
    }

    fn reset(&mut self) {
        self.entries.clear();
        self.files.clear();
    }

    fn list(&self, ino: Option<u64>) -> Vec<BamEntry> {
        self.entries.iter().flatten().filter(|e| ino.is_none_or(|ino| e.ino == ino)).copied().collect()
    }
}

struct Rig {
    drive: Mssd,
    log: bool,
    now: Nanos,
    model: State,
    rng: Stream,
    word: u64,
    /// Times that a command was cut off by power loss and was found undone, partly or wholly done.
    cut: [u32; 3],
    full: u32,
}

impl Rig {
    fn new(mode: Mode, seed: u64) -> Rig {
        let drive = Mssd::new(&config(mode)).expect("valid");
        drive.track_in_flight(!seed.is_multiple_of(4));
        assert!(drive.info().answers("FS_WRITE"));
        let pages = drive.info().pages as usize;
        let model = State { words: vec![None; pages], entries: Vec::new(), files: Vec::new() };
        let rng = Stream::new(seed, "bam");
        Rig { drive, log: mode == Mode::Log, now: Nanos::ZERO, model, rng, word: 0, cut: [0; 3], full: 0 }
    }

    fn pages(&self) -> u64 {
        self.model.words.len() as u64
    }

    /// Where `count` pages lie: every third time among the same few.
    fn place(&mut self, count: u64) -> u64 {
        let pages = if self.rng.chance(0.3) { 24 } else { self.pages() };
        self.rng.below(pages - count)
    }

    fn submit(&mut self, command: Command<'_>) -> Nanos {
        self.now += Nanos(self.rng.below(3000));
        self.drive.submit(self.now, command).expect("carried out")
    }

    fn fresh(&mut self, count: u64) -> (Vec<u64>, Vec<Page>) {
        let words: Vec<u64> = (0..count).map(|i| self.word + 1 + i).collect();
        self.word += count;
        let pages = words.iter().map(|&w| Page::word(w)).collect();
        (words, pages)
    }

    /// A random command: (completion, what it does to the model, page by page where it may be torn, whether
    /// power loss may cut it off here).
    fn command(&mut self) -> (Nanos, Vec<State>, bool) {
        let pages = self.pages();
        let count = 1 + self.rng.below(6);
        let mut after = self.model.clone();
        match self.rng.below(100) {
            0..25 => {
                let lpa = self.place(count);
                let (words, content) = self.fresh(count);
                let done = self.submit(Command::Write { lpa: Lpa(lpa), pages: &content, what: WHAT });
                for (i, w) in (0..).zip(words) {
                    after.words[(lpa + i) as usize] = Some(w);
                }
                // Not looked at page by page: that is the business of tests/model.rs.
                (done, vec![after], false)
            }
            25..60 => {
                let lpa = self.place(count);
                let (ino, offset) = (7 + self.rng.below(9), self.rng.below(20) as u32);
                let (words, content) = self.fresh(count);
                let room = self.model.has_room(ino, count as usize);
                let command = Command::Vendor(&mut FsWrite {
                    lpa: Lpa(lpa),
                    pages: content,
                    ino,
                    offset,
                    end: FileEnd::WHOLE,
                    what: WHAT,
                });
                if !room {
                    let refused = self.drive.submit(self.now, command);
                    assert!(matches!(refused, Err(DriveError::BamFull(_))), "{refused:?}");
                    self.full += 1;
                    let done = self.submit(Command::Vendor(&mut BamReset));
                    after.reset();
                    return (done, vec![after], true);
                }
                let done = self.submit(command);
                let mut steps = Vec::new();
                for (i, w) in (0..).zip(words) {
                    after.block(lpa + i, w, ino, offset + i as u32);
                    steps.push(after.clone());
                }
                (done, steps, true)
            }
            60..90 => {
                // Half of the moves overlap.
                let src = self.place(count);
                let near = (src + self.rng.below(2 * count)).saturating_sub(count).min(pages - count);
                let dst = if self.rng.chance(0.5) { near } else { self.place(count) };
                let done = self.submit(Command::Vendor(&mut Remap { src: Lpa(src), dst: Lpa(dst), count }));
                after.remap(src, dst, count);
                (done, vec![after], true)
            }
            90..94 => {
                let lpa = self.place(1);
                let done = self.submit(Command::Trim { lpa: Lpa(lpa), count: 1 });
                after.words[lpa as usize] = None;
                after.kill(lpa);
                (done, vec![after], true)
            }
            94..96 => {
                let done = self.submit(Command::Vendor(&mut BamReset));
                after.reset();
                (done, vec![after], true)
            }
            _ => {
                // A store: in log mode its lines stand in the way of a remap.
                let lpa = self.place(1);
                let (words, _) = self.fresh(1);
                let bytes = Page::word(words[0]).to_bytes();
                let at = ByteAddr(lpa * 4096);
                self.now = self.drive.store(self.now, at, &bytes, TxId::NONE, WHAT).expect("stores");
                self.now = self.drive.flush_lines(self.now, at, 4096).expect("flushes");
                self.now = self.drive.verify(self.now).expect("verifies");
                let done = self.now;
                after.words[lpa as usize] = Some(words[0]);
                (done, vec![after], false)
            }
        }
    }

    fn seen(&self) -> State {
        let words = (0..self.pages())
            .map(|l| {
                let page = self.drive.peek(Lpa(l)).expect("peeks");
                let bytes = page.to_bytes();
                let word = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
                assert!(bytes == Page::word(word).to_bytes(), "page {l} is a mixture");
                Some(word).filter(|&w| w != 0)
            })
            .collect();
        let mut model = self.model.clone();
        model.words = words;
        model
    }

    fn entries(&mut self, ino: Option<u64>) -> Vec<BamEntry> {
        let out;
        (out, self.now) = BamRead::ask(&self.drive, self.now, ino).expect("reads");
        out
    }

    fn examine(&mut self) {
        self.drive.check().unwrap_or_else(|bad| panic!("{}", bad.join("\n")));
        assert_eq!(self.seen().words, self.model.words);
        assert_eq!(self.entries(None), self.model.list(None));
        let ino = 7 + self.rng.below(9);
        assert_eq!(self.entries(Some(ino)), self.model.list(Some(ino)));
    }

    /// Power fails with `steps` on their way since the model's state.
    fn crash(&mut self, done: Nanos, steps: &[State]) {
        let mut power = Stream::new(self.rng.next_u64(), "power");
        let at = if self.rng.chance(0.3) {
            done
        } else {
            self.now + Nanos(self.rng.below((done - self.now).0.max(1)))
        };
        self.drive.power_fail(at, &mut power);
        self.now = self.drive.power_on(at + Nanos(1)).expect("powers on");
        if self.log {
            self.now = self.drive.submit(self.now, Command::Vendor(&mut Recover)).expect("recovers");
        }
        self.drive.check().unwrap_or_else(|bad| panic!("{}", bad.join("\n")));
        let (words, list) = (self.seen().words, self.entries(None));
        let last = steps.last().expect("a step");
        let whole = words == last.words && list == last.list(None);
        let none = words == self.model.words && list == self.model.list(None);
        if at >= done {
            assert!(whole, "acknowledged and not there");
        }
        if whole || none {
            self.cut[if whole { 2 } else { 0 }] += 1;
            if whole {
                self.model = last.clone();
            }
            if whole && none && last.entries.is_empty() {
                // A reset of lists in which all is dead cannot be seen: once more, to be sure.
                self.now = self.drive.submit(self.now, Command::Vendor(&mut BamReset)).expect("resets");
            }
            return;
        }
        assert!(steps.len() > 1, "neither done nor undone");
        self.cut[1] += 1;
        self.torn(&words, &list, last);
    }

    /// Part of an FS_WRITE is there: every page is old, or new with its entry.
    fn torn(&mut self, words: &[Option<u64>], list: &[BamEntry], last: &State) {
        for (l, word) in words.iter().enumerate() {
            let (old, new) = (self.model.words[l], last.words[l]);
            if *word == old {
                continue;
            }
            assert_eq!(*word, new, "page {l} is neither old nor new");
            let e = *last.list(None).iter().rfind(|e| e.lpa.0 == l as u64).expect("its entry");
            assert!(list.contains(&e), "page {l} came without its entry");
            self.model.block(l as u64, new.expect("content"), e.ino, e.offset);
        }
        assert_eq!(self.model.list(None), list, "entries without their pages");
    }

    fn run(&mut self, commands: u32) {
        let mut acknowledged = Nanos::ZERO;
        for i in 0..commands {
            let crash = self.rng.chance(0.04);
            if crash || self.rng.chance(0.5) {
                self.now = self.now.max(acknowledged);
            }
            let (done, steps, atomic) = self.command();
            if crash && atomic {
                self.crash(done, &steps);
            } else {
                self.model = steps.last().expect("a step").clone();
                acknowledged = acknowledged.max(done);
            }
            if i % 11 == 0 {
                self.examine();
            }
        }
        self.examine();
    }
}

#[test]
fn pages_and_lists_are_those_of_the_naive_model() {
    let (mut cut, mut full, mut copied) = ([0; 3], 0, 0);
    for seed in 0..8 {
        for mode in [Mode::Cache, Mode::Log] {
            let mut rig = Rig::new(mode, seed);
            rig.run(1000);
            let c = rig.drive.counters();
            assert!(c.bam.pages_remapped > 100 && c.bam.fs_writes > 50 && c.bam.resets > 2, "{:?}", c.bam);
            copied += c.bam.pages_copied;
            assert!(mode == Mode::Log || c.bam.pages_copied == 0, "{:?}", c.bam);
            assert!(c.flash.programs(granary_flash::Cause::Gc) > 0, "gc never ran: {:?}", c.flash);
            (0..3).for_each(|i| cut[i] += rig.cut[i]);
            full += rig.full;
        }
    }
    assert!(cut.iter().all(|&n| n > 20) && full > 20 && copied > 10, "{cut:?} {full} {copied}");
}

fn drive(config: &DriveConfig) -> Mssd {
    Mssd::new(config).expect("valid")
}

#[test]
fn a_remap_takes_no_time_at_the_flash_and_no_bytes_on_the_link() {
    let d = drive(&config(Mode::Cache));
    let pages: Vec<Page> = (1..9).map(Page::word).collect();
    let done =
        d.submit(Nanos::ZERO, Command::Write { lpa: Lpa(0), pages: &pages, what: WHAT }).expect("writes");
    let now = d.settle(done).expect("settles");
    let before = d.counters();
    let done =
        d.submit(now, Command::Vendor(&mut Remap { src: Lpa(0), dst: Lpa(100), count: 8 })).expect("remaps");
    let c = d.config();
    let bam = c.firmware.bam.as_ref().expect("BAM");
    let stages = c.link.nvme.fetch + c.firmware.command_cost + bam.remap_cost * 8 + c.link.nvme.completion;
    assert_eq!(done - now, stages);
    let moved = d.counters().since(&before);
    assert_eq!((moved.flash.total_programs(), moved.link), (0, Default::default()));
    assert_eq!((moved.bam.remaps, moved.bam.pages_remapped), (1, 8));
    assert_eq!(d.peek(Lpa(107)).expect("peeks"), Page::word(8));
    assert_eq!(d.peek(Lpa(7)).expect("peeks"), Page::ZERO);
}

#[test]
fn an_fs_write_costs_a_write_and_one_entry_for_each_page() {
    let d = drive(&config(Mode::Cache));
    let pages: Vec<Page> = (1..5).map(Page::word).collect();
    let plain =
        d.submit(Nanos::ZERO, Command::Write { lpa: Lpa(0), pages: &pages, what: WHAT }).expect("writes");
    let now = d.settle(plain).expect("settles");
    let write = Command::Vendor(&mut FsWrite {
        lpa: Lpa(9),
        pages: pages.to_vec(),
        ino: 5,
        offset: 3,
        end: FileEnd::WHOLE,
        what: WHAT,
    });
    let done = d.submit(now, write).expect("writes");
    let cost = d.config().firmware.bam.as_ref().expect("BAM").entry_cost;
    assert_eq!(done - now, plain + cost * 4);
}

#[test]
fn the_later_of_two_entries_for_one_block_is_the_newer() {
    let d = drive(&config(Mode::Cache));
    let mut now = Nanos::ZERO;
    for (lpa, offset) in [(10, 0), (11, 1), (12, 0)] {
        let pages = [Page::word(lpa)];
        let write = Command::Vendor(&mut FsWrite {
            lpa: Lpa(lpa),
            pages: pages.to_vec(),
            ino: u64::MAX,
            offset,
            end: FileEnd::WHOLE,
            what: WHAT,
        });
        now = d.submit(now, write).expect("writes");
    }
    now =
        d.submit(now, Command::Vendor(&mut Remap { src: Lpa(10), dst: Lpa(20), count: 1 })).expect("remaps");
    let out;
    (out, now) = BamRead::ask(&d, now, Some(u64::MAX)).expect("reads");
    let list: Vec<(u32, u64)> = out.iter().map(|e| (e.offset, e.lpa.0)).collect();
    assert_eq!(list, [(0, 20), (1, 11), (0, 12)], "a move changes the page, not the order");
    assert!(BamRead::ask(&d, now, Some(0)).expect("reads").0.is_empty());
}

/// A million entries go as fast as one: the reset's time is that of a command.
#[test]
fn a_reset_takes_the_same_time_whatever_there_is() {
    let d = drive(&config(Mode::Cache));
    let c = d.config();
    let expected = c.link.nvme.fetch + c.firmware.command_cost + c.link.nvme.completion;
    let mut now = Nanos::ZERO;
    for round in 0..50 {
        let pages: Vec<Page> = (1..=round * 5 + 1).map(Page::word).collect();
        let write = Command::Vendor(&mut FsWrite {
            lpa: Lpa(0),
            pages: pages.to_vec(),
            ino: round,
            offset: 0,
            end: FileEnd::WHOLE,
            what: WHAT,
        });
        now = d.submit(now, write).expect("writes");
        let done = d.submit(now, Command::Vendor(&mut BamReset)).expect("resets");
        assert_eq!(done - now, expected);
        now = done;
        let out;
        (out, now) = BamRead::ask(&d, now, None).expect("reads");
        assert!(out.is_empty());
        d.check().expect("consistent");
    }
}

#[test]
fn a_drive_without_bam_says_so() {
    let d = drive(&DriveConfig::tiny(Mode::Cache));
    assert!(!d.info().answers("FS_WRITE"));
    let pages = [Page::word(1)];
    for command in [
        Command::Vendor(&mut FsWrite {
            lpa: Lpa(0),
            pages: pages.to_vec(),
            ino: 1,
            offset: 0,
            end: FileEnd::WHOLE,
            what: WHAT,
        }),
        Command::Vendor(&mut Remap { src: Lpa(0), dst: Lpa(1), count: 1 }),
        Command::Vendor(&mut BamReset),
        Command::Vendor(&mut BamRead { ino: None, out: Vec::new() }),
    ] {
        assert!(matches!(d.submit(Nanos::ZERO, command), Err(DriveError::Unsupported(_))));
    }
    let d = drive(&config(Mode::Cache));
    let far = Command::Vendor(&mut FsWrite {
        lpa: Lpa(0),
        pages: pages.to_vec(),
        ino: 1,
        offset: u32::MAX,
        end: FileEnd::WHOLE,
        what: WHAT,
    });
    assert!(matches!(d.submit(Nanos::ZERO, far), Err(DriveError::OutOfRange { .. })));
    let end = d.info().pages;
    let out = Command::Vendor(&mut Remap { src: Lpa(0), dst: Lpa(end - 1), count: 2 });
    assert!(matches!(d.submit(Nanos::ZERO, out), Err(DriveError::OutOfRange { .. })));
    assert!(config(Mode::Cache).firmware.bam.expect("BAM").memory == Bytes::gib(2));
}
