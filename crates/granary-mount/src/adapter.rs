//! [`Adapter`]: each FUSE request as the vfs call that it means.
//!
//! ```text
//!   names.rs   lookup, create, mkdir, unlink, rename ... : every entry in a reply is a lookup to be forgotten
//!   files.rs   open, read, write, fsync, release
//!   stats.rs   the statistics file
//!   dirs.rs    readdir, readdirplus
//!   xattrs.rs  extended attributes
//!   seek.rs    SEEK_DATA and SEEK_HOLE, which mapped pages have a say in
//!   space.rs   what finds no space while removed files are still there
//! ```
//!
//! Permissions: the mount says `default_permissions`, so the kernel has checked everything that depends on the caller
//! (mode, supplementary groups, capabilities, sticky directories, set-ID bits to clear) before a request arrives. It
//! must: it answers path walks from its dentry cache without asking. The vfs is therefore called as root; the caller
//! counts only as the owner of what it creates.
//!
//! Open files: the kernel has them. A request to read or write says with which flags, so nothing need be kept of them
//! here, and most file systems answer the first OPEN and CREATE with "no such call": the kernel then opens, creates
//! (with MKNOD) and closes without asking, which saves a third of the requests of making a file. A file system that
//! wants to know when a file is closed ([`granary_vfs::FileSystem::watches_close`]) has handles.
//!
//! A mount that only reads refuses every change here, too: the kernel refuses them until somebody says `mount -o remount,rw`,
//! of which a FUSE server is not told and which it cannot refuse; the image below would forget what was written.
//!
//! Invariant: whatever a request used (nodes, open files) is let go before its reply, so that a program that sees the
//! reply never finds them busy.

mod dirs;
mod files;
mod names;
pub(crate) mod seek;
pub(crate) mod space;
pub(crate) mod stats;
mod xattrs;

use crate::convert::{Numbers, errno, set_time};
use crate::guard::Guard;
use crate::handles::Handles;
use crate::operations::{Operation, Operations};
use crate::options::{DurableHook, Options};
use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use granary_vfs::{Change, Cred, DirStream, FsError, NAME_MAX, NodeRef, OpenFile, Result, Vfs};
use seek::Seeker;
use space::Leavers;
use stats::Statistics;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Largest write request: what the kernel allows without a changed sysctl (`fs.fuse.max_pages_limit`, 256 pages).
const MAX_WRITE: u32 = 1 << 20;
/// Requests that the kernel may have under way without a caller waiting (read-ahead, releases).
const MAX_BACKGROUND: u16 = 64;

/// What the mount shares with the session that serves it.
pub(crate) struct Shared {
    pub(crate) vfs: Arc<Vfs>,
    /// Open files, if the file system wants to know of them.
    pub(crate) handles: Option<Handles<OpenFile>>,
    directories: Handles<DirStream>,
    pub(crate) operations: Arc<Operations>,
    numbers: Numbers,
    pub(crate) durable: Option<DurableHook>,
    stats: Option<Statistics>,
    xattrs: bool,
    read_only: bool,
    pub(crate) seeker: Seeker,
    pub(crate) leavers: Leavers,
    pub(crate) guard: Arc<Guard>,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Adapter(pub(crate) Arc<Shared>);

impl Adapter {
    pub(crate) fn new(vfs: Arc<Vfs>, options: &Options) -> Adapter {
        let numbers = Numbers { root: vfs.root().ino() };
        // A kernel that is told of lists asks for them before each access, and "not supported" would be its answer to everybody.
        let xattrs = options.xattrs && vfs.keeps_attributes();
        Adapter(Arc::new(Shared {
            handles: vfs.fs().watches_close().then(Handles::default),
            directories: Handles::default(),
            vfs,
            operations: Arc::new(Operations::default()),
            numbers,
            durable: options.durable.clone(),
            stats: options.stats.clone().map(Statistics::new),
            xattrs,
            read_only: options.read_only,
            seeker: Seeker::default(),
            leavers: Leavers::default(),
            guard: Arc::default(),
        }))
    }
}

impl Shared {
    /// Before a change.
    ///
    /// # Errors
    /// `ReadOnly`.
    pub(crate) fn changes(&self) -> Result<()> {
        if self.read_only { Err(FsError::ReadOnly) } else { self.guard.changes() }
    }

