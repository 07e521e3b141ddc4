//! [`Geometry`]: the cutting of the drive into segments.
//!
//! ```text
//!   segment k: blocks k*S .. (k+1)*S, but the first begins behind the superblock,
//!              and none has the last block (second superblock)
//! ```

use crate::layout::BLOCK_SIZE;
use granary_units::Bytes;

/// Blocks of a segment: 8 MiB (Linux 6.1, NILFS_DEF_BLOCKS_PER_SEG of nilfs-utils).
pub const SEGMENT_BLOCKS: u64 = 2048;
/// Fewest blocks of a segment: a log without data takes some 15.
pub const LEAST_SEGMENT_BLOCKS: u64 = 32;
/// Fewest segments: with less the cleaner has no room to move.
const LEAST_SEGMENTS: u64 = 24;
/// Segments that drives which are too small for the default get at least.
const SMALL_SEGMENTS: u64 = 64;
/// Least reserved segments (nilfs-utils, NILFS_MIN_NRSVSEGS is 8).
const LEAST_RESERVED: u64 = 8;
/// Share of reserved segments in percent (nilfs-utils, NILFS_DEF_RESERVED_SEGMENTS).
const RESERVED_PERCENT: u64 = 5;

/// The shape of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks of the drive that are used.
    pub blocks: u64,
    /// Segments.
    pub segments: u64,
    /// Blocks of a segment.
    pub seg_blocks: u64,
    /// Segments that users cannot fill.
    pub reserved: u64,
}

impl Geometry {
    /// The shape of a drive of so many blocks; `None` where it is too small, or segments of that size cannot
    /// be.
    pub fn plan(blocks: u64, seg_blocks: Option<u64>) -> Option<Geometry> {
        let seg_blocks = seg_blocks.unwrap_or_else(|| {
            let mut size = SEGMENT_BLOCKS;
            while size > LEAST_SEGMENT_BLOCKS && blocks / size < SMALL_SEGMENTS {
                size /= 2;
            }
            size
        });
        let segments = blocks.saturating_sub(1) / seg_blocks.max(1);
        let reserved = (segments * RESERVED_PERCENT).div_ceil(100).max(LEAST_RESERVED);
        let geo = Geometry { blocks, segments, seg_blocks, reserved };
        geo.is_sane(blocks).then_some(geo)
    }

    /// Whether it can be the shape of a file system on a drive of so many pages.
    pub(crate) fn is_sane(&self, pages: u64) -> bool {
        self.seg_blocks.is_power_of_two()
            && (LEAST_SEGMENT_BLOCKS..=SEGMENT_BLOCKS * 8).contains(&self.seg_blocks)
            && self.segments >= LEAST_SEGMENTS
            && self.blocks <= pages
            && self.segments == (self.blocks - 1) / self.seg_blocks
            && self.reserved < self.segments / 2
    }

    /// First block of a segment.
    pub fn start(&self, seg: u64) -> u64 {
        (seg * self.seg_blocks).max(1)
    }

    /// Behind the last block of a segment.
    pub fn end(&self, seg: u64) -> u64 {
        (seg + 1) * self.seg_blocks
    }

    /// The segment of a block.
    pub fn segment(&self, block: u64) -> u64 {
        block / self.seg_blocks
    }

    /// Whether a block lies in a segment.
    pub fn holds(&self, block: u64) -> bool {
        block >= 1 && block < self.segments * self.seg_blocks
    }

    /// Blocks that the cleaner keeps for itself: reserved segments, and what a few of its logs take. Such a
    /// log rewrites each block of DAT that it frees or moves something of, and DAT has one for 128 blocks.
    pub fn kept(&self) -> u64 {
        let all = self.segments * self.seg_blocks;
        let logs = (10 * (all / 128 + 40)).min(all / 6);
        (self.reserved * self.seg_blocks).max(logs)
    }

    /// Blocks that can be in use. With less than a tenth of dead blocks between them the cleaner gains too
    /// little.
    pub fn capacity(&self) -> u64 {
        (self.segments * self.seg_blocks - self.kept()) / 10 * 9
    }

    /// All of it.
    pub fn size(&self) -> Bytes {
        Bytes(self.blocks * BLOCK_SIZE as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_drives_get_small_segments_and_large_ones_the_kernels() {
        let blocks = |mib: u64| mib * 256;
        for (mib, seg_blocks) in [(8, 32), (24, 64), (64, 256), (512, 2048), (1 << 20, 2048)] {
            let geo = Geometry::plan(blocks(mib), None).expect("large enough");
            assert_eq!(geo.seg_blocks, seg_blocks, "{mib} MiB");
            assert!(geo.end(geo.segments - 1) < geo.blocks && geo.start(0) == 1);
            assert!(geo.capacity() * 100 > geo.blocks * 66 && geo.capacity() < geo.blocks, "{geo:?}");
        }
        assert_eq!(Geometry::plan(blocks(1), None), None);
        assert_eq!(Geometry::plan(blocks(64), Some(48)), None);
    }
}
