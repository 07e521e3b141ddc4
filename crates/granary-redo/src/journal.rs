//! [`Journal`]: takes the devices' changes in groups, makes them safe, and moves them on to `dram`, `nvm` and `flash`.
//!
//! ```text
//!   process   publish ──> frame in the shared log: safe from the death of the process
//!   machine   publish ──> group in memory ──barrier: one leader──> [sync flash] write frame, sync ──> safe
//!   memory    publish ──> nothing: what an image that is only read changes is lost when it is closed
//!
//!   log half full ──> the other half is appended to, this one goes to `dram`, `nvm` and `flash` (and is synced) and is free again
//! ```
//!
//! All devices of an image have this one journal, so what one of them acknowledged before another one's call is safe before it.
//!
//! A page's content *rides* in the log, and is put into `flash` with the checkpoint of its half, together with its
//! neighbours; until then reads find it among the pending pages (pending.rs). What is stale by then never gets there.
//! Pages beyond the first 64 of a group (machine mode) or a call (process mode) go straight to `flash` where that can
//! overwrite nothing that may be needed again: their blocks' erase, and so the moves of what they held, is safe.
//!
//! Invariants: `dram`, `nvm` and the content of programmed pages in `flash` change only to what the log holds safely; a half of
//! the log is used again only when everything in it is in its place (machine mode: synced). When the host
//! fails, nothing more is taken: what had been acknowledged stays in the log.

use super::commit::{Bells, Group};
use super::files::WAL;
use super::host::{Absent, HostFile};
use super::pending::{Held, Pending, Rider};
use super::redo::{CONTENT_RECORD, Record, records};
use super::region::{Region, Regions};
use super::wal::{FRAME, Wal, read_half};
use super::{Durability, ImageError};
use granary_units::{PAGE_SIZE, Page};
use parking_lot::{Condvar, Mutex, MutexGuard};
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Pages of a group or call that ride in the log before content goes to `flash` directly: up to 256 KiB one sequential
/// write and one sync cost less than a second sync.
pub const RIDERS: usize = 64;
/// A group of machine mode that has grown to this size is made safe without being asked.
const LARGE_GROUP: u64 = 4 << 20;
/// How late a writer that waits for a half learns of a failure at most.
const FAILURE_SEEN: Duration = Duration::from_secs(1);

/// What one call of the drive changed, beside the records.
#[derive(Default)]
pub struct Change {
    /// Contents that ride in the log.
    pub riders: Vec<Rider>,
    /// Content was written to `flash` directly.
    pub wrote_flash: bool,
    /// Blocks were erased.
    pub erased: bool,
    /// Pages whose content nobody needs any more once this change is safe, each with the number of the first rider after
    /// its death.
    pub dead: Vec<(u32, u64)>,
}

/// What a journal did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JournalCounters {
    /// Groups written to the log.
    pub groups: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Pages that rode in them.
    pub riders: u64,
    /// Of these, pages put into `flash` later: the others were stale by then.
    pub landed: u64,
    /// Halves of the log moved to `dram`.
    pub checkpoints: u64,
    /// Times that the drive waited for one.
    pub stalls: u64,
    /// Barriers asked for.
    pub barriers: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Free,
    Active,
    Full,
}

struct Writer {
    /// None: nothing is written.
    wal: Option<Wal>,
    halves: [Half; 2],
    /// First sequence number in each half.
    begins: [u64; 2],
    next: u64,
    /// Tickets: of the newest frame in each half.
    tickets: [u64; 2],
    counters: JournalCounters,
    buffer: Vec<u8>,
}

impl Writer {
    /// The half that is to be moved next. Of two the one that was written first: the other has newer versions of the same
    /// bytes.
    fn oldest_full(&self) -> Option<usize> {
        (0..2).filter(|&h| self.halves[h] == Half::Full).min_by_key(|&h| self.begins[h])
    }
}

