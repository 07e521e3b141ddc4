//! `granary cp-in IMAGE FILE... PLACE`: from this machine into an image, with modes, owners, times, extended
//! attributes, symbolic and hard links.
//!
//! A place that is a directory receives the files under their names; otherwise it is the name of the one file
//! that is copied. Directories are copied whole. Holes stay holes, and runs of zeros become some. Sockets are
//! left out with a message. Existing files are replaced, but directories are filled.
//!
//! A file that cannot be copied gets a message, and everything else is copied; the exit code is then 1.

use super::files::{Troubles, failed, host_failed, join, with_process};
use super::xattrs;
use granary_fs::{FileKind, Time, quoted};
use granary_image::Image;
use granary_lab::LabError;
use granary_mount::STATS_FILE;
use granary_units::Payload;
use granary_vfs::{OpenFlags, Posix, Process, SetTime};
use rustc_hash::FxHashMap;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes that are read at once, and the grain in which zeros become holes.
const PIECE: usize = 128 << 10;

/// Names that were copied of files with several, by device and inode number.
type Names = FxHashMap<(u64, u64), Vec<u8>>;

/// The image that is copied to, and the names of copied files.
struct Links<'a> {
    image: &'a Image,
    names: Names,
}

/// Runs the command.
pub fn run(image: &Path, paths: &[PathBuf]) -> Result<ExitCode, LabError> {
    let Some((place, files)) = paths.split_last() else { return Ok(ExitCode::SUCCESS) };
    let mut troubles = Troubles::default();
    let place = place.as_os_str().as_bytes();
    with_process(image, false, |process, image| {
        let into = process.stat(place).is_ok_and(|s| s.attr.kind == FileKind::Dir);
        if !into && files.len() > 1 {
            return Err(LabError::call("copying", "several files need a directory as their place"));
        }
        let mut links = Links { image, names: Names::default() };
        for file in files {
            let name = file.file_name().map_or(&b"."[..], OsStrExt::as_bytes);
            let to = if into && name != b"." { join(place, name) } else { place.to_vec() };
            copy(process, file, &to, &mut links, &mut troubles);
        }
        process.sync().map_err(failed("syncing", b"the file system"))
    })?;
    Ok(troubles.code())
}

