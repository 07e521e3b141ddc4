//! A mounted Linux file system out of any Granary file system: requests of the kernel's FUSE, translated for
//! the vfs.
//!
//! ```text
//!   program ── system call ──> kernel: VFS, permission checks, page cache (clean pages only), dentry cache
//!                                 | /dev/fuse, one clone per thread
//!       thread 0..N: read request ──> Adapter ──> granary_vfs::Vfs ──> FileSystem ──> Port ──> drive
//!                    write reply  <──            fsync, O_SYNC: then durable()
//! ```
//!
//! The other way round, [`export()`] gives a drive's blocks to the kernel's own file systems.
//!
//! Invariants. (1) A reply to fsync, fdatasync or an O_SYNC write leaves only after the file system's own
//! promise and the [`Options::durable`] hook. (2) Every lookup that the kernel was told of holds its node
//! until the kernel forgets it or the mount ends. (3) Each request is served whole by the thread that read
//! it, so a wait of one (for a commit, for the paced drive) holds up no other.
//!
//! It contains no file-system logic. It does *not* do `sync(2)` and `syncfs(2)`, which the kernel does not
//! send to a FUSE server. It does *not* do locks (`flock`, `fcntl`), which the kernel keeps. It does *not* do
//! `copy_file_range`: a request for it would not say whether the target was opened O_SYNC, so the kernel
//! copies through its page cache, in writes that do.
//!
//! Source: the kernel's `include/uapi/linux/fuse.h` and `fs/fuse`; the wire format is [`granary_fuse`]'s.

mod adapter;
mod convert;
mod direct;
mod error;
mod export;
mod guard;
mod handles;
pub mod mountinfo;
mod operations;
mod options;
mod session;

pub use error::MountError;
pub use export::{DRIVE_FILE, Exported, export};
pub use guard::Breaker;
pub use operations::{Operation, Operations};
pub use options::{Advise, DurableHook, Options, StatsHook, Told, default_threads, host_config};
pub use session::{Mounted, Unmounter, check, mount};

/// Name in the root directory, not listed, under which a mount tells its counters (what [`Options::stats`]
/// returns).
pub const STATS_FILE: &str = ".granary-stats";