/// The way from the devices to the files.
pub struct Journal {
    durability: Durability,
    read_only: bool,
    /// Checkpoints are taken by the one who fills a half, not by a thread.
    inline: bool,
    half: u64,
    most_riders: usize,
    flash: Arc<dyn HostFile>,
    /// The file of the redo log, for reading what rides in it; absent where the image is only read.
    log: Option<Arc<dyn HostFile>>,
    writer: Mutex<Writer>,
    half_changed: Condvar,
    regions: Mutex<Regions>,
    pub(super) group: Mutex<Group>,
    pub(super) bells: Bells,
    /// Number of the newest group that is safe, and riders in the open one, readable without the lock.
    safe: AtomicU64,
    /// Everything up to this ticket is in its place.
    landed: AtomicU64,
    pub(super) open_riders: AtomicUsize,
    pending: Pending,
    next_rider: AtomicU64,
    failed: Mutex<Option<String>>,
    has_failed: AtomicBool,
    stop: AtomicBool,
}

impl Journal {
    /// A journal over these files; `wal` is absent where the image is only read.
    pub fn new(
        durability: Durability,
        inline: bool,
        half: u64,
        most_riders: usize,
        flash: Arc<dyn HostFile>,
        wal: Option<Wal>,
        regions: Regions,
    ) -> Journal {
        let log = wal.as_ref().map(|wal| wal.file().clone());
        // A frame must fit into a half many times.
        let most_riders = most_riders.min((half / 4) as usize / CONTENT_RECORD);
        let writer = Writer {
            wal,
            halves: [Half::Active, Half::Free],
            begins: [1, 0],
            next: 1,
            tickets: [0; 2],
            counters: JournalCounters::default(),
            buffer: Vec::new(),
        };
        Journal {
            durability,
            read_only: log.is_none(),
            inline,
            half,
            most_riders,
            flash,
            log,
            writer: Mutex::new(writer),
            half_changed: Condvar::new(),
            regions: Mutex::new(regions),
            group: Mutex::new(Group::new()),
            bells: Bells::default(),
            safe: AtomicU64::new(0),
            landed: AtomicU64::new(0),
            open_riders: AtomicUsize::new(0),
            pending: Pending::default(),
            next_rider: AtomicU64::new(1),
            failed: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }
    }

    /// A journal that takes nothing and has no files: for devices that are still being made.
    pub fn idle() -> Journal {
        Journal::new(Durability::Process, true, 0, 0, Arc::new(Absent), None, Regions::default())
    }

    /// The file of flash contents.
    pub fn flash(&self) -> &Arc<dyn HostFile> {
        &self.flash
    }

    /// What was done so far.
    pub fn counters(&self) -> JournalCounters {
        let barriers = self.group.lock().barriers;
        JournalCounters { barriers, ..self.writer.lock().counters }
    }

    /// Why no more changes are taken, if so.
    pub fn failure(&self) -> Option<String> {
        if self.has_failed.load(SeqCst) { self.failed.lock().clone() } else { None }
    }

    /// From now on no changes are taken.
    pub fn fail(&self, reason: String) {
        self.failed.lock().get_or_insert(reason);
        self.has_failed.store(true, SeqCst);
        self.half_changed.notify_all();
        self.wake_all();
    }

    /// Whether nothing is written.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether barriers do anything.
    pub fn has_barriers(&self) -> bool {
        self.durability == Durability::Machine && !self.read_only
    }

    /// Whether threads of the image's own take checkpoints and lead commits.
    pub(super) fn has_thread(&self) -> bool {
        !self.inline
    }

    /// The host failed while `doing`: from now on no changes are taken. Returns the reason.
    pub fn fail_host(&self, doing: &str, e: io::Error) -> String {
        let reason = ImageError::host(doing, e).to_string();
        self.fail(reason.clone());
        reason
    }

    /// Whether content may go to `flash` now, given the group of the last erase of its block (`None`: long safe; the
    /// largest number: not yet published) and the riders of this call so far.
    pub fn may_write_flash(&self, erased: Option<u64>, riders: usize) -> bool {
        let is_erase_safe = erased.is_none_or(|g| g <= self.safe.load(SeqCst));
        !self.read_only && is_erase_safe && riders + self.open_riders.load(SeqCst) >= self.most_riders
    }

