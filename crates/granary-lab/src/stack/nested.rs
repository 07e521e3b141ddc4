//! No two stacks over one file: neither over one directory, nor over one and another within it. Their images
//! would have different newest bytes.
//!
//! ```text
//!   at the same time       an exclusive lock on the directory, shared ones on those that it lies in
//!   one after another      no attribute of a pair on the directories that it lies in, nor on one within it
//! ```
//!
//! Directories that everybody may write to and nobody else's files be removed from (`/tmp`) are not locked:
//! programs that clean them take a lock for a wish to be left alone.

use super::{Stack, shown};
use crate::error::LabError;
use granary_fs::{Caller, FsError};
use granary_testbed::registry::PAIR;
use granary_vfs::{DirStream, NodeRef, Vfs};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bit of a mode by which only the owner of a file removes it.
const STICKY: u32 = 0o1000;

/// Keeps other stacks off a directory until it is dropped.
pub struct Lock(Vec<OwnedFd>);

impl Drop for Lock {
    /// At once: a child that this process is just starting has the descriptors, too, until it runs its
    /// program.
    fn drop(&mut self) {
        for fd in &self.0 {
            let _ = flock(fd, FlockOperation::Unlock);
        }
    }
}

fn open(dir: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Locks the directory for one stack, or for a look at one.
pub(super) fn lock(dir: &Path) -> Result<Lock, LabError> {
    let failed = |why: String| LabError::call(dir.display().to_string(), why);
    let fd = open(dir).map_err(|e| match e {
        Errno::NOENT => failed("there is no such directory: give the one that has the files".to_owned()),
        Errno::NOTDIR => failed("it is no directory: give the one that has the files".to_owned()),
        e => failed(format!("opening it: {e}")),
    })?;
    flock(&fd, FlockOperation::NonBlockingLockExclusive).map_err(|e| match e {
        Errno::WOULDBLOCK => failed(
            "another mount has persistent memory in front of it or of a directory in it, or a command looks at it: unmount that first \
             (`granary umount DIR`)"
                .to_owned(),
        ),
        e => failed(format!("locking it: {e}")),
    })?;
    let mut lock = Lock(vec![fd]);
    for above in above(dir) {
        // One that cannot be opened, or has no locks, has none of ours.
        let sticky = above.metadata().is_ok_and(|m| m.mode() & STICKY != 0);
        let Some(fd) = open(&above).ok().filter(|_| !sticky) else { continue };
        match flock(&fd, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => {
                let why = "in front of which another mount has persistent memory, or a command looks at it: unmount that first \
                           (`granary umount DIR`)";
                return Err(failed(format!("it lies within {}, {why}", shown(&above))));
            }
            Err(_) => {}
            Ok(()) => lock.0.push(fd),
        }
    }
    Ok(lock)
}

/// The directories that one lies in.
fn above(dir: &Path) -> Vec<PathBuf> {
    dir.canonicalize().map(|dir| dir.ancestors().skip(1).map(Path::to_owned).collect()).unwrap_or_default()
}

/// Refuses a directory that has others with a pair above or below it. Where those are to be given up, it
/// returns them.
pub(super) fn refuse_nested(how: &Stack<'_>, lower: &Arc<Vfs>) -> granary_fs::Result<Vec<PathBuf>> {
    let paired = |dir: &PathBuf| {
        let there = rustix::fs::getxattr(dir, PAIR, &mut [0_u8; 64][..]);
        matches!(there, Ok(_) | Err(Errno::RANGE))
    };
    let mut others: Vec<PathBuf> = above(how.dir).into_iter().filter(paired).collect();
    others.extend(look_around(lower)?.iter().map(|path| how.dir.join(path)));
    match others.first() {
        Some(one) if !how.forget => Err(FsError::Mismatch(format!(
            "the newest bytes of some files in {one} are in another persistent memory, and {dir} shares files with it: bring them back \
             first (`granary mount --demote-all --stack {one} ITS-IMAGE MNT`, then `granary umount MNT`), or give them up (`granary mount \
             --stack {dir} --forget {image} MNT`)",
            one = shown(one),
            dir = shown(how.dir),
            image = shown(how.image),
        ))),
        _ => Ok(others),
    }
}

/// Has directories forget that another image has newest bytes of their files. Returns what to say of it.
pub(super) fn forget_nested(others: &[PathBuf]) -> granary_fs::Result<Option<String>> {
    for dir in others {
        let forgotten = open(dir).and_then(|fd| {
            rustix::fs::fremovexattr(&fd, PAIR)?;
            rustix::fs::fsync(&fd)
        });
        forgotten.map_err(|e| {
            FsError::Mismatch(format!("giving up what another image has of {}: {e}", shown(dir)))
        })?;
    }
    let names: Vec<String> = others.iter().map(|dir| shown(dir).to_string()).collect();
    Ok((!names.is_empty())
        .then(|| format!("given up as asked, what other images have of {}", names.join(", "))))
}

/// Looks at every name of the tree. Returns the directories within that have a pair of their own, as paths
/// from the root.
pub(super) fn look_around(vfs: &Arc<Vfs>) -> granary_fs::Result<Vec<PathBuf>> {
    let mut paired = Vec::new();
    let mut directories: Vec<(NodeRef, PathBuf)> = vec![(vfs.root(), PathBuf::new())];
    while let Some((dir, path)) = directories.pop() {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let stream = DirStream::default();
        // Behind "." and "..".
        vfs.readdir(&Caller::KERNEL, &dir, &stream, 2, &mut |e| {
            names.push(e.name.to_vec());
            true
        })?;
        for name in names {
            match vfs.lookup(&Caller::KERNEL, &dir, &name) {
                Ok(node) if node.is_dir() => {
                    let path = path.join(OsStr::from_bytes(&name));
                    match vfs.getxattr(&Caller::KERNEL, &node, PAIR) {
                        Ok(_) => paired.push(path.clone()),
                        Err(FsError::NoAttribute | FsError::NotSupported) => {}
                        Err(e) => return Err(e),
                    }
                    directories.push((node, path));
                }
                // Somebody else may remove it meanwhile.
                Ok(_) | Err(FsError::NoEntry) => {}
                Err(e) => return Err(e),
            }
        }
    }
    vfs.reap();
    Ok(paired)
}
