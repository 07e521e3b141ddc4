//! [`Shuffle`]: every number below `n` once, in random order, without a table of them.
//!
//! A Feistel network permutes the next power of two, halves of unequal length included; numbers at or above
//! `n` are walked on (cycle walking), on average fewer than two steps. Unlike a linear congruence it leaves
//! no pattern in the low bits, by which a drive's channels would be visited in turn.

use granary_sim::rng::Stream;

const ROUNDS: usize = 4;

/// A random permutation of `0..n`.
#[derive(Clone, Debug)]
pub struct Shuffle {
    n: u64,
    low_bits: u32,
    high_bits: u32,
    keys: [u64; ROUNDS],
}

impl Shuffle {
    /// A permutation of `0..n`, `n` at least 1 and below 2^62.
    pub fn new(n: u64, random: &mut Stream) -> Shuffle {
        let bits = (64 - (n - 1).leading_zeros()).max(2);
        let keys = std::array::from_fn(|_| random.next_u64());
        Shuffle { n, low_bits: bits / 2, high_bits: bits - bits / 2, keys }
    }

    /// Where `i` (below `n`) goes.
    pub fn at(&self, i: u64) -> u64 {
        let mut x = i;
        loop {
            x = self.round_trip(x);
            if x < self.n {
                return x;
            }
        }
    }

    #[inline]
    fn round_trip(&self, x: u64) -> u64 {
        let mask = |bits: u32| (1u64 << bits) - 1;
        let (mut low, mut high) = (x & mask(self.low_bits), x >> self.low_bits);
        // Each half is changed by the other in turn, so both keep their length.
        for keys in self.keys.chunks_exact(2) {
            high = (high ^ mix(low, keys[0])) & mask(self.high_bits);
            low = (low ^ mix(high, keys[1])) & mask(self.low_bits);
        }
        high << self.low_bits | low
    }
}

/// The finaliser of splitmix64 as the round function.
#[inline]
fn mix(x: u64, key: u64) -> u64 {
    let mut f = x.wrapping_add(key).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    f = (f ^ (f >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
    f ^ (f >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once() {
        for n in [1, 2, 3, 16, 17, 1000] {
            let s = Shuffle::new(n, &mut Stream::new(n, "shuffle"));
            let mut seen: Vec<u64> = (0..n).map(|i| s.at(i)).collect();
            assert!(n < 100 || seen.windows(2).filter(|w| w[1] == w[0] + 1).count() < 20, "it is an order");
            seen.sort_unstable();
            assert_eq!(seen, (0..n).collect::<Vec<_>>());
        }
    }
}