    fn node(&self, node: INodeNo) -> Result<NodeRef> {
        self.vfs.node(self.numbers.ino(node))
    }

    fn attr(&self, node: &NodeRef) -> FileAttr {
        self.numbers.attr(&self.vfs.stat(node))
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

    fn getattr(&self, node: INodeNo) -> Result<FileAttr> {
        if Statistics::is(node) {
            return self.statistics()?.attr(node);
        }
        Ok(self.attr(&self.node(node)?))
    }

    fn setattr(&self, node: INodeNo, change: &Change) -> Result<FileAttr> {
        if Statistics::is(node) {
            return Err(FsError::NotPermitted);
        }
        self.changes()?;
        let node = self.node(node)?;
        self.vfs.setattr(&Cred::ROOT, &node, change)?;
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
            Ok(file) => self.vfs.close(file),
            Err(shared) => drop(shared),
        }
    }
}

/// Sends a reply: the attributes, or the errno; that of an error of the drive where the request ended in a panic.
macro_rules! answer {
    ($shared:expr, $reply:ident, $result:expr, $ok:expr) => {
        match $shared.guard.run(|| $result) {
            Ok(value) =>
            {
                #[allow(clippy::redundant_closure_call)]
                ($ok)($reply, value)
            }
            Err(e) => $reply.error(errno(&e)),
        }
    };
}

/// The same for what needs space, which may come a little later.
macro_rules! answer_with_space {
    ($shared:expr, $whom:expr, $reply:ident, $request:expr, $ok:expr) => {
        $shared.with_space($whom, $request, move |result| match result {
            Ok(value) =>
            {
                #[allow(clippy::redundant_closure_call)]
                ($ok)($reply, value)
            }
            Err(e) => $reply.error(errno(&e)),
        })
    };
}

/// On whose behalf a request is served: its thread's; nobody's (what the kernel does by itself) counts as the file's.
fn whom(req: &Request, node: INodeNo) -> usize {
    match req.pid() {
        0 => node.0 as usize,
        pid => pid as usize,
    }
}

fn entry(reply: ReplyEntry, (attr, generation): (FileAttr, Generation)) {
    let name_ttl = if Statistics::is(attr.ino) { Duration::ZERO } else { crate::convert::NAME_TTL };
    reply.entry_with_ttls(&crate::convert::ATTR_TTL, &name_ttl, &attr, generation);
}

fn ok(reply: ReplyEmpty, (): ()) {
    reply.ok();
}

impl Filesystem for Adapter {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            // The kernel's clean pages are right until it changes them itself.
            InitFlags::FUSE_EXPLICIT_INVAL_DATA,
        ];
        for flag in wanted {
            // An older kernel without it works, only slower.
            let _ = config.add_capabilities(flag);
        }
        if self.0.xattrs {
            // The kernel asks for access control lists and checks them, and leaves the umask to us.
            let _ = config.add_capabilities(InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK);
        }
        let _ = config.set_max_write(MAX_WRITE);
        let _ = config.set_max_background(MAX_BACKGROUND);
        let _ = config.set_time_granularity(Duration::from_nanos(1));
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.0.operations.count(Operation::Lookup);
        answer!(self.0, reply, self.0.lookup(parent, name.as_bytes()), entry);
    }

    fn forget(&self, req: &Request, ino: INodeNo, nlookup: u64) {
        let _whose = granary_sim::on_behalf(whom(req, ino));
        self.0.guard.answer(|| self.0.forget(ino, nlookup));
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        self.0.operations.count(Operation::Getattr);
        answer!(self.0, reply, self.0.getattr(ino), |r: ReplyAttr, a| r.attr(&crate::convert::ATTR_TTL, &a));
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.0.operations.count(Operation::Setattr);
        let change = Change {
            mode: mode.map(|m| (m & 0o7777) as u16),
            uid,
            gid,
            size,
            atime: set_time(atime),
            mtime: set_time(mtime),
            // The kernel says itself which bits of the mode a chown takes away.
            chown: false,
        };
        let whom = whom(req, ino);
        let _whose = granary_sim::on_behalf(whom);
        let set = move |shared: &Shared| shared.setattr(ino, &change);
        answer_with_space!(self.0, whom, reply, set, |r: ReplyAttr, a| r.attr(&crate::convert::ATTR_TTL, &a));
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        self.0.operations.count(Operation::Readlink);
        answer!(self.0, reply, self.0.readlink(ino), |r: ReplyData, target: Vec<u8>| r.data(&target));
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        self.0.operations.count(Operation::Mknod);
        let whom = whom(req, parent);
        let _whose = granary_sim::on_behalf(whom);
        let (who, name) = ((req.uid(), req.gid()), name.to_owned());
        let make = move |shared: &Shared| shared.mknod(who, parent, name.as_bytes(), (mode, umask), rdev);
        answer_with_space!(self.0, whom, reply, make, entry);
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        self.0.operations.count(Operation::Mkdir);
        let whom = whom(req, parent);
        let _whose = granary_sim::on_behalf(whom);
        let (who, name) = ((req.uid(), req.gid()), name.to_owned());
        let make = move |shared: &Shared| shared.mkdir(who, parent, name.as_bytes(), (mode, umask));
        answer_with_space!(self.0, whom, reply, make, entry);
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.0.operations.count(Operation::Unlink);
        let whom = whom(req, parent);
        let _whose = granary_sim::on_behalf(whom);
        let name = name.to_owned();
        let remove = move |shared: &Shared| shared.unlink(parent, name.as_bytes());
        answer_with_space!(self.0, whom, reply, remove, ok);
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.0.operations.count(Operation::Rmdir);
        let whom = whom(req, parent);
        let _whose = granary_sim::on_behalf(whom);
        let name = name.to_owned();
        let remove = move |shared: &Shared| shared.rmdir(parent, name.as_bytes());
        answer_with_space!(self.0, whom, reply, remove, ok);
    }

    fn symlink(&self, req: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.0.operations.count(Operation::Symlink);
        let whom = whom(req, parent);
        let _whose = granary_sim::on_behalf(whom);
        let (who, name, target) = ((req.uid(), req.gid()), name.to_owned(), target.as_os_str().to_owned());
        let make = move |shared: &Shared| shared.symlink(who, parent, name.as_bytes(), target.as_bytes());
        answer_with_space!(self.0, whom, reply, make, entry);
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.0.operations.count(Operation::Rename);
        let whom = whom(req, parent);
        let _whose = granary_sim::on_behalf(whom);
        let (name, newname) = (name.to_owned(), newname.to_owned());
        let rename = move |shared: &Shared| {
            shared.rename((parent, name.as_bytes()), (newparent, newname.as_bytes()), flags)
        };
        answer_with_space!(self.0, whom, reply, rename, ok);
    }

    fn link(&self, req: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        self.0.operations.count(Operation::Link);
        let whom = whom(req, newparent);
        let _whose = granary_sim::on_behalf(whom);
        let newname = newname.to_owned();
        let link = move |shared: &Shared| shared.link(ino, newparent, newname.as_bytes());
        answer_with_space!(self.0, whom, reply, link, entry);
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        if self.0.handles.is_none() {
            return reply.error(Errno::ENOSYS);
        }
        self.0.operations.count(Operation::Create);
        let whom = whom(req, parent);
        let _whose = granary_sim::on_behalf(whom);
        let (who, name) = ((req.uid(), req.gid()), name.to_owned());
        let make = move |shared: &Shared| shared.create(who, parent, name.as_bytes(), (mode, umask), flags);
        answer_with_space!(self.0, whom, reply, make, |r: ReplyCreate, (attr, generation, fh)| {
            r.created(&crate::convert::ATTR_TTL, &attr, generation, fh, files::OPENED);
        });
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        // A mount that only reads is asked each time, so that nobody can map a file to write to it.
        if self.0.handles.is_none() && !self.0.read_only {
            return reply.error(Errno::ENOSYS);
        }
        self.0.operations.count(Operation::Open);
        answer!(self.0, reply, self.0.open(ino, flags.0), |r: ReplyOpen, fh| r.opened(fh, files::OPENED));
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.0.operations.count(Operation::Read);
        self.0.guard.answer(|| self.0.read((ino, fh), offset, size as usize, flags.0, reply));
    }

    fn write(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.0.operations.count(Operation::Write);
        let cached = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let flags = (!cached).then_some(flags.0);
        let whom = whom(req, ino);
        let _whose = granary_sim::on_behalf(whom);
        self.0.guard.answer(|| self.0.write(whom, (ino, fh), offset, data, flags, reply));
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Closing promises nothing, and the kernel holds no dirty data of ours: it need not ask again.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.0.operations.count(Operation::Release);
        if let Some(file) = self.0.handles.as_ref().and_then(|handles| handles.remove(fh)) {
            self.0.guard.answer(|| self.0.close(file));
        }
        reply.ok();
    }

    fn fsync(&self, req: &Request, ino: INodeNo, _fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.0.operations.count(if datasync { Operation::Fdatasync } else { Operation::Fsync });
        let _whose = granary_sim::on_behalf(whom(req, ino));
        self.0.guard.answer(|| self.0.fsync(ino, datasync, reply));
    }

    fn opendir(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        answer!(self.0, reply, self.0.opendir(ino), |r: ReplyOpen, fh| r
            .opened(fh, fuser::FopenFlags::empty()));
    }

    fn releasedir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.0.directories.remove(fh);
        reply.ok();
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.0.operations.count(Operation::Readdir);
        answer!(self.0, reply, self.0.readdir((ino, fh), offset, &mut reply), |r: ReplyDirectory, ()| r.ok());
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.0.operations.count(Operation::Readdirplus);
        answer!(
            self.0,
            reply,
            self.0.readdirplus((ino, fh), offset, &mut reply),
            |r: ReplyDirectoryPlus, ()| r.ok()
        );
    }

    fn fsyncdir(&self, req: &Request, ino: INodeNo, _fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.0.operations.count(Operation::Fsyncdir);
        let _whose = granary_sim::on_behalf(whom(req, ino));
        self.0.guard.answer(|| self.0.fsync(ino, datasync, reply));
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        self.0.operations.count(Operation::Statfs);
        self.0.when_there_is_space(move |shared| match shared.guard.run(|| shared.vfs.statfs()) {
            Ok(s) => reply.statfs(
                s.blocks,
                s.free_blocks,
                s.available_blocks(),
                s.inodes,
                s.free_inodes,
                4096,
                NAME_MAX as u32,
                4096,
            ),
            Err(e) => reply.error(errno(&e)),
        });
    }

    fn setxattr(
        &self,
        req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        if !self.0.xattrs {
            return reply.error(Errno::ENOSYS);
        }
        self.0.operations.count(Operation::Setxattr);
        let whom = whom(req, ino);
        let _whose = granary_sim::on_behalf(whom);
        let caller = xattrs::caller(req, name.as_bytes());
        let (name, value) = (name.to_owned(), value.to_owned());
        let set = move |shared: &Shared| shared.setxattr(&caller, ino, name.as_bytes(), &value, flags);
        answer_with_space!(self.0, whom, reply, set, ok);
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if !self.0.xattrs {
            return reply.error(Errno::ENOSYS);
        }
        self.0.operations.count(Operation::Getxattr);
        xattrs::answer(reply, size, self.0.guard.run(|| self.0.getxattr(ino, name.as_bytes())));
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        if !self.0.xattrs {
            return reply.error(Errno::ENOSYS);
        }
        self.0.operations.count(Operation::Listxattr);
        xattrs::answer(reply, size, self.0.guard.run(|| self.0.listxattr(req, ino)));
    }

    fn removexattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if !self.0.xattrs {
            return reply.error(Errno::ENOSYS);
        }
        self.0.operations.count(Operation::Removexattr);
        answer!(self.0, reply, self.0.removexattr(ino, name.as_bytes()), ok);
    }

    fn fallocate(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.0.operations.count(Operation::Fallocate);
        let whom = whom(req, ino);
        let _whose = granary_sim::on_behalf(whom);
        let allocate = move |shared: &Shared| shared.fallocate((ino, fh), offset, length, mode);
        answer_with_space!(self.0, whom, reply, allocate, ok);
    }

    fn lseek(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.0.operations.count(Operation::Lseek);
        self.0.guard.answer(|| self.0.seek(ino, offset, whence, reply));
    }

    fn access(&self, _req: &Request, _ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        // Not asked with default_permissions.
        reply.ok();
    }
}
