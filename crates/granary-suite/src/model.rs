//! Test support: random calls, applied to any [`Posix`] and compared with the [reference](crate::reference).
//!
//! ```text
//!   one process:   Generator --Op--> apply(file system) == apply(reference) ?   then compare_trees
//!   many tasks:    run_concurrently -> history -> check_history: is there a serial order that explains it?
//! ```
//!
//! A file-system crate needs three lines per test: mount, [`run_sequence`] or [`run_concurrently`] and
//! [`check_history`].

mod generate;
mod history;
mod op;
mod tree;

pub use generate::{Generator, Mix};
pub use history::{Event, History, check_history, run_concurrently};
pub use op::{Data, Op, Outcome, Shown};
pub use tree::{Snapshot, TreeEntry, compare_trees, snapshot};

use crate::reference::{Limits, RefFs, RefProcess};
use granary_fs::{Cred, FileKind, FsError, Result};
use granary_units::Dest;
use granary_vfs::{Posix, SetTime, Whence};
use parking_lot::Mutex;
use std::sync::Arc;

/// Descriptors that operations use; one opened beyond is closed at once, so that none leak.
pub const DESCRIPTORS: u32 = 6;

/// Mappings that operations use, likewise.
pub const MAPS: u32 = 3;

/// The users of the model: root, one in group 200, too, and one in no other group.
pub fn user(n: u32) -> Cred {
    match n % 3 {
        0 => Cred::ROOT,
        1 => Cred { uid: 100, gid: 100, groups: vec![200] },
        _ => Cred { uid: 200, gid: 200, groups: vec![] },
    }
}

/// Makes the call.
pub fn apply(p: &mut impl Posix, op: &Op) -> Outcome {
    attempt(p, op).unwrap_or_else(Outcome::Failed)
}

