//! [`Reach`]: the mount through which a program reaches the file system, and whether it may change that
//! through it.
//!
//! ```text
//!   connects:         a descriptor of the root ── statx: our device, number 1, number of the mount
//!                                              ── closed at once
//!                     that mount in the table of this process, or else of the program's process
//!                     else refused
//!   each change:      poll(table): something was mounted, or mounted anew? read again
//!                     ── read-only, or not there: the kernel says how
//! ```
//!
//! A descriptor proves that the program, or the giver of the descriptor, has walked the path to the mount. It
//! is asked with AT_STATX_DONT_SYNC, which sends no request to this very process. It is not kept, because it
//! would keep the mount in use.
//!
//! The kernel tells readers of mountinfo of each change of a mount's flags before the call that makes it
//! returns. It does not tell of one of the file system's alone (`fsconfig`, an emergency remount): the table
//! is read again once in each [`OLD`].
//!
//! Source: proc_pid_mountinfo(5); `set_mount_attributes` and `mounts_poll` of the kernel's fs/namespace.c,
//! fs/proc_namespace.c.

use crate::mountinfo::{self, MountEntry};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// How long what was read holds where the kernel tells of nothing, nanoseconds.
const OLD: i128 = 10_000_000;
/// FUSE_ROOT_ID.
const ROOT: u64 = 1;

/// The mounts of one namespace that are of this file system.
pub(super) struct Table {
    /// "major:minor".
    device: String,
    seen: Mutex<Seen>,
}

struct Seen {
    file: File,
    when: i128,
    mounts: Vec<MountEntry>,
}

fn now() -> i128 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

impl Seen {
    fn read(&mut self, device: &str) -> io::Result<()> {
        self.when = now();
        let (mut text, mut part) = (Vec::new(), [0; 8192]);
        loop {
            match self.file.read_at(&mut part, text.len() as u64)? {
                0 => break,
                n => text.extend_from_slice(&part[..n]),
            }
        }
        self.mounts = mountinfo::entries(&text).filter(|m| m.device == device).collect();
        Ok(())
    }

    /// The present mounts.
    fn look(&mut self, device: &str) -> io::Result<&[MountEntry]> {
        let mut table = [PollFd::new(&self.file, PollFlags::PRI)];
        let told = poll(&mut table, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map_err(io::Error::from)?;
        if told > 0 || now() - self.when >= OLD {
            self.read(device)?;
        }
        Ok(&self.mounts)
    }
}

impl Table {
    /// That of this process; or of another one, where that is to be seen.
    pub(super) fn of(process: Option<u32>, device: &str) -> io::Result<Table> {
        let process = process.map_or("self".to_owned(), |n| n.to_string());
        let file = File::open(format!("/proc/{process}/mountinfo"))?;
        let mut seen = Seen { file, when: 0, mounts: Vec::new() };
        seen.read(device)?;
        Ok(Table { device: device.to_owned(), seen: Mutex::new(seen) })
    }

    /// Whether changes may be made through the mount of this number.
    fn may_change(&self, id: u64) -> bool {
        let mut seen = self.seen.lock();
        let mounts = seen.look(&self.device);
        mounts.is_ok_and(|mounts| mounts.iter().any(|m| m.id == id && !m.read_only))
    }

    fn has(&self, id: u64) -> bool {
        self.seen.lock().look(&self.device).is_ok_and(|mounts| mounts.iter().any(|m| m.id == id))
    }
}

/// See the module.
pub(super) struct Reach {
    table: Arc<Table>,
    id: u64,
}

impl Reach {
    /// The one that this descriptor proves. `ours`: the table of this process; `process`: whose descriptor it
    /// is.
    pub(super) fn of(root: OwnedFd, ours: &Arc<Table>, process: u32) -> Result<Reach, Errno> {
        let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = statx(&root, c"", how, StatxFlags::INO | StatxFlags::TYPE | StatxFlags::MNT_ID)?;
        drop(root);
        let device = format!("{}:{}", found.stx_dev_major, found.stx_dev_minor);
        let told = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID);
        if device != ours.device || found.stx_ino != ROOT || !told {
            return Err(Errno::XDEV);
        }
        let id = found.stx_mnt_id;
        if ours.has(id) {
            return Ok(Reach { table: Arc::clone(ours), id });
        }
        let theirs = Table::of(Some(process), &device).map_err(|_| Errno::XDEV)?;
        if theirs.has(id) { Ok(Reach { table: Arc::new(theirs), id }) } else { Err(Errno::XDEV) }
    }

    pub(super) fn may_change(&self) -> bool {
        self.table.may_change(self.id)
    }
}
