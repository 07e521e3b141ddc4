//! The kernel's FUSE protocol: requests decoded, replies encoded, a session that serves `/dev/fuse` with N
//! threads.
//!
//! ```text
//!   abi.rs       the wire format: structures, numbers of requests, flags
//!   request.rs   bytes ──> Request { who asks, of which node, Op }
//!   reply.rs     Reply ──> bytes, in one writev; listing.rs: the entries of a directory
//!   device.rs    /dev/fuse; clone.rs: one of them for each thread
//!   mount.rs     mount(2), or fusermount3 (helper.rs)
//!   init.rs      the first request: the agreement of kernel and server
//!   session.rs   threads:  read ──> Request ──> Server::serve(request, reply)
//!                          ── now or later, from any thread ──> reply
//! ```
//!
//! Invariants: (1) every request is answered exactly once: a [`Reply`] that is dropped says EIO; (2) no bytes
//! of a request can make it panic; (3) a FORGET ([`Server::forget`]) is never answered.
//!
//! It contains nothing of a file system. Parts of the protocol that it does *not* know are answered ENOSYS,
//! which the kernel takes for "no such call": locks, ioctl, poll, bmap, `copy_file_range`, `syncfs`, CUSE,
//! DAX, splice, io_uring. An interrupt is answered so, too: requests run to their end.
//!
//! Source: the kernel's `include/uapi/linux/fuse.h` (7.38) and its use in `fs/fuse`.

pub mod abi;
mod clone;
mod device;
mod helper;
mod init;
mod listing;
mod mount;
mod reply;
mod request;
mod session;

pub use device::Notifier;
pub use listing::Listing;
pub use mount::MountConfig;
pub use reply::Reply;
pub use request::{Kept, Malformed, Op, Request, SetTime, Setattr};
pub use session::{Server, Serving, Session};

/// A node by the number that the kernel knows it by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root directory (FUSE_ROOT_ID).
    pub const ROOT: NodeId = NodeId(1);
}

/// An open file or directory, by the number that the server gave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handle(pub u64);
