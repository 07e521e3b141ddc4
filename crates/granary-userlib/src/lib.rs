//! The library that `granary exec` has the loader put before libc: calls of a program on files of a mount
//! become commands of direct access (`granary_direct`).
//!
//! ```text
//!   program ── read(fd) ──> this library ── fd is a file of the mount? ── no ──> libc
//!                               └─ yes ── command in shared memory ──> process of the mount
//!                                              └─ "the kernel's view", or anything unusual ──> libc
//! ```
//!
//! ```text
//!   next.rs       the functions that libc has under the same names
//!   setup.rs      what the environment says; fork
//!   owner.rs      whose connection it is: one process's
//!   signals.rs    which wait during a change
//!   session.rs    the connection, its channels
//!   table.rs      descriptors ──> open files
//!   file.rs       one open file: its handle at the server
//!   versions.rs   whether what was told is still right
//!   cache.rs      copies of what the server has told, as long as they are right
//!   path.rs       paths that lead into the mount
//!   libc's functions, by kind: open.rs create.rs data.rs vectors.rs sync.rs stat.rs names.rs change.rs
//!                              descriptors.rs process.rs
//! ```
//!
//! Every descriptor is a real one, of the file in the FUSE mount: the kernel has opened it, and has checked
//! the caller's rights. So descriptors never collide, are duplicated, inherited, locked, mapped and handed on
//! as always, and any call that is not taken here is right by itself, because both views are coherent. The
//! position of an open file is the kernel's, too. The calls that are taken are those that cost a FUSE
//! request: reading, writing, syncing, asking for attributes, names.
//!
//! Invariants:
//!
//! 1. A number that was closed by any call is not in the table.
//! 2. Several processes may share an open file: after fork, or when a program is started. Then reads and
//!    writes at the common position are the kernel's, which has a lock for it.
//! 3. Nothing here waits for a lock that the same thread holds, whatever signal comes. Such a call goes to
//!    the kernel.
//! 4. Without a server everything goes to the kernel.
//! 5. A channel, and the table, belong to one process. A child of any kind finds that out before anything is
//!    asked or written.
//!
//! Source: DEFUSE (ACM TOS 18(4), 2022), which keeps real descriptors of the mount and serves data past them.
#![allow(unsafe_code, reason = "libc's functions, with libc's arguments")]

#[macro_use]
mod next;
mod alive;
mod cache;
mod change;
mod create;
mod data;
mod descriptors;
mod file;
mod loaded;
mod names;
mod open;
mod owner;
mod path;
mod process;
mod session;
mod setup;
mod signals;
mod stat;
mod sync;
mod table;
mod vectors;
mod versions;

/// Sets errno, and returns what a call that failed returns. Nothing else here touches errno: this library's
/// own system calls go past libc.
fn fail(errno: i32) -> isize {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}
