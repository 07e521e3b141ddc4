//! [`Counts`]: live blocks of each segment, kept up with every change of the DAT.
//!
//! ```text
//!   entry in use ------------------------------> used[segment]
//!   ended, some snapshot lies within its life -> held[segment]
//!   ended, none does --------------------------> ended[segment][its end]
//!                                                live while a protected checkpoint is before its end
//!   the DAT's own blocks and nodes ------------> dat[segment]
//! ```
//!
//! The cleaner asks for all segments at each step; statfs and every refusal ask for blocks that are dead and
//! kept. A walk of the DAT for each of these would take as long as the file system is large. One walk makes
//! the counts, at the first question. From then on [`Dat`](crate::dat::Dat) tells of each entry before and
//! after its change. Other snapshots need another walk.

use crate::dat::DatEntry;
use crate::geometry::Geometry;
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    seg_blocks: u64,
    /// The snapshots that `held` is of.
    snapshots: BTreeSet<u64>,
    segs: Vec<Segment>,
}

/// Blocks of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Segment {
    used: u64,
    held: u64,
    dat: u64,
    /// By the first checkpoint that does not have them.
    ended: BTreeMap<u64, u64>,
}

impl Segment {
    /// Those that have ended and that a checkpoint from this one on needs, or a snapshot.
    fn kept(&self, first_protected: u64) -> u64 {
        // An entry that ended at the first protected checkpoint or before is in none that is protected.
        self.held + self.ended.range(first_protected.saturating_add(1)..).map(|(_, n)| n).sum::<u64>()
    }
}

/// One more, or one less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Up,
    Down,
}

impl Step {
    /// A count on damaged media may be wrong, and stays at nothing.
    fn apply(self, n: &mut u64) {
        *n = if self == Step::Up { *n + 1 } else { n.saturating_sub(1) };
    }
}

impl Counts {
    /// Of nothing.
    pub fn new(geo: Geometry, snapshots: BTreeSet<u64>) -> Counts {
        let segs = vec![Segment::default(); geo.segments as usize];
        Counts { seg_blocks: geo.seg_blocks, snapshots, segs }
    }

    /// Whether they are of these snapshots.
    pub fn are_of(&self, snapshots: &BTreeSet<u64>) -> bool {
        self.snapshots == *snapshots
    }

    fn segment(&mut self, at: u64) -> Option<&mut Segment> {
        // 0: it has no place yet.
        let seg = if at == 0 { None } else { usize::try_from(at / self.seg_blocks).ok() };
        self.segs.get_mut(seg?)
    }

    fn step(&mut self, e: &DatEntry, step: Step) {
        let held = self.snapshots.range(e.start..e.end.max(e.start)).next().is_some();
        let Some(seg) = self.segment(e.at) else { return };
        if e.is_in_use() {
            step.apply(&mut seg.used);
        } else if held {
            step.apply(&mut seg.held);
        } else if e.start < e.end {
            let n = seg.ended.entry(e.end).or_default();
            step.apply(n);
            if *n == 0 {
                seg.ended.remove(&e.end);
            }
        }
    }

    /// An entry is there.
    pub fn add(&mut self, e: &DatEntry) {
        self.step(e, Step::Up);
    }

    /// An entry has changed.
    pub fn change(&mut self, before: &DatEntry, after: &DatEntry) {
        self.step(before, Step::Down);
        self.step(after, Step::Up);
    }

    /// A block or node of the DAT is there.
    pub fn add_dat(&mut self, at: u64) {
        if let Some(seg) = self.segment(at) {
            seg.dat += 1;
        }
    }

    /// A block or node of the DAT has another place; 0 and places that no drive has: it had none.
    pub fn move_dat(&mut self, before: u64, after: u64) {
        if let Some(seg) = self.segment(before) {
            Step::Down.apply(&mut seg.dat);
        }
        self.add_dat(after);
    }

    /// Blocks of each segment that would have to move.
    pub fn live(&self, first_protected: u64) -> impl Iterator<Item = u64> + '_ {
        self.segs.iter().map(move |s| s.used + s.dat + s.kept(first_protected))
    }

    /// Blocks that have ended, and that a checkpoint from this one on needs, or a snapshot.
    pub fn kept(&self, first_protected: u64) -> u64 {
        self.segs.iter().map(|s| s.kept(first_protected)).sum()
    }

    /// The first segment whose counts differ from others, and both.
    pub fn difference(&self, other: &Counts) -> Option<String> {
        let pairs = self.segs.iter().zip(&other.segs).enumerate();
        let mut differ = pairs.filter(|(_, (a, b))| a != b);
        differ.next().map(|(seg, (a, b))| format!("segment {seg} has {b:?}, counted are {a:?}"))
    }
}