fn attempt(p: &mut impl Posix, op: &Op) -> Result<Outcome> {
    let done = |()| Outcome::Done;
    let count = |n: usize| Outcome::Count(n as u64);
    Ok(match op {
        Op::Open { path, flags, mode } => {
            let fd = p.open(path, *flags, *mode)?;
            if fd.0 >= DESCRIPTORS {
                p.close(fd)?;
            }
            Outcome::Fd(fd)
        }
        Op::OpenUnnamed { dir, flags, mode } => {
            let fd = p.open_unnamed(dir, *flags, *mode)?;
            if fd.0 >= DESCRIPTORS {
                p.close(fd)?;
            }
            Outcome::Fd(fd)
        }
        Op::LinkOpen { fd, new } => p.link_open(*fd, new).map(done)?,
        Op::Close(fd) => p.close(*fd).map(done)?,
        Op::Read { fd, len } => {
            let mut buf = vec![0xee; *len];
            let n = p.read(*fd, Dest::Bytes(&mut buf))?;
            buf.truncate(n);
            Outcome::Data(buf)
        }
        Op::Pread { fd, pos, len } => {
            let mut buf = vec![0xee; *len];
            let n = p.pread(*fd, Dest::Bytes(&mut buf), *pos)?;
            buf.truncate(n);
            Outcome::Data(buf)
        }
        Op::Write { fd, data } => count(data.give(|d| p.write(*fd, d))?),
        Op::Pwrite { fd, pos, data } => count(data.give(|d| p.pwrite(*fd, d, *pos))?),
        // Positions in a directory are the file system's affair.
        Op::Seek { fd, .. } if p.fstat(*fd)?.attr.kind == FileKind::Dir => Outcome::Done,
        Op::Seek { fd, offset, whence: whence @ (Whence::Data | Whence::Hole) } => {
            // Where holes are is the file system's affair ([`check_seek`] looks whether it told the truth).
            let at = p.lseek(*fd, 0, Whence::Cur)?;
            let size = p.fstat(*fd)?.attr.size;
            let found = p.lseek(*fd, *offset, *whence);
            p.lseek(*fd, at as i64, Whence::Set)?;
            match found {
                Err(e) if e != FsError::NoDevice || *offset < 0 || *offset as u64 >= size => return Err(e),
                _ => Outcome::Done,
            }
        }
        Op::Seek { fd, offset, whence } => Outcome::Count(p.lseek(*fd, *offset, *whence)?),
        Op::Ftruncate { fd, size } => p.ftruncate(*fd, *size).map(done)?,
        Op::Truncate { path, size } => p.truncate(path, *size).map(done)?,
        Op::Fallocate { fd, how, pos, len } => p.fallocate(*fd, *how, *pos, *len).map(done)?,
        Op::Mmap { fd, pos, len, how } => {
            let map = p.mmap(*fd, *pos, *len, *how)?;
            if map.0 >= MAPS {
                p.munmap(map)?;
            }
            Outcome::Count(map.0 as u64)
        }
        Op::MapLoad { map, at, len } => {
            let mut buf = vec![0xee; *len];
            p.map_load(*map, *at, Dest::Bytes(&mut buf))?;
            Outcome::Data(buf)
        }
        Op::MapStore { map, at, data } => data.give(|d| p.map_store(*map, *at, d)).map(done)?,
        Op::Msync { map, at, len, wait } => p.msync(*map, *at, *len, *wait).map(done)?,
        Op::Munmap(map) => p.munmap(*map).map(done)?,
        Op::Fsync { fd, data_only: false } => p.fsync(*fd).map(done)?,
        Op::Fsync { fd, data_only: true } => p.fdatasync(*fd).map(done)?,
        Op::Sync => p.sync().map(done)?,
        Op::Stat(path) => Outcome::Stat(Shown::of(&p.stat(path)?)),
        Op::Lstat(path) => Outcome::Stat(Shown::of(&p.lstat(path)?)),
        Op::Fstat(fd) => Outcome::Stat(Shown::of(&p.fstat(*fd)?)),
        Op::Access { path, wanted } => p.access(path, *wanted).map(done)?,
        Op::Chmod { path, mode } => p.chmod(path, *mode).map(done)?,
        Op::Chown { path, uid, gid, follow: true } => p.chown(path, *uid, *gid).map(done)?,
        Op::Chown { path, uid, gid, follow: false } => p.lchown(path, *uid, *gid).map(done)?,
        Op::Utimens { path, now } => {
            let time = if *now { SetTime::Now } else { SetTime::At(granary_fs::Time(12_345)) };
            p.utimens(path, time, time).map(done)?
        }
        Op::Getxattr { path, name } => Outcome::Data(p.getxattr(path, name.as_bytes())?),
        Op::Setxattr { path, name, data, how } => {
            data.bytes(|b| p.setxattr(path, name.as_bytes(), b, *how)).map(done)?
        }
        Op::Removexattr { path, name } => p.removexattr(path, name.as_bytes()).map(done)?,
        Op::Listxattr(path) => {
            let mut names = p.listxattr(path)?;
            names.sort();
            Outcome::Data(names.join(&0))
        }
        Op::Mkdir { path, mode } => p.mkdir(path, *mode).map(done)?,
        Op::Mknod { path, kind, mode } => p.mknod(path, *kind, *mode, 0x103).map(done)?,
        Op::Rmdir(path) => p.rmdir(path).map(done)?,
        Op::Unlink(path) => p.unlink(path).map(done)?,
        Op::Rename { from, to, flags } => p.rename_with(from, to, *flags).map(done)?,
        Op::Link { old, new } => p.link(old, new).map(done)?,
        Op::Symlink { target, path } => p.symlink(target, path).map(done)?,
        Op::Readlink(path) => Outcome::Data(p.readlink(path)?),
        Op::List(path) => {
            let mut names: Vec<_> = p.list(path)?.into_iter().map(|e| (e.name, e.kind)).collect();
            names.sort();
            Outcome::Names(names)
        }
        Op::Chdir(path) => p.chdir(path).map(done)?,
        Op::Umask(mask) => Outcome::Count(p.umask(*mask) as u64),
        Op::Become(n) => {
            p.set_cred(user(*n));
            Outcome::Done
        }
    })
}

