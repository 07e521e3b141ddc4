//! [`Bam`]: the file tables of PebbleSSD's byte-addressable metadata: which file a page belongs to, and where
//! in it.
//!
//! ```text
//!   inode table (hash)          file-offset table: entries in the order of their arrival
//!   | ino 7 | head  tail |        0         1         2         3         4
//!            |      |          | 7,0,p9 | 8,0,p3 | 7,1,p4 | 7,0,p6 | (dead) | ...
//!            |      `-------------------------------------- ^
//!            `---------------->  `---------next------>`-next-^
//!   page -> its entry:   p3: 1   p4: 2   p6: 3   p9: 0             entry: {file, offset, page, next}
//! ```
//!
//! Each page that `fs_write` brings gets one entry at the tail of its file's list; lists only grow, and only
//! forwards can one go through them. The host reads them after a failure to learn what it wrote since its
//! last checkpoint; after a checkpoint it resets them.
//!
//! - A page has at most one entry: a second `fs_write` of the page, `trim` and the arrival of other content
//!   by `remap` leave the former entry dead in its list, where readers skip it. `remap` moves the entry with
//!   the content, and its place in the list stays. A conventional write and stores change the content only:
//!   the page still is that block of that file. Entries name logical pages, so gc of the flash has nothing to
//!   do here.
//! - **Reset in O(1)**: forgetting how many entries there are empties all three tables. An entry number found
//!   in a table counts only if the entry exists and points back (Briggs and Torczon's sparse set, 1993), so
//!   nothing has to be cleared.
//! - Space is reserved once and never grows (section 4.2.2): when a table is full, `fs_write` is refused
//!   until a reset.
//!
//! - `remap` that keeps the old name gives the page a second one: see `names`. Its entry goes to the newest
//!   name.
//!
//! Everything here is persistent memory: a power failure takes nothing, and an image keeps it
//! (`bam/saved.rs`).
//!
//! It does *not* hold the maps between logical and physical pages: L2P and P2L belong to the FTL
//! (granary-flash), and `remap` is there. It does *not* interpret inode numbers or offsets.
//!
//! Source: PebbleSSD section 4.2.2 (file offset table, inode table, append-only lists), 5.2 (reset,
//! recovery).

mod beside;
mod commands;
mod keep;
mod names;
mod pending;
mod saved;
pub mod space;

pub use beside::BAM;

use crate::config::BamConfig;
use granary_device::BamCounters;
use granary_device::{BamEntry, DriveError, FileEnd};
use granary_redo::redo::Redo;
use granary_units::{Lpa, Nanos};
use names::Names;
use saved::Moving;

/// No entry, no page.
const NONE: u32 = u32::MAX;

/// 16 bytes of the file-offset table.
#[derive(Clone, Copy)]
struct Entry {
    /// Block of the file, in pages.
    offset: u32,
    /// Logical page; `NONE`: dead.
    lpa: u32,
    /// Next entry of the same file.
    next: u32,
    /// Slot of the file in the inode table.
    file: u32,
}

/// 16 bytes of the inode table.
#[derive(Clone, Copy, Default)]
struct File {
    ino: u64,
    head: u32,
    tail: u32,
}

/// Where in a file a page belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileBlock {
    /// The file.
    pub ino: u64,
    /// Block, in pages.
    pub offset: u32,
    /// How much of the page is the file's.
    pub end: FileEnd,
}

/// The file tables and the names.
#[derive(Clone)]
pub struct Bam {
    /// Entry of each logical page; counts only if that entry names the page.
    entry_of: Vec<u32>,
    entries: Vec<Entry>,
    /// Of each entry, [`packed`]; none where the drive does not keep them.
    ends: Vec<u16>,
    keeps_ends: bool,
    most_entries: usize,
    /// Open addressing; a slot counts only if its head is an entry that names the slot.
    files: Vec<File>,
    open: usize,
    most_files: usize,
    /// 64 minus the bits of a slot's number.
    shift: u32,
    counters: BamCounters,
    /// Entries that were there when the drive was opened on an image: they came before counting began.
    inherited: u64,
    /// Changes, where an image keeps them.
    redo: Option<Redo>,
    redo_ends: Option<Redo>,
    names: Names,
    /// As `inherited`.
    inherited_names: u64,
    /// Processor time of an entry, and of the move of a page.
    entry_cost: Nanos,
    remap_cost: Nanos,
    /// When the last REMAP has been carried out: one at a time.
    remapped: Nanos,
    /// On an image: a REMAP that was under way when the power failed.
    unfinished: Option<Moving>,
}

