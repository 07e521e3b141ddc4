//! Where things lie: groups, inode places, superblock copies. Pure arithmetic on block and inode numbers.

use crate::layout::group::DESCRIPTORS_PER_BLOCK;
use crate::layout::inode::INODES_PER_BLOCK;
use crate::layout::{BLOCK_SIZE, BLOCKS_PER_GROUP};

/// The shape of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub blocks: u64,
    pub groups: u32,
    pub inodes_per_group: u32,
    /// Groups per flex group.
    pub flex: u32,
}

impl Geometry {
    /// The shape that mkfs gives `blocks` blocks with an inode per `inode_ratio` bytes.
    pub fn plan(blocks: u64, inode_ratio: u64, flex: u32) -> Geometry {
        let groups = blocks.div_ceil(BLOCKS_PER_GROUP as u64);
        // A last group too small to be of use is left out, as mke2fs does.
        let last = blocks - (groups - 1) * BLOCKS_PER_GROUP as u64;
        let (blocks, groups) =
            if groups > 1 && last < 1024 { (blocks - last, groups - 1) } else { (blocks, groups) };
        let inodes = (blocks * BLOCK_SIZE as u64 / inode_ratio).div_ceil(groups);
        let per_group = inodes.next_multiple_of(INODES_PER_BLOCK as u64).clamp(16, BLOCKS_PER_GROUP as u64);
        Geometry { blocks, groups: groups as u32, inodes_per_group: per_group as u32, flex }
    }

    pub fn group_of(&self, block: u64) -> u32 {
        (block / BLOCKS_PER_GROUP as u64) as u32
    }

    pub fn group_start(&self, group: u32) -> u64 {
        group as u64 * BLOCKS_PER_GROUP as u64
    }

    /// Blocks of a group; the last may be short.
    pub fn group_len(&self, group: u32) -> u32 {
        (self.blocks - self.group_start(group)).min(BLOCKS_PER_GROUP as u64) as u32
    }

    pub fn descriptor_blocks(&self) -> u32 {
        self.groups.div_ceil(DESCRIPTORS_PER_BLOCK)
    }

    /// Blocks of superblock and descriptors at the start of a group (sparse_super: 0, 1 and powers of 3,
    /// 5, 7).
    pub fn copy_blocks(&self, group: u32) -> u32 {
        let power = |base: u32| {
            let mut n = group;
            while n > 1 && n.is_multiple_of(base) {
                n /= base;
            }
            n == 1
        };
        if group <= 1 || power(3) || power(5) || power(7) { 1 + self.descriptor_blocks() } else { 0 }
    }

    pub fn itable_blocks(&self) -> u32 {
        self.inodes_per_group / INODES_PER_BLOCK
    }

    pub fn inodes(&self) -> u32 {
        self.inodes_per_group * self.groups
    }

    /// Group and index in it of an inode (1 = first).
    pub fn inode_place(&self, ino: u32) -> (u32, u32) {
        ((ino - 1) / self.inodes_per_group, (ino - 1) % self.inodes_per_group)
    }

    pub fn flex_groups(&self) -> u32 {
        self.groups.div_ceil(self.flex)
    }
}

/// Journal blocks for a file system of `blocks` blocks: mke2fs's table.
pub(crate) fn journal_blocks(blocks: u64) -> u32 {
    const MB: u64 = 256;
    const GB: u64 = 1024 * MB;
    match blocks {
        n if n < 128 * MB => 1024,
        n if n < GB => 4096,
        n if n < 2 * GB => 8192,
        n if n < 16 * GB => 16384,
        n if n < 32 * GB => 32768,
        n if n < 64 * GB => 65536,
        n if n < 128 * GB => 131072,
        _ => 262144,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// baselines.md section 3.1: 8 GiB = 64 groups, one descriptor block, 64 MB of journal, 8192 inodes per
    /// group.
    #[test]
    fn eight_gibibytes_have_the_measured_shape() {
        let g = Geometry::plan(2 << 20, 16384, 16);
        assert_eq!((g.groups, g.inodes_per_group, g.itable_blocks()), (64, 8192, 512));
        assert_eq!((g.descriptor_blocks(), g.flex_groups()), (1, 4));
        assert_eq!((journal_blocks(g.blocks), journal_blocks(8 << 20)), (16384, 65536));
    }

    #[test]
    fn superblock_copies_are_sparse() {
        let g = Geometry::plan(16 << 20, 16384, 16);
        let with: Vec<u32> = (0..130).filter(|&n| g.copy_blocks(n) > 0).collect();
        assert_eq!(with, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
    }
}
