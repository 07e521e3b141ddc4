//! Slots of the three tables. A slot whose first word is 0 is free.
//!
//! ```text
//!   name     16 B | inode number 4, lower generation 4 | lower inode number 8 |
//!   cluster  16 B | cluster 4, 1 in bit 16, map of its blocks 2 | cluster once more 8 |
//!   extent   32 B | cluster 4, length 4 | first file cluster 4, that of the extent before it + 1, 4
//!                 | inode number 8 | key 4, check 4 |
//! ```
//!
//! A power failure may keep any words of a slot that was being entered. A name then leads to no inode that
//! agrees with it; an extent's check (CRC-32C of inode number, first cluster and key) fails, or nothing
//! chains it. Removing an extent zeroes all words.

use super::inode::Identity;
use granary_pm::bytes::{put_u64, u32_at, u64_at};

/// Bytes of a name's slot and of a cluster's.
pub const SMALL: usize = 16;
/// Bytes of an extent's slot.
pub const EXTENT: usize = 32;

/// A multiplier with well mixed bits: 2^64 over the golden ratio, odd (Knuth).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes all bits into all bits (the finalizer of MurmurHash3).
pub fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// Where a slot belongs: the segment's hash, and the place in the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPlace {
    /// Its top bits choose the segment.
    pub hash: u32,
    /// Bucket, before it is reduced to the segment's number.
    pub bucket: u64,
}

/// The place of a hash that chooses both.
fn place(x: u64) -> SlotPlace {
    let mixed = mix(x);
    SlotPlace { hash: (mixed >> 32) as u32, bucket: mixed & 0xffff_ffff }
}

/// The place of a name.
pub fn name_place(of: Identity) -> SlotPlace {
    place(of.ino.wrapping_mul(GOLDEN).wrapping_add(u64::from(of.generation)))
}

/// The place of a cluster's usage.
pub fn cluster_place(cluster: u32) -> SlotPlace {
    place(u64::from(cluster).wrapping_mul(GOLDEN))
}

/// The place of a key of a file: all keys of one chunk are in one segment, side by side.
pub fn extent_place(inode: u64, chunk: u32, key: u32) -> SlotPlace {
    let mixed = mix(inode.wrapping_mul(GOLDEN).wrapping_add(u64::from(chunk)));
    SlotPlace { hash: (mixed >> 32) as u32, bucket: (mixed & 0xffff) + u64::from(key) }
}

/// A name.
pub fn name(of: Identity, inode: u64) -> [u8; SMALL] {
    let mut b = [0; SMALL];
    put_u64(&mut b, 0, inode << 32 | u64::from(of.generation));
    put_u64(&mut b, 8, of.ino);
    b
}

/// Identity and inode number of a name's slot.
pub fn read_name(b: &[u8]) -> (Identity, u64) {
    let head = u64_at(b, 0);
    (Identity { ino: u64_at(b, 8), generation: head as u32 }, head >> 32)
}

/// The usage of a cluster.
pub fn usage(cluster: u32, map: u16) -> [u8; SMALL] {
    let mut b = [0; SMALL];
    put_u64(&mut b, 0, u64::from(cluster) << 32 | 1 << 16 | u64::from(map));
    put_u64(&mut b, 8, u64::from(cluster));
    b
}

/// Cluster and map of a usage slot.
pub fn read_usage(b: &[u8]) -> (u32, u16) {
    let head = u64_at(b, 0);
    ((head >> 32) as u32, head as u16)
}

/// An extent's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First cluster of the data; 0: zeros.
    pub pcn: u32,
    /// Clusters.
    pub len: u32,
    /// First cluster in the file.
    pub lcn: u32,
    /// That of the extent before it in the file.
    pub prev: Option<u32>,
    /// The inode.
    pub inode: u64,
    /// The key of this slot within the chunk.
    pub key: u32,
}

impl Extent {
    /// The first word.
    pub fn head(&self) -> u64 {
        u64::from(self.pcn) << 32 | u64::from(self.len)
    }

    /// The word with the chain.
    pub fn link(&self) -> u64 {
        u64::from(self.lcn) << 32 | self.prev.map_or(0, |p| u64::from(p) + 1)
    }

    /// The bytes.
    pub fn bytes(&self) -> [u8; EXTENT] {
        let mut b = [0; EXTENT];
        put_u64(&mut b, 0, self.head());
        put_u64(&mut b, 8, self.link());
        put_u64(&mut b, 16, self.inode);
        put_u64(&mut b, 24, u64::from(self.key) << 32 | u64::from(self.check()));
        b
    }

    fn check(&self) -> u32 {
        let mut b = [0; 16];
        put_u64(&mut b, 0, self.inode);
        put_u64(&mut b, 8, u64::from(self.lcn) << 32 | u64::from(self.key));
        crc32c::crc32c(&b) | 1
    }

    /// Reads a slot; `None` where it is free, or was never wholly entered.
    pub fn read(b: &[u8]) -> Option<Extent> {
        let prev = u32_at(b, 8).checked_sub(1);
        let e = Extent {
            pcn: u32_at(b, 4),
            len: u32_at(b, 0),
            lcn: u32_at(b, 12),
            prev,
            inode: u64_at(b, 16),
            key: u32_at(b, 28),
        };
        (e.len > 0 && u32_at(b, 24) == e.check()).then_some(e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot with some words of another one, or of zeros, is not taken for an extent with other keys.
    #[test]
    fn torn_slots_are_told_from_whole_ones() {
        let new = Extent { pcn: 7, len: 3, lcn: 12, prev: Some(4), inode: 99, key: 12 };
        let old = Extent { pcn: 8, len: 1, lcn: 40, prev: None, inode: 55, key: 40 };
        assert_eq!(Extent::read(&new.bytes()), Some(new));
        for base in [[0; EXTENT], old.bytes()] {
            for kept in 0..16u32 {
                let mut b = base;
                for w in (0..4).filter(|w| kept >> w & 1 == 1) {
                    b[8 * w..8 * w + 8].copy_from_slice(&new.bytes()[8 * w..8 * w + 8]);
                }
                let Some(e) = Extent::read(&b) else { continue };
                let whose = (e.inode, e.lcn, e.key);
                assert!(whose == (99, 12, 12) || whose == (55, 40, 40), "{e:?}");
            }
        }
    }

    /// Chunks of files in a row are spread evenly over the segments, and no inode's collide as a whole.
    #[test]
    fn chunks_are_spread_evenly() {
        let mut count = [0u32; 64];
        for inode in (32..32 + 2 * 400).step_by(2) {
            for chunk in 0..40 {
                count[(extent_place(inode, chunk, 0).hash >> 26) as usize] += 1;
            }
        }
        // 16,000 over 64: 250 on average, 16 is one standard deviation.
        assert!(count.iter().all(|n| (170..330).contains(n)), "{count:?}");
    }
}