/// 2 bytes: bytes of the page less 1, highest bit: the file grew.
fn packed(end: FileEnd) -> u16 {
    (end.valid.clamp(1, 4096) - 1) | (end.grew as u16) << 15
}

fn unpacked(end: u16) -> FileEnd {
    FileEnd { valid: (end & 0xfff) + 1, grew: end >> 15 == 1 }
}

impl Bam {
    /// Empty tables for a drive of `pages` logical pages, with room for so many names; processor times at the
    /// processors' clock.
    fn new(config: &BamConfig, names: u32, pages: u64) -> Bam {
        let slots = config.file_slots();
        Bam {
            entry_of: vec![0; pages as usize],
            entries: Vec::new(),
            ends: Vec::new(),
            keeps_ends: names > 0,
            most_entries: config.entries as usize,
            files: vec![File::default(); slots as usize],
            open: 0,
            most_files: config.files as usize,
            shift: 64 - slots.trailing_zeros(),
            counters: BamCounters::default(),
            inherited: 0,
            redo: None,
            redo_ends: None,
            names: Names::new(names),
            inherited_names: 0,
            entry_cost: config.entry_cost,
            remap_cost: config.remap_cost,
            remapped: Nanos::ZERO,
            unfinished: None,
        }
    }

    /// Whether a table is 90 % full.
    fn is_nearly_full(&self) -> bool {
        let full = |n: usize, most: usize| n as u64 * 10 >= most as u64 * 9;
        full(self.entries.len(), self.most_entries)
            || full(self.open, self.most_files)
            || self.names.is_nearly_full()
    }

    /// The entry of a page.
    fn entry(&self, lpa: Lpa) -> Option<u32> {
        let e = self.entry_of[lpa.0 as usize];
        self.entries.get(e as usize).is_some_and(|entry| entry.lpa as u64 == lpa.0).then_some(e)
    }

    fn is_open(&self, slot: u32) -> bool {
        let head = self.files[slot as usize].head as usize;
        self.entries.get(head).is_some_and(|entry| entry.file == slot)
    }

