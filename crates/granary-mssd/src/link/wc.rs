//! [`WriteCombining`]: the lines that the host's cores hold between a store and its clwb.
//!
//! ```text
//!   oldest first, `wc_buffers` a core:
//!   store ──> | line 40, core 0: bytes 0..8, 16..64 | line 41, core 3: all 64 | ...
//!                   | flush_lines(range), or pushed out by another line
//!                   v
//!             run of neighbouring lines of one page and one transaction = one posted write
//! ```
//!
//! Invariants: a line is held once, by the core that stored to it last, for one transaction; power loss takes
//! every held line or leaves it, each on its own. Caches are coherent: a write-back or a load by any core
//! finds the line. It does *not* know time.
//!
//! Source: ByteFS section 4.2 (write combining, clwb).

use granary_device::Structure;
use granary_units::{ByteAddr, LINE_SIZE, LINES_PER_PAGE, TxId};

/// A line with the bytes that were stored to it.
#[derive(Clone, Debug)]
pub struct HeldLine {
    /// Number of the line in the byte window.
    pub line: u64,
    /// The bytes; only those in `mask` mean something.
    pub data: [u8; LINE_SIZE],
    /// One bit for each stored byte.
    pub mask: u64,
    /// The transaction.
    pub tx: TxId,
    /// The core that holds it.
    pub core: u16,
    /// The structure that is being written.
    pub what: Structure,
}

impl HeldLine {
    /// Whether every byte was stored.
    pub fn is_whole(&self) -> bool {
        self.mask == u64::MAX
    }

    /// Puts the bytes that were stored over those of the line.
    pub fn overlay(&self, line: &mut [u8]) {
        let (mut at, mut mask) = (0, self.mask);
        while mask != 0 {
            let skip = mask.trailing_zeros();
            mask >>= skip;
            at += skip as usize;
            let n = mask.trailing_ones();
            line[at..at + n as usize].copy_from_slice(&self.data[at..at + n as usize]);
            mask = mask.checked_shr(n).unwrap_or(0);
            at += n as usize;
        }
    }

    /// Whether `next` can travel in one posted write behind this line.
    pub fn joins(&self, next: &HeldLine) -> bool {
        self.line + 1 == next.line && self.tx == next.tx && !next.line.is_multiple_of(LINES_PER_PAGE as u64)
    }
}

/// The write-combining buffers.
#[derive(Clone, Default)]
pub struct WriteCombining {
    /// Oldest first.
    held: Vec<HeldLine>,
}

/// The part of `at..at + len` in each line: (line, first byte in it, offset in the data, length).
pub fn split(at: ByteAddr, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < len).then(|| {
            let here = at.offset(done as u64);
            let byte = (here.0 % LINE_SIZE as u64) as usize;
            let n = (LINE_SIZE - byte).min(len - done);
            done += n;
            (here.line(), byte, done - n, n)
        })
    })
}

fn byte_mask(first: usize, len: usize) -> u64 {
    (u64::MAX >> (64 - len)) << first
}

impl WriteCombining {
    /// Stores the part of one line; returns the lines that must be posted first: this line's bytes of another
    /// transaction, or the oldest line of the core's buffers where `limit` of them are full.
    #[allow(clippy::too_many_arguments, reason = "a store as the drive gets it, in pieces of a line")]
    pub fn store(
        &mut self,
        core: u16,
        limit: usize,
        line: u64,
        byte: usize,
        data: &[u8],
        tx: TxId,
        what: Structure,
    ) -> Option<HeldLine> {
        let bits = byte_mask(byte, data.len());
        let mut pushed = None;
        if let Some(i) = self.held.iter().position(|h| h.line == line) {
            let held = &mut self.held[i];
            if held.tx == tx {
                held.data[byte..byte + data.len()].copy_from_slice(data);
                held.mask |= bits;
                (held.what, held.core) = (what, core);
                return None;
            }
            pushed = Some(self.held.remove(i));
        } else if self.held.len() >= limit {
            let mut own = self.held.iter().enumerate().filter(|(_, h)| h.core == core).map(|(i, _)| i);
            let oldest = own.next();
            // The first and `limit - 1` more.
            if let Some(oldest) = oldest.filter(|_| own.count() + 1 >= limit) {
                pushed = Some(self.held.remove(oldest));
            }
        }
        let mut held = HeldLine { line, data: [0; LINE_SIZE], mask: bits, tx, core, what };
        held.data[byte..byte + data.len()].copy_from_slice(data);
        self.held.push(held);
        pushed
    }

