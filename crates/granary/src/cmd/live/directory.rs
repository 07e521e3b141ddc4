//! [`Directory`]: which directory the image of a mount is in, told by the process that serves it.
//!
//! The path that was mounted says nothing for sure: the directory may have been renamed since, and another
//! image may be there.

use granary_image::Image;
use rustix::fs::{Mode, OFlags, fstat, open};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// A directory that a process has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// Device that it is on.
    device: u64,
    /// Its inode number there.
    inode: u64,
    /// The process has it open under this number.
    fd: i32,
}

/// A handle of the directory at `path`, as good as its path was now.
///
/// # Errors
/// There is none.
pub fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

impl Directory {
    /// That of an image which this process has open.
    pub fn of(image: &Image) -> Option<Directory> {
        let dir = image.directory()?;
        let (device, inode) = identity(dir)?;
        Some(Directory { device, inode, fd: dir.as_raw_fd() })
    }

    /// Opens it: where it was when it was mounted, or else through `process`, which serves it. `None` where
    /// it is neither there nor is that process one that lets us look.
    pub fn open(&self, process: u32, source: &Path) -> Option<OwnedFd> {
        let through = format!("/proc/{process}/fd/{}", self.fd);
        let dirs = [source, Path::new(&through)].into_iter().filter_map(|path| open_dir(path).ok());
        dirs.into_iter().find(|dir| identity(dir) == Some((self.device, self.inode)))
    }
}

fn identity(dir: impl AsFd) -> Option<(u64, u64)> {
    fstat(dir).ok().map(|s| (s.st_dev, s.st_ino))
}