    /// The slot of a file (true), or the one where it would go.
    fn slot(&self, ino: u64) -> (u32, bool) {
        // Fibonacci hashing: 2^64 divided by the golden ratio.
        let mut slot = (ino.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as u32;
        // At least half of the slots are closed, so this ends.
        while self.is_open(slot) {
            if self.files[slot as usize].ino == ino {
                return (slot, true);
            }
            slot = (slot + 1) % self.files.len() as u32;
        }
        (slot, false)
    }

    /// Whether `pages` more blocks of a file fit, when `before` others are on their way already.
    ///
    /// # Errors
    /// [`DriveError::BamFull`].
    fn room(&self, ino: u64, pages: usize, before: usize) -> Result<(), DriveError> {
        if self.entries.len() + before + pages > self.most_entries {
            return Err(DriveError::BamFull("blocks"));
        }
        if self.open + before >= self.most_files && !self.slot(ino).1 {
            return Err(DriveError::BamFull("files"));
        }
        Ok(())
    }

    /// Appends an entry to a file's list. There is room ([`Bam::room`]).
    fn append(&mut self, block: FileBlock, lpa: Lpa) {
        let FileBlock { ino, offset, end } = block;
        assert!(
            self.entries.len() < self.most_entries && (self.open < self.most_files || self.slot(ino).1),
            "BAM overflows"
        );
        self.forget(lpa);
        self.enter(ino, offset, lpa.0 as u32);
        if self.keeps_ends {
            self.ends.push(packed(end));
        }
        self.save_newest(ino);
        self.counters.entries += 1;
    }

    /// The entry itself; page `NONE` where it is dead already.
    fn enter(&mut self, ino: u64, offset: u32, lpa: u32) {
        let (slot, open) = self.slot(ino);
        let number = self.entries.len() as u32;
        self.entries.push(Entry { offset, lpa, next: NONE, file: slot });
        if let Some(entry) = self.entry_of.get_mut(lpa as usize) {
            *entry = number;
        }
        let file = &mut self.files[slot as usize];
        if open {
            self.entries[file.tail as usize].next = number;
            file.tail = number;
        } else {
            *file = File { ino, head: number, tail: number };
            self.open += 1;
        }
    }

    /// The content of `src` is now at `dst`, and its entry with it.
    fn moved(&mut self, src: Lpa, dst: Lpa) {
        if src == dst {
            return;
        }
        self.forget(dst);
        if let Some(e) = self.entry(src) {
            self.entries[e as usize].lpa = dst.0 as u32;
            self.entry_of[dst.0 as usize] = e;
            self.save_page(e, dst.0 as u32);
        }
    }

    /// The content of a page is gone: its entry is dead.
    fn forget(&mut self, lpa: Lpa) {
        if let Some(e) = self.entry(lpa) {
            self.entries[e as usize].lpa = NONE;
            self.save_page(e, NONE);
        }
    }

    /// Empties all tables: those of files in constant time, names one by one.
    fn reset(&mut self) {
        self.counters.names_reset += self.names.len() as u64;
        self.names.clear();
        self.ends.clear();
        self.counters.entries_reset += self.entries.len() as u64;
        self.entries.clear();
        self.open = 0;
        self.save_count();
    }

    /// Appends the entries of a file, or of all, to `out`, in the order in which they came; returns how many
    /// the firmware looked at.
    fn read(&self, ino: Option<u64>, out: &mut Vec<BamEntry>) -> u64 {
        let mut give = |n: usize| {
            let e = &self.entries[n];
            if e.lpa != NONE {
                let ino = self.files[e.file as usize].ino;
                let end = self.ends.get(n).map_or(FileEnd::WHOLE, |&end| unpacked(end));
                out.push(BamEntry { ino, offset: e.offset, lpa: Lpa(e.lpa as u64), end });
            }
        };
        let Some(ino) = ino else {
            (0..self.entries.len()).for_each(give);
            return self.entries.len() as u64;
        };
        let (slot, open) = self.slot(ino);
        let (mut at, mut looked) = (if open { self.files[slot as usize].head } else { NONE }, 0);
        while at != NONE {
            give(at as usize);
            (at, looked) = (self.entries[at as usize].next, looked + 1);
        }
        looked
    }

    /// Internal consistency; `holds` says whether the drive has content for a page.
    fn violations(&self, holds: &dyn Fn(Lpa) -> bool) -> Vec<String> {
        let mut bad = self.names.check(holds);
        let (mut heads, mut followed) = (0, vec![0u32; self.entries.len()]);
        for (n, e) in self.entries.iter().enumerate() {
            let n = n as u32;
            if !self.files.get(e.file as usize).is_some_and(|_| self.is_open(e.file)) {
                bad.push(format!("BAM: entry {n} belongs to no file"));
                continue;
            }
            let file = self.files[e.file as usize];
            heads += (file.head == n) as usize;
            match self.entries.get(e.next as usize) {
                Some(next) if e.next > n && next.file == e.file => followed[e.next as usize] += 1,
                None if e.next == NONE && file.tail == n => {}
                _ => bad.push(format!("BAM: the list of file {} breaks at entry {n}", file.ino)),
            }
            if e.lpa == NONE {
                continue;
            }
            if self.entry_of.get(e.lpa as usize) != Some(&n) {
                bad.push(format!("BAM: page {} does not know its entry {n}", e.lpa));
            } else if !holds(Lpa(e.lpa as u64)) {
                bad.push(format!("BAM: page {} of file {} has no content", e.lpa, file.ino));
            }
        }
        for (n, (e, &times)) in self.entries.iter().zip(&followed).enumerate() {
            let head = self.files[e.file as usize].head as usize == n;
            if times != !head as u32 {
                bad.push(format!("BAM: {times} entries lead to entry {n}"));
            }
        }
        if heads != self.open || self.open > self.most_files || self.entries.len() > self.most_entries {
            bad.push(format!("BAM: {heads} lists, {} files, {} entries", self.open, self.entries.len()));
        }
        let (c, named) = (&self.counters, self.names.len() as u64);
        if self.inherited_names + c.names != named + c.names_reset + c.names_ended {
            bad.push(format!("BAM: names do not balance: {named} present, {c:?}"));
        }
        if self.ends.len() != if self.keeps_ends { self.entries.len() } else { 0 } {
            bad.push(format!("BAM: {} entries, {} file ends", self.entries.len(), self.ends.len()));
        }
        let came = self.inherited + self.counters.entries;
        if came != self.entries.len() as u64 + self.counters.entries_reset {
            bad.push(format!(
                "BAM: entries do not balance: {} present, {:?}",
                self.entries.len(),
                self.counters
            ));
        }
        bad
    }
}
