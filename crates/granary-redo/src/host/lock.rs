//! The lock of an image: one process has it open at a time.
//!
//! ```text
//!   lock    flock; the number of the last process that could write is in it, for messages
//!   flash   flock: every image of an SSD has it, also one without `lock`
//!   nvm     flock: the same of NVM DIMMs
//! ```
//!
//! Permission to open a file, even only for reading, is enough to lock it: `flock` asks for no more. A read
//! lock of fcntl(2) would keep a write lock out, too. So the lock is as good as the modes of these files,
//! which are private to their owner ([`Members::make`]). A wider mode is warned of ([`Members::exposed`]). A
//! process that only reads locks what is there: it makes no file and writes nothing. It does *not* keep out
//! programs that do not ask.
//!
//! Source: flock(2), fcntl(2).

use super::holder::{Waiting, holder};
use super::members::Members;
use crate::ImageError;
use crate::files::{FLASH, NVM};
use rustix::fs::{FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The file that is there to be locked.
pub const LOCK: &str = "lock";

/// Takes the lock. Dropping the returned files lets go of it.
///
/// # Errors
/// [`ImageError::InUse`]; host errors.
pub fn take(members: &Members, read_only: bool) -> Result<Vec<File>, ImageError> {
    let mut waiting = Waiting::new();
    loop {
        let doing = |e| ImageError::host(format!("locking {}", members.path().display()), e);
        match take_once(members, read_only).map_err(doing)? {
            Tried::Taken(files) => return Ok(files),
            // Another image took its place meanwhile.
            Tried::Gone => {}
            Tried::Held(pid) if waiting.again(pid) => {}
            Tried::Held(pid) => {
                let exposed = members.exposed(&[LOCK, FLASH, NVM]);
                return Err(ImageError::InUse { path: members.path().to_owned(), pid, exposed });
            }
        }
    }
}

enum Tried {
    Taken(Vec<File>),
    /// By this process, where it could be found out.
    Held(Option<u32>),
    Gone,
}

fn take_once(members: &Members, read_only: bool) -> io::Result<Tried> {
    let mut files = Vec::new();
    for name in [LOCK, FLASH, NVM] {
        let opened = match name {
            LOCK if !read_only => members.open_or_make(LOCK),
            name => members.open(name, OFlags::RDONLY),
        };
        let file = match opened {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(Tried::Held(holder(&file))),
            other => other?,
        }
        let (ours, there) = (fstat(&file)?, members.stat(name));
        if !there.is_ok_and(|s| (s.st_dev, s.st_ino) == (ours.st_dev, ours.st_ino)) {
            return Ok(Tried::Gone);
        }
        if name == LOCK && !read_only {
            // The holder's number serves messages and waiting only: a failure to write it does no harm.
            let me = std::process::id().to_string();
            let _ = file.set_len(0).and_then(|()| file.write_all_at(me.as_bytes(), 0));
        }
        files.push(file);
    }
    Ok(Tried::Taken(files))
}
