//! [`Space`]: free blocks, the promised ones among them, and blocks that are freed but not yet safe to use
//! again.
//!
//! ```text
//!   all data blocks = taken (files, directories) + withheld + free
//!   reserved <= free + withheld:    pages in the page cache that have no block yet (delayed allocation)
//!   withheld: freed by transactions that are not committed yet; {commit sequence number, run}
//!
//!   free + withheld  | promised to pages | kept for metadata | for everybody |
//!                      Promised            Kept                Free               who may take it: Claim
//! ```
//!
//! Removing names, truncating and renaming over a name take no block at all. *Kept* blocks are for changes
//! that must work on a full file system and may need one. Such a block is for a directory that grows because
//! a name moves into it, or for the extent block where a hole cuts an extent in two. It is also for extent
//! blocks of pages that were promised before their file's map got worse.
//!
//! Invariant: a block that a transaction freed is handed out only after that transaction's COMMIT. Block
//! writes and stores outside transactions take effect at once; before the COMMIT a power failure would give
//! the block back to its old owner with the new owner's bytes in it.

use crate::groups::Groups;
use granary_fs::{FsError, Result};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Range;

/// Consecutive blocks on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// First block.
    pub lba: u32,
    /// Number of blocks.
    pub len: u32,
}

/// Result of a request for blocks.
pub enum Taken {
    /// These; perhaps fewer than wanted.
    Run(Run),
    /// None is free now, but some will be once transactions up to this sequence number are committed.
    AfterCommit(u64),
    /// None.
    Full,
}

/// On what ground blocks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Blocks that nobody else has a claim on.
    Free,
    /// They were promised ([`Space::reserve`]), and the promise shrinks by what is taken.
    Promised,
    /// As [`Claim::Free`], and in need what is kept for metadata.
    Kept,
}

struct Inner {
    groups: Groups,
    kept: u64,
    reserved: u64,
    withheld: VecDeque<(u64, Run)>,
    withheld_blocks: u64,
}

/// The blocks of the file system.
pub struct Space(Mutex<Inner>);

impl Inner {
    fn unpromised(&self) -> u64 {
        (self.groups.free() + self.withheld_blocks).saturating_sub(self.reserved)
    }

    fn available(&self, claim: Claim) -> u64 {
        match claim {
            Claim::Free => self.unpromised().saturating_sub(self.kept),
            Claim::Promised => u64::MAX,
            Claim::Kept => self.unpromised(),
        }
    }
}

impl Space {
    /// With these blocks free, `kept` of them for metadata.
    pub fn new(groups: Groups, kept: u64) -> Space {
        let (withheld, withheld_blocks) = (VecDeque::new(), 0);
        Space(Mutex::new(Inner { groups, kept, reserved: 0, withheld, withheld_blocks }))
    }

    /// Blocks to keep of `blocks` for data: 1/512, 8 to 1024, and never more than 1/64.
    pub fn to_keep(blocks: u64) -> u64 {
        (blocks / 512).clamp(8, 1024).min(blocks / 64)
    }

    /// Promises `n` blocks. Returns whether that many could be claimed.
    pub fn reserve(&self, n: u64, claim: Claim) -> bool {
        let mut s = self.0.lock();
        let ok = s.available(claim) >= n;
        if ok {
            s.reserved += n;
        }
        ok
    }

    /// Takes back the promise of `n` blocks.
    pub fn unreserve(&self, n: u64) {
        self.0.lock().reserved -= n;
    }

    /// Takes up to `want` blocks.
    pub fn take(&self, cpu: usize, want: u64, goal: Option<u32>, claim: Claim) -> Taken {
        let mut s = self.0.lock();
        let want = want.min(s.available(claim));
        if want == 0 {
            return Taken::Full;
        }
        match s.groups.take(cpu, want.min(u32::MAX as u64), goal.map(u64::from)) {
            Some((lba, len)) => {
                if claim == Claim::Promised {
                    s.reserved -= len;
                }
                Taken::Run(Run { lba: lba as u32, len: len as u32 })
            }
            None => match s.withheld.back() {
                Some(&(seq, _)) => Taken::AfterCommit(seq),
                // Somebody is just making them free.
                None if s.withheld_blocks > 0 => Taken::AfterCommit(0),
                None => Taken::Full,
            },
        }
    }

