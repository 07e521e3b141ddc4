//! Open files: reading, writing, and the promise of fsync.
//!
//! ```text
//!   write(2) ──> kernel: clean pages updated, request at once (write-through)
//!            ──> Vfs::write: exact bytes, dirty lines
//!   fsync(2) ──> Vfs::fsync ──> Data::fsync ──> durable() ──> reply
//! ```
//!
//! The kernel's write-back cache stays off. It would keep fsync's promise, but it hands over whole pages.
//! That would lose which 64 B lines a program wrote, the very thing that a byte-addressable drive lives on.
//! And dirty data would be kept twice, in the kernel and in the vfs.
//!
//! Flags that `fcntl(F_SETFL)` changes after open, and those of `pwritev2`, come with every request and
//! count.

use super::Adapter;
use super::pages;
use super::privileges::Requester;
use super::stats::Statistics;
use crate::convert::{errno, io_errno, open_flags};
use crate::handles::Handles;
use crate::operations::Operation;
use granary_fs::{Allocate, Caller, FsError, Result};
use granary_fuse::abi::OpenedAs;
use granary_fuse::{Handle, NodeId, Reply};
use granary_units::{Dest, Payload};
use granary_vfs::{OpenFile, OpenFlags};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use std::cell::RefCell;
use std::sync::Arc;

/// How files are opened: cached pages stay right from one open to the next, the mount is the only way to
/// them.
pub(super) const OPENED: OpenedAs = OpenedAs::KEEP_CACHE;

