//! [`Exported`]: a drive's block interface as one file, for the kernel's own file systems over a loop device.
//!
//! ```text
//!   mkfs, mount -t ext4 ──> /dev/loopN ── losetup --direct-io=on ──> DIR/drive
//!                                                                      | FUSE, FOPEN_DIRECT_IO: no page cache between
//!     READ, WRITE   whole pages: one request = one command; edges: read, modify, write
//!     FSYNC         FLUSH, then durable()
//!     FALLOCATE     punch hole: TRIM of the pages covered, zeros to the edges; zero range: zeros are written
//! ```
//!
//! The drive cannot know what a block means to the file system above: all of it counts as data.
//!
//! Invariants: (1) a request is answered when the drive has acknowledged its commands; (2) a flush is answered when
//! everything answered before it is as safe as the drive makes it; (3) two requests that touch one page in part do not
//! lose each other's bytes.
//!
//! It does *not* merge, delay or reorder requests, and it has no cache: what the kernel asks is what the drive gets.
//!
//! Source: the kernel's `drivers/block/loop.c` (which request becomes which call) and `fs/fuse`.

use crate::adapter::stats::{Statistics, nothing};
use crate::error::MountError;
use crate::operations::{Operation, Operations};
use crate::options::{Options, wait_durable};
use crate::session::{self, Unmounter};
use fuser::{
    BackgroundSession, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, TimeOrNow, WriteFlags,
};
use granary_mssd::{DriveError, Port, Structure};
use granary_units::{Lpa, PAGE_SIZE, Page, Payload};
use parking_lot::RwLock;
use rustix::fs::FallocateFlags;
use rustix::process::{getgid, getuid};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Name of the file.
pub const DRIVE_FILE: &str = "drive";

const ROOT: INodeNo = INodeNo(1);
const FILE: INodeNo = INodeNo(2);
const PAGE: u64 = PAGE_SIZE as u64;
/// Largest request: what the kernel allows without a changed sysctl.
const MAX_WRITE: u32 = 1 << 20;
/// Requests that the kernel may have under way at once; a loop device has a queue of 128.
const MAX_BACKGROUND: u16 = 128;
/// Zeros are written by so many pages at a time.
const ZERO_BATCH: u64 = 256;
/// How long the kernel may believe in names and attributes: they never change.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// What the export shares with the session that serves it.
struct Shared {
    port: Port,
    size: u64,
    read_only: bool,
    /// Held shared by whole pages, alone by requests that change a page in part.
    edges: RwLock<()>,
    operations: Arc<Operations>,
    stats: Option<Statistics>,
    options: Options,
    born: SystemTime,
}

#[derive(Clone)]
struct Export(Arc<Shared>);

/// A drive that is served as a file. Dropped without [`Exported::join`], it is detached.
pub struct Exported {
    session: Option<BackgroundSession>,
    export: Export,
    unmounter: Unmounter,
}

/// Serves the block interface of `port` as the file [`DRIVE_FILE`] in `dir`, by threads of its own; returns when the
/// file is there. `options.xattrs` means nothing here.
///
/// # Errors
/// [`MountError`]: what is wrong with `/dev/fuse`, the directory or the permissions.
pub fn export(port: Port, dir: &Path, options: &Options) -> Result<Exported, MountError> {
    #[allow(clippy::disallowed_methods)] // the date that the file carries
    let born = SystemTime::now();
    let export = Export(Arc::new(Shared {
        size: port.info().pages * PAGE,
        port,
        read_only: options.read_only,
        edges: RwLock::new(()),
        operations: Arc::default(),
        stats: options.stats.clone().map(Statistics::new),
        options: options.clone(),
        born,
    }));
    let dir = session::check_directory(dir)?;
    session::check_device()?;
    let served = Session::new(export.clone(), &dir, &session::config(options));
    let served = served.map_err(|e| session::refused(&dir, e))?;
    let served = served.spawn().map_err(MountError::io("starting the serving threads"))?;
    let unmounter = Unmounter::here(dir)?;
    Ok(Exported { session: Some(served), export, unmounter })
}

impl Exported {
    /// The directory with the file.
    pub fn dir(&self) -> &Path {
        self.unmounter.dir()
    }

    /// What ends it.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Waits until it is unmounted; then everything is flushed and durable.
    ///
    /// # Errors
    /// The session's; the drive's.
    pub fn join(mut self) -> Result<(), MountError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), MountError> {
        let Some(served) = self.session.take() else { return Ok(()) };
        let served = session::ended(served);
        let flushed = self.export.0.flush().map_err(|e| io::Error::from_raw_os_error(e.code()));
        flushed.map_err(MountError::io("flushing the drive"))?;
        served
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        if self.session.is_some() {
            let _ = self.unmounter.unmount(true);
            let _ = self.finish();
        }
    }
}

