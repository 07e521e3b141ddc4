//! A directory of the host as a [`FileSystem`]: programs on a `Vfs` see and change its content.
//!
//! ```text
//!   Inode --private--> Host = { identity, O_PATH descriptor, descriptor for bytes,
//!                               last known place }                                          host.rs
//!   number <-- Table --> Host                                                               table.rs
//!   the calls of the five traits: names.rs data.rs attributes.rs life.rs    errno -> FsError: errno.rs
//! ```
//!
//! **Clock.** The host's calls take the wall clock's time and stamp the host's date. In virtual time it
//! works, but costs nothing: no measurement may be taken on it.
//!
//! **Descriptors.** Each inode in memory has an O_PATH descriptor, and a file whose bytes are wanted a second
//! one, opened through `/proc/self/fd`. Every call starts from one of them, with one name at most: nothing
//! depends on a path that somebody else renames, and no symbolic link of the directory is followed. So the
//! vfs must keep no more inodes (`VfsConfig::inodes`) than half of what the process may open
//! (`RLIMIT_NOFILE`); beyond it calls fail with `TooManyFiles`. An inode that leaves memory is found again
//! where it was last seen, and only if it is the same file.
//!
//! **Other programs.** The vfs remembers names and attributes. A change from beside, in the directory itself,
//! shows up when the vfs asks again. A file moved away under a remembered name fails with `Stale` or
//! `Corrupt`.
//!
//! **Rights.** Run by the superuser it does what the vfs allows each caller. Run by anybody else it can do
//! what that user may: what it makes is his, and the host's refusals are told.
//!
//! It is no file system of the registry: there is nothing to make, and no device.

mod attributes;
mod data;
mod errno;
mod host;
mod life;
mod names;
mod table;

use granary_fs::{FileSystem, FsError, Inode, Result};
use host::Host;
use rustix::fs::{CWD, Mode, OFlags};
use std::path::Path;
use std::sync::Arc;
use table::Table;

/// A directory of the host: see the module.
pub struct HostDir {
    root: Arc<Host>,
    table: Table,
    read_only: bool,
}

impl HostDir {
    /// The directory at `path`. Symbolic links on the way there are followed.
    ///
    /// # Errors
    /// `NoEntry`; `NotDir`; `Access`; `NotSupported` where `/proc` is not mounted.
    pub fn open(path: impl AsRef<Path>) -> Result<HostDir> {
        HostDir::open_as(path.as_ref(), false)
    }

    fn open_as(path: &Path, read_only: bool) -> Result<HostDir> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(errno::error)?;
        let table = Table::new(&fd, read_only)?;
        let root = table.adopt(fd, None)?;
        let again = root.through_proc(|path| rustix::fs::openat(CWD, path, flags, Mode::empty()));
        again.map_err(|_| FsError::NotSupported)?;
        Ok(HostDir { root, table, read_only })
    }

    /// Refuses a change where there are to be none.
    fn may_change(&self) -> Result<()> {
        if self.read_only { Err(FsError::ReadOnly) } else { Ok(()) }
    }
}

/// The directory at `path` as a file system, to be mounted under a `Vfs`.
///
/// # Errors
/// As [`HostDir::open`].
pub fn mount(path: impl AsRef<Path>) -> Result<Arc<dyn FileSystem>> {
    Ok(Arc::new(HostDir::open(path)?))
}

/// The same to be looked at only: every change is refused (`ReadOnly`), nothing is written back, and access
/// times stay where this process may leave them.
///
/// # Errors
/// As [`HostDir::open`].
pub fn mount_read_only(path: impl AsRef<Path>) -> Result<Arc<dyn FileSystem>> {
    Ok(Arc::new(HostDir::open_as(path.as_ref(), true)?))
}

/// The host's part of an inode.
fn of(inode: &Inode) -> Arc<Host> {
    inode.share_private()
}

/// After a call: the attributes are the host's.
fn follow(inode: &Inode) -> Result<()> {
    let attr = inode.private::<Host>().attr()?;
    inode.update(|a| *a = attr);
    Ok(())
}
