//! [`Operation`]: the one list of what can be asked of a mount: by a request of the kernel, by a command of a
//! program with direct access, and which call of the vfs does it. [`Operations`] counts them.
//!
//! A request or a command that the list lacks does not compile; nor does a line whose call the vfs has not.

use granary_direct::Op as Command;
use granary_fuse::Op as Request;
use granary_vfs::Vfs;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! operations {
    (
        not counted: $not_counted:pat,
        $($variant:ident $name:literal: [$($request:pat)?] [$($command:pat)?] [$($call:ident)?],)*
    ) => {
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

            /// The kind of a request; none for those that are not counted.
            pub(crate) fn of(request: &Request<'_>) -> Option<Operation> {
                Some(match request {
                    $($($request => Operation::$variant,)?)*
                    $not_counted => return None,
                })
            }

            /// The kind of a direct command; `data_only` is of [`Command::Sync`].
            pub(crate) fn of_command(command: Command, data_only: bool) -> Operation {
                match (command, data_only) { $($($command => Operation::$variant,)?)* }
            }

            /// The calls of the vfs are there.
            #[allow(dead_code, reason = "for the compiler")]
            fn calls() {
                $($(let _ = Vfs::$call;)?)*
            }
        }
    };
}

operations! {
    not counted: Request::Flush | Request::Opendir | Request::Releasedir { .. } | Request::Access | Request::Ioctl { .. }
        | Request::Forget { .. } | Request::BatchForget { .. } | Request::Init(_) | Request::Interrupt | Request::Destroy
        | Request::Unknown { .. },
    // In results, the kernel's request, a direct command, the call of the vfs.
    Lookup "lookup": [Request::Lookup { .. }] [(Command::StatPath | Command::Access, _)] [lookup],
    Getattr "getattr": [Request::Getattr] [(Command::Stat, _)] [stat],
    Setattr "setattr": [Request::Setattr(_)]
        [(Command::Chmod | Command::Chown | Command::Utimens | Command::Truncate, _)] [setattr],
    Readlink "readlink": [Request::Readlink] [(Command::Readlink, _)] [readlink],
    Mknod "mknod": [Request::Mknod { .. }] [] [create],
    Mkdir "mkdir": [Request::Mkdir { .. }] [(Command::Mkdir, _)] [create],
    Unlink "unlink": [Request::Unlink { .. }] [(Command::Unlink, _)] [unlink],
    Rmdir "rmdir": [Request::Rmdir { .. }] [(Command::Rmdir, _)] [rmdir],
    Symlink "symlink": [Request::Symlink { .. }] [(Command::Symlink, _)] [create],
    Rename "rename": [Request::Rename { .. }] [(Command::Rename, _)] [rename],
    Link "link": [Request::Link { .. }] [(Command::Link, _)] [link],
    Create "create": [Request::Create { .. }] [(Command::Create, _)] [create_or_get],
    Open "open": [Request::Open { .. }] [(Command::Open, _)] [open],
    Read "read": [Request::Read { .. }] [(Command::Read, _)] [read],
    Write "write": [Request::Write { .. }] [(Command::Write, _)] [write],
    Release "release": [Request::Release { .. }] [(Command::Close, _)] [close],
    Fsync "fsync": [Request::Fsync { data_only: false }] [(Command::Sync, false)] [fsync_file],
    Fdatasync "fdatasync": [Request::Fsync { data_only: true }] [(Command::Sync, true)] [fsync_file],
    // Counted beside the write that asks for it.
    SyncWrite "sync_write": [] [] [],
    Readdir "readdir": [Request::Readdir { .. }] [] [readdir],
    Readdirplus "readdirplus": [Request::Readdirplus { .. }] [] [readdir],
    Fsyncdir "fsyncdir": [Request::Fsyncdir { .. }] [] [fsync],
    Statfs "statfs": [Request::Statfs] [] [statfs],
    // By the node, of which one request names many.
    Forget "forget": [] [] [],
    Fallocate "fallocate": [Request::Fallocate { .. }] [] [fallocate],
    Lseek "lseek": [Request::Lseek { .. }] [] [seek],
    Setxattr "setxattr": [Request::Setxattr { .. }] [] [setxattr],
    Getxattr "getxattr": [Request::Getxattr { .. }] [] [getxattr],
    Listxattr "listxattr": [Request::Listxattr { .. }] [] [listxattr],
    Removexattr "removexattr": [Request::Removexattr { .. }] [] [removexattr],
    Tmpfile "tmpfile": [Request::Tmpfile { .. }] [] [create_unnamed],
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

    /// Commands of programs with direct access that were the like of such requests: `lookup` is a stat by
    /// path, `release` a close.
    pub fn of_direct(&self, op: Operation) -> u64 {
        self.direct[op as usize].load(Relaxed)
    }

    /// Bytes that left through reads, without those that the kernel's page cache served.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Relaxed)
    }

    /// Bytes that came with writes.
    pub fn write_bytes(&self) -> u64 {
        self.write_bytes.load(Relaxed)
    }
}
