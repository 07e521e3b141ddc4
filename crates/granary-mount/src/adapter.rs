//! [`Adapter`]: each FUSE request as the vfs call that it means.
//!
//! ```text
//!   names.rs   lookup, create, mkdir, unlink, rename ... : every entry in a reply is a lookup to be
//!              forgotten
//!   files.rs   open, read, write, fsync, release
//!   stats.rs   the statistics file
//!   dirs.rs    readdir, readdirplus
//!   ioctl.rs   fstrim; flags.rs: chattr, lsattr
//!   xattrs.rs  extended attributes
//!   seek.rs    SEEK_DATA and SEEK_HOLE, which mapped pages have a say in
//!   space.rs   what finds no space while removed files are still there
//!   pages.rs   pages that the kernel keeps, beside direct writes
//!   privileges.rs   set-ID bits, which go when somebody else changes the content
//!   errands.rs a thread for what serving threads must not wait for
//! ```
//!
//! Permissions: the mount says `default_permissions`, so the kernel has checked everything that depends on
//! the caller (mode, supplementary groups, capabilities, sticky directories, set-ID bits to clear) before a
//! request arrives. It must: it answers path walks from its dentry cache without asking. The vfs is therefore
//! called as root; the caller counts only as the owner of what it creates.
//!
//! Open files: the kernel has them. A request to read or write says with which flags, so nothing need be kept
//! of them here. Most file systems answer the first OPEN and CREATE with "no such call". The kernel then
//! opens, creates (with MKNOD) and closes without asking, which saves a third of the requests of making a
//! file. A file system that wants to know when a file is closed ([`granary_fs::Quirks::watches_close`]) has
//! handles.
//!
//! A mount that only reads refuses every change here, too: the kernel refuses them until somebody says
//! `mount -o remount,rw`, of which a FUSE server is not told and which it cannot refuse; the image below
//! would forget what was written.
//!
//! Invariant: a request lets go of everything that it used (nodes, open files) before its reply, so that a
//! program that sees the reply never finds them busy.

mod dirs;
pub(crate) mod errands;
mod files;
mod flags;
mod ioctl;
mod names;
mod pages;
mod privileges;
mod seek;
mod serve;
pub(crate) mod space;
pub(crate) mod stats;
mod xattrs;

