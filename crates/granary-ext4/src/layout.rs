//! The on-media format: one file for each structure, fixed-size little-endian structs without padding.
//!
//! ```text
//!   group 0 of a flex group of 16                                        groups 1..15
//!   | sb | group descriptors | 16 block bitmaps | 16 inode bitmaps | 16 inode tables | data |  | data ... |
//!     ^ groups 0, 1 and powers of 3, 5, 7 (sparse_super); the copies are written by mkfs only
//!   journal: one run in the middle of the device
//! ```
//!
//! The geometry is the kernel's, so that operations touch the same number of blocks. Blocks have 4 KiB,
//! inodes 256 B, descriptors 64 B, groups 128 MB, flex groups 16 groups, and a block 340 extents or 254
//! journal tags. The bytes are our own. Parsers take any bytes and never panic.
//!
//! Not here: `resize_inode`'s reserved descriptor blocks, inline data, checksums of bitmaps,
//! directory and extent blocks (their 12 B and 4 B tails are kept free for them).
//!
//! Source: reference/baselines.md section 3.1; the kernel's Documentation/filesystems/ext4.

pub mod dirent;
pub mod extent;
pub mod group;
pub mod htree;
pub mod inode;
pub mod journal;
pub mod superblock;
pub mod xattr;

use granary_fs::FsError;

/// Bytes in a block.
pub const BLOCK_SIZE: usize = 4096;
/// Blocks in a group: one bitmap block covers them.
pub const BLOCKS_PER_GROUP: u32 = 32768;
/// Largest file: 2^32 - 1 blocks, the reach of 32-bit logical block numbers.
pub const MAX_FILE_SIZE: u64 = (u32::MAX as u64) * 4096;

/// A block's bytes.
pub type BlockBytes = [u8; BLOCK_SIZE];

/// The error for media that no correct ext4 wrote.
pub(crate) fn corrupt(evidence: impl Into<String>) -> FsError {
    FsError::Corrupt(evidence.into())
}

pub(crate) fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}
