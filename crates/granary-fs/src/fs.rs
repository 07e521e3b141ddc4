//! [`FileSystem`]: what a file system implements; everything else is shared.
//!
//! The vfs calls it with arguments checked (names exist or do not, kinds fit, permissions granted;
//! ARCHITECTURE.md has the table) and with locks held, so that an implementation is its persistence protocol
//! and little else:
//!
//! | call | locks held by the vfs | the file system |
//! |---|---|---|
//! | create link unlink rename | `rwsem` of the directories (and of the victims) exclusively | changes media and attributes atomically |
//! | setattr, write path | `rwsem` of the inode exclusively (shared within the size with `Quirks::parallel_writes`) | idem |
//! | lookup readdir read_pages | `rwsem` of the inode shared | reads |
//! | write_pages | the inode's write-back lock: one at a time per inode; `rwsem` maybe | allocates, writes, changes pointers |
//! | fallocate | `rwsem` exclusively and the write-back lock | allocates, frees, zeroes whole pages |
//! | setxattr | `rwsem` exclusively | changes media and `ctime` atomically |
//! | fsync | nothing | makes the inode durable |
//!
//! Rules: (1) attributes of every inode involved (sizes, links, times) are changed by the file system through
//! [`Inode::update`](crate::Inode::update), together with what it persists. (2) Bytes on media beyond a
//! file's size are garbage: the vfs zeroes them when it reads a page and dirties the gap when a file grows.
//! (3) After an error the file system is as before the call. (4) What a call promises about power loss is the
//! file system's own guarantee; after a successful `fsync` everything about that inode, and the directory
//! entries under which it was created or renamed, survives.
//!
//! The calls are in five traits: [`Names`], [`Data`], [`Space`], [`Attributes`] and [`Life`]. None has bodies
//! to inherit: a file system says of each call what it does, or names it in
//! [`file_system_lacks!`](crate::file_system_lacks); one around another names what it passes on
//! (`forward_names!` and its like). So a call that is added later is decided in each. What never changes
//! about a file system is one value, [`Features`].
//!
//! Each call that does work is told whose it is, [`Call`]. Where it stamps a time, `call.time` is now, one
//! instant for all that the system call changes; else it may be when the system call began that led to it.
//! Which times an event moves, [`Attr`](crate::Attr)'s methods know.

mod attributes;
mod blocks;
mod call;
mod data;
mod features;
mod lacks;
mod life;
mod names;
mod nodes;
mod pages;
mod renaming;
mod space;

pub use attributes::Attributes;
pub use blocks::{Allocate, StatFs, TRIM_RUN};
pub use call::{Call, Caller, Cred, Origin};
pub use data::Data;
pub use features::{CachePolicy, Entrance, Features, Quirks};
pub use life::Life;
pub use names::Names;
pub use nodes::{Created, DirEntry, Loaded, NewNode};
pub use pages::{DirtyPage, DirtyPages, WriteBackCause};
pub use renaming::{Rename, RenameFlags};
pub use space::{Space, Sweep, Swept};

/// A file system on a drive: whatever has all five traits is one. See the module's rules.
pub trait FileSystem: Names + Data + Space + Attributes + Life {}

impl<T: Names + Data + Space + Attributes + Life + ?Sized> FileSystem for T {}
