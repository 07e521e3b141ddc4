//! The floor: a FUSE file system in memory that does as little as a file system can. `scripts/bench-mount.sh`
//! compares ours with it.
//!
//! ```text
//!   noop DIR [THREADS]     serves until it is unmounted
//! ```
//!
//! Files are byte vectors under one lock, names a map per directory; fsync does nothing. Options, caches and
//! time-outs are those of granary-mount, so that the difference is what lies behind the adapter.

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::time::{Duration, SystemTime};

const TTL: Duration = Duration::from_secs(30);

struct Inode {
    attr: FileAttr,
    data: Vec<u8>,
    names: BTreeMap<OsString, u64>,
}

#[derive(Default)]
struct Tree {
    inodes: HashMap<u64, Inode>,
    next: u64,
}

struct Noop(Mutex<Tree>);

fn attr(ino: u64, kind: FileType, perm: u16, req: Option<&Request>) -> FileAttr {
    #[allow(clippy::disallowed_methods)] // a file system on the wall clock
    let now = SystemTime::now();
    FileAttr {
        ino: INodeNo(ino),
        size: 0,
        blocks: 0,
        atime: now,
        mtime: now,
        ctime: now,
        crtime: now,
        kind,
        perm,
        nlink: 1,
        uid: req.map_or(0, Request::uid),
        gid: req.map_or(0, Request::gid),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Tree {
    fn make(
        &mut self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        kind: FileType,
        mode: u32,
    ) -> Option<FileAttr> {
        self.next += 1;
        let ino = self.next;
        let attr = attr(ino, kind, (mode & 0o7777) as u16, Some(req));
        self.inodes.get_mut(&parent.0)?.names.insert(name.to_owned(), ino);
        self.inodes.insert(ino, Inode { attr, data: Vec::new(), names: BTreeMap::new() });
        Some(attr)
    }
}

impl Filesystem for Noop {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let tree = self.0.lock();
        let found =
            tree.inodes.get(&parent.0).and_then(|d| d.names.get(name)).and_then(|i| tree.inodes.get(i));
        match found {
            Some(inode) => reply.entry(&TTL, &inode.attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.lock().inodes.get(&ino.0) {
            Some(inode) => reply.attr(&TTL, &inode.attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut tree = self.0.lock();
        let Some(inode) = tree.inodes.get_mut(&ino.0) else { return reply.error(Errno::ENOENT) };
        if let Some(mode) = mode {
            inode.attr.perm = (mode & 0o7777) as u16;
        }
        if let Some(size) = size {
            inode.data.resize(size as usize, 0);
            inode.attr.size = size;
        }
        if let Some(TimeOrNow::SpecificTime(t)) = mtime {
            inode.attr.mtime = t;
        }
        reply.attr(&TTL, &inode.attr);
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        match self.0.lock().make(req, parent, name, FileType::Directory, mode) {
            Some(attr) => reply.entry(&TTL, &attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.0.lock().make(req, parent, name, FileType::RegularFile, mode) {
            Some(attr) => {
                reply.created(&TTL, &attr, Generation(0), FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE)
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut tree = self.0.lock();
        // Good enough for a benchmark: nobody keeps a file open that it removes.
        if let Some(ino) = tree.inodes.get_mut(&parent.0).and_then(|d| d.names.remove(name)) {
            tree.inodes.remove(&ino);
        }
        reply.ok();
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unlink(req, parent, name, reply);
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let tree = self.0.lock();
        let Some(inode) = tree.inodes.get(&ino.0) else { return reply.error(Errno::ENOENT) };
        let from = (offset as usize).min(inode.data.len());
        let to = (from + size as usize).min(inode.data.len());
        reply.data(&inode.data[from..to]);
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut tree = self.0.lock();
        let Some(inode) = tree.inodes.get_mut(&ino.0) else { return reply.error(Errno::ENOENT) };
        let (from, to) = (offset as usize, offset as usize + data.len());
        if inode.data.len() < to {
            inode.data.resize(to, 0);
        }
        inode.data[from..to].copy_from_slice(data);
        inode.attr.size = inode.data.len() as u64;
        reply.written(data.len() as u32);
    }

    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let tree = self.0.lock();
        let Some(dir) = tree.inodes.get(&ino.0) else { return reply.error(Errno::ENOENT) };
        for (i, (name, &child)) in dir.names.iter().enumerate().skip(offset as usize) {
            let kind = tree.inodes.get(&child).map_or(FileType::RegularFile, |c| c.attr.kind);
            if reply.add(INodeNo(child), i as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let Some(dir) = args.next() else {
        eprintln!("usage: noop DIR [THREADS]");
        std::process::exit(2);
    };
    let threads = args.next().and_then(|t| t.parse().ok()).unwrap_or_else(granary_mount::default_threads);
    let mut tree = Tree { next: 1, ..Tree::default() };
    let root =
        Inode { attr: attr(1, FileType::Directory, 0o755, None), data: Vec::new(), names: BTreeMap::new() };
    tree.inodes.insert(1, root);
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("noop".to_owned()), MountOption::DefaultPermissions];
    config.acl = SessionACL::All;
    config.n_threads = Some(threads);
    config.clone_fd = true;
    Session::new(Noop(Mutex::new(tree)), dir, &config)?.run()
}
