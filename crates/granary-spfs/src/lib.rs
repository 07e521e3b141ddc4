//! SPFS: a file system stacked on another one, with persistent memory as the write cache of small synchronous
//! writes.
//!
//! ```text
//!   program -> vfs -> SPFS -> Lower -> lower vfs (page cache) -> lower file system -> SSD
//!                      |
//!                      +-> Store: tables, inodes, data                             -> persistent memory
//!
//!   alone   --- linked, renamed over something, no room, little used --->  bypass
//!   bypass  --- 30 fsyncs, small and soon after each other --->  tiered     metadata only; bytes follow
//!                                                                           with the writes
//!           <-- read much, written in large pieces, no room ---             all bytes of persistent memory
//!                                                                           are written below
//! ```
//!
//! Names, owners, modes and extended attributes are the lower file system's; so are the numbers of inodes. A
//! new file may be in persistent memory *alone*, with all of these (`alone.rs`). Of a *tiered* file
//! persistent memory has the size, the times, and the extents that were written since its promotion. Each
//! byte has one master (invariant C1): persistent memory where it has an extent, else the lower file up to
//! `limit`, else zero. The other is never read.
//!
//! Writes to a tiered file are durable when they return. A tiered file is found by its lower inode number and
//! generation. So names may change, go back in time with a power failure of the lower file system, or vanish:
//! a mount drops the leftovers.
//!
//! Lock order: `at_work`; the upper vfs's; `loading`; a file's state; the lower vfs's; a table's directory.
//! Short locks last.
//!
//! Source: Woo et al., "SPFS: On Stacking a Persistent Memory File System on Legacy File Systems", FAST 2023
//! (slides), and constants of the released code where a comment says so. Parts that the release lacks
//! (recovery, demotion's commit) are designed here: DESIGN.md, "SPFS".

#![forbid(unsafe_code)]

mod alloc;
mod alone;
mod attributes;
mod check;
mod children;
mod data;
mod demote;
mod entry;
pub mod exthash;
pub mod factor;
mod fs;
mod inodes;
mod layout;
mod life;
pub mod mapping;
mod missing;
mod mkfs;
mod mount;
mod names;
mod node;
mod options;
mod overwrite;
mod pair;
pub mod profiler;
mod promote;
mod punch;
mod purge;
mod read;
mod recover;
mod space;
mod store;
mod survey;
mod table;
mod tier;
mod truncate;
mod unseen;
mod write;

#[cfg(test)]
mod tests;

pub use entry::{case, over, stacked_name};
pub use fs::{Missing, Recovery, Spfs, SpfsStats};
pub use mkfs::mkfs;
pub use mount::{Access, is_clean, mount, mount_as};
pub use options::{Average, Consistency, MkfsOptions, Mode, MountOptions, PromotionCopy};
pub use pair::{NAME as PAIR, forget};
