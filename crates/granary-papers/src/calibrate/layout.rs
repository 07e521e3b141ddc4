//! [`Layout`]: where the kernel's ext4 keeps its structures, read from its own superblock and group
//! descriptors.
//!
//! ```text
//!   block 0: superblock (at byte 1024) ─ geometry, features
//!   blocks 1..: group descriptors ─ per group: block bitmap, inode bitmap, inode table
//!   inode 8 ─ extents ─ the journal
//!   everything else: by content (directory blocks and extent blocks have marks), see classify
//! ```
//!
//! Source: the kernel's Documentation/filesystems/ext4 (super.rst, group_descr.rst, ifork.rst).

use granary_device::Structure;
use granary_lab::LabError;
use granary_units::{PAGE_SIZE, Page};
use std::collections::BTreeMap;

const MAGIC: u16 = 0xEF53;
const EXTENT_MAGIC: u16 = 0xF30A;
const SPARSE_SUPER: u32 = 1;
const META_BG: u32 = 0x10;
const BIT64: u32 = 0x80;

/// The latest content of blocks, by number.
pub type Blocks = BTreeMap<u64, Page>;

/// Where structures lie that do not move: runs of blocks, by first block.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    runs: BTreeMap<u64, (u64, Structure)>,
    /// Blocks of the journal.
    pub journal_blocks: u64,
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

fn wide(b: &[u8], low: usize, high: Option<usize>) -> u64 {
    u64::from(u32_at(b, low)) | high.map_or(0, |h| u64::from(u32_at(b, h)) << 32)
}

fn bad(what: &str) -> LabError {
    LabError::Usage(format!(
        "the drive does not hold an ext4 that can be calibrated: {what}; make it with 4 KiB blocks and mke2fs's defaults"
    ))
}

/// Whether a group has a copy of the superblock and of the descriptors.
fn has_copy(group: u64, sparse: bool) -> bool {
    let power_of = |base: u64| {
        let mut n = base;
        while n < group {
            n *= base;
        }
        n == group
    };
    !sparse || group <= 1 || power_of(3) || power_of(5) || power_of(7)
}

impl Layout {
    /// Reads the layout from the blocks of a file system.
    ///
    /// # Errors
    /// No ext4, or one of another make.
    pub fn read(blocks: &Blocks) -> Result<Layout, LabError> {
        let block = |n: u64| blocks.get(&n).map(Page::to_bytes);
        let first = block(0).ok_or_else(|| bad("no superblock"))?;
        let sb = &first[1024..2048];
        if u16_at(sb, 0x38) != MAGIC {
            return Err(bad("no superblock"));
        }
        let (compat_ro, incompat) = (u32_at(sb, 0x64), u32_at(sb, 0x60));
        if u32_at(sb, 0x18) != 2 || incompat & META_BG != 0 {
            return Err(bad("other blocks than 4 KiB, or META_BG"));
        }
        let is64 = incompat & BIT64 != 0;
        let count = wide(sb, 4, is64.then_some(0x150));
        let (per_group, inodes) = (u64::from(u32_at(sb, 0x20)), u64::from(u32_at(sb, 0x28)));
        let inode_size = u64::from(u16_at(sb, 0x58));
        let desc = if is64 { usize::from(u16_at(sb, 0xFE)) } else { 32 };
        if per_group == 0 || !(32..=1024).contains(&desc) || inode_size < 128 {
            return Err(bad("a superblock without sense"));
        }
        let groups = count.div_ceil(per_group);
        let per_block = (PAGE_SIZE / desc) as u64;
        let tables = groups.div_ceil(per_block) + u64::from(u16_at(sb, 0xCE));
        let itable = inodes * inode_size / PAGE_SIZE as u64;
        let mut layout = Layout::default();
        let mut journal_inode = None;
        for group in 0..groups {
            let descriptors = block(1 + group / per_block).ok_or_else(|| bad("no group descriptors"))?;
            let d = &descriptors[(group % per_block) as usize * desc..][..desc];
            let at = |low: usize| wide(d, low, (desc >= 64).then_some(low + 0x20));
            layout.add(at(0), 1, Structure::Bitmap);
            layout.add(at(4), 1, Structure::Bitmap);
            layout.add(at(8), itable, Structure::Inode);
            if has_copy(group, compat_ro & SPARSE_SUPER != 0) {
                layout.add(group * per_group, 1 + tables, Structure::Superblock);
            }
            if group == 0 {
                let byte = (u64::from(u32_at(sb, 0xE0)).max(1) - 1) * inode_size;
                journal_inode = Some((at(8) + byte / PAGE_SIZE as u64, byte as usize % PAGE_SIZE));
            }
        }
        let (table, byte) = journal_inode.ok_or_else(|| bad("no groups"))?;
        let inodes = block(table).ok_or_else(|| bad("no journal inode"))?;
        layout.extents(&inodes[byte + 0x28..byte + 0x28 + 60], &block)?;
        if layout.journal_blocks == 0 {
            return Err(bad("no journal"));
        }
        Ok(layout)
    }

