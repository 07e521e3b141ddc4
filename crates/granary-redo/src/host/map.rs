//! [`Map`]: the beginning of a file as shared memory, for a redo log that costs a copy and no system call.
//!
//! Bytes written here are in the host's page cache at once: they survive the death of the process. Space must
//! have been allocated before, or the host kills the process when its disk is full.
#![allow(unsafe_code, reason = "memory mapping")]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// A writable mapping of a file, shared with everybody who reads the file.
pub struct Map {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to the mapping alone; writing needs `&mut Map`, and nothing hands out references
// into it.
unsafe impl Send for Map {}
// SAFETY: as above; through `&Map` nothing can be reached.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `len` bytes of `file`, which has them.
    pub fn new(file: &impl AsFd, len: u64) -> io::Result<Map> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        // SAFETY: a fresh mapping at an address that the kernel chooses; no existing memory is touched.
        let at = unsafe {
            mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)?
        };
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Map { at, len })
    }

    /// Makes a range ready to be written without page faults, one for each 4 KiB otherwise. A hint.
    pub fn populate(&mut self, range: Range<u64>) {
        const PAGE: usize = 4096;
        let start = (range.start as usize).min(self.len) / PAGE * PAGE;
        let end = (range.end as usize).min(self.len);
        if start < end {
            // SAFETY: the range lies within the mapping, which begins at a page boundary and lives as long as
            // `self`; populating changes no content. A kernel that does not know it (before 5.14) says so,
            // and nothing is lost.
            let _ = unsafe {
                madvise(self.at.as_ptr().add(start).cast(), end - start, Advice::LinuxPopulateWrite)
            };
        }
    }

    /// Copies `data` to offset `at`.
    ///
    /// # Panics
    /// Beyond the end of the mapping.
    #[inline]
    pub fn write(&mut self, at: u64, data: &[u8]) {
        let at = at as usize;
        assert!(at <= self.len && data.len() <= self.len - at, "write leaves the mapping");
        // SAFETY: the range lies within the mapping (checked above), which lives as long as `self`; `data` is
        // no part of it, since no references into it exist.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.at.as_ptr().add(at), data.len()) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; no references into it exist.
        let unmapped = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}
