//! The wire format: structures, the numbers of requests, flags.
//!
//! ```text
//!   kernel ──> InHeader (40 B) | structure of the request | names, each ended by a zero byte | data
//!   kernel <── OutHeader (16 B), error 0 | structure of the reply | data
//!          <── OutHeader, error -errno            <── OutHeader, unique 0, error = code | notification
//! ```
//!
//! Numbers are in the machine's byte order; structures are padded to 8 bytes. Times are seconds since 1970,
//! negative before, and nanoseconds that count forwards from there.
//!
//! Source: `include/uapi/linux/fuse.h`, the structures `fuse_*` of the same names.
#![allow(missing_docs)] // fields and flags have the kernel's names

use crate::{Handle, NodeId};
use std::time::Duration;
use zerocopy::native_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// FUSE_KERNEL_VERSION.
pub const MAJOR: u32 = 7;
/// FUSE_KERNEL_MINOR_VERSION.
pub const MINOR: u32 = 38;
/// From 7.23 on (Linux 3.15) the structures have the lengths that are used here, the reply to INIT among
/// them.
pub const OLDEST_MINOR: u32 = 23;

macro_rules! wire {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
            #[repr(C)]
            pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }
        )*
    };
}

wire! {
    /// Before every request.
    InHeader {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16, padding: u16,
    }
    /// Before every reply.
    OutHeader { len: u32, error: i32, unique: u64, }
    /// Attributes of a node. `blocks` are of 512 bytes; `mode` has the kind of file.
    Attr {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32,
        mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32,
    }
    /// A node for a name. Node 0 says that there is no such name.
    EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32, attr_valid_nsec: u32,
        attr: Attr,
    }
    /// Attributes and how long the kernel may believe in them.
    AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr, }
    /// An open file.
    OpenOut { fh: u64, open_flags: u32, padding: u32, }
    /// Bytes that were written.
    WriteOut { size: u32, padding: u32, }
    /// The length of an attribute, or of the list of names.
    GetxattrOut { size: u32, padding: u32, }
    /// The result of an ioctl; the new content of the caller's structure follows.
    IoctlOut { result: i32, flags: u32, in_iovs: u32, out_iovs: u32, }
    /// A position in a file.
    LseekOut { offset: u64, }
    /// `fuse_kstatfs`.
    Statfs {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32, padding: u32,
        spare: [u32; 6],
    }
    /// An entry of a directory; its name follows.
    Dirent { ino: u64, off: u64, namelen: u32, kind: u32, }
    /// The kernel's version and abilities.
    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32, unused: [u32; 11], }
    /// The agreement.
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16,
        max_write: u32, time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32, unused: [u32; 7],
    }
    /// FUSE_NOTIFY_INVAL_INODE.
    InvalInodeOut { ino: u64, off: i64, len: i64, }
    /// FUSE_NOTIFY_INVAL_ENTRY; the name and a zero follow.
    InvalEntryOut { parent: u64, namelen: u32, flags: u32, }
    /// FUSE_NOTIFY_STORE; the bytes follow.
    StoreOut { nodeid: u64, offset: u64, size: u32, padding: u32, }
}

wire! {
    /// FORGET.
    ForgetIn { nlookup: u64, }
    /// BATCH_FORGET.
    BatchForgetIn { count: u32, dummy: u32, }
    /// MKNOD.
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32, }
    /// MKDIR.
    MkdirIn { mode: u32, umask: u32, }
    /// RENAME.
    RenameIn { newdir: u64, }
    /// RENAME2.
    Rename2In { newdir: u64, flags: u32, padding: u32, }
    /// LINK.
    LinkIn { oldnodeid: u64, }
    /// SETATTR.
    SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    /// OPEN, OPENDIR.
    OpenIn { flags: u32, open_flags: u32, }
    /// CREATE, TMPFILE.
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32, }
    /// RELEASE, RELEASEDIR.
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64, }
    /// READ, READDIR, READDIRPLUS.
    ReadIn { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32, }
    /// WRITE.
    WriteIn { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32, }
    /// FSYNC, FSYNCDIR.
    FsyncIn { fh: u64, fsync_flags: u32, padding: u32, }
    /// SETXATTR, as without FUSE_SETXATTR_EXT (FUSE_COMPAT_SETXATTR_IN_SIZE).
    SetxattrIn { size: u32, flags: u32, }
    /// GETXATTR, LISTXATTR.
    GetxattrIn { size: u32, padding: u32, }
    /// FALLOCATE.
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32, }
    /// IOCTL; the content of the caller's structure follows.
    IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32, }
    /// LSEEK.
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32, }
}

/// A node of BATCH_FORGET, and how many lookups of it are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ForgetOne {
    nodeid: U64,
    nlookup: U64,
}

impl ForgetOne {
    /// So many lookups of a node.
    pub fn new(node: NodeId, lookups: u64) -> ForgetOne {
        ForgetOne { nodeid: U64::new(node.0), nlookup: U64::new(lookups) }
    }

    /// The node.
    pub fn node(&self) -> NodeId {
        NodeId(self.nodeid.get())
    }

    /// Lookups that are given back.
    pub fn lookups(&self) -> u64 {
        self.nlookup.get()
    }
}