    fn add(&mut self, first: u64, count: u64, what: Structure) {
        self.runs.insert(first, (count, what));
    }

    /// A node of the journal's extent tree.
    fn extents(
        &mut self,
        node: &[u8],
        block: &dyn Fn(u64) -> Option<[u8; PAGE_SIZE]>,
    ) -> Result<(), LabError> {
        let (entries, depth) = (usize::from(u16_at(node, 2)), u16_at(node, 6));
        if u16_at(node, 0) != EXTENT_MAGIC || 12 + entries * 12 > node.len() || depth > 5 {
            return Err(bad("a journal without extents"));
        }
        for e in node[12..12 + entries * 12].chunks_exact(12) {
            if depth == 0 {
                let start = u64::from(u32_at(e, 8)) | u64::from(u16_at(e, 6)) << 32;
                let len = u64::from(u16_at(e, 4));
                self.add(start, len, Structure::Journal);
                self.journal_blocks += len;
            } else {
                let child = u64::from(u32_at(e, 4)) | u64::from(u16_at(e, 8)) << 32;
                let bytes = block(child).ok_or_else(|| bad("a journal with a lost extent block"))?;
                self.extents(&bytes, block)?;
            }
        }
        Ok(())
    }

    /// The structure that always lies at a block, if there is one.
    pub fn fixed(&self, block: u64) -> Option<Structure> {
        let (first, (count, what)) = self.runs.range(..=block).next_back()?;
        (block - first < *count).then_some(*what)
    }
}

/// The structure of a block outside of the fixed structures, by its content. Extent blocks begin with their
/// magic number. Directory blocks end with a checksum in the shape of an entry (metadata_csum). The blocks of
/// a hash tree begin with entries that have the shape of ".", or of one that takes all. File data of the
/// calibration repeats a word as far as the file goes, and zeros follow.
pub fn by_content(page: &Page) -> Option<Structure> {
    if page.as_word().is_some() {
        return Some(Structure::Data);
    }
    let b = page.to_bytes();
    let end = b.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
    if (8..end).all(|at| b[at] == b[at - 8]) {
        return Some(Structure::Data);
    }
    if u16_at(&b, 0) == EXTENT_MAGIC {
        return Some(Structure::DataPointer);
    }
    let tail = &b[PAGE_SIZE - 12..];
    let checksum = u32_at(tail, 0) == 0 && u16_at(tail, 4) == 12 && tail[6] == 0 && tail[7] == 0xDE;
    let dot = u16_at(&b, 4) == 12 && b[6] == 1 && b[8] == b'.';
    let tree = u32_at(&b, 0) == 0 && usize::from(u16_at(&b, 4)) == PAGE_SIZE && b[6] == 0;
    (checksum || dot || tree).then_some(Structure::Dentry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_lie_where_sparse_super_says() {
        let with: Vec<u64> = (0..60).filter(|&g| has_copy(g, true)).collect();
        assert_eq!(with, [0, 1, 3, 5, 7, 9, 25, 27, 49]);
        assert!((0..60).all(|g| has_copy(g, false)));
    }

    #[test]
    fn blocks_without_a_mark_are_not_guessed() {
        let mut b = [0u8; PAGE_SIZE];
        b[100] = 7;
        b[101] = 9;
        assert_eq!(by_content(&Page::from_bytes(&b)), None);
        b[..2].copy_from_slice(&EXTENT_MAGIC.to_le_bytes());
        assert_eq!(by_content(&Page::from_bytes(&b)), Some(Structure::DataPointer));
        assert_eq!(by_content(&Page::word(77)), Some(Structure::Data));
        let mut tail = [0u8; PAGE_SIZE];
        (0..1001).for_each(|i| tail[i] = (i % 8) as u8 + 1);
        assert_eq!(by_content(&Page::from_bytes(&tail)), Some(Structure::Data));
        tail[1005] = 9;
        assert_eq!(by_content(&Page::from_bytes(&tail)), None);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Layout::read(&Blocks::new()).is_err());
        let mut sb = [0u8; PAGE_SIZE];
        sb[1024 + 0x38..1024 + 0x3A].copy_from_slice(&MAGIC.to_le_bytes());
        sb[1024 + 0x18] = 2;
        assert!(Layout::read(&Blocks::from([(0, Page::from_bytes(&sb))])).is_err());
    }
}
