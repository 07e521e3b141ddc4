//! [`Host`], [`HostFile`]: the few things that an image asks of the machine that it lies on.
//!
//! ```text
//!   Image ── Host::open("flash" | "dram" | "wal" | ...) ──> HostFile: read_at write_at sync allocate
//!              |                 |
//!          DiskHost          MemoryHost
//!          a directory       files in memory; can stop after the n-th write, and lose unsynced writes
//! ```
//!
//! Invariants: a write is seen by every later read; what was written before a `sync` that returned survives a
//! crash of the machine; what was written at all survives the death of the process. It does *not* promise any
//! order between unsynced writes, nor that a write is atomic.

mod absent;
pub mod disk;
mod holder;
mod lock;
mod map;
pub(crate) mod members;
pub mod memory;

pub use absent::Absent;
pub use map::Map;

use super::ImageError;
use granary_units::PAGE_SIZE;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// A file of an image.
pub trait HostFile: Send + Sync {
    /// Length, bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file holds nothing.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Sets the length; what is new reads as zeros and takes no space. Shrinking is safe when it returns.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Fills `out` from `at` on; bytes beyond the end are an error.
    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes all of `data` at `at`.
    fn write_at(&self, at: u64, data: &[u8]) -> io::Result<()>;

    /// Writes these pages one after the other, the first one at `at`.
    fn write_pages_at(&self, at: u64, pages: &[&[u8; PAGE_SIZE]]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(pages.len() * PAGE_SIZE);
        pages.iter().for_each(|page| bytes.extend_from_slice(*page));
        self.write_at(at, &bytes)
    }

    /// The same file past the host's page cache, for writes of whole, aligned blocks of 4 KiB only; `None`
    /// where the host cannot. Such writes need a sync like any other.
    fn direct(&self) -> Option<Arc<dyn HostFile>> {
        None
    }

    /// Returns when everything written before is on the machine's disk.
    fn sync(&self) -> io::Result<()>;

    /// Reserves space for the first `len` bytes, so that writing them cannot fail for want of it.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// These bytes are zeros from now on, and take no space where the host can do that; otherwise nothing
    /// changes.
    fn punch(&self, at: u64, len: u64) -> io::Result<()>;

    /// The next part at or after `at` that may hold other bytes than zeros; `None` where there is none.
    fn next_data(&self, at: u64) -> io::Result<Option<Range<u64>>>;

    /// The first `len` bytes as memory that the file shares; `None` where the host cannot.
    fn map(&self, len: u64) -> io::Result<Option<Map>>;
}

/// The place where an image lies.
pub trait Host: Send + Sync {
    /// How messages call the place.
    fn path(&self) -> &Path;

    /// The directory, wherever it has been moved since it was opened; `None` where the place is no directory
    /// that exists.
    fn directory(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Makes the place, empty. With `force` an image that is there is removed first.
    ///
    /// # Errors
    /// [`ImageError::Exists`], [`ImageError::Foreign`] (`force` removes nothing but images), host errors.
    fn create(&self, force: bool) -> Result<(), ImageError>;

    /// Opens a file of the image, made if need be unless `read_only`.
    fn open(&self, name: &'static str, read_only: bool) -> io::Result<Arc<dyn HostFile>>;

    /// Whether the file exists.
    fn exists(&self, name: &'static str) -> bool;

    /// Looks at everything that an image has before any of it is used.
    ///
    /// # Errors
    /// [`ImageError::Member`]: a member is not a file of this image alone. Further names of a file are no
    /// error for a process that only reads.
    fn survey(&self, _written: bool) -> Result<(), ImageError> {
        Ok(())
    }

    /// Where other users of the machine get at the image: that it is so, and what to do.
    fn exposed(&self) -> Option<String> {
        None
    }

    /// Puts a small file in place, whole or not at all.
    fn replace(&self, name: &'static str, content: &[u8]) -> io::Result<()>;

    /// Gives a file another name, in place of the one that has it.
    fn rename(&self, from: &'static str, to: &'static str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &'static str) -> io::Result<()>;

    /// Keeps all other processes out for as long as the guard lives. A process that holds it and is about to
    /// end, killed, say, is waited for. With `read_only` nothing is written.
    ///
    /// # Errors
    /// [`ImageError::InUse`]; host errors.
    fn lock(&self, read_only: bool) -> Result<Box<dyn Send + Sync>, ImageError>;
}
