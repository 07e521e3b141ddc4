//! `granary cp-out [--stack DIR] IMAGE PATH... PLACE`: from an image to this machine, with modes, times,
//! extended attributes, symbolic and hard links; owners too for the superuser.
//!
//! A place that is a directory receives the files under their names; otherwise it is the name of the one that
//! is copied. Directories are copied whole, holes stay holes, and runs of zeros become some. Special files
//! (pipes, sockets, devices) are made anew, devices where this machine lets the caller. An existing file is
//! replaced once there is something in its place, but directories are filled. The image is not changed.
//!
//! A place within the image, or within the directory of `--stack`, is refused: the copy would write over what
//! it reads. Nor is a file of that directory written through another name of it (`Below`).
//!
//! A file that cannot be copied gets a message, and everything else is copied; the exit code is then 1.

use super::files::{Troubles, failed, host_failed, join, look};
use super::xattrs;
use granary_fs::{Attr, FileKind, FsError, quoted};
use granary_lab::LabError;
use granary_lab::stack::is_within;
use granary_units::Dest;
use granary_vfs::{Fd, OpenFlags, Posix, Process, Whence};
use rustc_hash::FxHashMap;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, chmod, chownat, mknodat, utimensat,
};
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes that are read at once, and the grain in which zeros become holes.
const PIECE: usize = 128 << 10;

/// State of a copy.
struct Copies {
    /// Names that were copied of files with several, by inode number.
    links: FxHashMap<u64, PathBuf>,
    below: Option<Below>,
}

/// The directory of `--stack`, whose files the image's are: by numbers of the host.
struct Below {
    dev: u64,
    /// The place and what it lies in.
    into: Vec<u64>,
}

impl Below {
    fn new(dir: &Path, place: &Path) -> Result<Below, LabError> {
        let dev = dir.metadata().map_err(host_failed("looking at", dir))?.dev();
        let place = std::path::absolute(place).map_err(host_failed("looking at", place))?;
        let there = place.ancestors().find_map(|p| p.canonicalize().ok()).unwrap_or_default();
        let numbers = there.ancestors().filter_map(|p| p.metadata().ok());
        Ok(Below { dev, into: numbers.filter(|m| m.dev() == dev).map(|m| m.ino()).collect() })
    }