impl EntryOut {
    /// The entry of a node; the kernel may believe in the name, and in the attributes, for so long.
    pub fn new(attr: Attr, generation: u64, name: Duration, attributes: Duration) -> EntryOut {
        EntryOut {
            nodeid: attr.ino,
            generation,
            entry_valid: name.as_secs(),
            attr_valid: attributes.as_secs(),
            entry_valid_nsec: name.subsec_nanos(),
            attr_valid_nsec: attributes.subsec_nanos(),
            attr,
        }
    }
}

impl AttrOut {
    /// Attributes in which the kernel may believe for so long.
    pub fn new(attr: Attr, ttl: Duration) -> AttrOut {
        AttrOut { attr_valid: ttl.as_secs(), attr_valid_nsec: ttl.subsec_nanos(), dummy: 0, attr }
    }
}

impl OpenOut {
    /// An open file.
    pub fn new(handle: Handle, flags: OpenedAs) -> OpenOut {
        OpenOut { fh: handle.0, open_flags: flags.bits(), padding: 0 }
    }
}

macro_rules! opcodes {
    ($($name:ident = $code:literal,)*) => {
        /// Numbers of requests (`enum fuse_opcode`).
        pub mod opcode {
            $(pub const $name: u32 = $code;)*

            /// Those that are decoded.
            pub const KNOWN: &[u32] = &[$($name),*];
        }
    };
}

opcodes! {
    LOOKUP = 1, FORGET = 2, GETATTR = 3, SETATTR = 4, READLINK = 5, SYMLINK = 6, MKNOD = 8, MKDIR = 9, UNLINK = 10,
    RMDIR = 11, RENAME = 12, LINK = 13, OPEN = 14, READ = 15, WRITE = 16, STATFS = 17, RELEASE = 18, FSYNC = 20,
    SETXATTR = 21, GETXATTR = 22, LISTXATTR = 23, REMOVEXATTR = 24, FLUSH = 25, INIT = 26, OPENDIR = 27, READDIR = 28,
    RELEASEDIR = 29, FSYNCDIR = 30, ACCESS = 34, CREATE = 35, INTERRUPT = 36, DESTROY = 38, IOCTL = 39, BATCH_FORGET = 42,
    FALLOCATE = 43, READDIRPLUS = 44, RENAME2 = 45, LSEEK = 46, TMPFILE = 51,
}

/// FUSE_NOTIFY_INVAL_INODE.
pub const NOTIFY_INVAL_INODE: i32 = 2;
/// FUSE_NOTIFY_INVAL_ENTRY.
pub const NOTIFY_INVAL_ENTRY: i32 = 3;
/// FUSE_NOTIFY_STORE.
pub const NOTIFY_STORE: i32 = 4;
/// FUSE_FSYNC_FDATASYNC.
pub const FSYNC_DATA_ONLY: u32 = 1 << 0;
/// FUSE_WRITE_CACHE: written back from the page cache; the handle is a guess.
pub const WRITE_CACHE: u32 = 1 << 0;
/// FUSE_WRITE_KILL_SUIDGID: the caller may not keep set-ID bits.
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// FUSE_MIN_READ_BUFFER.
pub const MIN_READ_BUFFER: usize = 8192;

bitflags::bitflags! {
    /// Flags that INIT agrees on: FUSE_ and the name.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct InitFlags: u64 {
        const ASYNC_READ = 1 << 0;
        const EXPORT_SUPPORT = 1 << 4;
        const BIG_WRITES = 1 << 5;
        const DONT_MASK = 1 << 6;
        const HAS_IOCTL_DIR = 1 << 11;
        const DO_READDIRPLUS = 1 << 13;
        const READDIRPLUS_AUTO = 1 << 14;
        const ASYNC_DIO = 1 << 15;
        const PARALLEL_DIROPS = 1 << 18;
        const POSIX_ACL = 1 << 20;
        const MAX_PAGES = 1 << 22;
        const CACHE_SYMLINKS = 1 << 23;
        const EXPLICIT_INVAL_DATA = 1 << 25;
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// Bits from 32 on are in `flags2`.
        const INIT_EXT = 1 << 30;
    }

    /// How a file is opened: FOPEN_ and the name.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct OpenedAs: u32 {
        const DIRECT_IO = 1 << 0;
        const KEEP_CACHE = 1 << 1;
        const PARALLEL_DIRECT_WRITES = 1 << 6;
    }

    /// Which fields of [`SetattrIn`] count: FATTR_ and the name.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Valid: u32 {
        const MODE = 1 << 0;
        const UID = 1 << 1;
        const GID = 1 << 2;
        const SIZE = 1 << 3;
        const ATIME = 1 << 4;
        const MTIME = 1 << 5;
        const ATIME_NOW = 1 << 7;
        const MTIME_NOW = 1 << 8;
        const KILL_SUIDGID = 1 << 11;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_lengths_of_the_kernels() {
        assert_eq!((size_of::<InHeader>(), size_of::<OutHeader>()), (40, 16));
        assert_eq!((size_of::<Attr>(), size_of::<EntryOut>(), size_of::<AttrOut>()), (88, 128, 104));
        assert_eq!((size_of::<InitIn>(), size_of::<InitOut>()), (64, 64));
        assert_eq!((size_of::<SetattrIn>(), size_of::<Statfs>()), (88, 80));
        assert_eq!((size_of::<ReadIn>(), size_of::<WriteIn>(), size_of::<Dirent>()), (40, 40, 24));
    }
}
