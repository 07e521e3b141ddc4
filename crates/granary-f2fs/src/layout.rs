//! The on-media format: one file for each structure, little endian.
//!
//! ```text
//!   segment 0        1         2         ..          ..          ..        ..
//!   | sb  sb  ... | CP pack | CP pack | SIT x 2 | NAT x 2 | SSA (1 block | main area: segments of six logs |
//!   | 0   1       | 1       | 2       | copies  | copies  |  a segment)  |                                 |
//! ```
//!
//! The geometry is the kernel's, so that operations touch the same number of blocks. Segments have 2 MiB, SIT
//! entries 74 B, NAT entries 9 B, summaries 7 B, nodes 923 and 1018 addresses, and dentry blocks 214 slots.
//! The bytes are our own. Parsers take any bytes and never panic.
//!
//! Not here: extra attributes, compression, zoned devices, quotas.
//!
//! Source: reference/baselines.md section 4.1; the kernel's Documentation/filesystems/f2fs.rst.

pub mod checkpoint;
pub mod dentry;
pub mod forward;
pub mod nat;
pub mod node;
pub mod sit;
pub mod summary;
pub mod superblock;
pub mod xattr;

use granary_fs::FsError;

/// Bytes in a block.
pub const BLOCK_SIZE: usize = 4096;
/// A pointer to nothing: a hole, a free node.
pub const NULL_ADDR: u32 = 0;
/// A pointer to a block that is reserved and has no place yet.
pub const NEW_ADDR: u32 = u32::MAX;

/// A block's bytes.
pub type BlockBytes = [u8; BLOCK_SIZE];

/// Whether a pointer names a block on the drive.
pub fn is_real(addr: u32) -> bool {
    addr != NULL_ADDR && addr != NEW_ADDR
}

/// The error for media that no correct F2FS wrote.
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

/// Bit `n` of a bitmap: bit n%8 of byte n/8.
pub(crate) fn bit(bytes: &[u8], n: usize) -> bool {
    bytes[n / 8] >> (n % 8) & 1 == 1
}

pub(crate) fn set_bit(bytes: &mut [u8], n: usize, to: bool) {
    if to {
        bytes[n / 8] |= 1 << (n % 8);
    } else {
        bytes[n / 8] &= !(1 << (n % 8));
    }
}
