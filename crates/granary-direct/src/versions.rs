//! [`Versions`]: counters by which a program knows that its copy of an answer is still right.
//!
//! ```text
//!   pair 0                 names: where paths lead, and who may walk them
//!   pairs 1..=SLOTS        attributes of the inodes of a slot (number modulo SLOTS)
//!   the next SLOTS         contents of the files of a slot
//!   each pair: begun 8 | ended 8
//!
//!   server, a change:      begun + 1 ── change ── ended + 1 ── answer to whoever asked for it
//!   server, an answer:     e = ended ── looks ── b = begun         version of the answer: b if b = e, else
//!                                                                  none
//!   program, a copy:       begun = version? right now : asks again
//! ```
//!
//! Why a copy that passes is right at that moment: `b = e` means that no change was under way when the server
//! began to look, nor began before it had looked. `begun = b` means that none has begun since. Nobody has
//! seen a change that has not begun. So the copy is the answer that any other program would get at that
//! moment, too.
//!
//! A change that ends in a panic leaves its pair unequal: nothing of it is copied any more.
//!
//! Programs map it for reading only: the server seals it against any other mapping.
#![allow(unsafe_code, reason = "memory that two processes share")]

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, fence};

/// Slots: two files that share one only make each other's copies expire.
pub const SLOTS: u64 = 1024;
const SIZE: usize = 16 * (1 + 2 * SLOTS as usize);
const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Things that change, each with a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Where paths lead, and who may walk them.
    Names,
    /// Attributes of inodes of this slot, below [`SLOTS`].
    Attributes(u32),
    /// Contents of files of this slot.
    Contents(u32),
}

/// The slot of an inode.
pub fn slot(ino: u64) -> u32 {
    (ino % SLOTS) as u32
}

/// See the module.
pub struct Versions {
    at: NonNull<u8>,
}

// SAFETY: the mapping is this value's until it is dropped, and is reached through atomic words only.
unsafe impl Send for Versions {}
// SAFETY: as above.
unsafe impl Sync for Versions {}

impl Versions {
    /// Makes them, for the server: with the file to be handed to programs.
    ///
    /// # Errors
    /// The system's: one before Linux 5.1 cannot seal the file against writing.
    pub fn make() -> io::Result<(Versions, OwnedFd)> {
        let file = memfd_create("granary-versions", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, SIZE as u64)?;
        let versions = Versions::map(&file, ProtFlags::READ | ProtFlags::WRITE)?;
        // No version is 0.
        for pair in 0..SIZE / 16 {
            versions.word(pair, 0).store(1, SeqCst);
            versions.word(pair, 8).store(1, SeqCst);
        }
        fcntl_add_seals(&file, SEALS)?;
        Ok((versions, file))
    }

    /// Maps those that the server handed over.
    ///
    /// # Errors
    /// The system's; they are none.
    pub fn open(file: &OwnedFd) -> io::Result<Versions> {
        let sealed = fcntl_get_seals(file)?.contains(SealFlags::SHRINK);
        if !sealed || fstat(file)?.st_size != SIZE as i64 {
            return Err(io::Error::other("what the server handed over are no versions"));
        }
        Versions::map(file, ProtFlags::READ)
    }

    fn map(file: &OwnedFd, how: ProtFlags) -> io::Result<Versions> {
        // SAFETY: a fresh mapping at an address that the kernel chooses; no existing memory is touched.
        let at = unsafe { mmap(std::ptr::null_mut(), SIZE, how, MapFlags::SHARED, file.as_fd(), 0)? };
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Versions { at })
    }

    fn word(&self, pair: usize, at: usize) -> &AtomicU64 {
        let at = pair * 16 + at;
        assert!(at < SIZE, "one of the pairs");
        // SAFETY: within the mapping (checked above) and aligned to 8; reached atomically only, by programs
        // for loads; the mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.at.as_ptr().add(at).cast()) }
    }

    fn pair(what: Watched) -> usize {
        let slot = |slot: u32| slot as usize % SLOTS as usize;
        match what {
            Watched::Names => 0,
            Watched::Attributes(n) => 1 + slot(n),
            Watched::Contents(n) => 1 + SLOTS as usize + slot(n),
        }
    }

    /// The server: it is about to change.
    pub fn begins(&self, what: Watched) {
        self.word(Versions::pair(what), 0).fetch_add(1, SeqCst);
    }

    /// The server: it has changed.
    pub fn ended(&self, what: Watched) {
        self.word(Versions::pair(what), 8).fetch_add(1, SeqCst);
    }

    /// The server: before it looks.
    pub fn before(&self, what: Watched) -> u64 {
        self.word(Versions::pair(what), 8).load(SeqCst)
    }

    /// The server, after it has looked: the version of what it saw, 0: it may have changed meanwhile.
    pub fn version(&self, what: Watched, before: u64) -> u64 {
        fence(SeqCst);
        let begun = self.word(Versions::pair(what), 0).load(SeqCst);
        if begun == before { begun } else { 0 }
    }

    /// A program: whether nothing has changed since an answer of this version.
    pub fn is_current(&self, what: Watched, version: u64) -> bool {
        version != 0 && self.word(Versions::pair(what), 0).load(SeqCst) == version
    }
}

impl Drop for Versions {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`; no references into it exist.
        let unmapped = unsafe { munmap(self.at.as_ptr().cast(), SIZE) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_current_until_a_change_begins_and_none_is_made_during_one() {
        let (server, file) = Versions::make().expect("made");
        let program = Versions::open(&file).expect("opens");
        let all = [Watched::Names, Watched::Attributes(3), Watched::Contents(3), Watched::Contents(1023)];
        for what in all {
            let before = server.before(what);
            let version = server.version(what, before);
            assert!(version != 0 && program.is_current(what, version));
            server.begins(what);
            assert!(!program.is_current(what, version), "{what:?}: nobody has seen the change yet");
            let during = server.before(what);
            assert_eq!(server.version(what, during), 0, "{what:?}: looked during a change");
            server.ended(what);
            assert_eq!(server.version(what, during), 0, "{what:?}: looked before it ended");
            assert!(!program.is_current(what, version));
            let after = server.version(what, server.before(what));
            assert!(program.is_current(what, after));
            assert!(all.iter().filter(|w| **w != what).all(|w| server.version(*w, server.before(*w)) != 0));
        }
    }

    #[test]
    fn a_program_cannot_write_to_them_nor_make_them_shorter() {
        let (_server, file) = Versions::make().expect("made");
        assert!(Versions::map(&file, ProtFlags::READ | ProtFlags::WRITE).is_err(), "sealed");
        assert!(rustix::io::pwrite(&file, &[0; 8], 0).is_err() && ftruncate(&file, 0).is_err());
        let raw =
            std::path::PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
        if let Ok(again) = std::fs::File::options().read(true).write(true).open(raw) {
            assert!(rustix::io::pwrite(&again, &[0; 8], 0).is_err(), "opened anew");
        }
    }
}
