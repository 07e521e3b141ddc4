//! Commands as calls of the vfs.
//!
//! Each is served by the thread of its channel from beginning to end: its waits (for a commit, for the host's
//! disk) hold up nobody else. The answer to a sync, and to a write on a file that is open with O_SYNC or
//! O_DSYNC, comes after the file system's promise and the mount's ([`crate::Options::durable`]), as through
//! FUSE.

use super::peer::Peer;
use super::versions::Look;
use super::walk::{Walked, found};
use crate::adapter::Adapter;
use crate::operations::Operation;
use crate::options::wait_durable;
use granary_device::DriveError;
use granary_direct::segment::{DATA, Segment};
use granary_direct::versions::{Watched, slot};
use granary_direct::{Answer, Attributes, Command, Op, PathPlace, SeeKernel};
use granary_fs::{FileKind, FsError, PATH_MAX, Result};
use granary_units::{Dest, Payload};
use granary_vfs::{NewFile, NodeRef, OpenFile, OpenFlags};
use std::sync::Arc;

/// Flags of `open(2)` that an open file keeps.
const KEPT: OpenFlags = OpenFlags::WRONLY
    .union(OpenFlags::RDWR)
    .union(OpenFlags::APPEND)
    .union(OpenFlags::DIRECT)
    .union(OpenFlags::SYNC)
    .union(OpenFlags::NOATIME);

type Buffer = Vec<u8>;

/// As much of the buffer as is asked for; it keeps its size from one command to the next.
fn room(buffer: &mut Buffer, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}

impl Adapter {
    /// Serves a command. Every command gets an answer: errors of the vfs as errnos, EINVAL for one that makes
    /// no sense.
    pub(crate) fn serve_direct(
        &self,
        peer: &Peer,
        command: &Command,
        segment: &Segment,
        buffer: &mut Buffer,
    ) -> Answer {
        let Some(op) = Op::of(command.op).filter(|_| command.len as usize <= DATA) else {
            return Answer::error(FsError::Invalid.errno());
        };
        let mut answer = Answer::kernel();
        let done = self.guard.run(|| {
            let done = self.serve_op(op, peer, command, segment, buffer);
            answer = match done {
                // When something changes that it does not look at is no affair of another user's.
                Ok(Ok(done)) if !peer.sees_all => Answer { names: 0, version: 0, slot: 0, ..done },
                Ok(Ok(done)) => done,
                Ok(Err(e)) => Answer::error(e.errno()),
                Err(SeeKernel) => Answer::kernel(),
            };
            Ok(())
        });
        match done {
            Ok(()) => answer,
            Err(e) => Answer::error(e.errno()),
        }
    }

    fn serve_op(
        &self,
        op: Op,
        peer: &Peer,
        command: &Command,
        segment: &Segment,
        buffer: &mut Buffer,
    ) -> Walked<Answer> {
        if self.guard.has_tripped() && op != Op::Close {
            // After a panic, the FUSE view answers for the rest of the mount.
            return Err(SeeKernel);
        }
        let len = command.len as usize;
        let bytes = match op {
            Op::Open if len >= PATH_MAX => return Err(SeeKernel),
            op if op == Op::Open || op.has_place() => {
                // Two paths, with the directories that they begin at.
                if len > 4 * PATH_MAX {
                    return Err(SeeKernel);
                }
                let bytes = room(buffer, len);
                segment.data(bytes);
                &*bytes
            }
            _ => &[],
        };
        let data_only = command.flags & 1 != 0;
        self.operations.count_direct(Operation::of_command(op, data_only));
        match op {
            Op::Open => self.direct_open(peer, bytes, command),
            Op::Readlink => {
                let target = found!(self.direct_readlink(&peer.caller, bytes)?);
                segment.put_data(&target[..target.len().min(DATA)]);
                Ok(Ok(Answer::of(target.len().min(DATA) as u64)))
            }
            Op::Close => Ok(peer.remove(command.handle).map(|file| {
                peer.let_go(&self.vfs, file);
                Answer::of(0)
            })),
            Op::Stat => Ok(self.with_open(peer, command.handle, |file| {
                Ok(Answer { attributes: self.attributes(file.node()), ..Answer::of(0) })
            })),
            Op::Read => Ok(self.with_open(peer, command.handle, |file| {
                let to = room(buffer, len);
                let slot = slot(file.node().ino().0);
                let look = Look::at(Watched::Contents(slot));
                self.settle(file.node());
                let n = self.vfs.read(&peer.caller, file, command.pos, Dest::Bytes(to))?;
                segment.put_data(&to[..n]);
                self.operations.read(n);
                Ok(Answer { version: look.version(), slot, ..Answer::of(n as u64) })
            })),
            Op::Write => Ok(self.with_open(peer, command.handle, |file| {
                let data = room(buffer, len);
                segment.data(data);
                self.changing(file.node(), || self.direct_write(peer, file, command.pos, data))
            })),
            Op::Sync => Ok(self.with_open(peer, command.handle, |file| {
                self.guard.sound()?;
                self.settle(file.node());
                self.vfs.fsync_file(&peer.caller, file, data_only)?;
                self.wait_until_durable()?;
                Ok(Answer::of(0))
            })),
            _ => self.direct_named(op, peer, command, bytes),
        }
    }

