//! [`Journal`]: takes the devices' changes in groups, makes them safe, and moves them on to `dram`, `nvm` and
//! `flash`.
//!
//! ```text
//!   process   publish ──> frame in the shared log: safe from the death of the process
//!   machine   publish ──> group in memory ──barrier: one leader──> [sync flash] write frame, sync ──> safe
//!   memory    publish ──> nothing: what an image that is only read changes is lost when it is closed
//!
//!   log half full ──> the other half is appended to, this one goes to `dram`, `nvm` and `flash` (and is
//!                     synced) and is free again
//! ```
//!
//! All devices of an image share this one journal. So a change that one of them acknowledged before another
//! one's call is safe before that call's changes.
//!
//! A page's content *rides* in the log, and is put into `flash` with the checkpoint of its half, together
//! with its neighbours. Until then reads find it among the pending pages (pending.rs). Content that is stale
//! by then never gets there.
//!
//! Pages beyond the first 64 of a group (machine mode) or a call (process mode) go straight to `flash`, where
//! that overwrites nothing that may be needed again. That is so where the erase of their blocks is safe, and
//! with it the moves of the blocks' former content.
//!
//! Invariants: `dram`, `nvm` and the content of programmed pages in `flash` change only to content that the
//! log holds safely. A half of the log is used again only when everything in it is in its place (machine
//! mode: synced). After a failure of the host no more changes are taken: acknowledged ones stay in the log.

mod groups;
mod halves;

use super::commit::{Bells, Group};
use super::host::{Absent, HostFile};
use super::pending::{Held, Pending, Rider};
use super::redo::CONTENT_RECORD;
use super::region::Regions;
use super::wal::{FRAME, Wal};
use super::{Durability, ImageError};
use granary_units::{PAGE_SIZE, Page};
use parking_lot::{Condvar, Mutex};
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Pages of a group or call that ride in the log before content goes to `flash` directly: up to 256 KiB one
/// sequential write and one sync cost less than a second sync.
pub const RIDERS: usize = 64;
/// A group of machine mode that has grown to this size is made safe without being asked.
const LARGE_GROUP: u64 = 4 << 20;
/// How late a writer that waits for a half learns of a failure at most.
const FAILURE_SEEN: Duration = Duration::from_secs(1);

/// Changes by one call of the drive, beside the records.
#[derive(Default)]
pub struct Change {
    /// Contents that ride in the log.
    pub riders: Vec<Rider>,
    /// Content was written to `flash` directly.
    pub wrote_flash: bool,
    /// Blocks were erased.
    pub erased: bool,
    /// Pages whose content nobody needs any more once this change is safe, each with the number of the first
    /// rider after its death.
    pub dead: Vec<(u32, u64)>,
}

/// Counters of a journal.
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
    /// The half that is to be moved next. Of two the one that was written first: the other has newer versions
    /// of the same bytes.
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

    /// Current counters.
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

    /// Whether content may go to `flash` now, given the group of the last erase of its block (`None`: long
    /// safe; the largest number: not yet published) and the riders of this call so far.
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

    /// This part of `flash` holds nothing that is needed. That it takes no space then is worth a try, not an
    /// error.
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
                    // A half that was checkpointed meanwhile may have been written anew: then the content is
                    // in `flash`.
                    if matches!(self.pending.held(ppa), Some(Held::Log(still)) if still == at) {
                        return Ok(Some(Page::from_bytes(&bytes)));
                    }
                }
                _ => return Ok(None),
            }
        }
    }

    /// Takes the changes of one call of the drive: `frame` has [`FRAME`] bytes of room, then the records.
    /// Returns the group under which they become safe. Nothing is left in `change` but what the caller keeps
    /// there for itself.
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
        // Refused contents stay readable: the drive in memory goes on.
        change.riders.drain(..).for_each(|r| self.pending.hold(&r));
        change.dead.clear();
        published
    }

    /// The same for bytes of a memory whose owner keeps them in memory for as long as they are not in their
    /// place: until [`Journal::landed`] is not below the ticket that is returned. Nothing but records is in
    /// `frame`.
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

    /// Tells the image's threads to end.
    pub fn stop(&self) {
        let _w = self.writer.lock();
        self.stop.store(true, SeqCst);
        self.half_changed.notify_all();
        self.stop_commits();
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
mod tests;
