//! [`Names`]: a filter of the names that a directory block may have, so that a search skips most blocks.
//!
//! ```text
//!   1,024 bits; the upper ten bits of a name's hash choose one (the lower ones chose the bucket that the
//!   block is of)
//! ```
//!
//! In memory only: the kernel looks through every block of a bucket, and the cost in virtual time is the same
//! with this. Invariant: the bit of each name in the block is set. Bits of names that are gone stay until a
//! search has found nothing in the block, which sets all of them anew. Made by the first such search.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WORDS: usize = 16;

/// See the module. Noted and renewed under the lock of the block's content.
#[derive(Default)]
pub(crate) struct Names(OnceLock<Box<[AtomicU64; WORDS]>>);

fn place(hash: u32) -> (usize, u64) {
    let bit = hash >> 22;
    (bit as usize / 64, 1 << (bit % 64))
}

impl Names {
    /// False: no name in the block has this hash.
    pub fn may_have(&self, hash: u32) -> bool {
        let (word, bit) = place(hash);
        self.0.get().is_none_or(|words| words[word].load(Relaxed) & bit != 0)
    }

    /// A name was entered.
    pub fn note(&self, hash: u32) {
        if let Some(words) = self.0.get() {
            let (word, bit) = place(hash);
            words[word].fetch_or(bit, Relaxed);
        }
    }

    /// These are the hashes of all names in the block.
    pub fn renew(&self, hashes: impl Iterator<Item = u32>) {
        let mut fresh = [0; WORDS];
        for (word, bit) in hashes.map(place) {
            fresh[word] |= bit;
        }
        let words = self.0.get_or_init(Box::default);
        words.iter().zip(fresh).for_each(|(word, bits)| word.store(bits, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is ruled out before the names are known, nor any that was noted since; what is gone is, once
    /// renewed.
    #[test]
    fn only_what_is_not_there_is_ruled_out() {
        let names = Names::default();
        let all: Vec<u32> = (0..200u32).map(|n| crc32c::crc32c(&n.to_le_bytes())).collect();
        assert!(all.iter().all(|h| names.may_have(*h)));
        names.renew(all[..100].iter().copied());
        assert!(all[..100].iter().all(|h| names.may_have(*h)));
        assert!(all[100..].iter().filter(|h| names.may_have(**h)).count() < 30);
        all[100..].iter().for_each(|h| names.note(*h));
        assert!(all.iter().all(|h| names.may_have(*h)));
        names.renew([all[0]].into_iter());
        assert!(names.may_have(all[0]) && all[1..].iter().filter(|h| names.may_have(**h)).count() < 5);
    }
}
