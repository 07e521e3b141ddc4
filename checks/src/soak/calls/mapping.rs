//! A part of a file as memory, for the length of one load or store.
#![allow(unsafe_code, reason = "memory mapping")]

use super::exerciser::Mappings;
use rustix::io::{Errno, Result};
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, msync, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::ptr::NonNull;

const PAGE: u64 = 4096;

/// Mappings of files whose server is another process, and that nobody cuts meanwhile.
pub(super) struct Shared;

impl Mappings for Shared {
    fn load(&self, file: &File, pos: u64, buffer: &mut [u8]) -> Result<()> {
        let map = Map::new(file, pos, buffer.len(), ProtFlags::READ, Advice::LinuxPopulateRead)?;
        // SAFETY: the mapping has that many bytes from there on, and so has the file; `buffer` is no part of
        // it.
        unsafe { map.bytes.copy_to_nonoverlapping(NonNull::from(&mut *buffer).cast(), buffer.len()) };
        Ok(())
    }

    fn store(&self, file: &File, pos: u64, data: &[u8], sync: bool) -> Result<()> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let map = Map::new(file, pos, data.len(), protection, Advice::LinuxPopulateWrite)?;
        // SAFETY: as for the load.
        unsafe { map.bytes.copy_from_nonoverlapping(NonNull::from(data).cast(), data.len()) };
        // SAFETY: exactly the mapping, which writing back does not change.
        if sync { unsafe { msync(map.start, map.len, MsyncFlags::SYNC) } } else { Ok(()) }
    }
}

/// Pages that are mapped.
struct Map {
    start: *mut c_void,
    len: usize,
    /// Where the first byte that was asked for is.
    bytes: NonNull<u8>,
}

impl Map {
    /// Maps `bytes` bytes from `pos` on, all of them faulted in.
    fn new(file: &File, pos: u64, bytes: usize, protection: ProtFlags, fault: Advice) -> Result<Map> {
        let within = (pos % PAGE) as usize;
        let len = within + bytes;
        // SAFETY: a fresh mapping at an address that the kernel chooses; no existing memory is touched.
        let start = unsafe {
            mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, pos / PAGE * PAGE)?
        };
        let memory = NonNull::new(start.cast::<u8>()).ok_or(Errno::FAULT)?;
        // SAFETY: `within` is less than the mapping's length.
        let map = Map { start, len, bytes: unsafe { memory.add(within) } };
        // SAFETY: exactly the mapping. A fault that fails here is an error; as a signal it would end the
        // soak.
        unsafe { madvise(start, len, fault)? };
        Ok(map)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; no references into it exist.
        let unmapped = unsafe { munmap(self.start, self.len) };
        debug_assert!(unmapped.is_ok());
    }
}