    /// Takes the next free run of at least `least` blocks within a part of the drive, at most `most` of it,
    /// as long as nobody else has a claim on them.
    pub fn take_next(&self, within: Range<u64>, least: u64, most: u64) -> Option<Run> {
        let mut s = self.0.lock();
        let most = most.min(s.available(Claim::Free));
        let (lba, len) = s.groups.take_next(within.start, within.end, least, most)?;
        Some(Run { lba: lba as u32, len: len as u32 })
    }

    /// Gives back blocks that no transaction ever mentioned.
    pub fn give_back(&self, run: Run, claim: Claim) {
        let mut s = self.0.lock();
        s.groups.give(run.lba as u64, run.len as u64).expect("they were taken a moment ago");
        if claim == Claim::Promised {
            s.reserved += run.len as u64;
        }
    }

    /// Frees blocks once the transactions up to `seq` are committed. Calls come in the order of `seq`, or
    /// nearly.
    pub fn withhold(&self, seq: u64, run: Run) {
        let mut s = self.0.lock();
        s.withheld_blocks += run.len as u64;
        // Two tasks may arrive in the other order; waiting for the later one is always safe.
        let seq = s.withheld.back().map_or(seq, |last| last.0.max(seq));
        s.withheld.push_back((seq, run));
    }

    /// The runs that may be freed now that transactions up to `seq` are committed; [`Space::free_withheld`]
    /// frees them. Until then they count as withheld.
    pub fn ripe(&self, seq: u64) -> Vec<Run> {
        let mut s = self.0.lock();
        let mut runs = Vec::new();
        while s.withheld.front().is_some_and(|w| w.0 <= seq) {
            runs.extend(s.withheld.pop_front().map(|w| w.1));
        }
        runs
    }

    /// Takes back runs that [`Space::ripe`] returned and that could not be made ready.
    pub fn withhold_again(&self, runs: Vec<Run>) {
        let mut s = self.0.lock();
        runs.into_iter().rev().for_each(|run| s.withheld.push_front((0, run)));
    }

    /// Frees runs that [`Space::ripe`] returned.
    ///
    /// # Errors
    /// `Corrupt` where blocks had two owners and are free already; they stay so, the others are freed.
    pub fn free_withheld(&self, runs: &[Run]) -> Result<()> {
        let mut s = self.0.lock();
        let mut result = Ok(());
        for run in runs {
            let given = s.groups.give(run.lba as u64, run.len as u64);
            s.withheld_blocks -= run.len as u64;
            result = result.and(given.map_err(|what| FsError::Corrupt(format!("blocks: {what}"))));
        }
        result
    }

    /// Blocks that are neither taken nor promised.
    pub fn free(&self) -> u64 {
        self.0.lock().unpromised()
    }

    /// Blocks of [`Space::free`] that are kept for metadata.
    pub fn kept(&self) -> u64 {
        let s = self.0.lock();
        s.kept.min(s.unpromised())
    }

    /// Blocks that are promised.
    pub fn reserved(&self) -> u64 {
        self.0.lock().reserved
    }

    /// More blocks, `bits` in all: the new ones are free but for `taken`; `kept` of all are kept for
    /// metadata.
    pub fn grow(&self, bits: u64, taken: &[Range<u64>], kept: u64) {
        let mut s = self.0.lock();
        s.groups.grow(bits, taken);
        s.kept = kept;
    }

    /// Looks at the groups.
    pub fn with_groups<T>(&self, f: impl FnOnce(&Groups) -> T) -> T {
        f(&self.0.lock().groups)
    }
}
