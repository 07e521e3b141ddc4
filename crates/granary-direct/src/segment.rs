//! [`Segment`]: the shared memory of one channel.
//!
//! ```text
//!   0      turn 4                       whose turn it is; what both sides sleep on
//!   64     server sleeps 4 | client sleeps 4 | crowded 4
//!   128    Command
//!   256    Answer
//!   4096   data area, 1 MiB
//! ```
//!
//! The other process may write to all of it at any moment. So nothing hands out references into it but to the
//! atomic words, and what is read is copied once.
#![allow(unsafe_code, reason = "memory that two processes share")]

use crate::wire::{Answer, Command};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of the data area: the largest write that the kernel's FUSE sends, too.
pub const DATA: usize = 1 << 20;
const DATA_AT: usize = 4096;
const SERVER_SLEEPS_AT: usize = 64;
const CLIENT_SLEEPS_AT: usize = 68;
const CROWDED_AT: usize = 72;
const COMMAND_AT: usize = 128;
const ANSWER_AT: usize = 256;
const SIZE: usize = DATA_AT + DATA;
/// Bytes that are copied at once.
const WORD: usize = 8;
/// Nobody may change the size any more.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// How a range is copied: single bytes until an address is a multiple of 8, words, and the bytes behind them.
fn parts(at: usize, len: usize) -> (usize, usize, usize) {
    let head = (at.next_multiple_of(WORD) - at).min(len);
    let words = (len - head) / WORD;
    (head, words, len - head - words * WORD)
}

fn to_len(head: usize, words: usize) -> usize {
    head + words * WORD
}

/// See the module.
pub struct Segment {
    at: NonNull<u8>,
}

// SAFETY: the mapping is this value's until it is dropped, and is reached through copies and atomic words
// only.
unsafe impl Send for Segment {}
// SAFETY: as above; two threads that copy at once see bytes in some order, as they do of the other process.
unsafe impl Sync for Segment {}

impl Segment {
    /// Makes one, for the server: with the file to be handed to the client.
    ///
    /// # Errors
    /// The system's.
    pub fn make() -> io::Result<(Segment, OwnedFd)> {
        let file = memfd_create("granary-direct", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, SIZE as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok((Segment::map(&file)?, file))
    }

    /// Maps the one that the server handed over.
    ///
    /// # Errors
    /// The system's; it is none.
    pub fn open(file: &OwnedFd) -> io::Result<Segment> {
        let sealed = fcntl_get_seals(file)?.contains(SealFlags::SHRINK);
        if !sealed || fstat(file)?.st_size != SIZE as i64 {
            return Err(io::Error::other("what the server handed over is no channel"));
        }
        Segment::map(file)
    }

    fn map(file: &OwnedFd) -> io::Result<Segment> {
        let how = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address that the kernel chooses; no existing memory is touched.
        let at = unsafe { mmap(std::ptr::null_mut(), SIZE, how, MapFlags::SHARED, file.as_fd(), 0)? };
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Segment { at })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `at` is one of the constants above, all within the mapping and aligned to 4; the words are
        // reached atomically only, and the mapping lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.at.as_ptr().add(at).cast()) }
    }

    fn byte(&self, at: usize) -> &AtomicU8 {
        debug_assert!(at < SIZE);
        // SAFETY: within the mapping, as `copy_in` and `copy_out` have checked; reached atomically only.
        unsafe { AtomicU8::from_ptr(self.at.as_ptr().add(at)) }
    }