    /// Takes the held lines with `first <= line < end` out, in ascending order.
    pub fn take(&mut self, first: u64, end: u64, into: &mut Vec<HeldLine>) {
        if self.held.is_empty() {
            return;
        }
        let start = into.len();
        self.held.retain(|h| {
            let inside = (first..end).contains(&h.line);
            if inside {
                into.push(h.clone());
            }
            !inside
        });
        into[start..].sort_unstable_by_key(|h| h.line);
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(wc: &mut WriteCombining, line: u64, byte: usize, data: &[u8], tx: u32) -> Option<HeldLine> {
        wc.store(0, 2, line, byte, data, TxId(tx), Structure::Data)
    }

    #[test]
    fn stores_to_one_line_are_combined() {
        let mut wc = WriteCombining::default();
        assert!(store(&mut wc, 5, 0, &[1; 32], 0).is_none());
        assert!(store(&mut wc, 5, 32, &[2; 32], 0).is_none());
        let mut out = Vec::new();
        wc.take(5, 6, &mut out);
        assert!(out[0].is_whole() && out[0].data[31] == 1 && out[0].data[32] == 2);
        assert!(wc.is_empty());
    }

    #[test]
    fn full_buffers_push_the_oldest_line_out() {
        let mut wc = WriteCombining::default();
        assert!(store(&mut wc, 5, 0, &[1], 0).is_none());
        assert!(store(&mut wc, 9, 0, &[1], 0).is_none());
        assert_eq!(store(&mut wc, 7, 0, &[1], 0).map(|h| h.line), Some(5));
    }

    #[test]
    fn each_core_has_buffers_of_its_own_and_a_line_goes_to_who_stores_to_it() {
        let mut wc = WriteCombining::default();
        let mut store =
            |core, line| wc.store(core, 2, line, 0, &[1], TxId::NONE, Structure::Data).map(|h| h.line);
        assert_eq!(
            [store(0, 1), store(1, 2), store(0, 3), store(1, 4)],
            [None; 4],
            "two cores, two buffers each"
        );
        assert_eq!(store(1, 5), Some(2), "the second core's oldest");
        assert_eq!(store(1, 1), None, "the first core's line moves over, though the second core is full");
        assert_eq!(store(0, 6), None, "the first core has room again");
        let mut out = Vec::new();
        wc.take(0, 7, &mut out);
        let held: Vec<_> = out.iter().map(|h| (h.line, h.core)).collect();
        assert_eq!(held, [(1, 1), (3, 0), (4, 1), (5, 1), (6, 0)]);
    }

    #[test]
    fn transactions_do_not_mix_within_a_line() {
        let mut wc = WriteCombining::default();
        assert!(store(&mut wc, 5, 0, &[1], 1).is_none());
        let pushed = store(&mut wc, 5, 1, &[2], 2).expect("the other transaction's line is posted");
        assert_eq!((pushed.tx, pushed.mask), (TxId(1), 1));
    }

    #[test]
    fn an_unaligned_range_is_split_at_lines() {
        let parts: Vec<_> = split(ByteAddr(60), 72).collect();
        assert_eq!(parts, [(0, 60, 0, 4), (1, 0, 4, 64), (2, 0, 68, 4)]);
    }
}