/// Applies `count` random calls to `p`, a process of root on an empty file system, and to a fresh reference;
/// compares every outcome, and the trees at the end.
///
/// # Errors
/// The first difference, with the calls that led to it.
pub fn run_sequence(
    p: &mut impl Posix,
    limits: Limits,
    generator: &mut Generator,
    count: usize,
) -> Result<(), String> {
    let mut reference = RefProcess::new(Arc::new(Mutex::new(RefFs::new(limits))), Cred::ROOT);
    let mut log: Vec<String> = Vec::new();
    for _ in 0..count {
        let op = generator.next_op();
        let ours = apply(p, &op);
        if is_unsupported(&op, &ours) {
            continue;
        }
        let expected = apply(&mut reference, &op);
        log.push(format!("{op:?} -> {}", brief(&expected)));
        if ours != expected {
            let from = log.len().saturating_sub(40);
            return Err(format!(
                "{}\nbut: {}{}",
                log[from..].join("\n"),
                brief(&ours),
                first_diff(&ours, &expected)
            ));
        }
        check_seek(p, &op)?;
    }
    compare_trees(p, &mut reference)
}

/// Whether this is a call that not every file system has, on one that does not have it: it changes nothing.
fn is_unsupported(op: &Op, outcome: &Outcome) -> bool {
    let optional = matches!(
        op,
        Op::Fallocate { .. }
            | Op::OpenUnnamed { .. }
            | Op::LinkOpen { .. }
            | Op::Mmap { .. }
            | Op::MapLoad { .. }
            | Op::MapStore { .. }
            | Op::Msync { .. }
            | Op::Munmap(_)
            | Op::Getxattr { .. }
            | Op::Setxattr { .. }
            | Op::Removexattr { .. }
            | Op::Listxattr(_)
    );
    optional && *outcome == Outcome::Failed(FsError::NotSupported)
}

/// Checks the answers of a file system about data and holes. There must be zeros between the offset and the
/// data that it found, and where it says that a hole is.
///
/// # Errors
/// A sentence about a wrong answer.
fn check_seek(p: &mut impl Posix, op: &Op) -> Result<(), String> {
    let Op::Seek { fd, offset, whence: whence @ (Whence::Data | Whence::Hole) } = op else { return Ok(()) };
    let (Ok(at), Ok(stat)) = (p.lseek(*fd, 0, Whence::Cur), p.fstat(*fd)) else { return Ok(()) };
    let size = stat.attr.size;
    if stat.attr.kind != FileKind::File || *offset < 0 || *offset as u64 >= size {
        return Ok(());
    }
    let from = *offset as u64;
    let found = p.lseek(*fd, *offset, *whence);
    p.lseek(*fd, at as i64, Whence::Set).map_err(|e| e.to_string())?;
    let zeros = match (whence, found) {
        (Whence::Data, Ok(data)) if (from..size).contains(&data) => from..data,
        (Whence::Data, Err(FsError::NoDevice)) => from..size,
        (Whence::Hole, Ok(hole)) if (from..size).contains(&hole) => hole..hole + 1,
        (Whence::Hole, Ok(hole)) if hole == size => return Ok(()),
        (_, other) => return Err(format!("{op:?} on a file of {size} bytes: {other:?}")),
    };
    let mut bytes = vec![0; (zeros.end - zeros.start) as usize];
    match p.pread(*fd, Dest::Bytes(&mut bytes), zeros.start) {
        Ok(_) if bytes.iter().any(|&b| b != 0) => {
            Err(format!("{op:?}: {zeros:?} is called a hole and is none"))
        }
        // Not open for reading: nobody can look.
        _ => Ok(()),
    }
}

fn first_diff(a: &Outcome, b: &Outcome) -> String {
    match (a, b) {
        (Outcome::Data(a), Outcome::Data(b)) => {
            let at = a.iter().zip(b).position(|(x, y)| x != y);
            format!(" (first difference at byte {at:?})")
        }
        _ => String::new(),
    }
}

fn brief(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Data(d) if d.len() > 32 => format!("Data({} bytes)", d.len()),
        other => format!("{other:?}"),
    }
}
