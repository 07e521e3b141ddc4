//! [`Order`]: which place of its part a client accesses next, and how many bytes.
//!
//! ```text
//!   one block size     block 0 1 2 ...          or each once in random order (a permutation), or drawn anew
//!   several            byte 0, then behind the last one; or each unit of the smallest block once: an access
//!                      begins at a unit
//!                      drawn from all, or the next one that is free, and ends before one that was visited;
//!                      or drawn anew
//! ```
//!
//! A pass over all places is followed by another, in an order of its own: as in fio, whose map of visited
//! blocks is emptied while its generator goes on. Were each pass in the order of the last, gc would find
//! whole blocks stale and an LRU cache nothing.
//!
//! Source: fio's `get_next_rand_offset` and `mark_random_map` (io_u.c), `axmap_next_free` (lib/axmap.c).

use super::free::FreeMap;
use super::job::{Access, Job, Part, stride};
use super::shuffle::Shuffle;
use granary_sim::rng::Stream;

/// Where a client's accesses go.
pub(super) enum Order {
    /// All have one size.
    Blocks {
        /// Their number, and the distance from one to the next.
        blocks: u64,
        stride: u64,
        /// The next one in order; `blocks` where the pass is over.
        nth: u64,
        /// The order of this pass, where each is visited once in random order.
        map: Option<Shuffle>,
    },
    /// They have several.
    Varied {
        /// The smallest, of which offsets are multiples.
        unit: u64,
        /// Bytes of the client's part.
        size: u64,
        /// In order: where the next one begins.
        at: u64,
        map: Option<Visited>,
    },
}

/// The units that a pass has visited.
pub(super) struct Visited {
    units: u64,
    left: u64,
    map: FreeMap,
}

impl Visited {
    fn new(units: u64) -> Visited {
        Visited { units, left: units, map: FreeMap::new(units) }
    }

    /// Visits a unit and up to `most - 1` behind it that were not visited; the first, and how many. The first
    /// is drawn from all units: where it was visited, the next one that was not takes its place. So accesses
    /// begin at the front of gaps more often than anywhere else, and are longer than if free units were drawn
    /// alike.
    fn next(&mut self, most: u64, random: &mut Stream) -> (u64, u64) {
        if self.left == 0 {
            *self = Visited::new(self.units);
        }
        let first = self.map.next_free(random.below(self.units)).unwrap_or(0);
        let mut n = 0;
        while n < most && first + n < self.units && !self.map.is_visited(first + n) {
            self.map.visit(first + n);
            n += 1;
        }
        self.left -= n;
        (first, n)
    }
}

impl Order {
    /// Of a client of `job`.
    pub(super) fn new(job: &Job, part: Part, random: &mut Stream) -> Order {
        let mapped = job.pattern.random && job.random_map && job.align.is_none();
        if job.least() == job.most() && job.align.is_none() {
            let stride = stride(job);
            let blocks = (part.size / stride).max(1);
            let map = mapped.then(|| Shuffle::new(blocks, random));
            return Order::Blocks { blocks, stride, nth: 0, map };
        }
        let unit = job.least();
        // Units matter to the map alone.
        let size = if mapped { part.size / unit * unit } else { part.size };
        Order::Varied { unit, size, at: 0, map: mapped.then(|| Visited::new(size / unit)) }
    }

    /// Accesses of one pass, where all have one size.
    pub(super) fn blocks(&self) -> Option<u64> {
        match self {
            Order::Blocks { blocks, .. } => Some(*blocks),
            Order::Varied { .. } => None,
        }
    }

    /// Where in the client's part the next access begins, and its bytes.
    #[inline]
    pub(super) fn next(&mut self, job: &Job, access: Access, random: &mut Stream) -> (u64, u64) {
        match self {
            Order::Blocks { blocks, stride, nth, map } => {
                if *nth == *blocks {
                    *nth = 0;
                    if let Some(map) = map {
                        *map = Shuffle::new(*blocks, random);
                    }
                }
                let n = *nth;
                *nth += 1;
                let block = match map {
                    Some(map) => map.at(n),
                    None if job.pattern.random => random.below(*blocks),
                    None => n,
                };
                (block * *stride, 0)
            }
            Order::Varied { unit, size, at, map } => {
                let sizes = job.blocks_of(access);
                let len = sizes.draw(|n| random.below(n));
                match map {
                    Some(map) => {
                        let (first, n) = map.next(len.div_ceil(*unit), random);
                        (first * *unit, len.min(n * *unit))
                    }
                    None if job.pattern.random => {
                        let step = job.align.unwrap_or(sizes.least());
                        let first = random.below((*size / step).max(1)) * step;
                        (first, len.min(*size - first))
                    }
                    None => {
                        let first = if *at >= *size { 0 } else { *at };
                        let len = len.min(*size - first);
                        *at = first + len;
                        (first, len)
                    }
                }
            }
        }
    }
}
