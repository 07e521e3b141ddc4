//! The media format: real structs, little endian, one concept per file (SPEC.md has every field).
//!
//! ```text
//!   block  0            1              ...             ...             ...           ...            ...
//!         +------------+--------------+---------------+---------------+-------------+---------+------------+
//!         | superblock | orphan table | inode bitmap  | block bitmap  | inode table | journal | data,      |
//!         |            | 1 block      | 1 bit / inode | 1 bit / block | 128 B each  | area    | director-  |
//!         |            |              |               |               |             |         | ies, slots |
//!         +------------+--------------+---------------+---------------+-------------+---------+------------+
//! ```
//!
//! Invariants: everything that an operation changes is a 64 B line of its own concern (an inode's hot half, a
//! name, a bitmap group, four extent slots), so that the byte interface moves lines and never whole blocks.
//! Bytes beyond a high-water mark (a directory's size, an inode's slot count) are garbage: new metadata
//! blocks need no zeroing.
//!
//! Every line has a checksum in its last four bytes (`line`), every name one in its head (`dentry`).
//!
//! Source: ByteFS section 4.5 for the sizes (128 B inodes in two halves, 64 B bitmap groups, 16 B extents,
//! 64-320 B names); the arrangement is ours.

pub mod bitmap;
pub mod dentry;
pub mod extent;
pub mod geometry;
pub mod inode;
pub mod line;
pub mod orphan;
pub mod superblock;
pub mod xattr;

pub use dentry::{DentryHead, SLOT_SIZE, SLOTS_PER_BLOCK};
pub use extent::{Extent, INLINE_SLOTS, POINTERS_PER_INDEX, SLOTS_PER_EXTENT_BLOCK};
pub use geometry::{Geometry, Segment};
pub use inode::{INODE_SIZE, INODES_PER_BLOCK, InodeRecord};
pub use superblock::Superblock;

#[cfg(test)]
mod tests;