fn errno(e: &DriveError) -> Errno {
    match e {
        DriveError::OutOfRange { .. } => Errno::ENOSPC,
        DriveError::ReadOnly(_) => Errno::EROFS,
        _ => Errno::EIO,
    }
}

impl Shared {
    fn root(&self) -> FileAttr {
        FileAttr { ino: ROOT, kind: FileType::Directory, perm: 0o755, nlink: 2, ..self.owned() }
    }

    fn file(&self) -> FileAttr {
        let perm = if self.read_only { 0o400 } else { 0o600 };
        FileAttr { ino: FILE, size: self.size, blocks: self.size / 512, perm, ..self.owned() }
    }

    fn owned(&self) -> FileAttr {
        let (at, uid, gid) = (self.born, getuid().as_raw(), getgid().as_raw());
        FileAttr { atime: at, mtime: at, ctime: at, crtime: at, uid, gid, ..nothing() }
    }

    fn attr(&self, node: INodeNo) -> Result<FileAttr, Errno> {
        match node {
            ROOT => Ok(self.root()),
            FILE => Ok(self.file()),
            other => {
                let stats = self.stats.as_ref().filter(|_| Statistics::is(other)).ok_or(Errno::ESTALE)?;
                stats.attr(other).map_err(|_| Errno::ESTALE)
            }
        }
    }

    fn read_pages(&self, first: u64, pages: &mut [Page]) -> Result<(), Errno> {
        self.port.read(Lpa(first), pages, Structure::Data).map_err(|e| errno(&e))
    }

    fn write_pages(&self, first: u64, pages: &[Page]) -> Result<(), Errno> {
        self.port.write(Lpa(first), pages, Structure::Data).map_err(|e| errno(&e))
    }

    /// Up to `len` bytes from `pos` on; fewer only at the drive's end.
    fn read(&self, pos: u64, len: u64) -> Result<Vec<u8>, Errno> {
        let end = self.size.min(pos.saturating_add(len));
        if pos >= end {
            return Ok(Vec::new());
        }
        let first = pos / PAGE;
        let mut pages = vec![Page::default(); (end.div_ceil(PAGE) - first) as usize];
        {
            let _whole = self.edges.read();
            self.read_pages(first, &mut pages)?;
        }
        let mut out = vec![0; (end - pos) as usize];
        for (i, page) in pages.iter().enumerate() {
            let start = (first + i as u64) * PAGE;
            let (from, to) = (pos.max(start), end.min(start + PAGE));
            page.copy_out((from - start) as usize, &mut out[(from - pos) as usize..(to - pos) as usize]);
        }
        Ok(out)
    }

    fn inside(&self, pos: u64, len: u64) -> Result<(), Errno> {
        match pos.checked_add(len) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(Errno::ENOSPC),
        }
    }

    fn write(&self, pos: u64, data: &[u8]) -> Result<(), Errno> {
        self.inside(pos, data.len() as u64)?;
        if data.is_empty() {
            return Ok(());
        }
        let first = pos / PAGE;
        if pos.is_multiple_of(PAGE) && data.len().is_multiple_of(PAGE_SIZE) {
            let chunks = data.as_chunks::<PAGE_SIZE>().0;
            let pages: Vec<Page> = chunks.iter().map(Page::from_bytes).collect();
            let _whole = self.edges.read();
            return self.write_pages(first, &pages);
        }
        let end = pos + data.len() as u64;
        let mut pages = vec![Page::default(); (end.div_ceil(PAGE) - first) as usize];
        let last = pages.len() - 1;
        let _alone = self.edges.write();
        // Only the edges keep something of what is there.
        if !pos.is_multiple_of(PAGE) || (last == 0 && !end.is_multiple_of(PAGE)) {
            self.read_pages(first, &mut pages[..1])?;
        }
        if last > 0 && !end.is_multiple_of(PAGE) {
            self.read_pages(first + last as u64, &mut pages[last..])?;
        }
        for (i, page) in pages.iter_mut().enumerate() {
            let start = (first + i as u64) * PAGE;
            let (from, to) = (pos.max(start), end.min(start + PAGE));
            page.write(
                (from - start) as usize,
                Payload::Bytes(&data[(from - pos) as usize..(to - pos) as usize]),
            );
        }
        self.write_pages(first, &pages)
    }

    fn flush(&self) -> Result<(), Errno> {
        self.port.flush().map_err(|e| errno(&e))?;
        wait_durable(self.options.durable.as_ref()).map_err(Errno::from)
    }

    /// Whole pages of `pos..end` by `pages(first, count)`, zeros to the edges.
    fn clear(
        &self,
        pos: u64,
        end: u64,
        pages: impl FnOnce(u64, u64) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let zeros = [0; PAGE_SIZE];
        let (first, last) = (pos.next_multiple_of(PAGE), end / PAGE * PAGE);
        if first >= last {
            // Within two pages: no page is covered.
            let edge = end.min(first);
            self.write(pos, &zeros[..(edge - pos) as usize])?;
            return self.write(edge, &zeros[..(end - edge) as usize]);
        }
        self.write(pos, &zeros[..(first - pos) as usize])?;
        {
            let _whole = self.edges.read();
            pages(first / PAGE, (last - first) / PAGE)?;
        }
        self.write(last, &zeros[..(end - last) as usize])
    }

    fn fallocate(&self, pos: u64, len: u64, mode: i32) -> Result<(), Errno> {
        self.inside(pos, len)?;
        let end = pos + len;
        let mode = FallocateFlags::from_bits_retain(mode as u32).difference(FallocateFlags::KEEP_SIZE);
        if mode == FallocateFlags::PUNCH_HOLE {
            self.clear(pos, end, |first, count| {
                let ticket = self.port.trim(Lpa(first), count).map_err(|e| errno(&e))?;
                self.port.wait(ticket);
                Ok(())
            })
        } else if mode == FallocateFlags::ZERO_RANGE {
            // A trim may be forgotten when power fails, zeros may not.
            let zeros = vec![Page::default(); ZERO_BATCH as usize];
            self.clear(pos, end, |first, count| {
                (0..count).step_by(ZERO_BATCH as usize).try_for_each(|done| {
                    let batch = ZERO_BATCH.min(count - done) as usize;
                    self.write_pages(first + done, &zeros[..batch])
                })
            })
        } else if mode.is_empty() {
            Ok(()) // every block of a drive is there
        } else {
            Err(Errno::EOPNOTSUPP)
        }
    }
}

