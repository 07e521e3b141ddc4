//! Groups: what changed goes into the log together.

use super::{Change, Half, Journal, LARGE_GROUP, Writer};
use crate::pending::Rider;
use crate::redo::CONTENT_RECORD;
use crate::region::Region;
use crate::wal::{FRAME, Wal};
use crate::{Durability, ImageError};
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering::SeqCst;

impl Journal {
    /// Makes one group safe. Returns the emptied buffer, too.
    pub(crate) fn commit(
        &self,
        number: u64,
        mut group: Vec<u8>,
        riders: &[Rider],
        wrote_flash: bool,
    ) -> (Result<(), String>, Vec<u8>) {
        if group.is_empty() {
            group.resize(FRAME, 0);
        }
        let mut done = Ok(());
        if wrote_flash {
            done = self.flash.sync().map_err(|e| self.fail_host("syncing flash", e));
        }
        let done = done.and_then(|()| self.write(&mut group, riders, Some(number)).map(drop));
        if done.is_ok() {
            self.safe.store(number, SeqCst);
        }
        group.clear();
        (done, group)
    }

    /// Goes over to the memory of a drive that has become larger. `prepare` runs when everything is in its
    /// place, synced; if it fails, all goes on as before. Then the log is emptied, and `change` puts the
    /// larger memory in place: if that fails, no more changes are taken. No call of any device is under way.
    ///
    /// # Errors
    /// Those of `prepare` and `change`, host errors.
    pub fn renew(
        &self,
        prepare: impl FnOnce() -> Result<(), ImageError>,
        change: impl FnOnce() -> Result<Region, ImageError>,
    ) -> Result<(), ImageError> {
        let stopped = |reason: String| ImageError::Stopped { reason };
        let _nobody_commits = self.quiet().map_err(stopped)?;
        let mut w = self.writer.lock();
        let Some(active) = w.wal.as_ref().map(Wal::active) else { return Ok(()) };
        self.is_full(&mut w, active).map_err(stopped)?;
        while w.oldest_full().is_some() {
            self.wait_for_half(&mut w).map_err(stopped)?;
        }
        let synced = self.flash.sync().map_err(|e| ImageError::host("syncing the image", e));
        let synced = synced.and_then(|()| self.regions.lock().sync());
        synced.map_err(|e| {
            self.fail(e.to_string());
            stopped(e.to_string())
        })?;
        prepare()?;
        let Some(wal) = w.wal.take() else { return Ok(()) };
        let anew = || {
            let host = |e| ImageError::host("beginning wal anew", e);
            let begin = wal.empty().map_err(host)?;
            let larger = change()?;
            Ok((begin().map_err(host)?, larger))
        };
        // Under the lock: a journal without a log would take everything and keep nothing.
        let (wal, larger) = anew().inspect_err(|e: &ImageError| self.fail(e.to_string()))?;
        (w.wal, w.halves, w.begins, w.next) = (Some(wal), [Half::Active, Half::Free], [1, 0], 1);
        self.regions.lock().put(larger);
        Ok(())
    }

    /// Goes on in this half, which is free.
    pub(super) fn begin(&self, w: &mut Writer, half: usize) -> Result<(), String> {
        w.halves[half] = Half::Active;
        w.begins[half] = w.next;
        let Some(wal) = &mut w.wal else { return Ok(()) };
        wal.begin(half).map_err(|e| self.fail_host("writing wal", e))
    }

    /// Sees to it that a frame of `len` bytes fits into the half that is appended to. While one waits here,
    /// others may come, fill the rest of a half, or begin the next one: after each wait everything is looked
    /// at anew.
    pub(super) fn room_for(&self, w: &mut MutexGuard<'_, Writer>, len: usize) -> Result<(), String> {
        let mut stalled = false;
        loop {
            let Some(wal) = &w.wal else { return Ok(()) };
            let active = wal.active();
            let other = 1 - active;
            if w.halves[active] == Half::Active {
                if wal.fits(len) {
                    return Ok(());
                }
                self.is_full(w, active)?;
            } else if w.halves[other] == Half::Free {
                self.begin(w, other)?;
            } else {
                w.counters.stalls += u64::from(!std::mem::replace(&mut stalled, true));
                self.wait_for_half(w)?;
            }
        }
    }

    /// Nothing more is appended to this half.
    pub(super) fn is_full(&self, w: &mut MutexGuard<'_, Writer>, half: usize) -> Result<(), String> {
        w.halves[half] = Half::Full;
        if !self.inline {
            self.half_changed.notify_all();
            return Ok(());
        }
        // The older one first, which another thread moves.
        while w.oldest_full() != Some(half) {
            self.wait_for_half(w)?;
        }
        let begin = w.begins[half];
        self.checkpoint(w, half, begin)
    }

    /// Returns the ticket: the number of the group in machine mode, of the frame in process mode.
    pub(super) fn take(&self, frame: &mut Vec<u8>, change: &mut Change) -> Result<u64, String> {
        match self.durability {
            Durability::Process => {
                let ticket = self.write(frame, &change.riders, None)?;
                change.riders.clear();
                self.pending.forget(&change.dead);
                Ok(ticket)
            }
            Durability::Machine => {
                change.riders.iter().for_each(|r| self.pending.hold(r));
                let mut g = self.group.lock();
                if g.records.is_empty() {
                    g.records.resize(FRAME, 0);
                }
                g.records.extend_from_slice(&frame[FRAME..]);
                g.riders.append(&mut change.riders);
                g.wrote_flash |= change.wrote_flash;
                self.open_riders.store(g.riders.len(), SeqCst);
                let (number, large) = (g.number, g.size() > LARGE_GROUP.min(self.half / 4));
                drop(g);
                if large {
                    self.barrier()?;
                }
                Ok(number)
            }
        }
    }

    /// Appends a frame to the log, changing halves where it is full, and syncs it if it is that of a `group`.
    /// From then on the riders' contents are there. Returns the frame's ticket.
    pub(super) fn write(
        &self,
        frame: &mut Vec<u8>,
        riders: &[Rider],
        group: Option<u64>,
    ) -> Result<u64, String> {
        let mut w = self.writer.lock();
        let len = Wal::frame_len(frame, riders.len());
        let Some(wal) = &w.wal else { return Ok(0) };
        if len as u64 > wal.most() {
            let reason =
                format!("one call changed {len} bytes, more than the redo log of {} takes", wal.most());
            drop(w);
            self.fail(reason.clone());
            return Err(reason);
        }
        self.room_for(&mut w, len)?;
        w.next += 1;
        w.counters.groups += 1;
        w.counters.riders += riders.len() as u64;
        // Counts on when the log is begun anew.
        let ticket = group.unwrap_or(w.counters.groups);
        let Some(wal) = &mut w.wal else { return Ok(0) };
        let half = wal.active();
        let mut written = wal.append(frame, riders);
        if group.is_some() && written.is_ok() {
            written = wal.file().sync().and(written);
        }
        if let Ok((contents, taken)) = written {
            w.counters.bytes += taken;
            w.tickets[half] = ticket;
            if !riders.is_empty() {
                // Before the next frame may change halves: the checkpoint of this one has to find them.
                self.pending.logged(riders, contents, CONTENT_RECORD as u64);
            }
        }
        drop(w);
        written.map(|_| ticket).map_err(|e| self.fail_host("writing wal", e))
    }
}