    fn with_open(
        &self,
        peer: &Peer,
        handle: u32,
        f: impl FnOnce(&OpenFile) -> Result<Answer>,
    ) -> Result<Answer> {
        let file: Arc<OpenFile> = peer.file(handle)?;
        let done = f(&file);
        peer.let_go(&self.vfs, file);
        done
    }

    pub(super) fn attributes(&self, node: &NodeRef) -> Attributes {
        let a = self.attributes_of(node);
        Attributes {
            ino: a.ino,
            size: a.size,
            blocks: a.blocks,
            seconds: [a.atime, a.mtime, a.ctime].map(|s| s as i64),
            nanos: [a.atimensec, a.mtimensec, a.ctimensec],
            mode: a.mode,
            nlink: a.nlink,
            uid: a.uid,
            gid: a.gid,
            rdev: a.rdev,
        }
    }

    fn direct_open(&self, peer: &Peer, path: &[u8], command: &Command) -> Walked<Answer> {
        let node = match self.walk(&peer.caller, PathPlace::at_root(path), true)? {
            Ok(node) => node,
            // The kernel has opened it: its view is right in any case.
            Err(_) => return Err(SeeKernel),
        };
        if node.kind() != FileKind::File || self.number(node.ino()).0 != command.ino {
            return Err(SeeKernel);
        }
        let flags = OpenFlags::from_bits_retain(command.flags) & KEPT;
        if flags.writes() && (self.changes().is_err() || !peer.may_change()) {
            return Err(SeeKernel);
        }
        // A program without the right by path and mode may have been given the descriptor.
        let file = self.vfs.open(&peer.caller, node, flags, false).map_err(|_| SeeKernel)?;
        self.install(peer, file)
    }

    fn install(&self, peer: &Peer, file: OpenFile) -> Walked<Answer> {
        let attributes = self.attributes(file.node());
        match peer.insert(file) {
            Ok(handle) => Ok(Ok(Answer { attributes, ..Answer::of(handle.into()) })),
            Err(file) => {
                self.vfs.close(&peer.caller, file);
                Err(SeeKernel)
            }
        }
    }

    pub(super) fn direct_create(
        &self,
        peer: &Peer,
        place: PathPlace<'_>,
        command: &Command,
    ) -> Walked<Answer> {
        let flags = OpenFlags::from_bits_retain(command.flags) & KEPT;
        if !flags.access_is_valid() {
            return Err(SeeKernel);
        }
        let (dir, name) = found!(self.walk_to_last(&peer.caller, place)?);
        let (mode, umask) = ((command.pos & 0o7777) as u16, (command.pos >> 16 & 0o777) as u16);
        let made = self.vfs.masked(&peer.caller, &dir, mode, umask).and_then(|mode| {
            self.vfs.create_or_get(&peer.caller, &dir, name, &NewFile::file(mode).opened(flags))
        });
        match made {
            Ok((node, true)) => {
                self.tell_named(&dir, name);
                let file = self.vfs.open(&peer.caller, node, flags, true).map_err(|_| SeeKernel)?;
                self.install(peer, file)
            }
            // It is there: the kernel knows how to go on.
            Ok((_, false)) => Err(SeeKernel),
            Err(FsError::NoSpace) => Err(SeeKernel),
            Err(e) => Ok(Err(e)),
        }
    }

    fn direct_write(&self, peer: &Peer, file: &OpenFile, pos: u64, data: &[u8]) -> Result<Answer> {
        self.changes()?;
        if !peer.may_change() {
            return Ok(Answer::kernel());
        }
        let node = file.node();
        self.settle(node);
        let before = node.size();
        let write = || self.vfs.write(&peer.caller, file, pos, Payload::Bytes(data));
        let written = match write() {
            Err(e) if self.is_worth_waiting(&e) => {
                self.wait_for_leavers();
                write()
            }
            written => written,
        };
        // A longer write that fails midway counts as a shorter one, which the other view is told of.
        let grown = written.as_ref().ok().filter(|(pos, n)| *n > 0 && pos + *n as u64 > before);
        self.tell_changed(node, grown.map(|(pos, n)| (pos + *n as u64, data[*n - 1])));
        let (pos, n) = written?;
        self.operations.wrote(n);
        if file.flags().contains(OpenFlags::DSYNC) {
            self.operations.count_direct(Operation::SyncWrite);
            self.wait_until_durable()?;
        }
        Ok(Answer { pos, ..Answer::of(n as u64) })
    }

    fn wait_until_durable(&self) -> Result<()> {
        if self.durable.is_none() {
            return Ok(());
        }
        self.guard.waits();
        let durable = wait_durable(self.durable.as_ref());
        self.guard.told();
        durable.map_err(|e| FsError::from(DriveError::Failed(e.to_string())))
    }
}