    /// Puts the content of pages from `ppa` on into `flash` directly, where [`Journal::may_write_flash`].
    ///
    /// # Errors
    /// Why no more changes are taken.
    pub fn write_flash(&self, ppa: u32, content: &[&[u8; PAGE_SIZE]]) -> Result<(), String> {
        (ppa..).zip(content).for_each(|(ppa, _)| self.pending.supersede(ppa));
        let written = self.flash.write_pages_at(ppa as u64 * PAGE_SIZE as u64, content);
        written.map_err(|e| self.fail_host("writing flash", e))
    }

    /// This part of `flash` holds nothing that is needed. That it takes no space then is worth a try, not an error.
    pub fn punch_flash(&self, at: u64, len: u64) {
        if !self.read_only {
            let _ = self.flash.punch(at, len);
        }
    }

    /// Newest group that is safe.
    pub fn safe_group(&self) -> u64 {
        self.safe.load(SeqCst)
    }

    /// A rider for this content, which is bytes and has this sum.
    pub fn rider(&self, ppa: u32, seq: u64, page: &Page, sum: u32) -> Rider {
        Rider { ppa, seq, id: self.next_rider.fetch_add(1, SeqCst), page: page.clone(), sum }
    }

    /// The number of the next rider, for [`Change::dead`]; `None` where a dead page saves nothing.
    pub fn death(&self) -> Option<u64> {
        let counts = self.durability == Durability::Process && !self.read_only && !self.pending.is_empty();
        counts.then(|| self.next_rider.load(SeqCst))
    }

    /// Keeps the content of a page that is not in `flash` yet.
    pub fn hold(&self, rider: &Rider) {
        self.pending.hold(rider);
    }

    /// The content of a published page that is not in `flash` yet.
    ///
    /// # Errors
    /// Host errors.
    pub fn held(&self, ppa: u32) -> io::Result<Option<Page>> {
        loop {
            match (self.pending.held(ppa), &self.log) {
                (Some(Held::Memory(page)), _) => return Ok(Some(page)),
                (Some(Held::Log(at)), Some(log)) => {
                    let mut bytes = [0; PAGE_SIZE];
                    log.read_at(at, &mut bytes)?;
                    // A half that was checkpointed meanwhile may have been written anew: then the content is in `flash`.
                    if matches!(self.pending.held(ppa), Some(Held::Log(still)) if still == at) {
                        return Ok(Some(Page::from_bytes(&bytes)));
                    }
                }
                _ => return Ok(None),
            }
        }
    }

    /// Takes the changes of one call of the drive: `frame` has [`FRAME`] bytes of room, then the records. Returns the group
    /// under which they become safe. Nothing is left in `change` but what the caller keeps there for itself.
    ///
    /// # Errors
    /// Why no more changes are taken.
    pub fn publish(&self, frame: &mut Vec<u8>, change: &mut Change) -> Result<u64, String> {
        if frame.len() <= FRAME && change.riders.is_empty() {
            return Ok(0);
        }
        let published = match self.failure() {
            Some(reason) => Err(reason),
            None if self.read_only => Ok(0),
            None => self.take(frame, change),
        };
        let in_barriers = self.has_barriers();
        let published = published.map(|ticket| if in_barriers { ticket } else { 0 });
        // What is not taken can be read all the same: the drive in memory goes on.
        change.riders.drain(..).for_each(|r| self.pending.hold(&r));
        change.dead.clear();
        published
    }

    /// The same for bytes of a memory whose owner keeps them in memory for as long as they are not in their place: until
    /// [`Journal::landed`] is not below the ticket that is returned. Nothing but records is in `frame`.
    ///
    /// # Errors
    /// Why no more changes are taken.
    pub fn publish_bytes(&self, frame: &mut Vec<u8>) -> Result<u64, String> {
        match self.failure() {
            Some(reason) => Err(reason),
            None if self.read_only => Ok(u64::MAX),
            None => self.take(frame, &mut Change::default()),
        }
    }

