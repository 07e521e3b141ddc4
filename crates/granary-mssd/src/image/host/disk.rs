//! [`DiskHost`]: an image as a directory of files.

use super::holder::Waiting;
use super::{Host, HostFile, Map};
use crate::image::blocks::{BLOCK, Blocks};
use crate::image::grow::GROWN;
use crate::image::header::{HEADER, is_ours};
use crate::image::{CONTROL, ImageError};
use granary_units::PAGE_SIZE;
use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom, fallocate, flock, seek};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that carries the lock and the number of the process that holds it.
const LOCK: &str = "lock";
/// Everything else that an image has, in the order in which it is removed.
const FILES: [&str; 8] = [HEADER, "wal", "dram", "flash", "counters.toml", GROWN, CONTROL, "image.toml.new"];
/// Parts that one call of Linux may write: UIO_MAXIOV of `linux/uio.h`.
const MOST_PARTS: usize = 1024;

/// A directory on the machine's file system.
#[derive(Clone, Debug)]
pub struct DiskHost(PathBuf);

impl DiskHost {
    /// The image directory at `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> DiskHost {
        DiskHost(path.into())
    }
}

/// The first bytes of a file.
fn start_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path)?.take(64).read_to_end(&mut start)?;
    Ok(start)
}

impl Host for DiskHost {
    fn path(&self) -> &Path {
        &self.0
    }

    fn create(&self, force: bool) -> Result<(), ImageError> {
        let doing = |what: &str| format!("{what} {}", self.0.display());
        match fs::read_dir(&self.0) {
            Ok(entries) => {
                let names: Vec<_> = entries.filter_map(|e| e.ok().map(|e| e.file_name())).collect();
                let header = self.0.join(HEADER);
                let is_image = header.is_file();
                if is_image
                    && !is_ours(&start_of(&header).map_err(|e| ImageError::host(doing("reading"), e))?)
                {
                    return Err(ImageError::foreign(&self.0, format!("its {HEADER} is somebody else's")));
                }
                let left_over = names.iter().any(|n| FILES.iter().any(|f| n == f));
                let only_left_over = names.iter().all(|n| n == LOCK || FILES.iter().any(|f| n == f));
                if is_image || (left_over && only_left_over) {
                    if !force && is_image {
                        return Err(ImageError::Exists { path: self.0.clone() });
                    }
                    if !force {
                        let why = "it holds what an interrupted mkfs left; --force makes the image anew";
                        return Err(ImageError::foreign(&self.0, why));
                    }
                    let _held = self.lock()?;
                    // The header first: what is left is no image any more.
                    for name in FILES {
                        match fs::remove_file(self.0.join(name)) {
                            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                                return Err(ImageError::host(doing("emptying"), e));
                            }
                            _ => {}
                        }
                    }
                    Ok(())
                } else if names.iter().any(|n| n != LOCK) {
                    Err(ImageError::foreign(&self.0, "the directory holds other files"))
                } else {
                    Ok(())
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&self.0).map_err(|e| ImageError::host(doing("making"), e))
            }
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                Err(ImageError::foreign(&self.0, "an image is a directory"))
            }
            Err(e) => Err(ImageError::host(doing("reading"), e)),
        }
    }

    fn open(&self, name: &'static str, read_only: bool) -> io::Result<Arc<dyn HostFile>> {
        let mut how = OpenOptions::new();
        how.read(true).write(!read_only).create(!read_only);
        // A pipe without a writer would be waited for.
        how.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
        let file = how.open(self.0.join(name))?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other(format!("{name} is no regular file")));
        }
        Ok(Arc::new(DiskFile(file)))
    }

    fn exists(&self, name: &'static str) -> bool {
        self.0.join(name).exists()
    }

    fn replace(&self, name: &'static str, content: &[u8]) -> io::Result<()> {
        let new = self.0.join(format!("{name}.new"));
        let mut file = File::create(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, self.0.join(name))?;
        File::open(&self.0)?.sync_all()
    }

    fn rename(&self, from: &'static str, to: &'static str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))?;
        File::open(&self.0)?.sync_all()
    }

    fn remove(&self, name: &'static str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>, ImageError> {
        let doing = || format!("locking {}", self.0.display());
        let path = self.0.join(LOCK);
        let read_write = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = match read_write {
            // On a read-only directory an existing lock file will do.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                File::open(&path).map_err(|_| ImageError::host(doing(), e))?
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
                    let pid = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
                    if !waiting.again(pid) {
                        return Err(ImageError::InUse { path: self.0.clone(), pid });
                    }
                }
                Err(e) => return Err(ImageError::host(doing(), e.into())),
            }
        }
    }
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
