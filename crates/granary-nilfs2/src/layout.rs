//! The on-media format: one file for each structure, little endian.
//!
//! ```text
//!   block 0    segment 0           segment 1           ...            segment n-1          last block
//!   | - | sb | log | log | log ... | log | log | ...                                       | second sb |
//!
//!   log (partial segments):
//!     summary | files: data, B-tree nodes | ifile | cpfile | sufile | DAT | super root
//! ```
//!
//! Geometry and record sizes are the kernel's, so that operations touch the same number of blocks. Segments
//! have 8 MiB, inodes 128 B, DAT entries 32 B, segment usages 16 B, checkpoints 192 B, and B-tree nodes 255
//! children. The bytes are our own. Parsers take any bytes and never panic.
//!
//! Source: reference/nilfs2.md section 5.1 (Linux 6.1); the kernel's Documentation/filesystems/nilfs2.rst.

pub mod checkpoint;
pub mod dirent;
pub mod inode;
pub mod summary;
pub mod super_root;
pub mod superblock;
pub mod usage;

use granary_fs::FsError;

/// Bytes in a block.
pub const BLOCK_SIZE: usize = 4096;
/// The same, where bytes are counted.
pub(crate) const BS: u64 = BLOCK_SIZE as u64;
/// A block's bytes.
pub type BlockBytes = [u8; BLOCK_SIZE];

/// Inode numbers of the root directory and of the files of metadata (Linux 6.1, nilfs2_ondisk.h).
pub const ROOT_INO: u64 = 2;
/// Disk address translation: where virtual blocks lie.
pub const DAT_INO: u64 = 3;
/// Checkpoints.
pub const CPFILE_INO: u64 = 4;
/// Segment usages.
pub const SUFILE_INO: u64 = 5;
/// Inodes.
pub const IFILE_INO: u64 = 6;
/// First number for files of users.
pub const FIRST_INO: u64 = 11;

/// Largest file: 16 TiB, as far as PebbleSSD's maps of files reach (the kernel's B-tree goes on to 8 EiB).
pub const MAX_FILE_SIZE: u64 = 1 << 44;
/// Most links of an inode (Linux 6.1, NILFS_LINK_MAX).
pub const LINK_MAX: u32 = 32_000;

/// The error for media that no correct NILFS2 wrote.
pub(crate) fn corrupt(evidence: impl Into<String>) -> FsError {
    FsError::Corrupt(evidence.into())
}

pub(crate) fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn le64(bytes: &[u8], at: usize) -> u64 {
    le32(bytes, at) as u64 | (le32(bytes, at + 4) as u64) << 32
}

pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
