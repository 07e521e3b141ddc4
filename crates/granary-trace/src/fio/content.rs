//! Content of files that are verified: each byte is a function of its file and its place. So the bytes read
//! tell whether they belong there, whoever wrote them last.

use granary_sim::rng::Stream;

/// Seed of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content(u64);

impl Content {
    /// Of the file at this path.
    pub fn of(path: &str) -> Content {
        Content(Stream::new(0, path).next_u64())
    }

    fn word(self, n: u64) -> [u8; 8] {
        // The finaliser of splitmix64.
        let mut x = self.0 ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)).to_le_bytes()
    }

    /// Fills `out` with what belongs at `pos`.
    pub fn fill(self, pos: u64, out: &mut [u8]) {
        let (mut at, mut rest) = (pos, out);
        while !rest.is_empty() {
            let from = (at % 8) as usize;
            let n = rest.len().min(8 - from);
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(&self.word(at / 8)[from..from + n]);
            (at, rest) = (at + n as u64, later);
        }
    }

    /// Where in `found`, which was read at `pos`, the first byte is that does not belong there.
    pub fn wrong(self, pos: u64, found: &[u8]) -> Option<u64> {
        let mut right = vec![0; found.len()];
        self.fill(pos, &mut right);
        found.iter().zip(&right).position(|(a, b)| a != b).map(|n| pos + n as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_and_a_wrong_byte_is_found() {
        let content = Content::of("/a");
        let mut whole = [0; 100];
        content.fill(3, &mut whole);
        let mut pieces = [0; 100];
        for (from, to) in [(0, 1), (1, 14), (14, 90), (90, 100)] {
            content.fill(3 + from as u64, &mut pieces[from..to]);
        }
        assert_eq!(whole, pieces);
        assert_eq!(content.wrong(3, &whole), None);
        whole[40] ^= 1;
        assert_eq!(content.wrong(3, &whole), Some(43));
        assert!(Content::of("/b").wrong(3, &pieces).is_some());
    }
}
