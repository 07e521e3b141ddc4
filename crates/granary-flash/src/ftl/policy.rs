//! [`Policies`]: an FTL's decisions by policies that a configuration names, or a drive brings; [`Victims`]:
//! the choice of the closed block that gc empties next.
//!
//! ```text
//!   gc of a plane needs a block ── Blocks: the plane's closed blocks, their live pages, their ages
//!                               ──> Victims::choose
//! ```

pub(crate) mod placement;
pub(crate) mod wear;

use super::victims::ValidCounts;
use crate::config::{FtlConfig, GcPolicy};
use placement::{LogApart, Placement, UpdatesApart};
use std::fmt::Debug;
use std::sync::Arc;
use wear::{Gap, Leveling, Off};

/// The policies of an FTL.
#[derive(Clone, Debug)]
pub struct Policies {
    /// Which block gc empties next.
    pub victims: Arc<dyn Victims>,
    /// Which new data has blocks of its own; counts only where the configuration has a second stream
    /// ([`FtlConfig::has_second_stream`]), as that takes a block of each plane.
    pub placement: Arc<dyn Placement>,
    /// When data that lies still moves.
    pub leveling: Arc<dyn Leveling>,
}

impl Policies {
    /// Those that a configuration names.
    pub fn of(config: &FtlConfig) -> Policies {
        Policies {
            victims: match config.gc_policy {
                GcPolicy::Greedy => Arc::new(Greedy),
                GcPolicy::CostBenefit => Arc::new(CostBenefit),
            },
            placement: if config.update_stream { Arc::new(UpdatesApart) } else { Arc::new(LogApart) },
            leveling: if config.wear_gap > 0 { Arc::new(Gap(config.wear_gap)) } else { Arc::new(Off) },
        }
    }
}

/// The blocks of a plane, as a policy sees them.
pub struct Blocks<'a> {
    pub(super) valid: &'a ValidCounts,
    pub(super) from: u32,
    pub(super) end: u32,
    pub(super) pages_per_block: u32,
    pub(super) now: u64,
    /// Of each block of the plane; empty where no policy asked for it.
    pub(super) youngest: &'a [u64],
}

/// A block that can be emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number in the array.
    pub block: u32,
    /// Pages that have to be copied.
    pub live: u32,
    /// Programs of the drive since the youngest of its data was written, at least 1; 1 where the policy needs
    /// no ages.
    pub age: u64,
}

impl Blocks<'_> {
    /// Pages of each block.
    pub fn pages_per_block(&self) -> u32 {
        self.pages_per_block
    }

    /// The candidate with the fewest live pages, of equals the first. It takes a look at one block in 64.
    pub fn fewest_live(&self) -> Option<u32> {
        self.valid.best(self.from, self.end).map(|(block, _)| block)
    }

    /// All candidates, in the order of their numbers.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> + '_ {
        let all = (self.from..self.end).filter(|&block| self.valid.is_candidate(block));
        all.map(|block| {
            let youngest = self.youngest.get((block - self.from) as usize);
            let age = youngest.map_or(1, |youngest| self.now - youngest + 1);
            Candidate { block, live: self.valid.get(block), age }
        })
    }
}

/// A policy of garbage collection.
pub trait Victims: Debug + Send + Sync {
    /// The block that is emptied next: one of the candidates with fewer live pages than it has pages.
    /// Anything else counts as none.
    fn choose(&self, blocks: &Blocks<'_>) -> Option<u32>;

    /// Whether it asks for the ages of blocks. Keeping them takes 8 B a block, and a store for each program.
    fn needs_ages(&self) -> bool {
        false
    }
}

/// The block with the fewest live pages.
#[derive(Clone, Copy, Debug)]
pub struct Greedy;

impl Victims for Greedy {
    #[inline]
    fn choose(&self, blocks: &Blocks<'_>) -> Option<u32> {
        blocks.fewest_live()
    }
}

/// The block with the largest benefit for its cost, age x (1 - u) / 2u, where u is its live part: cold blocks
/// are emptied although more of them is live. Rosenblum and Ousterhout, "The design and implementation of a
/// log-structured file system", SOSP 1991, section 3.5, with the cost of flash (read u, write u, erase) from
/// Kawaguchi, Nishioka and Motoda, "A flash-memory based file system", USENIX 1995, section 3.
#[derive(Clone, Copy, Debug)]
pub struct CostBenefit;

impl Victims for CostBenefit {
    fn choose(&self, blocks: &Blocks<'_>) -> Option<u32> {
        let n = blocks.pages_per_block();
        // Benefit and cost of the best so far; kept apart, so that the comparison is exact.
        let mut best: Option<(u32, u128, u128)> = None;
        for Candidate { block, live, age } in blocks.candidates() {
            if live == 0 {
                return Some(block);
            }
            let (benefit, cost) = (u128::from(age) * u128::from(n - live), u128::from(live));
            if live < n && best.is_none_or(|(_, b, c)| benefit * c > b * cost) {
                best = Some((block, benefit, cost));
            }
        }
        best.map(|(block, ..)| block)
    }

    fn needs_ages(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_weighed_against_live_pages() {
        let mut valid = ValidCounts::new(4);
        for (block, live) in [(0, 8), (1, 4), (2, 6), (3, 4)] {
            valid.add(block, live);
            valid.offer(block);
        }
        // (n - live) / live of 8 pages: 0, 1, 1/3, 1.
        let best = |ages: [u64; 4]| {
            let youngest = ages.map(|age| 1001 - age);
            let (from, end, pages_per_block, now) = (0, 4, 8, 1000);
            CostBenefit.choose(&Blocks {
                valid: &valid,
                from,
                end,
                pages_per_block,
                now,
                youngest: &youngest,
            })
        };
        assert_eq!(best([1000, 10, 10, 10]), Some(1), "nothing to gain in block 0, 1 before 3");
        assert_eq!(best([1000, 10, 10, 11]), Some(3));
        assert_eq!(best([1000, 10, 30, 10]), Some(1), "equal: the first");
        assert_eq!(best([1000, 10, 31, 10]), Some(2), "old enough");
    }
}
