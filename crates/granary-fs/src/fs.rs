//! [`FileSystem`]: the calls that a file system implements; everything else is shared.
//!
//! The vfs calls it with arguments checked (names exist or do not, kinds fit, permissions granted;
//! ARCHITECTURE.md has the table) and with locks held, so that an implementation is its persistence protocol
//! and little else:
//!
//! | call | locks held by the vfs | the file system |
//! |---|---|---|
//! | create link unlink rename | directories and victims: `rwsem` exclusive | media, attributes atomically |
//! | setattr, writes | inode: `rwsem` exclusive (`Quirks::parallel_writes`: shared within the size) | idem |
//! | lookup readdir read_pages | inode: `rwsem` shared | reads |
//! | write_pages | inode: write-back lock (one at a time); `rwsem` maybe | allocates, writes, sets pointers |
//! | fallocate | inode: `rwsem` exclusive and the write-back lock | allocates, frees, zeroes whole pages |
//! | setxattr | inode: `rwsem` exclusive | changes media and `ctime` atomically |
//! | fsync | nothing | makes the inode durable |
//!
//! Rules: (1) The file system changes the attributes of every inode involved (sizes, links, times) through
//! [`Inode::update`](crate::Inode::update), together with the data that it persists. (2) Bytes on media
//! beyond a file's size are garbage: the vfs zeroes them when it reads a page and dirties the gap when a file
//! grows. (3) After an error the file system is as before the call. (4) Each file system defines its own
//! guarantees about power loss. After a successful `fsync` the whole inode survives, and so do the directory
//! entries under which it was created or renamed.
//!
//! The calls are in five traits: [`Names`], [`Data`], [`Space`], [`Attributes`] and [`Life`]. None has bodies
//! to inherit: a file system implements each call, or names it in
//! [`file_system_lacks!`](crate::file_system_lacks). A file system around another names the calls that it
//! passes on (`forward_names!` and its like). So a call that is added later is decided in each. The constant
//! properties of a file system are one value, [`Features`].
//!
//! Each call that does work is told its caller, [`Call`]. Where the file system stamps a time, `call.time` is
//! now, one instant for all changes of the system call. Otherwise it may be the time at which the system call
//! that led to it began. The methods of [`Attr`](crate::Attr) know which times an event moves.

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

/// A file system on a drive: a type with all five traits. See the module's rules.
pub trait FileSystem: Names + Data + Space + Attributes + Life {}

impl<T: Names + Data + Space + Attributes + Life + ?Sized> FileSystem for T {}
