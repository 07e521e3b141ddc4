//! Direct access: the way from a program to the process that serves a mount, past the kernel's FUSE.
//!
//! ```text
//!   program                                            process of the mount
//!     socket:   "a channel, please"  ─────────────────>  makes a sealed memfd, starts a thread for it
//!               <──────────── memfd ───────────────────
//!     channel:  command, data, turn = ASKED  ─────────>  copies the command, checks it, does it
//!               <────────── answer, data, turn = ANSWERED
//! ```
//!
//! ```text
//!   wire.rs      commands and answers: what each field means
//!   place.rs     paths in commands
//!   segment.rs   the shared memory of one channel: where things lie in it
//!   versions.rs  whether a copy of an answer is still right
//!   channel.rs   whose turn it is; spinning and sleeping
//!   socket.rs    how channels are asked for and handed over
//!   client.rs    one program's side: a connection and its channels
//! ```
//!
//! Invariants:
//!
//! 1. The server makes the memory and seals its size. So a client cannot make it shorter under the server's
//!    hands.
//! 2. Each side copies what the other wrote before it looks at it, and follows no address or index of it.
//! 3. The socket holds the two together. When either process ends, the kernel closes it, and the other side
//!    sees that.
//!
//! It does *not* know what a command does: the server is `granary_mount`'s, the library that is loaded into
//! programs `granary-userlib`.
//!
//! Source: DevFS (FAST '18) section 4.1, "user library" and command queues in shared memory; OrchFS's LibFS.
//! DEFUSE (ACM TOS 2022) for the idea to keep real descriptors beside them.

pub mod channel;
pub mod client;
pub mod place;
pub mod segment;
pub mod socket;
pub mod versions;
pub mod wire;

pub use client::{Connection, Refused};
pub use place::PathPlace;
pub use wire::{Answer, Attributes, Command, Op, SeeKernel};

/// The variable that tells a program's library where the server's socket is.
pub const SOCKET_VARIABLE: &str = "GRANARY_DIRECT_SOCKET";
/// The variable that tells it where the file system is mounted: an absolute path without links.
pub const DIR_VARIABLE: &str = "GRANARY_DIRECT_DIR";
/// The device that `stat(2)` shows for its files, as `MAJOR:MINOR`: elsewhere the directory may be another
/// one.
pub const DEVICE_VARIABLE: &str = "GRANARY_DIRECT_DEVICE";
/// Set to anything, the library says on stderr why it leaves a process to the kernel.
pub const REPORT_VARIABLE: &str = "GRANARY_DIRECT_REPORT";
