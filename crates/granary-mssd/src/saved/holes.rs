//! [`Holes`]: space of the file `flash` that nobody needs any more goes back to the host.
//!
//! ```text
//!   live[b]   5 ... 1  0 ──last current page gone──> waiting: | b, group | ... |
//!                                                               more than `keep` of them: the oldest
//!                                                               are punched, a batch at a time,
//!                                                               unless programmed meanwhile
//! ```
//!
//! A block of which no page is current holds nothing that is ever read again, erased or not: trims,
//! overwrites and gc empty blocks. In the steady state gc empties a block, erases it and programs it anew
//! shortly afterwards; punching it in between would only fragment the file. So emptied blocks wait behind as
//! many others as the drive keeps free, and only where many are emptied (deleted files) are there ever that
//! many. A clean close punches the rest.
//!
//! Invariant: a block is punched only when its emptiness is safe ([`super::Durability`]): before, a crash
//! would bring back pages whose content is gone. Whether the hole itself survives a crash does not matter.
//!
//! It does *not* shrink `dram` nor the redo log.

use std::collections::VecDeque;

/// Emptied blocks of each plane that wait: more than gc keeps free.
const WAIT: usize = 4;

/// See the module.
pub struct Holes {
    /// Current pages of each block.
    live: Vec<u16>,
    /// How often each block was emptied.
    emptied: Vec<u32>,
    waiting: VecDeque<Emptied>,
    keep: usize,
    batch: usize,
}

/// A block of which the last current page has gone.
struct Emptied {
    block: u32,
    /// Which time it was: only the last one counts, because only that one's safety matters.
    nth: u32,
    /// The group under which that becomes safe; the largest number while it is not published.
    safe: u64,
}

/// Blocks that wait, and that are punched together.
fn waits(planes: u32) -> (usize, usize) {
    (planes as usize * WAIT, planes.max(4) as usize)
}

impl Holes {
    /// For this many blocks in this many planes, none of which holds anything.
    pub fn new(blocks: u32, planes: u32) -> Holes {
        let (keep, batch) = waits(planes);
        let n = blocks as usize;
        Holes { live: vec![0; n], emptied: vec![0; n], waiting: VecDeque::new(), keep, batch }
    }

    /// For a drive that has become larger: the new blocks hold nothing.
    pub fn grow(&mut self, blocks: u32, planes: u32) {
        self.live.resize(blocks as usize, 0);
        self.emptied.resize(blocks as usize, 0);
        (self.keep, self.batch) = waits(planes);
    }

    /// A block that has been programmed has this many current pages when the image is opened.
    pub fn loaded(&mut self, block: u32, live: usize) {
        self.live[block as usize] = live as u16;
        if live == 0 {
            self.push(block, 0);
        }
    }

    fn push(&mut self, block: u32, safe: u64) {
        let nth = &mut self.emptied[block as usize];
        *nth = nth.wrapping_add(1);
        self.waiting.push_back(Emptied { block, nth: *nth, safe });
    }

    /// A page of the block is current from now on.
    #[inline]
    pub fn add(&mut self, block: u32) {
        self.live[block as usize] += 1;
    }

    /// A page of the block is current no more.
    #[inline]
    pub fn remove(&mut self, block: u32) {
        let live = &mut self.live[block as usize];
        *live -= 1;
        if *live == 0 {
            self.push(block, u64::MAX);
        }
    }

    /// Blocks that were emptied since the last call become safe with this group.
    #[inline]
    pub fn published(&mut self, group: u64) {
        for e in self.waiting.iter_mut().rev().take_while(|e| e.safe == u64::MAX) {
            e.safe = group;
        }
    }

    /// Whether a batch may be punched.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.waiting.len() >= self.keep + self.batch
    }

    /// Takes out the runs of neighbouring blocks (first, number) that are to be punched now, where everything
    /// up to the group `safe` is safe: those that have waited longest, or with `all` whatever waits.
    pub fn take(&mut self, safe: u64, all: bool) -> Vec<(u32, u32)> {
        let mut blocks = Vec::new();
        while (all || self.waiting.len() > self.keep)
            && let Some(e) = self.waiting.front()
            && e.safe <= safe
        {
            let block = e.block as usize;
            if self.live[block] == 0 && self.emptied[block] == e.nth {
                blocks.push(e.block);
            }
            self.waiting.pop_front();
        }
        blocks.sort_unstable();
        blocks.chunk_by(|a, b| a + 1 == *b).map(|run| (run[0], run.len() as u32)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_stay_empty_are_punched_when_that_is_safe() {
        let mut h = Holes::new(40, 1);
        (0..40).for_each(|b| h.add(b));
        for b in [5, 3, 4, 9, 20, 21, 22] {
            h.remove(b);
        }
        assert!(!h.is_due(), "as many wait as gc keeps free");
        h.published(7);
        (30..34).for_each(|b| h.remove(b));
        h.add(9);
        h.add(4);
        h.remove(4);
        assert!(h.is_due());
        assert_eq!(h.take(6, false), [], "not safe yet");
        assert_eq!(
            h.take(7, false),
            [(3, 1), (5, 1), (20, 3)],
            "9 holds something again; 4 did, and that it does not is new"
        );
        assert_eq!(h.take(7, true), [], "the others are not published");
        h.published(8);
        assert_eq!(h.take(8, true), [(4, 1), (30, 4)]);
    }
}
