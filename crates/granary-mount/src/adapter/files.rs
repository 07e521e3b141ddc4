//! Open files: reading, writing, and what fsync promises.
//!
//! ```text
//!   write(2) ──> kernel: clean pages updated, request at once (write-through) ──> Vfs::write: exact bytes, dirty lines
//!   fsync(2) ──> Vfs::fsync ──> FileSystem::fsync ──> durable() ──> reply
//! ```
//!
//! The kernel's write-back cache stays off. It would keep fsync's promise, but it hands over whole pages: which 64 B
//! lines a program wrote, the very thing that a byte-addressable drive lives on, would be lost; and dirty data would
//! be kept twice, in the kernel and in the vfs.
//!
//! Flags that `fcntl(F_SETFL)` changes after open, and those of `pwritev2`, come with every request and count.

use super::{STATS_NODE, Shared};
use crate::convert::{errno, open_flags};
use crate::handles::Open;
use crate::operations::Operation;
use fuser::{Errno, FileHandle, FopenFlags, INodeNo, ReplyData};
use granary_units::{Dest, Payload};
use granary_vfs::{Allocate, Cred, FsError, OpenFile, OpenFlags, Result};
use rustix::fs::FallocateFlags;
use std::cell::RefCell;
use std::sync::Arc;

/// How files are opened: cached pages stay right from one open to the next, the mount is the only way to them.
pub(super) const OPENED: FopenFlags = FopenFlags::FOPEN_KEEP_CACHE;

thread_local! {
    /// Where a serving thread puts what it reads. At most the largest read request, 1 MiB.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Shared {
    pub(super) fn open(&self, node: INodeNo, flags: i32) -> Result<(FileHandle, FopenFlags)> {
        if node == STATS_NODE {
            let stats = self.stats.as_ref().ok_or(FsError::NoEntry)?;
            let text: Arc<str> = stats(&self.operations).into();
            return Ok((self.handles.insert(Open::Text(text)), FopenFlags::FOPEN_DIRECT_IO));
        }
        let file = self.vfs.open(&Cred::ROOT, self.node(node)?, open_flags(flags), true)?;
        Ok((self.handles.insert(Open::File(Arc::new(file))), OPENED))
    }

    pub(super) fn read(&self, fh: FileHandle, pos: u64, size: usize, flags: i32, reply: ReplyData) {
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            match self.read_into(fh, pos, flags, &mut buffer[..size]) {
                Ok(n) => {
                    self.operations.read(n);
                    reply.data(&buffer[..n]);
                }
                Err(e) => reply.error(errno(&e)),
            }
        });
    }

    fn read_into(&self, fh: FileHandle, pos: u64, flags: i32, out: &mut [u8]) -> Result<usize> {
        match self.handles.get(fh)? {
            Open::File(file) => {
                self.as_flagged(&file, open_flags(flags), |f| self.vfs.read(f, pos, Dest::Bytes(out)))
            }
            Open::Text(text) => {
                let rest = text.as_bytes().get(pos.min(text.len() as u64) as usize..).unwrap_or_default();
                let n = rest.len().min(out.len());
                out[..n].copy_from_slice(&rest[..n]);
                Ok(n)
            }
        }
    }

    /// Writes; on return a synchronous write is durable. `flags`: the request's, none where the kernel writes back a
    /// mapped page.
    pub(super) fn write(
        &self,
        fh: FileHandle,
        pos: u64,
        data: &[u8],
        flags: Option<i32>,
    ) -> Result<usize, Errno> {
        let written = {
            let file = self.handles.file(fh).map_err(|e| errno(&e))?;
            let flags = flags.map_or(OpenFlags::RDWR, open_flags);
            let payload = Payload::Bytes(data);
            let result = self.as_flagged(&file, flags, |f| self.vfs.write(&Cred::ROOT, f, pos, payload));
            (result.map_err(|e| errno(&e))?.1, flags)
        };
        self.operations.wrote(written.0);
        if written.1.contains(OpenFlags::DSYNC) {
            self.operations.count(Operation::SyncWrite);
            self.durable()?;
        }
        Ok(written.0)
    }

    /// Calls `f` with the open file, seen with `flags` where they are no longer those it was opened with.
    fn as_flagged<T>(
        &self,
        file: &OpenFile,
        flags: OpenFlags,
        f: impl FnOnce(&OpenFile) -> Result<T>,
    ) -> Result<T> {
        if file.flags() == flags {
            return f(file);
        }
        f(&self.vfs.open(&Cred::ROOT, file.node().clone(), flags, true)?)
    }

    pub(super) fn fallocate(&self, fh: FileHandle, pos: u64, len: u64, mode: i32) -> Result<()> {
        let given = FallocateFlags::from_bits_retain(mode as u32);
        let keep_size = given.contains(FallocateFlags::KEEP_SIZE);
        let how = match given.difference(FallocateFlags::KEEP_SIZE) {
            rest if rest.is_empty() => Allocate::Reserve { keep_size },
            FallocateFlags::PUNCH_HOLE if keep_size => Allocate::PunchHole,
            FallocateFlags::ZERO_RANGE => Allocate::ZeroRange { keep_size },
            _ => return Err(FsError::NotSupported),
        };
        let file = self.handles.file(fh)?;
        self.vfs.fallocate(&Cred::ROOT, &file, how, pos, len)
    }

    /// Where data or a hole begins; the kernel does the other kinds of `lseek` alone.
    pub(super) fn seek(&self, node: INodeNo, pos: i64, whence: i32) -> Result<u64> {
        /// Linux's SEEK_DATA and SEEK_HOLE.
        const DATA: i32 = 3;
        const HOLE: i32 = 4;
        let pos = u64::try_from(pos).map_err(|_| FsError::NoDevice)?;
        match whence {
            DATA | HOLE => self.vfs.seek(&self.node(node)?, pos, whence == HOLE),
            _ => Err(FsError::Invalid),
        }
    }

    pub(super) fn fsync(&self, node: INodeNo, data_only: bool) -> Result<(), Errno> {
        if node == STATS_NODE {
            return Ok(());
        }
        self.node(node).and_then(|n| self.vfs.fsync(&n, data_only)).map_err(|e| errno(&e))?;
        self.durable()
    }
}
