//! [`Device`]: an open `/dev/fuse`, of which each read gives one request and each write takes one reply.
//!
//! Invariant: a [`crate::Reply`] keeps the device that it goes to open.
//!
//! Source: `fuse_dev_do_read` and `fuse_dev_do_write` of the kernel's `fs/fuse/dev.c`: which error means
//! what.

use crate::NodeId;
use crate::abi::{
    InvalEntryOut, InvalInodeOut, MIN_READ_BUFFER, NOTIFY_INVAL_ENTRY, NOTIFY_INVAL_INODE, NOTIFY_STORE,
    OutHeader, StoreOut,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, Result, read, writev};
use std::io::IoSlice;
use std::sync::Arc;
use zerocopy::IntoBytes;

pub(crate) const PATH: &str = "/dev/fuse";
const PAGE: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(crate) struct Device(OwnedFd);

/// Where a thread reads its requests, one after the other: whole pages, the largest write and what comes
/// before it.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    len: usize,
}

impl Buffer {
    pub(crate) fn new(max_write: usize) -> Buffer {
        let len = (max_write.next_multiple_of(PAGE) + PAGE).max(MIN_READ_BUFFER);
        Buffer { bytes: vec![0; len + PAGE], len }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let from = self.bytes.as_ptr().align_offset(PAGE).min(PAGE);
        &mut self.bytes[from..from + self.len]
    }
}

impl From<OwnedFd> for Device {
    fn from(fd: OwnedFd) -> Device {
        Device(fd)
    }
}

impl Device {
    pub(crate) fn open() -> Result<Device> {
        open(PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map(Device)
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// Another one for the same mount.
    pub(crate) fn another(&self) -> Result<Device> {
        let new = Device::open()?;
        crate::clone::clone(new.0.as_fd(), self.0.as_fd())?;
        Ok(new)
    }

    /// The next request; none when the mount has ended.
    ///
    /// # Errors
    /// Others than those that mean "once more": a signal came, or the request was taken back.
    pub(crate) fn read<'a>(&self, buffer: &'a mut [u8]) -> Result<Option<&'a [u8]>> {
        loop {
            match read(&self.0, &mut *buffer) {
                Ok(n) => return Ok(Some(&buffer[..n])),
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
                // Unmounted; or ended from outside (/sys/fs/fuse/connections/N/abort) while we read.
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(None),
                Err(e) => return Err(e),
            }
        }
    }

    /// Sends one reply or notification.
    ///
    /// # Errors
    /// The kernel's: ENOENT where the request is there no more.
    pub(crate) fn write(&self, parts: &[IoSlice<'_>]) -> Result<()> {
        loop {
            match writev(&self.0, parts) {
                Err(Errno::INTR) => {}
                other => return other.map(drop),
            }
        }
    }

    /// Whether the mount is there, if only for those who use it still.
    pub(crate) fn is_connected(&self) -> bool {
        let mut devices = [PollFd::new(&self.0, PollFlags::empty())];
        match poll(&mut devices, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(_) => !devices[0].revents().contains(PollFlags::ERR),
            Err(_) => false,
        }
    }
}

/// Tells the kernel what it did not ask.
#[derive(Clone, Debug)]
pub struct Notifier(pub(crate) Arc<Device>);

impl Notifier {
    /// Makes it write back what was changed of these bytes of a node through mappings, and drop the pages and
    /// the attributes. Returns when the requests that this causes are answered. `len` 0 or less: to the end.
    ///
    /// # Errors
    /// The kernel's; that it does not know the node is none.
    pub fn invalidate(&self, node: NodeId, offset: i64, len: i64) -> std::io::Result<()> {
        let what = InvalInodeOut { ino: node.0, off: offset, len };
        self.tell(NOTIFY_INVAL_INODE, what.as_bytes(), &[])
    }

    /// Makes it forget what a name in a directory stands for, or that it stands for nothing.
    ///
    /// # Errors
    /// The kernel's; that it does not know the directory or the name is none.
    pub fn forget_name(&self, dir: NodeId, name: &[u8]) -> std::io::Result<()> {
        let what = InvalEntryOut { parent: dir.0, namelen: name.len() as u32, flags: 0 };
        self.tell(NOTIFY_INVAL_ENTRY, what.as_bytes(), &[name, b"\0"])
    }

    /// Gives it bytes of a file, the last of which may lie beyond the end that it knows: it then knows the
    /// new end.
    ///
    /// # Errors
    /// The kernel's; that it does not know the node is none.
    pub fn store(&self, node: NodeId, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        let what = StoreOut { nodeid: node.0, offset, size: bytes.len() as u32, padding: 0 };
        self.tell(NOTIFY_STORE, what.as_bytes(), &[bytes])
    }

    fn tell(&self, code: i32, what: &[u8], more: &[&[u8]]) -> std::io::Result<()> {
        let [first, second] = [0, 1].map(|i| more.get(i).copied().unwrap_or_default());
        let len = (size_of::<OutHeader>() + what.len() + first.len() + second.len()) as u32;
        let header = OutHeader { len, error: code, unique: 0 };
        let parts = [header.as_bytes(), what, first, second].map(IoSlice::new);
        let used = 2 + more.len().min(2);
        match self.0.write(&parts[..used]) {
            Err(Errno::NOENT) => Ok(()),
            other => Ok(other?),
        }
    }
}
