//! [`Exported`]: a drive's block interface as one file, for the kernel's own file systems over a loop device.
//!
//! ```text
//!   mkfs, mount -t ext4 ──> /dev/loopN ── losetup --direct-io=on ──> DIR/drive
//!                                                                      | FUSE, FOPEN_DIRECT_IO:
//!                                                                      | no page cache between
//!     READ, WRITE   whole pages: one request = one command; edges: read, modify, write
//!     FSYNC         FLUSH, then durable()
//!     FALLOCATE     punch hole: TRIM of the pages covered, zeros to the edges; zero range: zeros are written
//! ```
//!
//! The drive cannot know what a block means to the file system above: all of it counts as data.
//!
//! Invariants. (1) A request is answered when the drive has acknowledged its commands. (2) A flush is
//! answered when everything answered before it is as safe as the drive makes it. (3) Two requests that touch
//! one page in part do not lose each other's bytes.
//!
//! It does *not* merge, delay or reorder requests, and it has no cache: the drive gets the kernel's own
//! requests.
//!
//! Source: the kernel's `drivers/block/loop.c` (which request becomes which call) and `fs/fuse`.

use crate::adapter::stats::{Statistics, nothing};
use crate::convert::io_errno;
use crate::error::MountError;
use crate::operations::{Operation, Operations};
use crate::options::{Options, wait_durable};
use crate::session::{self, Unmounter};
use granary_device::{DriveError, Port, Structure};
use granary_fs::FileKind;
use granary_fuse::abi::{Attr, AttrOut, EntryOut, ForgetOne, InitFlags, OpenOut, OpenedAs, Statfs};
use granary_fuse::{Handle, Listing, NodeId, Op, Reply, Request, Server, Serving, Session, Setattr};
use granary_units::{Lpa, PAGE_SIZE, Page, Payload};
use parking_lot::RwLock;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use rustix::process::{getgid, getuid};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Name of the file.
pub const DRIVE_FILE: &str = "drive";

const ROOT: NodeId = NodeId(1);
const FILE: NodeId = NodeId(2);
const DIR: u32 = FileKind::Dir.code() as u32;
const REGULAR: u32 = FileKind::File.code() as u32;
const PAGE: u64 = PAGE_SIZE as u64;
/// Largest request that the kernel allows without a changed sysctl.
const MAX_WRITE: u32 = 1 << 20;
/// Requests that the kernel may have under way at once; a loop device has a queue of 128.
const MAX_BACKGROUND: u16 = 128;
/// Zeros are written by so many pages at a time.
const ZERO_BATCH: u64 = 256;
/// How long the kernel may believe in names and attributes: they never change.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The server of the file.
struct Export {
    port: Port,
    size: u64,
    read_only: bool,
    /// Held shared by whole pages, alone by requests that change a page in part.
    edges: RwLock<()>,
    operations: Arc<Operations>,
    stats: Option<Statistics>,
    options: Options,
    /// Since 1970.
    born: Duration,
}

/// A drive that is served as a file. Dropped without [`Exported::join`], it is detached.
pub struct Exported {
    session: Option<Serving>,
    export: Arc<Export>,
    unmounter: Unmounter,
}

/// Serves the block interface of `port` as the file [`DRIVE_FILE`] in `dir`, by threads of its own; returns
/// when the file is there. `options.xattrs` means nothing here.
///
/// # Errors
/// [`MountError`]: what is wrong with `/dev/fuse`, the directory or the permissions.
pub fn export(port: Port, dir: &Path, options: &Options) -> Result<Exported, MountError> {
    #[allow(clippy::disallowed_methods)] // the date that the file carries
    let born = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let export = Arc::new(Export {
        size: port.info().pages * PAGE,
        port,
        read_only: options.read_only,
        edges: RwLock::new(()),
        operations: Arc::default(),
        stats: options.stats.clone().map(Statistics::new),
        options: options.clone(),
        born,
    });
    let dir = session::check_directory(dir, false)?;
    session::check_device()?;
    // Without asynchronous direct I/O the kernel would wait for each request of a loop device before it sends
    // the next one.
    let config = session::config(options, InitFlags::ASYNC_DIO, (MAX_WRITE, MAX_BACKGROUND));
    let served = Session::mount(&dir, &config).map_err(|e| session::refused(&dir, e))?;
    let served = session::serve(served, &export, options)?;
    let unmounter = Unmounter::here(dir)?;
    Ok(Exported { session: Some(served), export, unmounter })
}

