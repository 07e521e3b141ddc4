//! [`Discards`]: blocks that died, and that the drive has not been told about.
//!
//! ```text
//!   checkpoint: valid in the last one, not in this -> a bit        used again, or segment free: the bit goes
//!   take: the next run of bits that is long enough, segment after segment
//! ```
//!
//! Invariant: a block with a bit is in no map of its segment, so a TRIM of it harms neither what is valid now
//! nor what a power loss would go back or forward to. Runs end at segments' borders (the kernel's may go on
//! in the next). Nothing of this is on media: a mount begins without.
//!
//! Source: the kernel's `add_discard_addrs` and `__issue_discard_cmd_orderly` (fs/f2fs/segment.c).

use std::collections::BTreeMap;

/// See the module.
#[derive(Default)]
pub(super) struct Discards {
    bits: BTreeMap<u32, [u64; 8]>,
    /// Segment to go on with.
    next: u32,
}

/// The first run of at least `least` bits among the first `blocks`: (first, count).
fn run(bits: &[u64; 8], least: u32, blocks: u32) -> Option<(u32, u32)> {
    let is_set = |n: u32| bits[n as usize / 64] >> (n % 64) & 1 == 1;
    let mut at = 0;
    while at < blocks {
        let count = (at..blocks).take_while(|n| is_set(*n)).count() as u32;
        if count > 0 && count >= least {
            return Some((at, count));
        }
        at += count + 1;
    }
    None
}

impl Discards {
    /// Blocks of a segment died with a checkpoint.
    pub fn died(&mut self, segno: u32, died: &[u64; 8]) {
        if *died != [0; 8] {
            let bits = self.bits.entry(segno).or_default();
            bits.iter_mut().zip(died).for_each(|(to, from)| *to |= from);
        }
    }

    /// A block is used again.
    pub fn used(&mut self, segno: u32, n: u32) {
        if let Some(bits) = self.bits.get_mut(&segno) {
            bits[n as usize / 64] &= !(1 << (n % 64));
        }
    }

    /// A segment is free as a whole.
    pub fn forget(&mut self, segno: u32) {
        self.bits.remove(&segno);
    }

    /// All that wait.
    pub fn waiting(&self) -> impl Iterator<Item = (u32, &[u64; 8])> {
        self.bits.iter().map(|(segno, bits)| (*segno, bits))
    }

    /// The next run: (segment, first block, count).
    pub fn take(&mut self, least: u32, blocks: u32) -> Option<(u32, u32, u32)> {
        let around = self.bits.range(self.next..).chain(self.bits.range(..self.next));
        let found = around.map(|(segno, bits)| (*segno, run(bits, least, blocks)));
        let (segno, (first, count)) = found.into_iter().find_map(|(s, r)| Some((s, r?)))?;
        self.next = segno;
        (first..first + count).for_each(|n| self.used(segno, n));
        if self.bits.get(&segno) == Some(&[0; 8]) {
            self.bits.remove(&segno);
        }
        Some((segno, first, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_come_once_and_without_what_is_used_again() {
        let mut d = Discards::default();
        let mut bits = [0; 8];
        bits[0] = 0xf0f;
        bits[1] = 1;
        d.died(7, &bits);
        bits[0] = 1 << 63;
        d.died(3, &bits);
        d.died(9, &[u64::MAX; 8]);
        d.used(7, 9);
        d.forget(9);
        assert_eq!(d.take(3, 512), Some((7, 0, 4)));
        let rest: Vec<_> = std::iter::from_fn(|| d.take(1, 512)).collect();
        assert_eq!(rest, [(7, 8, 1), (7, 10, 2), (7, 64, 1), (3, 63, 2)]);
        assert!(d.bits.is_empty());
    }
}