impl Filesystem for Export {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it the kernel would wait for each request of a loop device before it sends the next one.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(MAX_WRITE);
        let _ = config.set_max_background(MAX_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let s = &self.0;
        match (parent, name.as_bytes(), &s.stats) {
            (ROOT, n, _) if n == DRIVE_FILE.as_bytes() => reply.entry(&TTL, &s.file(), Generation(0)),
            (ROOT, n, Some(stats)) if n == crate::STATS_FILE.as_bytes() => {
                let attr = stats.look(&s.operations);
                reply.entry_with_ttls(&TTL, &Duration::ZERO, &attr, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn forget(&self, _req: &Request, ino: INodeNo, _nlookup: u64) {
        if let Some(stats) = self.0.stats.as_ref().filter(|_| Statistics::is(ino)) {
            stats.forget(ino);
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.attr(ino) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(e) => reply.error(e),
        }
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = mode.is_some() || uid.is_some() || gid.is_some();
        let same_size = size.is_none_or(|n| n == self.0.size);
        match self.0.attr(ino) {
            // Times mean nothing for a drive; its size and owner are what they are.
            Ok(attr) if ino == FILE && !changes && same_size => reply.attr(&TTL, &attr),
            Ok(_) => reply.error(Errno::EPERM),
            Err(e) => reply.error(e),
        }
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), if ino == FILE { direct } else { FopenFlags::empty() });
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
        if let Some(stats) = self.0.stats.as_ref().filter(|_| Statistics::is(ino)) {
            let mut out = vec![0; size as usize];
            return match stats.read(ino, offset, &mut out) {
                Ok(n) => reply.data(&out[..n]),
                Err(_) => reply.error(Errno::ESTALE),
            };
        }
        self.0.operations.count(Operation::Read);
        match self.0.read(offset, u64::from(size)) {
            Ok(bytes) => {
                self.0.operations.read(bytes.len());
                reply.data(&bytes);
            }
            Err(e) => reply.error(e),
        }
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
        if ino != FILE {
            return reply.error(Errno::EPERM);
        }
        self.0.operations.count(Operation::Write);
        match self.0.write(offset, data) {
            Ok(()) => {
                self.0.operations.wrote(data.len());
                reply.written(data.len() as u32);
            }
            Err(e) => reply.error(e),
        }
    }

    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        // Closing a block device promises nothing; who flushes it sends FSYNC.
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.0.operations.count(Operation::Fsync);
        match self.0.flush() {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(e),
        }
    }

    fn fallocate(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if ino != FILE {
            return reply.error(Errno::EPERM);
        }
        self.0.operations.count(Operation::Fallocate);
        match self.0.fallocate(offset, length, mode) {
            Ok(()) => {
                if FallocateFlags::from_bits_retain(mode as u32).contains(FallocateFlags::ZERO_RANGE) {
                    self.0.operations.wrote(length as usize);
                }
                reply.ok();
            }
            Err(e) => reply.error(e),
        }
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if ino != ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let all = [
            (ROOT, FileType::Directory, "."),
            (ROOT, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, DRIVE_FILE),
        ];
        for (i, (node, kind, name)) in all.into_iter().enumerate().skip(offset as usize) {
            if reply.add(node, i as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        reply.statfs(self.0.size / PAGE, 0, 0, 1, 0, PAGE_SIZE as u32, 255, PAGE_SIZE as u32);
    }
}

#[cfg(test)]
mod tests;