impl Exported {
    /// The directory with the file.
    pub fn dir(&self) -> &Path {
        self.unmounter.dir()
    }

    /// A handle that ends the mount.
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
        let flushed = self.export.flush().map_err(io::Error::from);
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
        DriveError::OutOfRange { .. } => Errno::NOSPC,
        DriveError::ReadOnly(_) => Errno::ROFS,
        _ => Errno::IO,
    }
}

impl Export {
    fn root(&self) -> Attr {
        Attr { ino: ROOT.0, mode: DIR << 12 | 0o755, nlink: 2, ..self.owned() }
    }

    fn file(&self) -> Attr {
        let perm = if self.read_only { 0o400 } else { 0o600 };
        let mode = REGULAR << 12 | perm;
        Attr { ino: FILE.0, size: self.size, blocks: self.size / 512, mode, ..self.owned() }
    }

    fn owned(&self) -> Attr {
        let (at, uid, gid) = (self.born.as_secs(), getuid().as_raw(), getgid().as_raw());
        let nsec = self.born.subsec_nanos();
        let times = Attr { atime: at, mtime: at, ctime: at, ..nothing() };
        Attr { atimensec: nsec, mtimensec: nsec, ctimensec: nsec, uid, gid, ..times }
    }

    fn attr(&self, node: NodeId) -> Result<Attr, Errno> {
        match node {
            ROOT => Ok(self.root()),
            FILE => Ok(self.file()),
            other => {
                let stats = self.stats.as_ref().filter(|_| Statistics::is(other)).ok_or(Errno::STALE)?;
                stats.attr(other).map_err(|_| Errno::STALE)
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
            _ => Err(Errno::NOSPC),
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
        wait_durable(self.options.durable.as_ref()).map_err(|e| io_errno(&e))
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

    fn fallocate(&self, pos: u64, len: u64, mode: u32) -> Result<(), Errno> {
        self.inside(pos, len)?;
        let end = pos + len;
        let mode = FallocateFlags::from_bits_retain(mode).difference(FallocateFlags::KEEP_SIZE);
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
            Err(Errno::OPNOTSUPP)
        }
    }
}

impl Export {
    fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<EntryOut, Errno> {
        match (parent, name, &self.stats) {
            (ROOT, n, _) if n == DRIVE_FILE.as_bytes() => Ok(EntryOut::new(self.file(), 0, TTL, TTL)),
            (ROOT, n, Some(stats)) if n == crate::STATS_FILE.as_bytes() => {
                Ok(EntryOut::new(stats.look(&self.operations), 0, Duration::ZERO, TTL))
            }
            _ => Err(Errno::NOENT),
        }
    }

    fn setattr(&self, node: NodeId, set: &Setattr) -> Result<Attr, Errno> {
        let changes = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
        let same_size = set.size.is_none_or(|n| n == self.size);
        let attr = self.attr(node)?;
        // Times mean nothing for a drive; its size and owner are what they are.
        if node == FILE && !changes && same_size { Ok(attr) } else { Err(Errno::PERM) }
    }

    fn read_any(&self, node: NodeId, pos: u64, len: u32) -> Result<Vec<u8>, Errno> {
        if let Some(stats) = self.stats.as_ref().filter(|_| Statistics::is(node)) {
            let mut out = vec![0; len as usize];
            let n = stats.read(node, pos, &mut out).map_err(|_| Errno::STALE)?;
            out.truncate(n);
            return Ok(out);
        }
        self.operations.count(Operation::Read);
        let bytes = self.read(pos, u64::from(len))?;
        self.operations.read(bytes.len());
        Ok(bytes)
    }

    fn list(&self, dir: NodeId, from: u64, mut list: Listing) -> Result<Listing, Errno> {
        if dir != ROOT {
            return Err(Errno::NOTDIR);
        }
        let all = [(ROOT, DIR, "."), (ROOT, DIR, ".."), (FILE, REGULAR, DRIVE_FILE)];
        for (i, (node, kind, name)) in all.into_iter().enumerate().skip(from as usize) {
            if !list.add(node.0, i as u64 + 1, kind, name.as_bytes()) {
                break;
            }
        }
        Ok(list)
    }

    fn statfs(&self) -> Statfs {
        let page = PAGE_SIZE as u32;
        let blocks = self.size / PAGE;
        Statfs { blocks, files: 1, bsize: page, namelen: 255, frsize: page, ..Statfs::default() }
    }
}

fn answer<T>(reply: Reply, result: Result<T, Errno>, ok: impl FnOnce(Reply, T)) {
    match result {
        Ok(value) => ok(reply, value),
        Err(e) => reply.error(e),
    }
}

impl Server for Export {
    fn serve(&self, request: &Request<'_>, reply: Reply) {
        let node = request.node;
        let told = |reply: Reply, attr| reply.attr(AttrOut::new(attr, TTL));
        match request.op {
            Op::Lookup { name } => answer(reply, self.lookup(node, name), Reply::entry),
            Op::Getattr => answer(reply, self.attr(node), told),
            Op::Setattr(set) => answer(reply, self.setattr(node, &set), told),
            Op::Open { .. } => {
                let direct = OpenedAs::DIRECT_IO | OpenedAs::PARALLEL_DIRECT_WRITES;
                let flags = if node == FILE { direct } else { OpenedAs::empty() };
                reply.opened(OpenOut::new(Handle(0), flags));
            }
            Op::Opendir => reply.opened(OpenOut::new(Handle(0), OpenedAs::empty())),
            Op::Read { offset, size, .. } => {
                answer(reply, self.read_any(node, offset, size), |r, bytes| r.data(&bytes));
            }
            Op::Write { .. } | Op::Fallocate { .. } if node != FILE => reply.error(Errno::PERM),
            Op::Write { offset, data, .. } => {
                self.operations.count(Operation::Write);
                answer(reply, self.write(offset, data), |reply, ()| {
                    self.operations.wrote(data.len());
                    reply.written(data.len() as u32);
                });
            }
            Op::Fallocate { offset, length, mode, .. } => {
                self.operations.count(Operation::Fallocate);
                answer(reply, self.fallocate(offset, length, mode), |reply, ()| {
                    if FallocateFlags::from_bits_retain(mode).contains(FallocateFlags::ZERO_RANGE) {
                        self.operations.wrote(length as usize);
                    }
                    reply.ok();
                });
            }
            Op::Fsync { .. } => {
                self.operations.count(Operation::Fsync);
                answer(reply, self.flush(), |reply, ()| reply.ok());
            }
            Op::Readdir { offset, size, .. } => {
                answer(reply, self.list(node, offset, Listing::new(size)), Reply::listing);
            }
            Op::Release { .. } | Op::Releasedir { .. } => reply.ok(),
            Op::Statfs => reply.statfs(self.statfs()),
            // Among them FLUSH: closing a block device promises nothing; a flush of it is an FSYNC.
            _ => reply.error(Errno::NOSYS),
        }
    }

    fn forget(&self, nodes: &[ForgetOne]) {
        if let Some(stats) = &self.stats {
            nodes.iter().filter(|one| Statistics::is(one.node())).for_each(|one| stats.forget(one.node()));
        }
    }
}

#[cfg(test)]
mod tests;
