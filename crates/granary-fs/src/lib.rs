//! The contract: interfaces that the author of a file system reads, and implements.
//!
//! ```text
//!   granary-vfs       POSIX rules, caches, locks: calls the file system with arguments checked
//!        |  FileSystem = Names + Data + Space + Attributes + Life          one call per persistent change
//!   a file system     its persistence protocol; describes itself in an FsEntry
//!        |  Port                                                          granary-device
//! ```
//!
//! Begin with [`FileSystem`]'s module: locks, rules. `granary-kit` has what several file systems share;
//! `docs/ADDING.md` leads through a file system of one's own. This crate does *not* know the vfs, a page
//! cache, any format of options.

mod attr;
mod checkpoints;
pub mod entry;
mod error;
mod fs;
mod inode;
mod options;
mod quote;
mod repair;
mod watch;
mod xattr;

pub use attr::{Attr, FileKind, Ino, SetAttr, Time, flag, mode};
pub use checkpoints::{Checkpoint, CheckpointCall, Checkpoints};
pub use entry::FsEntry;
pub use error::{FsError, Result};
pub use fs::{
    Allocate, Attributes, CachePolicy, Call, Caller, Created, Cred, Data, DirEntry, DirtyPage, DirtyPages,
    Entrance, Features, FileSystem, Life, Loaded, Names, NewNode, Origin, Quirks, Rename, RenameFlags, Space,
    StatFs, Sweep, Swept, TRIM_RUN, WriteBackCause,
};
/// For the macros' expansions.
#[doc(hidden)]
pub use granary_units as units;
pub use inode::Inode;
pub use options::{Defaults, Options};
pub use quote::quoted;
pub use repair::Repaired;
pub use watch::{Changed, Watcher, changing_names, watch};
pub use xattr::{SetXattr, XATTR_LIST_MAX, XATTR_NAME_MAX, XATTR_SIZE_MAX};

/// Longest name of a directory entry in bytes (POSIX NAME_MAX on Linux).
pub const NAME_MAX: usize = 255;
/// Longest path in bytes, terminator included (PATH_MAX on Linux).
pub const PATH_MAX: usize = 4096;

/// Whether a path can have this name. Programs are told of no other, which damaged media may have: they would
/// go elsewhere with it. The file system's check finds it.
pub fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|b| matches!(b, b'/' | 0))
}
