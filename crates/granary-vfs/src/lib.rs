//! POSIX semantics, page cache, inode and dentry caches, over any file system.
//!
//! ```text
//!   workloads, crash explorer            FUSE adapter
//!        | Process (descriptors, paths)      | Vfs by inode number
//!   +----v-----------------------------------v---------------------------+
//!   | Vfs: path walk, dentry and inode cache, permissions, POSIX rules,  |
//!   |      inode locks, page cache with dirty-line masks, write-back     |
//!   +----+---------------------------------------------------------------+
//!        | granary_fs::FileSystem: one call per persistent change, locks held, arguments checked
//!     ByteFS, ext4, ...  -> granary-device Port
//! ```
//!
//! All that file systems share is here, once. They differ in the persistence protocol, which is behind
//! [`FileSystem`](granary_fs::FileSystem). This crate does *not* know any on-media format.

mod acl;
mod cache;
mod config;
pub mod diff;
mod gate;
mod lower;
mod lower_names;
mod posix;
mod process;
mod stack;
mod vfs;
mod xattr;

pub use cache::{Batch, CacheStats, Look, PageCache};
pub use config::{Atime, Replacement, Tracking, VfsConfig};
/// For the macros' expansions.
#[doc(hidden)]
pub use granary_fs as contract;
pub use lower::{Lower, Through};
pub use posix::{Access, Dirent, Fd, MapHow, MapId, OpenFlags, Posix, SetTime, Stat, Whence};
pub use process::Process;
pub use stack::{Layer, below, bring_up};
pub use vfs::{Change, DirStream, Farewell, MemoryMap, NewFile, Node, NodeRef, OpenFile, Vfs};
