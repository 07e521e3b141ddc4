//! [`DiskHost`]: an image as a directory of files, reached through `Members` alone.

use super::members::Members;
use super::{Host, HostFile, Map, lock};
use crate::ImageError;
use crate::blocks::{BLOCK, Blocks};
use crate::files::{CONTROL, COUNTERS, DRAM, EPOCH, FLASH, GROWN, HEADER, NVM, WAL, is_ours};
use granary_units::PAGE_SIZE;
use lock::LOCK;
use rustix::fs::{FallocateFlags, FileType, OFlags, SeekFrom, fallocate, seek};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything that an image has beside its lock, in the order in which it is removed.
const FILES: [&str; 12] = [
    HEADER,
    WAL,
    DRAM,
    FLASH,
    NVM,
    COUNTERS,
    GROWN,
    CONTROL,
    EPOCH,
    "image.toml.new",
    "counters.toml.new",
    "epoch.new",
];
/// Parts that one call of Linux may write: UIO_MAXIOV of `linux/uio.h`.
const MOST_PARTS: usize = 1024;

/// A directory on the machine's file system.
#[derive(Debug)]
pub struct DiskHost(Members);

impl DiskHost {
    /// The image directory at `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> DiskHost {
        DiskHost(Members::new(path.into()))
    }

    /// Whether there is a regular file of this name.
    fn is_file(&self, name: &str) -> bool {
        self.0.stat(name).is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile)
    }

    /// The first bytes of a file.
    fn start_of(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut start = Vec::new();
        self.0.open(name, OFlags::RDONLY)?.take(64).read_to_end(&mut start)?;
        Ok(start)
    }
}

impl Host for DiskHost {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.0.dir().ok()
    }

    fn create(&self, force: bool) -> Result<(), ImageError> {
        let path = self.path();
        let host = |what: &str, e| ImageError::host(format!("{what} {}", path.display()), e);
        let names = match self.0.names() {
            Ok(names) => names,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return self.0.make_dir().map_err(|e| host("making", e));
            }
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                return Err(ImageError::foreign(path, "an image is a directory"));
            }
            Err(e) => return Err(host("reading", e)),
        };
        let is_image = self.is_file(HEADER);
        if is_image && !is_ours(&self.start_of(HEADER).map_err(|e| host("reading", e))?) {
            return Err(ImageError::foreign(path, format!("its {HEADER} is somebody else's")));
        }
        let left_over = names.iter().any(|n| FILES.iter().any(|f| n == f));
        let only_left_over = names.iter().all(|n| n == LOCK || FILES.iter().any(|f| n == f));
        if is_image || (left_over && only_left_over) {
            if !force && is_image {
                return Err(ImageError::Exists { path: path.to_owned() });
            }
            if !force {
                let why = "it holds what an interrupted mkfs left; --force makes the image anew";
                return Err(ImageError::foreign(path, why));
            }
            let _held = self.lock(false)?;
            // The header first: what is left is no image any more. Of a link it is the link that goes.
            for name in FILES {
                match self.0.remove(name) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(host("emptying", e)),
                    _ => {}
                }
            }
        } else if names.iter().any(|n| n != LOCK) {
            return Err(ImageError::foreign(path, "the directory holds other files"));
        }
        self.0.check(LOCK, true).map_err(|e| host("locking", e))?;
        self.0.make_private().map_err(|e| host("making", e))
    }

    fn open(&self, name: &'static str, read_only: bool) -> io::Result<Arc<dyn HostFile>> {
        let file = if read_only { self.0.open(name, OFlags::RDONLY) } else { self.0.open_or_make(name) };
        Ok(Arc::new(DiskFile(file?)))
    }

    fn exists(&self, name: &'static str) -> bool {
        self.0.stat(name).is_ok()
    }

    fn survey(&self, written: bool) -> Result<(), ImageError> {
        for name in FILES.iter().filter(|name| **name != CONTROL).chain([&LOCK]) {
            match self.0.check(name, written) {
                // There is no such place, which whoever opens it says better.
                Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Ok(()),
                other => {
                    other
                        .map_err(|e| ImageError::host(format!("looking at {}", self.path().display()), e))?;
                }
            }
        }
        Ok(())
    }

    fn exposed(&self) -> Option<String> {
        self.0.exposed(&[&[LOCK], &FILES[..]].concat())
    }

    fn replace(&self, name: &'static str, content: &[u8]) -> io::Result<()> {
        self.0.replace(name, content)
    }

    fn rename(&self, from: &'static str, to: &'static str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &'static str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn lock(&self, read_only: bool) -> Result<Box<dyn Send + Sync>, ImageError> {
        Ok(Box::new(lock::take(&self.0, read_only)?))
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