    /// Everything that was published under this ticket or a lower one is in its place.
    pub fn landed(&self) -> u64 {
        self.landed.load(SeqCst)
    }

    /// Bytes that one call of [`Journal::publish_bytes`] may bring at most, its room for the head included.
    pub fn most_bytes(&self) -> usize {
        (self.half / 8).clamp(FRAME as u64, LARGE_GROUP / 8) as usize
    }

    /// Returns the ticket: the number of the group in machine mode, of the frame in process mode.
    fn take(&self, frame: &mut Vec<u8>, change: &mut Change) -> Result<u64, String> {
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

    /// Appends a frame to the log, changing halves where it is full, and syncs it if it is that of a `group`. From then on the
    /// riders' contents are there. Returns the frame's ticket.
    fn write(&self, frame: &mut Vec<u8>, riders: &[Rider], group: Option<u64>) -> Result<u64, String> {
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

    /// Sees to it that a frame of `len` bytes fits into the half that is appended to. While one waits here, others may come, fill
    /// the rest of a half, or begin the next one: after each wait everything is looked at anew.
    fn room_for(&self, w: &mut MutexGuard<'_, Writer>, len: usize) -> Result<(), String> {
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
    fn is_full(&self, w: &mut MutexGuard<'_, Writer>, half: usize) -> Result<(), String> {
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

    /// Goes on in this half, which is free.
    fn begin(&self, w: &mut Writer, half: usize) -> Result<(), String> {
        w.halves[half] = Half::Active;
        w.begins[half] = w.next;
        let Some(wal) = &mut w.wal else { return Ok(()) };
        wal.begin(half).map_err(|e| self.fail_host("writing wal", e))
    }

    /// Waits until the state of a half may have changed.
    fn wait_for_half(&self, w: &mut MutexGuard<'_, Writer>) -> Result<(), String> {
        if let Some(reason) = self.failure() {
            return Err(reason);
        }
        // A failure is told without this lock, and may come between the look at it and the wait.
        self.half_changed.wait_for(w, FAILURE_SEEN);
        Ok(())
    }

    /// Moves a half to its places and frees it.
    fn checkpoint(&self, w: &mut MutexGuard<'_, Writer>, half: usize, begin: u64) -> Result<(), String> {
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
    fn move_half(
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

    /// Tells the image's threads to end.
    pub fn stop(&self) {
        let _w = self.writer.lock();
        self.stop.store(true, SeqCst);
        self.half_changed.notify_all();
        self.stop_commits();
    }

    /// Makes one group safe. Returns the emptied buffer, too.
    pub(super) fn commit(
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

    /// Goes over to the memory of a drive that has become larger. `prepare` runs when everything is in its place,
    /// synced; if it fails, all goes on as before. Then the log is emptied, and `change` puts the larger memory in place: if
    /// that fails, no more changes are taken. No call of any device is under way.
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

    /// Moves everything to its place, syncs it and empties the log. No call of any device may follow.
    ///
    /// # Errors
    /// Why no more changes are taken, host errors.
    pub fn close(&self) -> Result<(), String> {
        self.barrier()?;
        let mut w = self.writer.lock();
        let Some(active) = w.wal.as_ref().map(Wal::active) else { return Ok(()) };
        // The other half first: it is the older one. With the thread gone nobody else takes it.
        for half in [1 - active, active] {
            if w.halves[half] == Half::Free {
                continue;
            }
            let begin = w.begins[half];
            self.checkpoint(&mut w, half, begin)?;
        }
        let Some(wal) = w.wal.take() else { return Ok(()) };
        let sync = || {
            let host = |e| ImageError::host("closing the image", e);
            self.flash.sync().map_err(host)?;
            self.regions.lock().sync()?;
            wal.file().set_len(0).map_err(host)
        };
        let closed = sync();
        drop(w);
        closed.map_err(|e| {
            self.fail(e.to_string());
            e.to_string()
        })?;
        self.fail("the image has been closed".to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::host::memory::MemoryHost;
    use crate::redo::{Memory, Redo};
    use crate::region::file_len;
    use crate::wal::Way;

    /// A checkpoint thread that comes late finds both halves full.
    #[test]
    fn of_two_full_halves_the_older_one_is_moved_first() {
        let mut w = Writer {
            wal: None,
            halves: [Half::Full, Half::Full],
            begins: [9, 5],
            next: 12,
            tickets: [0; 2],
            counters: JournalCounters::default(),
            buffer: Vec::new(),
        };
        assert_eq!(w.oldest_full(), Some(1));
        w.halves[1] = Half::Free;
        assert_eq!(w.oldest_full(), Some(0));
        w.halves[0] = Half::Active;
        assert_eq!(w.oldest_full(), None);
    }

    const LEN: u64 = 1 << 20;
    const WRITERS: u64 = 8;

    /// A journal with a tiny log, over a memory of [`LEN`] bytes in memory of this process.
    fn tiny(host: &MemoryHost, inline: bool) -> Arc<Journal> {
        let open = |name| host.open(name, false).expect("a file");
        let (flash, wal, dram) = (open("flash"), open(WAL), open("dram"));
        dram.set_len(file_len(LEN)).expect("length");
        let mut regions = Regions::default();
        regions.put(Region::new(dram, Memory::Dram, LEN, false));
        let half = 16 << 10;
        let wal = Wal::start(wal, [1; 16], half, Way::Shared).expect("a log");
        Arc::new(Journal::new(Durability::Process, inline, half, 0, flash, Some(wal), regions))
    }

    /// Devices of one image call at the same time. All that they publish gets to its place, and none waits for ever, however
    /// often the log changes its halves.
    #[test]
    #[allow(clippy::disallowed_methods)] // the journal's threads are the machine's
    fn writers_that_find_a_half_full_at_the_same_time_lose_nothing() {
        for inline in [false, true] {
            let host = MemoryHost::new();
            let journal = tiny(&host, inline);
            let (done, finished) = std::sync::mpsc::channel();
            let checkpoints = (!inline).then(|| {
                let journal = journal.clone();
                std::thread::spawn(move || journal.run_checkpoints())
            });
            for writer in 0..WRITERS {
                let (journal, done) = (journal.clone(), done.clone());
                std::thread::spawn(move || {
                    let room = (LEN / WRITERS) as usize;
                    let mut mine = vec![0; room];
                    for round in 0..1000usize {
                        // Some fill what others have left room in.
                        let len = if round % 3 == 0 { 2500 } else { 40 + round % 200 };
                        let at = round * 977 % (room - len);
                        mine[at..at + len].fill(round as u8);
                        let mut redo = Redo::new(writer * room as u64);
                        redo.put(at as u64, &mine[at..at + len]);
                        let mut frame = vec![0; FRAME];
                        redo.drain_into(&mut frame);
                        journal.publish_bytes(&mut frame).expect("published");
                    }
                    done.send((writer, mine)).expect("somebody waits");
                });
            }
            drop(done);
            // A hang is to be a failure of this test, and not of all.
            let patience = std::time::Duration::from_secs(20);
            let all: Vec<_> =
                (0..WRITERS).map(|_| finished.recv_timeout(patience).expect("no writer hangs")).collect();
            journal.stop();
            if let Some(thread) = checkpoints {
                thread.join().expect("ends");
            }
            assert!(journal.counters().checkpoints > 10);
            journal.close().expect("closed");
            for (writer, mine) in all {
                let mut kept = vec![0; mine.len()];
                let regions = journal.regions.lock();
                let region = regions.get(Memory::Dram).expect("it is there");
                region.read(writer * mine.len() as u64, &mut kept).expect("read");
                assert!(kept == mine, "writer {writer}, inline {inline}");
            }
        }
    }
}