use crate::convert::{ATTR_TTL, DIRECTORY_TTL, NAME_TTL, Numbers, errno, set_time};
use crate::direct::Settling;
use crate::guard::Guard;
use crate::handles::Handles;
use crate::operations::Operations;
use crate::options::{Advise, DurableHook, Options};
use errands::Errands;
use granary_fs::{Caller, FileKind, FsError, Ino, NAME_MAX, Result};
use granary_fuse::abi::{Attr, AttrOut, EntryOut, InitFlags, OpenOut, Statfs};
use granary_fuse::{NodeId, Notifier, Op, Reply, Request, Setattr};
use granary_vfs::{Change, DirStream, NodeRef, OpenFile, Vfs};
use privileges::Requester;
pub(crate) use privileges::status as process_status;
use serve::{send, whom};
use space::Leavers;
use stats::Statistics;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Largest write request that the kernel allows without a changed sysctl (`fs.fuse.max_pages_limit`, 256
/// pages).
pub(crate) const MAX_WRITE: u32 = 1 << 20;
/// Requests that the kernel may have under way without a caller waiting (read-ahead, releases).
pub(crate) const MAX_BACKGROUND: u16 = 64;

/// See the module.
pub(crate) struct Adapter {
    pub(crate) vfs: Arc<Vfs>,
    /// Open files, if the file system wants to know of them.
    pub(crate) handles: Option<Handles<OpenFile>>,
    directories: Handles<DirStream>,
    pub(crate) operations: Arc<Operations>,
    numbers: Numbers,
    pub(crate) durable: Option<DurableHook>,
    stats: Option<Statistics>,
    xattrs: bool,
    advise: Option<Advise>,
    read_only: bool,
    /// There is direct access.
    pub(crate) makes_directly: bool,
    /// To tell the kernel what it does not ask; there once it is mounted.
    pub(crate) kernel: OnceLock<Notifier>,
    pub(crate) errands: Errands,
    pub(crate) leavers: Leavers,
    pub(crate) guard: Arc<Guard>,
    pub(crate) settling: Settling,
}

/// Answers to changes.
enum Answer {
    Done,
    Entry(EntryOut),
    Attr(AttrOut),
    Created(EntryOut, OpenOut),
}

impl Adapter {
    pub(crate) fn new(vfs: Arc<Vfs>, options: &Options) -> Adapter {
        let numbers = Numbers { root: vfs.root().ino() };
        // A kernel that is told of lists asks for them before each access, and "not supported" would be its
        // answer to everybody.
        let xattrs = options.xattrs && vfs.keeps_attributes();
        Adapter {
            handles: vfs.fs().features().quirks.watches_close.then(Handles::default),
            directories: Handles::default(),
            vfs,
            operations: Arc::new(Operations::default()),
            numbers,
            durable: options.durable.clone(),
            stats: options.stats.clone().map(Statistics::new),
            xattrs,
            advise: options.advise.clone(),
            read_only: options.read_only,
            makes_directly: options.direct.is_some(),
            kernel: OnceLock::new(),
            errands: Errands::default(),
            leavers: Leavers::default(),
            guard: Arc::default(),
            settling: Settling::default(),
        }
    }

    /// The flags to ask of the kernel. An older one without some of them works, only slower.
    pub(crate) fn wanted(&self) -> InitFlags {
        let mut wanted = InitFlags::PARALLEL_DIROPS
            | InitFlags::ASYNC_DIO
            | InitFlags::DO_READDIRPLUS
            | InitFlags::READDIRPLUS_AUTO
            | InitFlags::CACHE_SYMLINKS
            // fstrim asks a directory.
            | InitFlags::HAS_IOCTL_DIR
            // Handles of files: it asks for "." and ".." of numbers that it has forgotten.
            | InitFlags::EXPORT_SUPPORT
            // Set-ID bits: the kernel knows half of the rule only.
            | InitFlags::HANDLE_KILLPRIV_V2
            // The kernel's clean pages are right until it changes them itself.
            | InitFlags::EXPLICIT_INVAL_DATA;
        if self.xattrs {
            // The kernel asks for access control lists and checks them, and leaves the umask to us.
            wanted |= InitFlags::POSIX_ACL | InitFlags::DONT_MASK;
        }
        wanted
    }

    /// Before a change.
    ///
    /// # Errors
    /// `ReadOnly`.
    pub(crate) fn changes(&self) -> Result<()> {
        if self.read_only { Err(FsError::ReadOnly) } else { self.guard.changes() }
    }

    fn node(&self, node: NodeId) -> Result<NodeRef> {
        self.vfs.node(self.numbers.ino(node))
    }

    /// Attributes for the kernel, which keeps them.
    fn attr(&self, node: &NodeRef) -> Attr {
        node.mark_told();
        self.attributes_of(node)
    }

    /// How long the kernel may believe in attributes. Those of directories change behind its back where files
    /// are made by direct access.
    fn attr_ttl(&self, attr: &Attr) -> Duration {
        let is_dir = attr.mode >> 12 == u32::from(FileKind::Dir.code());
        if self.makes_directly && is_dir { DIRECTORY_TTL } else { ATTR_TTL }
    }

    /// An entry, and how long the kernel may believe in it.
    fn told(&self, attr: Attr, generation: u64) -> EntryOut {
        let name = if Statistics::is(NodeId(attr.ino)) { Duration::ZERO } else { NAME_TTL };
        EntryOut::new(attr, generation, name, self.attr_ttl(&attr))
    }

    /// Attributes, and how long the kernel may believe in them.
    fn told_attr(&self, attr: Attr) -> AttrOut {
        AttrOut::new(attr, self.attr_ttl(&attr))
    }

    /// Attributes for somebody who does not keep them.
    pub(crate) fn attributes_of(&self, node: &NodeRef) -> Attr {
        self.numbers.attr(&self.vfs.stat(node))
    }

    /// The number by which the kernel knows an inode.
    pub(crate) fn number(&self, ino: Ino) -> NodeId {
        self.numbers.node(ino)
    }

    /// Calls `then` when everything acknowledged is durable.
    fn durable(&self, then: impl FnOnce(io::Result<()>) + Send + 'static) {
        let Some(hook) = &self.durable else { return then(Ok(())) };
        let guard = Arc::clone(&self.guard);
        guard.waits();
        hook(Box::new(move |durable| {
            then(durable);
            guard.told();
        }));
    }

    fn getattr(&self, node: NodeId) -> Result<Attr> {
        if Statistics::is(node) {
            return self.statistics()?.attr(node);
        }
        Ok(self.attr(&self.node(node)?))
    }

    fn setattr(&self, caller: Requester, node: NodeId, set: &Setattr) -> Result<Attr> {
        if Statistics::is(node) {
            return Err(FsError::NotPermitted);
        }
        self.changes()?;
        let node = self.node(node)?;
        let mode = set.mode.map(|m| (m & 0o7777) as u16);
        let change = Change {
            mode: mode.or_else(|| match set.uid.or(set.gid) {
                Some(_) => self.mode_after_chown(caller, &node),
                None => self.mode_without_set_ids(caller, &node),
            }),
            uid: set.uid,
            gid: set.gid,
            size: set.size,
            atime: set_time(set.atime),
            mtime: set_time(set.mtime),
            flags: None,
            // Which bits of the mode it takes away is in the mode already.
            chown: false,
        };
        let set = || self.vfs.setattr(&Caller::KERNEL, &node, &change);
        if change.size.is_some() { self.changing(&node, set) } else { set() }?;
        Ok(self.attr(&node))
    }

    /// Lets go of everything that the kernel held. No request is under way.
    pub(crate) fn let_go(&self) {
        for file in self.handles.iter().flat_map(Handles::take_all) {
            self.close(file);
        }
        self.directories.take_all();
        self.vfs.forget_all();
    }

    fn close(&self, file: Arc<OpenFile>) {
        match Arc::try_unwrap(file) {
            Ok(file) => self.vfs.close(&Caller::KERNEL, file),
            Err(shared) => drop(shared),
        }
    }

    /// Serves a request and sends its answer: the result, or the errno; that of an error of the drive where
    /// it ended in a panic.
    fn answer<T>(&self, reply: Reply, request: impl FnOnce() -> Result<T>, ok: impl FnOnce(Reply, T)) {
        match self.guard.run(request) {
            Ok(value) => ok(reply, value),
            Err(e) => reply.error(errno(&e)),
        }
    }

    /// The same for a change. It may need space that comes a little later, and is then done once more by
    /// another thread: this one goes on to the next request.
    fn answer_change(&self, request: &Request<'_>, reply: Reply) {
        match self.guard.run(|| self.change(request)) {
            Err(e) if self.is_worth_waiting(&e) => {
                let kept = request.keep();
                self.again(whom(request), move |adapter| {
                    send(reply, adapter.guard.run(|| adapter.change(&kept.request())));
                });
            }
            done => send(reply, done),
        }
    }

    /// Does what changes names or attributes.
    fn change(&self, request: &Request<'_>) -> Result<Answer> {
        let (node, who) = (request.node, (request.uid, request.gid));
        match request.op {
            Op::Setattr(set) => self
                .setattr(Requester::of(request, set.kill), node, &set)
                .map(|attr| Answer::Attr(self.told_attr(attr))),
            Op::Mknod { name, mode, umask, rdev } => {
                self.mknod(who, node, name, (mode, umask), rdev).map(Answer::Entry)
            }
            Op::Mkdir { name, mode, umask } => self.mkdir(who, node, name, (mode, umask)).map(Answer::Entry),
            Op::Symlink { name, target } => self.symlink(who, node, name, target).map(Answer::Entry),
            Op::Link { from, name } => self.link(from, node, name).map(Answer::Entry),
            Op::Create { name, mode, umask, flags } => {
                let (entry, handle) = self.create(who, node, name, (mode, umask), flags)?;
                Ok(Answer::Created(entry, OpenOut::new(handle, files::OPENED)))
            }
            Op::Tmpfile { mode, umask, flags } => {
                let (entry, handle) = self.tmpfile(who, node, (mode, umask), flags)?;
                Ok(Answer::Created(entry, OpenOut::new(handle, files::OPENED)))
            }
            Op::Unlink { name } => self.unlink(node, name).map(|()| Answer::Done),
            Op::Rmdir { name } => self.rmdir(node, name).map(|()| Answer::Done),
            Op::Rename { name, to_dir, to, flags } => {
                self.rename((node, name), (to_dir, to), flags).map(|()| Answer::Done)
            }
            Op::Setxattr { name, value, flags } => {
                let caller = xattrs::caller(request, name);
                self.setxattr(&caller, node, name, value, flags).map(|()| Answer::Done)
            }
            Op::Removexattr { name } => self.removexattr(node, name).map(|()| Answer::Done),
            Op::Fallocate { handle, offset, length, mode } => {
                let caller = Requester::of(request, true);
                self.fallocate(caller, (node, handle), offset, length, mode).map(|()| Answer::Done)
            }
            _ => Err(FsError::NotSupported),
        }
    }

    fn statfs(&self, reply: Reply) {
        self.when_there_is_space(move |adapter| {
            let told = |reply: Reply, s: granary_fs::StatFs| {
                reply.statfs(Statfs {
                    blocks: s.blocks,
                    bfree: s.free_blocks,
                    bavail: s.available_blocks(),
                    files: s.inodes,
                    ffree: s.free_inodes,
                    bsize: 4096,
                    namelen: NAME_MAX as u32,
                    frsize: 4096,
                    ..Statfs::default()
                });
            };
            adapter.answer(reply, || adapter.vfs.statfs(&Caller::KERNEL), told);
        });
    }

    /// Says what overlayfs, whose own message is of the kernel's log, misses. The kernel asks once.
    fn advise_overlay(&self, op: &Op<'_>) {
        let is_overlays = |name: &[u8]| {
            [&b"trusted.overlay."[..], b"user.overlay."].iter().any(|own| name.starts_with(own))
        };
        if let (Op::Setxattr { name, .. }, Some(advise)) = (op, &self.advise)
            && is_overlays(name)
        {
            advise(match self.vfs.keeps_attributes() {
                true => "overlayfs needs extended attributes: mount with --xattrs",
                false => {
                    "overlayfs needs extended attributes, which this file system does not keep: use bytefs, ext4 or f2fs"
                }
            });
        }
    }

    /// Whether this is no call of ours; the kernel goes without it from then on.
    fn declines(&self, op: &Op<'_>) -> bool {
        match op {
            // A mount that only reads is asked each time, so that nobody can map a file to write to it.
            Op::Open { .. } => self.handles.is_none() && !self.read_only,
            Op::Create { .. } => self.handles.is_none(),
            // Closing promises nothing, and the kernel holds no dirty data of ours: it need not ask again.
            Op::Flush => true,
            Op::Setxattr { .. } | Op::Getxattr { .. } | Op::Listxattr { .. } | Op::Removexattr { .. } => {
                !self.xattrs
            }
            _ => false,
        }
    }
}
