//! The file-system interface, POSIX semantics, page cache, inode and dentry caches.
//!
//! ```text
//!   workloads, crash explorer            FUSE adapter
//!        | Process (descriptors, paths)      | Vfs by inode number
//!   +----v-----------------------------------v---------------------------+
//!   | Vfs: path walk, dentry and inode cache, permissions, POSIX rules,  |
//!   |      inode locks, page cache with dirty-line masks, write-back     |
//!   +----+---------------------------------------------------------------+
//!        | FileSystem: one call per persistent change, locks held, arguments checked
//!     ByteFS, ext4, ...  -> granary-device Port
//! ```
//!
//! What every file system shares is here, once; what differs, the persistence protocol, is behind [`FileSystem`].
//! It does *not* know any on-media format.

mod acl;
mod attr;
mod block_cache;
mod cache;
mod checkpoints;
mod config;
pub mod diff;
pub mod direct;
pub mod entry;
mod error;
mod fs;
mod gate;
mod generation;
mod hash_index;
mod inode;
mod lower;
mod lower_names;
mod posix;
mod process;
mod quote;
mod repair;
mod vfs;
mod watch;
pub mod work;
mod xattr;
pub mod xattr_string;

pub use attr::{Attr, FileKind, Ino, SetAttr, Time, flag, mode};
pub use block_cache::{Block, BlockCache};
pub use cache::CacheStats;
pub use checkpoints::{Checkpoint, CheckpointCall, Checkpoints};
pub use config::{Atime, Tracking, VfsConfig};
pub use entry::FsEntry;
pub use error::{FsError, Result};
pub use fs::{
    Allocate, Attributes, CachePolicy, Call, Caller, Created, Cred, Data, DirEntry, DirtyPage, DirtyPages,
    Entrance, Features, FileSystem, Life, Loaded, Names, NewNode, Origin, Quirks, Rename, RenameFlags, Space,
    StatFs, Sweep, Swept, TRIM_RUN, WriteBackCause,
};
pub use generation::Generations;
/// For the macros' expansions.
#[doc(hidden)]
pub use granary_units as units;
pub use hash_index::{HashIndex, Vacant};
pub use inode::Inode;
pub use lower::{Lower, Through};
pub use posix::{Access, Dirent, Fd, MapHow, MapId, OpenFlags, Posix, SetTime, Stat, Whence};
pub use process::Process;
pub use quote::quoted;
pub use repair::Repaired;
pub use vfs::{Change, DirStream, Farewell, MemoryMap, NewFile, Node, NodeRef, OpenFile, Vfs, is_name};
pub use watch::{Changed, Watcher, watch};
pub use xattr::{SetXattr, XATTR_LIST_MAX, XATTR_NAME_MAX, XATTR_SIZE_MAX};

/// Longest name of a directory entry in bytes (POSIX NAME_MAX on Linux).
pub const NAME_MAX: usize = 255;
/// Longest path in bytes, terminator included (PATH_MAX on Linux).
pub const PATH_MAX: usize = 4096;
