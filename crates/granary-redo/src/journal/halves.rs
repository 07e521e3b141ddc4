//! The two halves of the log: which one is written, which one goes home.

use super::{FAILURE_SEEN, Half, Journal, Writer};
use crate::files::WAL;
use crate::host::HostFile;
use crate::redo::{Record, records};
use crate::wal::read_half;
use crate::{Durability, ImageError};
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering::SeqCst;

impl Journal {
    /// Waits until the state of a half may have changed.
    pub(super) fn wait_for_half(&self, w: &mut MutexGuard<'_, Writer>) -> Result<(), String> {
        if let Some(reason) = self.failure() {
            return Err(reason);
        }
        // A failure is told without this lock, and may come between the look at it and the wait.
        self.half_changed.wait_for(w, FAILURE_SEEN);
        Ok(())
    }

    /// Moves a half to its places and frees it.
    pub(super) fn checkpoint(
        &self,
        w: &mut MutexGuard<'_, Writer>,
        half: usize,
        begin: u64,
    ) -> Result<(), String> {
        let Some(file) = w.wal.as_ref().map(|wal| wal.file().clone()) else { return Ok(()) };
        let mut buffer = std::mem::take(&mut w.buffer);
        // The half is full: nobody writes to it. The drive goes on meanwhile.
        let moved = MutexGuard::unlocked(w, || self.move_half(&*file, half, begin, &mut buffer));
        w.buffer = buffer;
        match moved {
            Ok(landed) => {
                w.halves[half] = Half::Free;
                self.landed.fetch_max(w.tickets[half], SeqCst);
                w.counters.checkpoints += 1;
                w.counters.landed += landed;
                self.half_changed.notify_all();
                Ok(())
            }
            Err(e) => {
                let reason = e.to_string();
                self.fail(reason.clone());
                Err(reason)
            }
        }
    }

    /// Returns the number of pages put into `flash`.
    pub(super) fn move_half(
        &self,
        file: &dyn HostFile,
        half: usize,
        begin: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<u64, ImageError> {
        let mut regions = self.regions.lock();
        let mut contents = Vec::new();
        read_half(file, self.half, half, buffer, begin, |place, group| {
            records(group, |r| match r {
                Record::Bytes { memory, at, bytes } => {
                    let writing = |e| ImageError::host(format!("writing {}", memory.file()), e);
                    regions.apply(memory, at, bytes).map_err(writing)
                }
                Record::Content { ppa, at, .. } => {
                    contents.push((ppa, place + at));
                    Ok(())
                }
            })
            .map_err(|e| e.unwrap_or_else(|| ImageError::damaged(WAL, "a malformed record")))
        })?;
        let landed = self.pending.land(&*self.flash, buffer, half as u64 * self.half, contents);
        let landed = landed.map_err(|e| ImageError::host("writing flash", e))?;
        regions.flush()?;
        if self.durability == Durability::Machine {
            self.flash.sync().map_err(|e| ImageError::host("syncing flash", e))?;
            regions.sync()?;
        }
        Ok(landed)
    }

    /// Moves full halves to `dram` until told to stop: the body of the checkpoint thread.
    pub fn run_checkpoints(&self) {
        let mut w = self.writer.lock();
        while !self.stop.load(SeqCst) {
            match w.oldest_full() {
                Some(half) if self.failure().is_none() => {
                    let begin = w.begins[half];
                    // A failure is kept and told to whoever writes next.
                    let _ = self.checkpoint(&mut w, half, begin);
                }
                _ => self.half_changed.wait(&mut w),
            }
        }
    }
}
