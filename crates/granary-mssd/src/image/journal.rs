//! [`Journal`]: takes the drive's changes in groups, makes them safe, and moves them on to `dram` and `flash`.
//!
//! ```text
//!   process   publish ──> frame in the shared log: safe from the death of the process
//!   machine   publish ──> group in memory ──barrier: one leader──> [sync flash] write frame, sync ──> safe
//!   memory    publish ──> nothing: what an image that is only read changes is lost when it is closed
//!
//!   log half full ──> the other half is appended to, this one goes to `dram` (and is synced) and is free again
//! ```
//!
//! A page's content goes straight to `flash` where that can overwrite nothing that may be needed again: its block's erase,
//! and so the moves of what it held, is safe. Otherwise the content *rides* in the log and is put into `flash` when
//! the group is safe; until then reads find it among the pending pages. In machine mode the first 64 pages of a group ride
//! in any case, so that one sync serves.
//!
//! Invariants: `dram` and the content of programmed pages in `flash` change only to what the log holds safely; a half of
//! the log is used again only when everything in it is in `dram` and `flash` (machine mode: synced). When the host
//! fails, nothing more is taken: what had been acknowledged stays in the log.

use super::dram::Dram;
use super::host::HostFile;
use super::redo::{Record, put_content, records};
use super::wal::{FRAME, Wal, read_half};
use super::{Durability, ImageError};
use granary_units::{PAGE_SIZE, Page};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// Pages of a group that ride in the log in machine mode before content goes to `flash` directly: up to 256 KiB one
/// sequential write and one sync cost less than a second sync.
pub const RIDERS: usize = 64;
/// A group of machine mode that has grown to this size is made safe without being asked.
const LARGE_GROUP: u64 = 4 << 20;

/// A flash page whose content goes through the log.
pub struct Rider {
    /// Where.
    pub ppa: u32,
    /// Sequence number of its program.
    pub seq: u64,
    /// Content.
    pub page: Page,
}

/// What one call of the drive changed, beside the records.
#[derive(Default)]
pub struct Change {
    /// Contents that ride in the log.
    pub riders: Vec<Rider>,
    /// Content was written to `flash` directly.
    pub wrote_flash: bool,
    /// Blocks were erased.
    pub erased: bool,
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
    counters: JournalCounters,
    buffer: Vec<u8>,
}

#[derive(Default)]
struct Group {
    number: u64,
    records: Vec<u8>,
    riders: Vec<Rider>,
    wrote_flash: bool,
    leader: bool,
    safe: u64,
    barriers: u64,
}

impl Group {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.riders.is_empty()
    }

    fn size(&self) -> u64 {
        (self.records.len() + self.riders.len() * PAGE_SIZE) as u64
    }
}