    fn long(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(WORD) && at + WORD <= SIZE);
        // SAFETY: as above, and a multiple of 8, by `parts`.
        unsafe { AtomicU64::from_ptr(self.at.as_ptr().add(at).cast()) }
    }

    /// Gives the memory of the data area back to the system; it is zero then. Nobody uses it.
    pub(crate) fn give_back(&self) {
        // SAFETY: within the mapping, whole pages; their content is reached atomically only, and zero is a
        // value of it.
        let _ = unsafe { madvise(self.at.as_ptr().add(DATA_AT).cast(), DATA, Advice::LinuxRemove) };
    }

    pub(crate) fn turn(&self) -> &AtomicU32 {
        self.word(0)
    }

    pub(crate) fn server_sleeps(&self) -> &AtomicU32 {
        self.word(SERVER_SLEEPS_AT)
    }

    pub(crate) fn client_sleeps(&self) -> &AtomicU32 {
        self.word(CLIENT_SLEEPS_AT)
    }

    pub(crate) fn crowded(&self) -> &AtomicU32 {
        self.word(CROWDED_AT)
    }

    /// Atomically, in some order: the other process may write meanwhile. The bytes are then some mixture,
    /// which is what the caller checks.
    fn copy_out(&self, at: usize, to: &mut [u8]) {
        assert!(at <= SIZE && to.len() <= SIZE - at, "within the segment");
        let (head, words, tail) = parts(at, to.len());
        let (first, rest) = to.split_at_mut(head);
        let (middle, last) = rest.split_at_mut(words * WORD);
        first.iter_mut().zip(at..).for_each(|(byte, at)| *byte = self.byte(at).load(Relaxed));
        for (word, at) in middle.chunks_exact_mut(WORD).zip((at + head..).step_by(WORD)) {
            word.copy_from_slice(&self.long(at).load(Relaxed).to_ne_bytes());
        }
        last.iter_mut()
            .zip(at + to_len(head, words)..)
            .for_each(|(byte, at)| *byte = self.byte(at).load(Relaxed));
        debug_assert_eq!(last.len(), tail);
    }

    fn copy_in(&self, at: usize, from: &[u8]) {
        assert!(at <= SIZE && from.len() <= SIZE - at, "within the segment");
        let (head, words, tail) = parts(at, from.len());
        let (first, rest) = from.split_at(head);
        let (middle, last) = rest.split_at(words * WORD);
        first.iter().zip(at..).for_each(|(byte, at)| self.byte(at).store(*byte, Relaxed));
        let (chunks, _) = middle.as_chunks::<WORD>();
        for (word, at) in chunks.iter().zip((at + head..).step_by(WORD)) {
            self.long(at).store(u64::from_ne_bytes(*word), Relaxed);
        }
        last.iter()
            .zip(at + to_len(head, words)..)
            .for_each(|(byte, at)| self.byte(at).store(*byte, Relaxed));
        debug_assert_eq!(last.len(), tail);
    }

    pub(crate) fn command(&self) -> Command {
        let mut bytes = [0; size_of::<Command>()];
        self.copy_out(COMMAND_AT, &mut bytes);
        Command::read_from_bytes(&bytes).expect("as long")
    }

    pub(crate) fn put_command(&self, command: &Command) {
        self.copy_in(COMMAND_AT, command.as_bytes());
    }

    pub(crate) fn answer(&self) -> Answer {
        let mut bytes = [0; size_of::<Answer>()];
        self.copy_out(ANSWER_AT, &mut bytes);
        Answer::read_from_bytes(&bytes).expect("as long")
    }

    pub(crate) fn put_answer(&self, answer: &Answer) {
        self.copy_in(ANSWER_AT, answer.as_bytes());
    }

    /// Copies the first bytes of the data area.
    ///
    /// # Panics
    /// Beyond its end, [`DATA`].
    pub fn data(&self, to: &mut [u8]) {
        self.data_at(0, to);
    }

    /// Copies bytes of the data area from offset `at` on.
    ///
    /// # Panics
    /// Beyond its end.
    pub fn data_at(&self, at: usize, to: &mut [u8]) {
        self.copy_out(DATA_AT + at, to);
    }

    /// Puts bytes at the beginning of the data area.
    ///
    /// # Panics
    /// Beyond its end.
    pub fn put_data(&self, from: &[u8]) {
        self.put_data_at(0, from);
    }

    /// Puts bytes at offset `at` of the data area.
    ///
    /// # Panics
    /// Beyond its end.
    pub fn put_data_at(&self, at: usize, from: &[u8]) {
        self.copy_in(DATA_AT + at, from);
    }
}

impl Segment {
    /// Puts empty memory of this process alone in its place: no other process sees later writes here.
    pub fn leave(&self) {
        let (how, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
        // SAFETY: exactly the mapping made in `map`, of which no references exist but to atomic words, and
        // words are there again.
        let left = unsafe { mmap_anonymous(self.at.as_ptr().cast(), SIZE, how, flags) };
        debug_assert!(left.is_ok());
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`; no references into it exist.
        let unmapped = unsafe { munmap(self.at.as_ptr().cast(), SIZE) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_client_cannot_change_the_size() {
        let (server, file) = Segment::make().expect("made");
        assert!(ftruncate(&file, 0).is_err() && ftruncate(&file, 1 << 30).is_err(), "sealed");
        let client = Segment::open(&file).expect("opens");
        client.put_data(b"bytes");
        let mut got = [0; 5];
        server.data(&mut got);
        assert_eq!(&got, b"bytes");
        assert!(file.as_raw_fd() > 0);
    }

    #[test]
    fn every_piece_comes_out_as_it_went_in_and_nothing_beside_it() {
        let (server, file) = Segment::make().expect("made");
        let client = Segment::open(&file).expect("opens");
        let bytes: Vec<u8> = (1..=90).collect();
        for at in 0..17 {
            for len in 0..40 {
                client.put_data(&[0; 90]);
                client.put_data_at(at, &bytes[..len]);
                let (mut got, mut all) = (vec![0; len], [0; 90]);
                server.data_at(at, &mut got);
                server.data(&mut all);
                assert_eq!(got, bytes[..len], "{len} at {at}");
                assert_eq!(all.iter().filter(|b| **b != 0).count(), len, "{len} at {at}");
            }
        }
        let end = [9; 5];
        client.put_data_at(DATA - 5, &end);
        let mut got = [0; 5];
        server.data_at(DATA - 5, &mut got);
        assert_eq!(got, end);
    }

    #[test]
    fn who_has_left_is_not_seen_and_sees_nothing() {
        let (server, file) = Segment::make().expect("made");
        let client = Segment::open(&file).expect("opens");
        server.put_data(b"answer");
        client.leave();
        client.put_data(b"half");
        let mut got = [0; 6];
        server.data(&mut got);
        assert_eq!(&got, b"answer");
        assert_eq!(client.turn().load(std::sync::atomic::Ordering::SeqCst), 0, "nobody answers there");
    }

    #[test]
    fn what_is_no_channel_is_refused() {
        let file = memfd_create("other", MemfdFlags::CLOEXEC).expect("made");
        ftruncate(&file, SIZE as u64).expect("cut");
        assert!(Segment::open(&file).is_err(), "not sealed");
    }
}
