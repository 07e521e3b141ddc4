//! [`DevFs`] as the vfs sees it: each call is a command.
//!
//! ```text
//!   host's processor          drive's processors
//!   Vfs::enter: build, ring   admission
//!                             objects: what the command names is in the drive's memory
//!                             filemap of each file locked; PMFS's structures; commit
//! ```
//!
//! Calls of the kernel on its own account (write-back, loading an inode for a lookup) are part of the command
//! that needs them.

mod attributes;
mod data;
mod life;
mod names;
mod space;

use crate::DevFs;
use crate::command::{APPEND, Command, Op};
use crate::credentials::{Check, Refused};
use crate::objects::{Objects, Work};
use granary_fs::{Call, FileKind, FsError, Inode, Result};
use granary_pmfs::Pmfs;
use granary_sim::{costs, cpu};

/// Where the program's memory begins that it pinned for its commands, as this emulation has it.
const PINNED: u64 = 1 << 32;

impl DevFs {
    /// Takes a command of `length` bytes at `offset`: whose it is, and whether it names what it may.
    fn admit(&self, call: &Call<'_>, op: Op, (offset, length): (u64, u64)) -> Result<()> {
        if call.process == 0 {
            return Ok(());
        }
        let cpu = call.processor;
        let mut table = self.credentials.lock();
        if table.is_news(cpu, call.process, call.cred) {
            table.down_call(cpu, call.process, call.cred);
        }
        let doorbell = table.ring(cpu);
        table.admit(&doorbell, call.process, Check::Snapshot).map_err(|refused| match refused {
            Refused::Nobody => FsError::NotPermitted,
            Refused::Again => FsError::Busy,
        })?;
        drop(table);
        // Longer transfers are several commands of one call.
        let length = length.min(crate::command::MOST);
        let sent = Command { op, cpu, fd: 0, seq: 0, offset, length, address: PINNED }.bytes();
        let pinned = PINNED..PINNED + crate::command::MOST;
        Command::admit(&sent, cpu, &pinned).map(drop).map_err(|bad| match bad {
            crate::command::Bad::Memory => FsError::Fault,
            _ => FsError::Invalid,
        })
    }

    /// Changes what is known of objects, and charges it.
    fn objects(&self, change: impl FnOnce(&mut Objects) -> Result<Work>) -> Result<()> {
        let work = change(&mut self.objects.lock())?;
        if work != Work::default() {
            cpu(work.cost(costs()));
        }
        Ok(())
    }

    /// Does a command that looks at these files.
    fn look<T>(
        &self,
        call: &Call<'_>,
        op: Op,
        files: &[&Inode],
        work: impl FnOnce(&Pmfs) -> Result<T>,
    ) -> Result<T> {
        self.admit(call, op, (0, 0))?;
        self.cores.run(|| {
            for inode in files {
                self.objects(|o| o.know(inode.ino().0, is_dir(inode), false))?;
            }
            self.files.locked(files, || work(&self.inner))
        })
    }

    /// Does a command that changes these files.
    fn change<T>(
        &self,
        call: &Call<'_>,
        op: Op,
        files: &[&Inode],
        work: impl FnOnce(&Pmfs) -> Result<T>,
    ) -> Result<T> {
        self.admit(call, op, (APPEND, 0))?;
        self.cores.run(|| {
            for inode in files {
                self.objects(|o| o.know(inode.ino().0, is_dir(inode), false))?;
                self.objects(|o| o.bring_in(inode.ino().0))?;
            }
            self.files.locked(files, || work(&self.inner))
        })
    }

    /// Does a command that moves bytes of a file.
    fn transfer<T>(
        &self,
        call: &Call<'_>,
        op: Op,
        inode: &Inode,
        range: (u64, u64),
        work: impl FnOnce(&Pmfs) -> Result<T>,
    ) -> Result<T> {
        self.admit(call, op, range)?;
        self.cores.run(|| {
            self.objects(|o| o.know(inode.ino().0, is_dir(inode), false))?;
            self.objects(|o| o.bring_in(inode.ino().0))?;
            self.objects(|o| o.first_io(inode.ino().0).map(|()| Work::default()))?;
            self.files.locked(&[inode], || work(&self.inner))
        })
    }
}

fn is_dir(inode: &Inode) -> bool {
    inode.view(|a| a.kind == FileKind::Dir)
}