thread_local! {
    /// Where a serving thread puts what it reads. At most the largest read request, 1 MiB.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Adapter {
    pub(super) fn open(&self, node: NodeId, flags: u32) -> Result<Handle> {
        let given = OFlags::from_bits_retain(flags);
        if given & OFlags::ACCMODE != OFlags::RDONLY || given.contains(OFlags::TRUNC) {
            self.changes()?;
        }
        let Some(handles) = self.handles.as_ref().filter(|_| !Statistics::is(node)) else {
            return Ok(Handles::<OpenFile>::NONE);
        };
        let file = self.vfs.open(&Caller::KERNEL, self.node(node)?, open_flags(flags), true)?;
        Ok(handles.insert(Arc::new(file)))
    }

    /// Calls `f` with the file of a request, as it is opened now: with `flags`.
    fn with_file<T>(
        &self,
        (node, fh): (NodeId, Handle),
        flags: OpenFlags,
        f: impl FnOnce(&OpenFile) -> Result<T>,
    ) -> Result<T> {
        let Some(handles) = &self.handles else {
            return f(&self.vfs.open_for_call(self.node(node)?, flags)?);
        };
        let file = handles.get(fh)?;
        if file.flags() == flags && !flags.contains(OpenFlags::APPEND) {
            return f(&file);
        }
        // fcntl(F_SETFL), a call with flags of its own, or a write that the kernel has placed at the end.
        f(&self.vfs.open_for_call(file.node().clone(), flags)?)
    }

    pub(super) fn read(&self, file: (NodeId, Handle), pos: u64, size: usize, flags: u32, reply: Reply) {
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            match self.read_into(file, pos, flags, &mut buffer[..size]) {
                Ok(n) => {
                    self.operations.read(n);
                    reply.data(&buffer[..n]);
                }
                Err(e) => reply.error(errno(&e)),
            }
        });
    }

    fn read_into(&self, file: (NodeId, Handle), pos: u64, flags: u32, out: &mut [u8]) -> Result<usize> {
        if Statistics::is(file.0) {
            return self.statistics()?.read(file.0, pos, out);
        }
        let mut flags = open_flags(flags);
        // An access time would be a change.
        flags.set(OpenFlags::NOATIME, flags.contains(OpenFlags::NOATIME) || self.guard.has_tripped());
        self.with_file(file, flags, |f| {
            let mut read = || self.vfs.read(&Caller::KERNEL, f, pos, Dest::Bytes(out));
            if flags.contains(OpenFlags::DIRECT) {
                return read();
            }
            self.changing(f.node(), || {
                pages::will_be_kept(f.node(), flags);
                read()
            })
        })
    }

    /// Writes; the reply to a synchronous write comes when it is durable. `flags`: the request's, none where
    /// the kernel writes back a mapped page.
    pub(super) fn write(
        &self,
        (whom, caller): (usize, Requester),
        file: (NodeId, Handle),
        pos: u64,
        data: &[u8],
        flags: Option<u32>,
        reply: Reply,
    ) {
        if Statistics::is(file.0) {
            return reply.error(Errno::PERM);
        }
        if let Err(e) = self.changes() {
            return reply.error(errno(&e));
        }
        let flags = flags.map_or(OpenFlags::RDWR, open_flags);
        match self.write_from(caller, file, pos, data, flags) {
            Err(e) if self.is_worth_waiting(&e) => {
                let data = data.to_vec();
                self.again(whom, move |adapter| {
                    let written = adapter.guard.run(|| adapter.write_from(caller, file, pos, &data, flags));
                    adapter.written((file.0, pos), written, flags, reply);
                });
            }
            written => self.written((file.0, pos), written, flags, reply),
        }
    }

    fn write_from(
        &self,
        caller: Requester,
        file: (NodeId, Handle),
        pos: u64,
        data: &[u8],
        flags: OpenFlags,
    ) -> Result<usize> {
        let payload = Payload::Bytes(data);
        self.with_file(file, flags, |f| {
            let who = caller.writes_to(f.node());
            let write = || {
                pages::will_be_kept(f.node(), flags);
                self.vfs.write(&who, f, pos, payload)
            };
            Ok(self.watching_mode(file.0, f.node(), || self.changing(f.node(), write))?.1)
        })
    }

    /// Answers, when nothing is left of what the file had there before.
    fn written(&self, (node, pos): (NodeId, u64), written: Result<usize>, flags: OpenFlags, reply: Reply) {
        match written {
            Ok(n) if self.has_stale_pages(node, flags) => {
                self.drop_pages(node, (pos, n), move |adapter| adapter.acknowledge(written, flags, reply));
            }
            _ => self.acknowledge(written, flags, reply),
        }
    }

    fn acknowledge(&self, written: Result<usize>, flags: OpenFlags, reply: Reply) {
        let n = match written {
            Ok(n) => n,
            Err(e) => return reply.error(errno(&e)),
        };
        self.operations.wrote(n);
        if !flags.contains(OpenFlags::DSYNC) {
            return reply.written(n as u32);
        }
        self.operations.count(Operation::SyncWrite);
        self.durable(move |durable| match durable {
            Ok(()) => reply.written(n as u32),
            Err(e) => reply.error(io_errno(&e)),
        });
    }

    pub(super) fn fallocate(
        &self,
        caller: Requester,
        file: (NodeId, Handle),
        pos: u64,
        len: u64,
        mode: u32,
    ) -> Result<()> {
        if Statistics::is(file.0) {
            return Err(FsError::NotPermitted);
        }
        self.changes()?;
        let given = FallocateFlags::from_bits_retain(mode);
        let keep_size = given.contains(FallocateFlags::KEEP_SIZE);
        let how = match given.difference(FallocateFlags::KEEP_SIZE) {
            rest if rest.is_empty() => Allocate::Reserve { keep_size },
            FallocateFlags::PUNCH_HOLE if keep_size => Allocate::PunchHole,
            FallocateFlags::ZERO_RANGE => Allocate::ZeroRange { keep_size },
            _ => return Err(FsError::NotSupported),
        };
        self.with_file(file, OpenFlags::RDWR, |f| {
            let who = caller.allocates_in(f.node());
            let allocate = || self.vfs.fallocate(&who, f, how, pos, len);
            self.watching_mode(file.0, f.node(), || self.changing(f.node(), allocate))
        })
    }

    /// The reply comes when everything is durable, perhaps from another thread: this one goes on to the next
    /// request.
    pub(super) fn fsync(&self, node: NodeId, data_only: bool, reply: Reply) {
        if Statistics::is(node) {
            return reply.ok();
        }
        let synced =
            self.guard.sound().and_then(|()| self.vfs.fsync(&Caller::KERNEL, &self.node(node)?, data_only));
        match synced {
            Ok(()) => self.durable(move |durable| match durable {
                Ok(()) => reply.ok(),
                Err(e) => reply.error(io_errno(&e)),
            }),
            Err(e) => reply.error(errno(&e)),
        }
    }
}