    /// Refuses to copy a file onto itself, and a directory into itself, by whatever mount or link. Makes way
    /// for a file where one with several names is: one of them may be in the directory.
    fn make_way(&self, ino: u64, kind: FileKind, to: &Path) -> Result<(), LabError> {
        let there = to.symlink_metadata().ok().filter(|m| m.dev() == self.dev);
        let itself = there.as_ref().is_some_and(|m| m.ino() == ino);
        if itself || kind == FileKind::Dir && self.into.contains(&ino) {
            let to = quoted(to.as_os_str().as_bytes());
            let why = "it is, or lies within, what is to be copied: give a place outside";
            return Err(LabError::call(format!("copying to {to}"), why));
        }
        match there {
            Some(m) if m.is_file() && m.nlink() > 1 => {
                fs::remove_file(to).map_err(host_failed("replacing", to))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses a place within one of the directories that are read.
fn refuse_within(place: &Path, read: &[&Path]) -> Result<(), LabError> {
    match read.iter().find(|dir| is_within(place, dir)) {
        None => Ok(()),
        Some(dir) => Err(LabError::Usage(format!(
            "{} lies within {}, which is copied from: give a place outside",
            quoted(place.as_os_str().as_bytes()),
            quoted(dir.as_os_str().as_bytes())
        ))),
    }
}

/// Runs the command.
pub fn run(image: &Path, stack: Option<&Path>, paths: &[PathBuf]) -> Result<ExitCode, LabError> {
    let Some((place, files)) = paths.split_last() else { return Ok(ExitCode::SUCCESS) };
    refuse_within(place, &[Some(image), stack].into_iter().flatten().collect::<Vec<_>>())?;
    let below = stack.map(|dir| Below::new(dir, place)).transpose()?;
    let mut troubles = Troubles::default();
    let whole = |dir: &str, image: &str| format!("`granary cp-out --stack {dir} {image} PATH PLACE`");
    look(image, stack, whole, |process| {
        let into = place.is_dir();
        if !into && files.len() > 1 {
            return Err(LabError::call("copying", "several files need a directory as their place"));
        }
        let mut copies = Copies { links: FxHashMap::default(), below };
        for file in files {
            let to = match file.file_name() {
                Some(name) if into => place.join(name),
                _ if into => place.canonicalize().unwrap_or_else(|_| place.clone()),
                _ => place.clone(),
            };
            copy(process, file.as_os_str().as_bytes(), &to, &mut copies, &mut troubles);
        }
        Ok(())
    })?;
    Ok(troubles.code())
}

/// Copies a file, or a directory with what is in it.
fn copy(process: &mut Process, from: &[u8], to: &Path, copies: &mut Copies, troubles: &mut Troubles) {
    let copied = copy_one(process, from, to, copies);
    if !matches!(troubles.none(copied), Some(FileKind::Dir)) {
        return;
    }
    let entries = process.list(from).map_err(failed("listing", from));
    for e in troubles.none(entries).unwrap_or_default() {
        if e.name.contains(&b'/') || e.name.is_empty() {
            let why = "a directory holds a name that cannot be one: `granary fsck IMAGE` tells more";
            let what = format!("copying {}", quoted(&join(from, &e.name)));
            troubles.none::<()>(Err(LabError::call(what, why)));
        } else if e.name != b"." && e.name != b".." {
            copy(process, &join(from, &e.name), &to.join(OsStr::from_bytes(&e.name)), copies, troubles);
        }
    }
    // Last: it may not be writable, and what comes into it changes its times.
    let attributes = process.lstat(from).map_err(failed("looking at", from));
    let set = attributes.and_then(|stat| set_attributes(process, from, to, &stat.attr));
    troubles.none(set);
}

/// Copies a file, or makes a directory; says which it was.
fn copy_one(
    process: &mut Process,
    from: &[u8],
    to: &Path,
    copies: &mut Copies,
) -> Result<FileKind, LabError> {
    let stat = process.lstat(from).map_err(failed("looking at", from))?;
    let a = stat.attr;
    if let Some(below) = &copies.below {
        below.make_way(stat.ino.0, a.kind, to)?;
    }
    if a.kind == FileKind::Dir {
        if !to.symlink_metadata().is_ok_and(|m| m.is_dir()) {
            fs::create_dir(to).map_err(host_failed("making", to))?;
        }
        return Ok(a.kind);
    }
    let several = a.nlink > 1;
    let first = copies.links.get(&stat.ino.0).filter(|first| several && first.as_path() != to);
    if let Some(first) = first {
        replace("linking", to, |at| fs::hard_link(first, at))?;
        return Ok(a.kind);
    }
    match a.kind {
        FileKind::Symlink => {
            let target = process.readlink(from).map_err(failed("reading", from))?;
            replace("linking", to, |at| symlink(OsStr::from_bytes(&target), at))?;
        }
        FileKind::File => copy_content(process, from, to)?,
        special => replace("making", to, |at| make_special(special, a.rdev, at))?,
    }
    set_attributes(process, from, to, &a)?;
    if several {
        copies.links.insert(stat.ino.0, to.to_owned());
    }
    Ok(a.kind)
}

/// Puts what `make` makes at a path in the place of what is there, which stays where that fails.
fn replace(doing: &str, to: &Path, make: impl Fn(&Path) -> io::Result<()>) -> Result<(), LabError> {
    let put = || match make(to) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            // Beside it, so that one step puts it there.
            let name = format!(".granary-{}", std::process::id());
            let beside = to.parent().unwrap_or(Path::new("/")).join(name);
            make(&beside)?;
            let put = fs::rename(&beside, to);
            // Where both were links to one file, or the place is a directory, it is there still.
            let _ = fs::remove_file(&beside);
            put
        }
        other => other,
    };
    put().map_err(host_failed(doing, to))
}

/// Makes a pipe, a socket or a device.
fn make_special(kind: FileKind, rdev: u32, at: &Path) -> io::Result<()> {
    let (kind, device) = match kind {
        FileKind::Fifo => (FileType::Fifo, 0),
        FileKind::Socket => (FileType::Socket, 0),
        FileKind::CharDev => (FileType::CharacterDevice, rdev),
        _ => (FileType::BlockDevice, rdev),
    };
    Ok(mknodat(CWD, at, kind, Mode::RUSR | Mode::WUSR, device.into())?)
}

fn set_attributes(process: &mut Process, from: &[u8], to: &Path, a: &Attr) -> Result<(), LabError> {
    let host = |e: rustix::io::Errno| host_failed("changing", to)(e.into());
    if geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(a.uid), Gid::from_raw(a.gid));
        chownat(CWD, to, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).map_err(host)?;
    }
    if a.kind != FileKind::Symlink {
        chmod(to, Mode::from_raw_mode(a.mode.into())).map_err(host)?;
        xattrs::out_of_image(process, from, to)?;
    }
    let time =
        |ns: i64| Timespec { tv_sec: ns.div_euclid(1_000_000_000), tv_nsec: ns.rem_euclid(1_000_000_000) };
    let times = Timestamps { last_access: time(a.atime.0), last_modification: time(a.mtime.0) };
    utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(host)
}

fn copy_content(process: &mut Process, from: &[u8], to: &Path) -> Result<(), LabError> {
    let fd = process.open(from, OpenFlags::RDONLY, 0).map_err(failed("opening", from))?;
    // A file is written over, as cp does; through a link, or into a pipe, nobody means to write.
    if to.symlink_metadata().is_ok_and(|m| !m.is_file()) {
        fs::remove_file(to).map_err(host_failed("replacing", to))?;
    }
    let file = File::create(to).map_err(host_failed("making", to))?;
    let (mut buffer, mut at) = (vec![0; PIECE], 0);
    'file: while let Some(data) = seek(process, fd, at, Whence::Data).map_err(failed("reading", from))? {
        at = data;
        let end = seek(process, fd, at, Whence::Hole).map_err(failed("reading", from))?.unwrap_or(at);
        while at < end {
            let most = PIECE.min((end - at) as usize);
            let out = Dest::Bytes(&mut buffer[..most]);
            let n = process.pread(fd, out, at).map_err(failed("reading", from))?;
            if n == 0 {
                break 'file;
            }
            if buffer[..n].iter().any(|&b| b != 0) {
                file.write_all_at(&buffer[..n], at).map_err(host_failed("writing", to))?;
            }
            at += n as u64;
        }
    }
    let size = process.fstat(fd).map_err(failed("looking at", from))?.attr.size;
    file.set_len(size).map_err(host_failed("writing", to))?;
    process.close(fd).map_err(failed("closing", from))
}

/// Where data or a hole begins; none: not before the end.
fn seek(process: &mut Process, fd: Fd, at: u64, whence: Whence) -> granary_fs::Result<Option<u64>> {
    match process.lseek(fd, at as i64, whence) {
        Err(FsError::NoDevice) => Ok(None),
        other => other.map(Some),
    }
}