/// Whether a place is the one that shows the counters where the image is mounted.
fn is_statistics(to: &[u8]) -> bool {
    let mut parts = to.split(|&b| b == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.next() == Some(STATS_FILE.as_bytes()) && parts.next().is_none()
}

/// Copies a file, or a directory with what is in it.
fn copy(process: &mut Process, from: &Path, to: &[u8], links: &mut Links<'_>, troubles: &mut Troubles) {
    let copied = copy_one(process, from, to, links);
    let Some(Some(dir)) = troubles.none(copied) else { return };
    let entries = std::fs::read_dir(from).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut entries = troubles.none(entries.map_err(host_failed("listing", from))).unwrap_or_default();
    entries.sort_unstable_by_key(|e| e.file_name());
    for e in entries {
        copy(process, &e.path(), &join(to, e.file_name().as_bytes()), links, troubles);
    }
    // Last: what comes into it changes its times.
    let set = set_attributes(links.image, process, from, to, &dir, (dir.mode() & 0o7777) as u16);
    troubles.none(set);
}

/// Copies a file, or makes a directory, of which it returns what the host knows.
fn copy_one(
    process: &mut Process,
    from: &Path,
    to: &[u8],
    links: &mut Links<'_>,
) -> Result<Option<Metadata>, LabError> {
    if is_statistics(to) {
        return Err(LabError::call(
            format!("copying {}", quoted(from.as_os_str().as_bytes())),
            format!(
                "the name {STATS_FILE} in the root directory is that of a mount's counters: copy it under another"
            ),
        ));
    }
    let m = from.symlink_metadata().map_err(host_failed("looking at", from))?;
    let kind = m.file_type();
    let there = process.lstat(to).ok().map(|s| s.attr.kind);
    if kind.is_dir() {
        if there != Some(FileKind::Dir) {
            process.mkdir(to, 0o700).map_err(failed("making", to))?;
        }
        return Ok(Some(m));
    }
    if kind.is_socket() {
        say!("granary: {} is a socket: left out", quoted(from.as_os_str().as_bytes()));
        return Ok(None);
    }
    let several = m.nlink() > 1;
    let first = links.names.get(&(m.dev(), m.ino())).filter(|first| several && first.as_slice() != to);
    // A file is written over, as cp does; through a link nobody means to write.
    if there.is_some_and(|t| first.is_some() || !kind.is_file() || t != FileKind::File) {
        process.unlink(to).map_err(failed("replacing", to))?;
    }
    if let Some(first) = first {
        process.link(first, to).map_err(failed("linking", to))?;
        return Ok(None);
    }
    let perm = (m.mode() & 0o7777) as u16;
    if kind.is_symlink() {
        let target = std::fs::read_link(from).map_err(host_failed("reading", from))?;
        process.symlink(target.as_os_str().as_bytes(), to).map_err(failed("linking", to))?;
        process.lchown(to, Some(m.uid()), Some(m.gid())).map_err(failed("giving away", to))?;
        let (atime, mtime) = times(&m);
        process.lutimens(to, atime, mtime).map_err(failed("dating", to))?;
    } else {
        if kind.is_file() {
            copy_content(process, from, to, m.len())?;
        } else {
            let (kind, rdev) = if kind.is_fifo() {
                (FileKind::Fifo, 0)
            } else if kind.is_char_device() {
                (FileKind::CharDev, m.rdev() as u32)
            } else {
                (FileKind::BlockDev, m.rdev() as u32)
            };
            process.mknod(to, kind, perm, rdev).map_err(failed("making", to))?;
        }
        set_attributes(links.image, process, from, to, &m, perm)?;
    }
    if several {
        links.names.insert((m.dev(), m.ino()), to.to_vec());
    }
    Ok(None)
}

/// Access and modification.
fn times(m: &Metadata) -> (SetTime, SetTime) {
    let time =
        |seconds: i64, ns: i64| SetTime::At(Time(seconds.saturating_mul(1_000_000_000).saturating_add(ns)));
    (time(m.atime(), m.atime_nsec()), time(m.mtime(), m.mtime_nsec()))
}

/// Owner first: changing it may take permission bits away.
fn set_attributes(
    image: &Image,
    process: &mut Process,
    from: &Path,
    to: &[u8],
    m: &Metadata,
    perm: u16,
) -> Result<(), LabError> {
    let (atime, mtime) = times(m);
    process.chown(to, Some(m.uid()), Some(m.gid())).map_err(failed("giving away", to))?;
    process.chmod(to, perm).map_err(failed("changing", to))?;
    xattrs::into_image(image, process, from, to)?;
    process.utimens(to, atime, mtime).map_err(failed("dating", to))
}

fn copy_content(process: &mut Process, from: &Path, to: &[u8], len: u64) -> Result<(), LabError> {
    let file = File::open(from).map_err(host_failed("opening", from))?;
    let flags = OpenFlags::WRONLY | OpenFlags::CREAT | OpenFlags::TRUNC;
    let fd = process.open(to, flags, 0o600).map_err(failed("making", to))?;
    let (mut buffer, mut at) = (vec![0; PIECE], 0);
    while let Some(data) = next_data(&file, at, len).map_err(host_failed("reading", from))? {
        at = data.start;
        while at < data.end {
            let most = PIECE.min((data.end - at) as usize);
            let n = read_full(&file, &mut buffer[..most], at).map_err(host_failed("reading", from))?;
            if buffer[..n].iter().any(|&b| b != 0) {
                let mut done = 0;
                while done < n {
                    let data = Payload::Bytes(&buffer[done..n]);
                    done += process.pwrite(fd, data, at + done as u64).map_err(failed("writing", to))?;
                }
            }
            at += n as u64;
            if n < most {
                break;
            }
        }
        if at < data.end {
            break;
        }
    }
    // A hole at the end; and the file may have grown, or been cut, meanwhile.
    let size = at.max(file.metadata().map_err(host_failed("looking at", from))?.len());
    if size.max(len) > 0 {
        process.ftruncate(fd, size).map_err(failed("writing", to))?;
    }
    process.close(fd).map_err(failed("closing", to))
}

/// The next bytes of a file that may be data; everything up to the end where the host does not tell holes, or
/// no length.
fn next_data(file: &File, at: u64, len: u64) -> io::Result<Option<Range<u64>>> {
    if len == 0 {
        return Ok(Some(at..u64::MAX));
    }
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(at..u64::MAX)),
        Err(e) => return Err(e.into()),
    };
    Ok(Some(start..seek(file, SeekFrom::Hole(start))?))
}

fn read_full(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut n = 0;
    while n < buffer.len() {
        match file.read_at(&mut buffer[n..], at + n as u64) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(n)
}
