//! [`Request`]: the kernel's request, out of the bytes that it sent.
//!
//! ```text
//!   InHeader ──> who asks, of which node
//!   opcode   ──> Op: structure read, names found (each ends with a zero byte), data left where it lies
//! ```
//!
//! Invariant: any bytes are decoded or refused ([`Malformed`]); nothing is read beyond them.
//!
//! It does not judge what is asked: an empty name, an unknown flag are the server's to refuse.
//!
//! Source: `include/uapi/linux/fuse.h`, `fuse_in_header` and the `fuse_*_in` structures; the order of names
//! is that of `fs/fuse`.

mod parse;

use crate::abi::{self, InHeader};
use crate::{Handle, NodeId};
use parse::decode;
use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Number of the request, which its reply repeats.
    pub unique: u64,
    /// The node that is asked of: for names, their directory.
    pub node: NodeId,
    /// The user who asks.
    pub uid: u32,
    /// Their group.
    pub gid: u32,
    /// Their process; 0 for the kernel itself, and for processes that cannot be seen from here.
    pub pid: u32,
    /// The operation.
    pub op: Op<'a>,
    bytes: &'a [u8],
}

/// A request that outlives the buffer that it was read into.
#[derive(Debug)]
pub struct Kept(Vec<u8>);

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// This moment.
    Now,
    /// So many seconds after 1970 (before, where negative), and so many nanoseconds after those.
    At {
        /// Seconds.
        seconds: i64,
        /// Nanoseconds.
        nanos: u32,
    },
}

/// Attributes to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setattr {
    /// Permissions, with the kind of file.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Time of access.
    pub atime: Option<SetTime>,
    /// Time of modification.
    pub mtime: Option<SetTime>,
    /// The change takes set-ID bits away.
    pub kill: bool,
}

/// Operations. `flags` are those of open(2), unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the kernel's names
pub enum Op<'a> {
    Lookup {
        name: &'a [u8],
    },
    Getattr,
    Setattr(Setattr),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        rdev: u32,
    },
    Mkdir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    /// `flags` of renameat2(2).
    Rename {
        name: &'a [u8],
        to_dir: NodeId,
        to: &'a [u8],
        flags: u32,
    },
    /// Gives `from` another name.
    Link {
        from: NodeId,
        name: &'a [u8],
    },
    Open {
        flags: u32,
    },
    Read {
        handle: Handle,
        offset: u64,
        size: u32,
        flags: u32,
    },
    /// `cached`: written back from the kernel's page cache, so handle and flags are some that the file is
    /// open with. `kill`: the caller may not keep set-ID bits.
    Write {
        handle: Handle,
        offset: u64,
        data: &'a [u8],
        flags: u32,
        cached: bool,
        kill: bool,
    },
    Statfs,
    Release {
        handle: Handle,
    },
    Fsync {
        data_only: bool,
    },
    /// `flags` of setxattr(2).
    Setxattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    /// `size`: room for the value, 0 to ask for its length.
    Getxattr {
        name: &'a [u8],
        size: u32,
    },
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: &'a [u8],
    },
    Flush,
    Opendir,
    Readdir {
        handle: Handle,
        offset: u64,
        size: u32,
    },
    Readdirplus {
        handle: Handle,
        offset: u64,
        size: u32,
    },
    Releasedir {
        handle: Handle,
    },
    Fsyncdir {
        data_only: bool,
    },
    Access,
    Create {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        flags: u32,
    },
    /// A file without a name in the directory; the name that comes with it is the kernel's own.
    Tmpfile {
        mode: u32,
        umask: u32,
        flags: u32,
    },
    /// `mode` of fallocate(2).
    Fallocate {
        handle: Handle,
        offset: u64,
        length: u64,
        mode: u32,
    },
    Lseek {
        offset: i64,
        whence: u32,
    },
    /// `data`: what the caller's structure holds, where the number says that it is read; `room`: how much of
    /// one is to be answered.
    Ioctl {
        cmd: u32,
        data: &'a [u8],
        room: u32,
    },
    /// Lookups of one node are given back. No reply.
    Forget {
        lookups: u64,
    },
    /// Lookups of many. No reply.
    BatchForget {
        nodes: &'a [abi::ForgetOne],
    },
    Init(abi::InitIn),
    Interrupt,
    Destroy,
    /// Anything else.
    Unknown {
        opcode: u32,
    },
}

/// Bytes that are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The number of the request, where that much was there.
    pub unique: Option<u64>,
}

/// The bytes that are left to decode.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Option<T> {
        let (value, rest) = T::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }

    fn bytes(&mut self, len: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len as usize)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Up to the zero byte.
    fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&b| b == 0)?;
        let name = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(name)
    }
}

impl<'a> Request<'a> {
    /// Decodes one request, as it was read from `/dev/fuse`.
    ///
    /// # Errors
    /// [`Malformed`]: cut short, or longer or shorter than it says.
    pub fn decode(bytes: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let (h, rest) = InHeader::read_from_prefix(bytes).map_err(|_| Malformed { unique: None })?;
        let malformed = Malformed { unique: Some(h.unique) };
        if h.len as usize != bytes.len() {
            return Err(malformed);
        }
        let op = decode(h.opcode, Rest(rest)).ok_or(malformed)?;
        Ok(Request {
            unique: h.unique,
            node: NodeId(h.nodeid),
            uid: h.uid,
            gid: h.gid,
            pid: h.pid,
            op,
            bytes,
        })
    }

    /// The same, with bytes of its own.
    pub fn keep(&self) -> Kept {
        Kept(self.bytes.to_vec())
    }
}

impl Kept {
    /// The request.
    ///
    /// # Panics
    /// Never: these bytes have been decoded before.
    pub fn request(&self) -> Request<'_> {
        Request::decode(&self.0).expect("decoded before")
    }
}

impl Op<'_> {
    /// Whether the kernel asks this on nobody's behalf, too: with the user of the process that happens to
    /// run, or root.
    pub(crate) fn is_the_kernels(&self) -> bool {
        matches!(
            self,
            Op::Init(_)
                | Op::Destroy
                | Op::Forget { .. }
                | Op::BatchForget { .. }
                | Op::Read { .. }
                | Op::Write { .. }
                | Op::Readdir { .. }
                | Op::Readdirplus { .. }
                | Op::Fsync { .. }
                | Op::Fsyncdir { .. }
                | Op::Release { .. }
                | Op::Releasedir { .. }
        )
    }
}

impl Malformed {
    /// The answer to such a request.
    pub(crate) const ERROR: Errno = Errno::INVAL;
}

#[cfg(test)]
mod tests;