/// The way from the drive to the files.
pub struct Journal {
    durability: Durability,
    read_only: bool,
    /// Checkpoints are taken by the one who fills a half, not by a thread.
    inline: bool,
    half: u64,
    most_riders: usize,
    flash: Arc<dyn HostFile>,
    writer: Mutex<Writer>,
    half_changed: Condvar,
    dram: Mutex<Dram>,
    group: Mutex<Group>,
    committed: Condvar,
    /// Number of the newest group that is safe, and riders in the open one, readable without the lock.
    safe: AtomicU64,
    open_riders: AtomicUsize,
    pending: Mutex<FxHashMap<u32, (u64, Page)>>,
    pending_count: AtomicUsize,
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
        dram: Dram,
    ) -> Journal {
        let read_only = wal.is_none();
        let writer = Writer {
            wal,
            halves: [Half::Active, Half::Free],
            begins: [1, 0],
            next: 1,
            counters: JournalCounters::default(),
            buffer: Vec::new(),
        };
        Journal {
            durability,
            read_only,
            inline,
            half,
            most_riders,
            flash,
            writer: Mutex::new(writer),
            half_changed: Condvar::new(),
            dram: Mutex::new(dram),
            group: Mutex::new(Group { number: 1, ..Group::default() }),
            committed: Condvar::new(),
            safe: AtomicU64::new(0),
            open_riders: AtomicUsize::new(0),
            pending: Mutex::default(),
            pending_count: AtomicUsize::new(0),
            failed: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }
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
        self.committed.notify_all();
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
        if self.read_only || erased.is_some_and(|g| g > self.safe.load(SeqCst)) {
            return false;
        }
        self.durability == Durability::Process || riders + self.open_riders.load(SeqCst) >= self.most_riders
    }

    /// Newest group that is safe.
    pub fn safe_group(&self) -> u64 {
        self.safe.load(SeqCst)
    }

    /// Keeps the content of a page that is not in `flash` yet.
    pub fn hold(&self, ppa: u32, seq: u64, page: &Page) {
        let mut pending = self.pending.lock();
        pending.insert(ppa, (seq, page.clone()));
        self.pending_count.store(pending.len(), SeqCst);
    }

    /// The content of a page that is not in `flash` yet.
    pub fn held(&self, ppa: u32) -> Option<Page> {
        if self.pending_count.load(SeqCst) == 0 {
            return None;
        }
        self.pending.lock().get(&ppa).map(|(_, page)| page.clone())
    }

    /// Puts riders of a safe group into `flash`.
    fn land(&self, riders: &[Rider]) -> io::Result<()> {
        for r in riders {
            if let Some(bytes) = r.page.as_bytes() {
                self.flash.write_at(r.ppa as u64 * PAGE_SIZE as u64, bytes)?;
            }
        }
        let mut pending = self.pending.lock();
        for r in riders {
            if pending.get(&r.ppa).is_some_and(|(seq, _)| *seq == r.seq) {
                pending.remove(&r.ppa);
            }
        }
        self.pending_count.store(pending.len(), SeqCst);
        Ok(())
    }

    /// Takes the changes of one call of the drive: `frame` has [`FRAME`] bytes of room, then the records; it is empty
    /// afterwards. Returns the group under which they become safe.
    ///
    /// # Errors
    /// Why no more changes are taken.
    pub fn publish(&self, frame: &mut Vec<u8>, change: &mut Change) -> Result<u64, String> {
        if frame.len() <= FRAME && change.riders.is_empty() {
            return Ok(0);
        }
        if let Some(reason) = self.failure() {
            frame.clear();
            return Err(reason);
        }
        if self.read_only {
            frame.clear();
            change.riders.clear();
            return Ok(0);
        }
        match self.durability {
            Durability::Process => {
                for r in &change.riders {
                    put_rider(frame, r);
                }
                self.write(frame, change.riders.len(), false)?;
                frame.clear();
                if !change.riders.is_empty() {
                    self.land(&change.riders).map_err(|e| self.fail_host("writing flash", e))?;
                    change.riders.clear();
                }
                Ok(0)
            }
            Durability::Machine => {
                let mut g = self.group.lock();
                g.records.extend_from_slice(&frame[FRAME..]);
                g.riders.append(&mut change.riders);
                g.wrote_flash |= change.wrote_flash;
                self.open_riders.store(g.riders.len(), SeqCst);
                let (number, large) = (g.number, g.size() > LARGE_GROUP.min(self.half / 4));
                drop(g);
                frame.clear();
                if large {
                    self.barrier()?;
                }
                Ok(number)
            }
        }
    }

    /// Appends a frame to the log, changing halves where it is full.
    fn write(&self, frame: &mut Vec<u8>, riders: usize, sync: bool) -> Result<(), String> {
        let mut w = self.writer.lock();
        let len = frame.len().next_multiple_of(8);
        let Some(wal) = &w.wal else { return Ok(()) };
        if len as u64 > wal.most() {
            let reason =
                format!("one call changed {len} bytes, more than the redo log of {} takes", wal.most());
            drop(w);
            self.fail(reason.clone());
            return Err(reason);
        }
        if !wal.fits(len) {
            self.change_halves(&mut w)?;
        }
        w.next += 1;
        w.counters.groups += 1;
        w.counters.bytes += len as u64;
        w.counters.riders += riders as u64;
        let Some(wal) = &mut w.wal else { return Ok(()) };
        let mut written = wal.append(frame);
        if sync && written.is_ok() {
            written = wal.file().sync();
        }
        drop(w);
        written.map_err(|e| self.fail_host("writing wal", e))
    }

    fn change_halves(&self, w: &mut MutexGuard<'_, Writer>) -> Result<(), String> {
        let Some(full) = w.wal.as_ref().map(Wal::active) else { return Ok(()) };
        w.halves[full] = Half::Full;
        if self.inline {
            let begin = w.begins[full];
            self.checkpoint(w, full, begin)?;
        } else {
            self.half_changed.notify_all();
        }
        if w.halves[1 - full] != Half::Free {
            w.counters.stalls += 1;
        }
        while w.halves[1 - full] != Half::Free {
            if let Some(reason) = self.failure() {
                return Err(reason);
            }
            self.half_changed.wait(w);
        }
        w.halves[1 - full] = Half::Active;
        w.begins[1 - full] = w.next;
        let Some(wal) = &mut w.wal else { return Ok(()) };
        wal.begin(1 - full).map_err(|e| self.fail_host("writing wal", e))
    }

    /// Moves a half to `dram` and frees it.
    fn checkpoint(&self, w: &mut MutexGuard<'_, Writer>, half: usize, begin: u64) -> Result<(), String> {
        let Some(file) = w.wal.as_ref().map(|wal| wal.file().clone()) else { return Ok(()) };
        let mut buffer = std::mem::take(&mut w.buffer);
        // The half is full: nobody writes to it. The drive goes on meanwhile.
        let moved = MutexGuard::unlocked(w, || self.move_half(&*file, half, begin, &mut buffer));
        w.buffer = buffer;
        match moved {
            Ok(()) => {
                w.halves[half] = Half::Free;
                w.counters.checkpoints += 1;
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

    fn move_half(
        &self,
        file: &dyn HostFile,
        half: usize,
        begin: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<(), ImageError> {
        let mut dram = self.dram.lock();
        let host = |e| ImageError::host("writing dram", e);
        read_half(file, self.half, half, buffer, begin, |group| {
            records(group, |r| match r {
                Record::Dram { at, bytes } => dram.apply(at, bytes).map_err(host),
                Record::Content { .. } => Ok(()),
            })
            .map_err(|e| e.unwrap_or_else(|| ImageError::damaged(super::wal::WAL, "a malformed record")))
        })?;
        dram.flush().map_err(host)?;
        if self.durability == Durability::Machine {
            self.flash.sync().map_err(|e| ImageError::host("syncing flash", e))?;
            dram.sync().map_err(|e| ImageError::host("syncing dram", e))?;
        }
        Ok(())
    }

    /// Moves full halves to `dram` until told to stop: the body of the checkpoint thread.
    pub fn run_checkpoints(&self) {
        let mut w = self.writer.lock();
        while !self.stop.load(SeqCst) {
            match (0..2).find(|&h| w.halves[h] == Half::Full) {
                Some(half) if self.failure().is_none() => {
                    let begin = w.begins[half];
                    // A failure is kept and told to whoever writes next.
                    let _ = self.checkpoint(&mut w, half, begin);
                }
                _ => self.half_changed.wait(&mut w),
            }
        }
    }

    /// Tells the checkpoint thread to end.
    pub fn stop(&self) {
        let _w = self.writer.lock();
        self.stop.store(true, SeqCst);
        self.half_changed.notify_all();
    }

    /// Returns when everything published before is safe from a crash of the machine (machine mode).
    ///
    /// # Errors
    /// Why no more changes are taken.
    pub fn barrier(&self) -> Result<(), String> {
        if self.durability != Durability::Machine || self.read_only {
            return self.failure().map_or(Ok(()), Err);
        }
        let mut g = self.group.lock();
        g.barriers += 1;
        let target = if g.is_empty() { g.number - 1 } else { g.number };
        loop {
            if g.safe >= target {
                return Ok(());
            }
            if let Some(reason) = self.failure() {
                return Err(reason);
            }
            if g.leader {
                self.committed.wait(&mut g);
                continue;
            }
            g.leader = true;
            let number = g.number;
            g.number += 1;
            let (group, riders) = (std::mem::take(&mut g.records), std::mem::take(&mut g.riders));
            let wrote_flash = std::mem::take(&mut g.wrote_flash);
            self.open_riders.store(0, SeqCst);
            let done = MutexGuard::unlocked(&mut g, || self.commit(number, group, &riders, wrote_flash));
            g.leader = false;
            if done.is_ok() {
                g.safe = number;
            }
            self.committed.notify_all();
            done?;
        }
    }

    /// Makes one group safe.
    fn commit(&self, number: u64, group: Vec<u8>, riders: &[Rider], wrote_flash: bool) -> Result<(), String> {
        if wrote_flash {
            self.flash.sync().map_err(|e| self.fail_host("syncing flash", e))?;
        }
        let mut frame = Vec::with_capacity(FRAME + group.len() + riders.len() * (PAGE_SIZE + 16));
        frame.resize(FRAME, 0);
        frame.extend_from_slice(&group);
        for r in riders {
            put_rider(&mut frame, r);
        }
        self.write(&mut frame, riders.len(), true)?;
        self.safe.store(number, SeqCst);
        self.land(riders).map_err(|e| self.fail_host("writing flash", e))
    }

    /// Moves everything to `dram` and `flash`, syncs them and empties the log. No call of the drive may follow.
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
            self.flash.sync()?;
            self.dram.lock().sync()?;
            wal.file().set_len(0)
        };
        let closed = sync();
        drop(w);
        closed.map_err(|e| self.fail_host("closing the image", e))?;
        self.fail("the image has been closed".to_owned());
        Ok(())
    }
}

fn put_rider(frame: &mut Vec<u8>, r: &Rider) {
    if let Some(bytes) = r.page.as_bytes() {
        put_content(frame, r.ppa, r.seq, bytes);
    }
}
