//! [`Operations`]: how many requests of each kind the kernel sent, and how many bytes went through them.

use granary_fuse::Op;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! operations {
    ($($variant:ident $name:literal,)*) => {
        /// A kind of request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // the names are the kernel's
        pub enum Operation { $($variant,)* }

        impl Operation {
            /// All of them, in the order of their declaration.
            pub const ALL: [Operation; [$($name),*].len()] = [$(Operation::$variant),*];

            /// The name in results.
            pub fn name(self) -> &'static str {
                match self { $(Operation::$variant => $name,)* }
            }
        }
    };
}

operations! {
    Lookup "lookup", Getattr "getattr", Setattr "setattr", Readlink "readlink", Mknod "mknod", Mkdir "mkdir",
    Unlink "unlink", Rmdir "rmdir", Symlink "symlink", Rename "rename", Link "link", Create "create", Open "open",
    Read "read", Write "write", Release "release", Fsync "fsync", Fdatasync "fdatasync", SyncWrite "sync_write",
    Readdir "readdir", Readdirplus "readdirplus", Fsyncdir "fsyncdir", Statfs "statfs", Forget "forget",
    Fallocate "fallocate", Lseek "lseek", Setxattr "setxattr", Getxattr "getxattr", Listxattr "listxattr",
    Removexattr "removexattr", Tmpfile "tmpfile",
}

impl Operation {
    /// The kind of a request; none for those that are not counted.
    pub(crate) fn of(op: &Op<'_>) -> Option<Operation> {
        Some(match op {
            Op::Lookup { .. } => Operation::Lookup,
            Op::Getattr => Operation::Getattr,
            Op::Setattr(_) => Operation::Setattr,
            Op::Readlink => Operation::Readlink,
            Op::Mknod { .. } => Operation::Mknod,
            Op::Mkdir { .. } => Operation::Mkdir,
            Op::Unlink { .. } => Operation::Unlink,
            Op::Rmdir { .. } => Operation::Rmdir,
            Op::Symlink { .. } => Operation::Symlink,
            Op::Rename { .. } => Operation::Rename,
            Op::Link { .. } => Operation::Link,
            Op::Create { .. } => Operation::Create,
            Op::Tmpfile { .. } => Operation::Tmpfile,
            Op::Open { .. } => Operation::Open,
            Op::Read { .. } => Operation::Read,
            Op::Write { .. } => Operation::Write,
            Op::Release { .. } => Operation::Release,
            Op::Fsync { data_only: false } => Operation::Fsync,
            Op::Fsync { data_only: true } => Operation::Fdatasync,
            Op::Readdir { .. } => Operation::Readdir,
            Op::Readdirplus { .. } => Operation::Readdirplus,
            Op::Fsyncdir { .. } => Operation::Fsyncdir,
            Op::Statfs => Operation::Statfs,
            Op::Fallocate { .. } => Operation::Fallocate,
            Op::Lseek { .. } => Operation::Lseek,
            Op::Setxattr { .. } => Operation::Setxattr,
            Op::Getxattr { .. } => Operation::Getxattr,
            Op::Listxattr { .. } => Operation::Listxattr,
            Op::Removexattr { .. } => Operation::Removexattr,
            _ => return None,
        })
    }
}

/// Counts since the mount.
#[derive(Default)]
pub struct Operations {
    counts: [AtomicU64; Operation::ALL.len()],
    direct: [AtomicU64; Operation::ALL.len()],
    read_bytes: AtomicU64,
    write_bytes: AtomicU64,
}

impl Operations {
    pub(crate) fn count(&self, op: Operation) {
        self.counts[op as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn count_direct(&self, op: Operation) {
        self.direct[op as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn forgot(&self, nodes: usize) {
        self.counts[Operation::Forget as usize].fetch_add(nodes as u64, Relaxed);
    }

    pub(crate) fn read(&self, bytes: usize) {
        self.read_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn wrote(&self, bytes: usize) {
        self.write_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Requests of one kind.
    pub fn of(&self, op: Operation) -> u64 {
        self.counts[op as usize].load(Relaxed)
    }

    /// Commands of programs with direct access that were the like of such requests: `lookup` is a stat by path, `release` a close.
    pub fn of_direct(&self, op: Operation) -> u64 {
        self.direct[op as usize].load(Relaxed)
    }

    /// Bytes that left through reads. What the kernel's page cache served is not among them.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Relaxed)
    }

    /// Bytes that came with writes.
    pub fn write_bytes(&self) -> u64 {
        self.write_bytes.load(Relaxed)
    }
}
