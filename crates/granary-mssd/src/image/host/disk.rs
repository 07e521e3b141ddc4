//! [`DiskHost`]: an image as a directory of files.
//!
//! The directory is opened once, when it is first needed, and everything else is reached through that handle: a directory that is
//! renamed, that another one takes the place of, or over which something is mounted stays the same image, and no other one is
//! touched. The path is for messages.

use super::holder::Waiting;
use super::{Host, HostFile, Map};
use crate::image::blocks::{BLOCK, Blocks};
use crate::image::grow::GROWN;
use crate::image::header::{HEADER, is_ours};
use crate::image::{CONTROL, ImageError};
use granary_units::PAGE_SIZE;
use rustix::fs::{
    AtFlags, CWD, Dir, FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, fallocate, flock,
    openat, renameat, seek, statat, unlinkat,
};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The file that carries the lock and the number of the process that holds it.
const LOCK: &str = "lock";
/// Everything else that an image has, in the order in which it is removed.
const FILES: [&str; 8] = [HEADER, "wal", "dram", "flash", "counters.toml", GROWN, CONTROL, "image.toml.new"];
/// Parts that one call of Linux may write: UIO_MAXIOV of `linux/uio.h`.
const MOST_PARTS: usize = 1024;

/// A directory on the machine's file system.
#[derive(Debug)]
pub struct DiskHost {
    path: PathBuf,
    dir: OnceLock<OwnedFd>,
}

impl DiskHost {
    /// The image directory at `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> DiskHost {
        DiskHost { path: path.into(), dir: OnceLock::new() }
    }

    /// The directory, which must exist.
    fn dir(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(dir) = self.dir.get() {
            return Ok(dir.as_fd());
        }
        // A handle of this kind asks for no permission to list the directory, nor to write to it.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, &self.path, flags, Mode::empty())?;
        Ok(self.dir.get_or_init(|| dir).as_fd())
    }

    /// A file of the directory.
    fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        // As the umask has it.
        let mode = Mode::from_raw_mode(0o666);
        Ok(openat(self.dir()?, name, flags | OFlags::CLOEXEC, mode)?.into())
    }

    /// The directory itself, to be listed or synced.
    fn opened(&self) -> io::Result<File> {
        self.file(".", OFlags::RDONLY | OFlags::DIRECTORY)
    }

    fn names(&self) -> io::Result<Vec<OsString>> {
        let entries = Dir::read_from(self.opened()?)?;
        let names = entries.filter_map(|e| Some(OsString::from_vec(e.ok()?.file_name().to_bytes().to_vec())));
        Ok(names.filter(|n| n != "." && n != "..").collect())
    }

    /// Whether there is a regular file of this name.
    fn is_file(&self, name: &str) -> bool {
        let found = self.dir().and_then(|dir| Ok(statat(dir, name, AtFlags::empty())?));
        found.is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile)
    }

    /// The first bytes of a file.
    fn start_of(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut start = Vec::new();
        self.file(name, OFlags::RDONLY)?.take(64).read_to_end(&mut start)?;
        Ok(start)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(self.dir()?, name, AtFlags::empty())?)
    }
}

impl Host for DiskHost {
    fn path(&self) -> &Path {
        &self.path
    }

    fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.dir().ok()
    }

    fn create(&self, force: bool) -> Result<(), ImageError> {
        let doing = |what: &str| format!("{what} {}", self.path.display());
        match self.names() {
            Ok(names) => {
                let is_image = self.is_file(HEADER);
                if is_image
                    && !is_ours(&self.start_of(HEADER).map_err(|e| ImageError::host(doing("reading"), e))?)
                {
                    return Err(ImageError::foreign(&self.path, format!("its {HEADER} is somebody else's")));
                }
                let left_over = names.iter().any(|n| FILES.iter().any(|f| n == f));
                let only_left_over = names.iter().all(|n| n == LOCK || FILES.iter().any(|f| n == f));
                if is_image || (left_over && only_left_over) {
                    if !force && is_image {
                        return Err(ImageError::Exists { path: self.path.clone() });
                    }
                    if !force {
                        let why = "it holds what an interrupted mkfs left; --force makes the image anew";
                        return Err(ImageError::foreign(&self.path, why));
                    }
                    let _held = self.lock()?;
                    // The header first: what is left is no image any more.
                    for name in FILES {
                        match self.unlink(name) {
                            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                                return Err(ImageError::host(doing("emptying"), e));
                            }
                            _ => {}
                        }
                    }
                    Ok(())
                } else if names.iter().any(|n| n != LOCK) {
                    Err(ImageError::foreign(&self.path, "the directory holds other files"))
                } else {
                    Ok(())
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let made = fs::create_dir_all(&self.path).and_then(|()| self.dir().map(drop));
                made.map_err(|e| ImageError::host(doing("making"), e))
            }
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                Err(ImageError::foreign(&self.path, "an image is a directory"))
            }
            Err(e) => Err(ImageError::host(doing("reading"), e)),
        }
    }

    fn open(&self, name: &'static str, read_only: bool) -> io::Result<Arc<dyn HostFile>> {
        let how = if read_only { OFlags::RDONLY } else { OFlags::RDWR | OFlags::CREATE };
        // A pipe without a writer would be waited for.
        let file = self.file(name, how | OFlags::NONBLOCK)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other(format!("{name} is no regular file")));
        }
        Ok(Arc::new(DiskFile(file)))
    }

    fn exists(&self, name: &'static str) -> bool {
        self.dir().is_ok_and(|dir| statat(dir, name, AtFlags::empty()).is_ok())
    }

    fn replace(&self, name: &'static str, content: &[u8]) -> io::Result<()> {
        let new = format!("{name}.new");
        let mut file = self.file(&new, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        file.write_all(content)?;
        file.sync_all()?;
        let dir = self.dir()?;
        renameat(dir, new, dir, name)?;
        self.opened()?.sync_all()
    }

    fn rename(&self, from: &'static str, to: &'static str) -> io::Result<()> {
        let dir = self.dir()?;
        renameat(dir, from, dir, to)?;
        self.opened()?.sync_all()
    }

    fn remove(&self, name: &'static str) -> io::Result<()> {
        self.unlink(name)
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>, ImageError> {
        let doing = || format!("locking {}", self.path.display());
        let file = match self.file(LOCK, OFlags::RDWR | OFlags::CREATE) {
            // On a read-only directory an existing lock file will do.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                self.file(LOCK, OFlags::RDONLY).map_err(|_| ImageError::host(doing(), e))?
            }
            other => other.map_err(|e| ImageError::host(doing(), e))?,
        };
        let mut waiting = Waiting::new();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    // Who holds it is for messages and for waiting only: a failure to say so does no harm.
                    let _ = file
                        .set_len(0)
                        .and_then(|()| file.write_all_at(std::process::id().to_string().as_bytes(), 0));
                    return Ok(Box::new(file));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let pid = holder(&file);
                    if !waiting.again(pid) {
                        return Err(ImageError::InUse { path: self.path.clone(), pid });
                    }
                }
                Err(e) => return Err(ImageError::host(doing(), e.into())),
            }
        }
    }
}

/// Who holds a lock file, by what is in it.
fn holder(file: &File) -> Option<u32> {
    let mut text = [0; 16];
    let len = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..len]).ok()?.trim().parse().ok()
}

struct DiskFile(File);

impl HostFile for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let shrinks = len < self.len()?;
        self.0.set_len(len)?;
        if shrinks { self.0.sync_all() } else { Ok(()) }
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, at)
    }

    fn write_at(&self, at: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, at)
    }

    fn write_pages_at(&self, mut at: u64, pages: &[&[u8; PAGE_SIZE]]) -> io::Result<()> {
        let mut parts: Vec<IoSlice<'_>> = pages.iter().map(|page| IoSlice::new(&page[..])).collect();
        let mut left = &mut parts[..];
        while !left.is_empty() {
            match rustix::io::pwritev(&self.0, &left[..left.len().min(MOST_PARTS)], at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    at += n as u64;
                    IoSlice::advance_slices(&mut left, n);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    fn direct(&self) -> Option<Arc<dyn HostFile>> {
        let again = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(again).ok()?;
        // Some file systems take the flag and then refuse the writes.
        let mut probe = Blocks::default();
        probe.zeros(BLOCK);
        let read = file.read_exact_at(probe.bytes(), 0);
        let written = read.and_then(|()| file.write_all_at(probe.bytes(), 0));
        written.ok().map(|()| Arc::new(DiskFile(file)) as Arc<dyn HostFile>)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match fallocate(&self.0, FallocateFlags::empty(), 0, len) {
            // A file system without it: writing has the same effect.
            Err(rustix::io::Errno::OPNOTSUPP) => write_zeros(self, len),
            other => Ok(other?),
        }
    }

    fn punch(&self, at: u64, len: u64) -> io::Result<()> {
        Ok(fallocate(&self.0, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len)?)
    }

    fn next_data(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        let from = match seek(&self.0, SeekFrom::Data(at)) {
            Ok(from) => from,
            Err(rustix::io::Errno::NXIO) => return Ok(None),
            Err(rustix::io::Errno::INVAL) => {
                let len = self.len()?;
                return Ok((at < len).then_some(at..len));
            }
            Err(e) => return Err(e.into()),
        };
        Ok(Some(from..seek(&self.0, SeekFrom::Hole(from))?))
    }

    fn map(&self, len: u64) -> io::Result<Option<Map>> {
        Map::new(&self.0, len).map(Some)
    }
}

/// Writes zeros over the first `len` bytes.
pub(crate) fn write_zeros(file: &dyn HostFile, len: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut at = 0;
    while at < len {
        let n = (len - at).min(zeros.len() as u64);
        file.write_at(at, &zeros[..n as usize])?;
        at += n;
    }
    Ok(())
}
