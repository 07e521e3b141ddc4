//! [`land`]: the data of all files below a directory reaches the drive, and nothing is committed for it.
//!
//! Linux's sync sends the data, begins a commit without waiting for the data (`sync_fs` with wait = 0), and
//! waits for it. Then it commits again the changes since then. An extent whose data landed after the first
//! commit was closed is marked as written in the second one. The number of such extents depends on a race
//! between the drive and the journal's thread. Where the data has been waited for before, sync finds one
//! commit's work.
//!
//! Source: `sync_filesystem` (`fs/sync.c`), `ext4_sync_fs`, `ext4_end_io_end` (Linux 6.18);
//! sync_file_range(2): "does not write out the file's metadata".
#![allow(unsafe_code)] // a system call that rustix does not have

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};
use rustix::io::{Errno, Result};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Not the time of access: the walk must not be seen in what is measured.
const HOW: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOATIME).union(OFlags::NOFOLLOW);

/// Sends all data of the files below `dir` and waits for it.
///
/// # Errors
/// Of opening and reading; of the drive.
pub fn land(dir: BorrowedFd<'_>) -> Result<()> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        match entry.file_type() {
            FileType::Directory if !is_itself(entry.file_name()) => {
                let below = openat(dir, entry.file_name(), HOW | OFlags::DIRECTORY, Mode::empty())?;
                land(below.as_fd())?;
            }
            FileType::RegularFile => {
                send(openat(dir, entry.file_name(), HOW, Mode::empty())?.as_fd())?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_itself(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

fn send(file: BorrowedFd<'_>) -> Result<()> {
    let all =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the call takes no pointer, and the file is open as long as it is borrowed.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, all) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, open};

    #[test]
    fn files_in_directories_are_sent_and_what_is_no_file_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let deep = dir.path().join("a/b");
        std::fs::create_dir_all(&deep).expect("mkdir");
        std::fs::write(deep.join("f"), [7; 100_000]).expect("write");
        std::os::unix::fs::symlink("/nowhere", deep.join("l")).expect("symlink");
        rustix::fs::mkfifoat(CWD, deep.join("p"), Mode::RWXU).expect("mkfifo");
        let root = open(dir.path(), HOW | OFlags::DIRECTORY, Mode::empty()).expect("open");
        land(root.as_fd()).expect("land");
        let pipe = open(deep.join("p"), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).expect("open");
        assert_eq!(send(pipe.as_fd()), Err(Errno::SPIPE));
    }
}
