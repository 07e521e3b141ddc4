//! The segment constructor: when a log is made, and how it gets to the drive.
//!
//! ```text
//!   operations  | shared ------------ |           | shared ...
//!   constructor                       | exclusive: pull dirty pages, make the log | write it | done |
//!   readers     | -------- never wait for the drive's writing: what is under way is in memory -------- |
//! ```
//!
//! Source: reference/nilfs2.md section 5.3 (Linux 6.1): a log 5 s after the first change, at 3600 dirty
//! blocks, and for whoever waits; a superblock not more often than every 10 s, after what it names.

use crate::fs::Nilfs2;
use crate::layout::superblock::{CLEAN, Superblock};
use crate::log::{Item, Kind, Log};
use crate::state::{LastRoot, Node};
use granary_device::{Port, Structure, Ticket};
use granary_fs::{FsError, Ino, Result};
use granary_kit::work::Kind as Work;
use granary_sim::{Signal, Stopper, costs, cpu, now};
use granary_units::{Lpa, Nanos, Page};
use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;

/// A page that is promised so long and still clean is given up: no call takes as long between asking for
/// space and writing to memory. A choice; too long, it keeps space from others for a moment, too short, a
/// crowd of writers uses up what the cleaner needs.
const ABANDONED: Nanos = Nanos::from_millis(1000);

impl Nilfs2 {
    /// Nothing has gone wrong so far.
    pub(crate) fn working(&self) -> Result<()> {
        match &*self.broken.lock() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Nothing can be made durable any more.
    fn fail(&self, error: FsError) -> FsError {
        self.broken.lock().get_or_insert(error.clone());
        error
    }

    /// Writes a log of all that is dirty; with `wanted` only if that still says so when nobody changes
    /// anything. Says whether it did.
    pub(crate) fn construct_if(
        &self,
        wanted: &mut dyn FnMut(&mut crate::state::State) -> Option<Kind>,
    ) -> Result<bool> {
        let _all = self.ops.write();
        self.working()?;
        let Some(kind) = wanted(&mut self.state.lock()) else { return Ok(false) };
        if kind == Kind::Full {
            self.pull()?;
        }
        self.write_log(kind, Vec::new())?;
        Ok(true)
    }

    /// Writes a log of all that is dirty.
    pub(crate) fn construct(&self) -> Result<()> {
        self.construct_if(&mut |_| Some(Kind::Full)).map(drop)
    }

    /// Takes over the dirty pages that the vfs has.
    pub(crate) fn pull(&self) -> Result<()> {
        let Some(pages) = self.pages.lock().as_ref().and_then(Weak::upgrade) else { return Ok(()) };
        let (todo, present) = {
            let s = self.state.lock();
            let all = s.promising.iter().filter_map(|ino| Some((*ino, s.nodes.get(ino)?)));
            let todo: Vec<(u64, Vec<(u64, Nanos)>)> =
                all.map(|(ino, n)| (ino, n.promised.iter().map(|(i, p)| (*i, p.at)).collect())).collect();
            (todo, now())
        };
        for (ino, indices) in todo {
            for (index, promised) in indices {
                let (looked, mut wrote) = (std::cell::Cell::new(false), false);
                pages.write_dirty_page(
                    Ino(ino),
                    index,
                    &|_, _| {
                        looked.set(true);
                        Ok(true)
                    },
                    &mut |inode, page| {
                        wrote = true;
                        let mut s = self.state.lock();
                        s.stage(ino, index, page.page.clone());
                        if let Some(node) = s.nodes.get_mut(&ino) {
                            node.media_size = node.media_size.max(page.end().min(inode.size()));
                        }
                        Ok(())
                    },
                );
                // Clean, and promised long ago: nobody is about to make it dirty.
                if looked.get() && !wrote && present.saturating_sub(promised) > ABANDONED {
                    let mut s = self.state.lock();
                    let node = s.nodes.get_mut(&ino);
                    let gone = node.and_then(|n| n.promised.remove(&index));
                    s.pending = s.pending.saturating_sub(gone.is_some().into());
                    s.pending_new = s.pending_new.saturating_sub(gone.is_some_and(|p| p.new).into());
                }
            }
        }
        Ok(())
    }

    /// Makes a log and writes it; `ops` is held exclusively. How many blocks it has.
    pub(crate) fn write_log(&self, kind: Kind, moved: Vec<Item>) -> Result<u64> {
        let (log, ticket) = self.begin_log(kind, moved)?;
        self.media.port.wait(ticket);
        self.media.retire();
        self.end_log(&log)?;
        Ok(log.blocks.len() as u64)
    }

    /// Makes a log and starts to write it; `ops` is held exclusively. Readers have it from memory until
    /// `Media::retire`.
    pub(crate) fn begin_log(&self, kind: Kind, moved: Vec<Item>) -> Result<(Log, Ticket)> {
        let _step = granary_sim::step("nilfs2: a log is written");
        self.prepare_super(moved.len() as u64)?;
        let log = {
            // Readers learn the new places and the content together.
            let mut s = self.state.lock();
            let log = s.make_log(&self.media, kind, moved).map_err(|e| self.fail(e))?;
            self.media.publish(log.blocks.iter().map(|(at, page, _)| (*at, page.clone())));
            self.media.renaming(&log.remaps);
            log
        };
        match self.submit(&log) {
            Ok(ticket) => Ok((log, ticket)),
            Err(error) => {
                self.media.retire();
                Err(self.fail(error))
            }
        }
    }

    /// Updates memory and superblock after a log is on the drive.
    pub(crate) fn end_log(&self, log: &Log) -> Result<()> {
        self.unflushed.store(true, Relaxed);
        {
            let mut stats = self.stats.lock();
            stats.blocks += log.blocks.len() as u64;
            match log.cno {
                Some(_) => stats.logs += 1,
                None => stats.data_logs += 1,
            }
        }
        if log.cno.is_some() {
            let mut s = self.state.lock();
            s.cno += 1;
            s.root = LastRoot { at: log.at, seq: log.seq, serial: log.serial };
            for ino in std::mem::take(&mut s.unheld) {
                if s.nodes.get(&ino).is_some_and(|n: &Node| !n.held && !n.is_dirty()) {
                    s.nodes.remove(&ino);
                }
            }
            if s.cno.is_multiple_of(64) {
                s.evict((self.options.metadata_cache.0 / 4096) as usize);
            }
        }
        if log.cno.is_some() {
            if !log.remaps.is_empty() {
                // The reset takes blocks out of older logs: a recovery must not read those any more.
                self.write_super(0)?;
            }
            self.reset_bam()?;
        }
        self.super_if_due()?;
        let runs = log.blocks.chunk_by(|a, b| a.0 + 1 == b.0 && a.2 == b.2).count() as u64;
        let c = costs();
        cpu((c.extent_alloc + c.extent_update + Work::WriteBack.inodes()) * runs.min(16));
        Ok(())
    }

    /// Renames, then starts to write: a log that counts has all of its blocks.
    fn submit(&self, log: &Log) -> Result<Ticket> {
        self.rename(&log.remaps)?;
        match &log.file {
            Some(file) if self.options.fs_write_fsync => self.submit_file(log, file),
            _ => submit(&self.media.port, log),
        }
    }

    /// FLUSH, where something was written since the last one. One at a time: whoever finds that another
    /// caller has taken it over waits for that one's end (the kernel's `nilfs_flush_device` does not, and
    /// returns before the drive has answered).
    pub(crate) fn flush(&self) -> Result<()> {
        let _one = self.flushing.lock();
        if self.options.barrier && self.unflushed.swap(false, Relaxed) {
            self.stats.lock().flushes += 1;
            self.media.port.flush().inspect_err(|_| self.unflushed.store(true, Relaxed))?;
        }
        Ok(())
    }

    /// Before segments are taken again that a recovery would read: the superblock names the newest log.
    fn prepare_super(&self, moved: u64) -> Result<()> {
        let due = {
            let s = self.state.lock();
            let count = (s.need(0, 0) + moved * 2) / s.segs.geo.seg_blocks + 6;
            s.segs.needs_super(count as usize) && s.root.seq > s.segs.super_seq
        };
        if due { self.write_super(0) } else { Ok(()) }
    }

    fn super_if_due(&self) -> Result<()> {
        let due = {
            let last = self.super_block.lock().1;
            now().0 >= last.0 + self.options.super_interval.0
        };
        if due { self.write_super(0) } else { Ok(()) }
    }

    /// Writes the superblock whose turn it is, after all that was written before it.
    pub(crate) fn write_super(&self, flags: u32) -> Result<()> {
        let _step = granary_sim::step("nilfs2: the superblock is written");
        let mut sb = self.super_block.lock();
        let root = self.state.lock().root;
        self.media.port.flush()?;
        let mut next = sb.0;
        (next.last_log, next.last_seq, next.last_serial) = (root.at, root.seq, root.serial);
        next.flags = flags & CLEAN;
        write_one(&self.media.port, &mut next)?;
        self.media.port.flush()?;
        *sb = (next, now());
        self.unflushed.store(false, Relaxed);
        self.state.lock().segs.super_seq = root.seq;
        self.stats.lock().supers += 1;
        Ok(())
    }
}

/// Starts writing a log, neighbours of one structure in one command.
pub(crate) fn submit(port: &Port, log: &Log) -> Result<Ticket> {
    let mut ticket = Ticket::NONE;
    let mut pages: Vec<Page> = Vec::new();
    for run in log.blocks.chunk_by(|a, b| a.0 + 1 == b.0 && a.2 == b.2) {
        pages.clear();
        pages.extend(run.iter().map(|(_, page, _)| page.clone()));
        ticket = ticket.and(port.submit_write(Lpa(run[0].0), &pages, run[0].2)?);
    }
    Ok(ticket)
}

/// Writes one of the two superblocks.
pub(crate) fn write_one(port: &Port, sb: &mut Superblock) -> Result<()> {
    sb.writes += 1;
    let copy = (sb.writes % 2) as usize;
    let at = if copy == 0 { 0 } else { sb.geo.blocks - 1 };
    let page = Page::from_bytes(&sb.encode(copy));
    Ok(port.write(Lpa(at), &[page], Structure::Superblock)?)
}

/// Body of the daemon that writes logs nobody asks for (`segctord`).
pub(crate) fn constructor_loop(fs: &Weak<Nilfs2>, stop: &Stopper) {
    let Some(interval) = fs.upgrade().map(|f| f.options.log_interval) else { return };
    let mut wait = interval;
    while stop.pause(wait) != Signal::Stop {
        let Some(fs) = fs.upgrade() else { return };
        wait = fs.construct_if_due(interval);
    }
}

impl Nilfs2 {
    /// Writes a log where one is due; when to look again.
    fn construct_if_due(&self, interval: Nanos) -> Nanos {
        let due = {
            let s = self.state.lock();
            match s.dirty_since {
                None => return interval,
                Some(since) => {
                    let at = Nanos(since.0 + interval.0);
                    if s.pending < self.options.watermark as u64 && now().0 < at.0 {
                        return Nanos(at.0 - now().0);
                    }
                    true
                }
            }
        };
        if due {
            // An error stays in `broken`: a caller that waits for durability gets it.
            let _ = self.construct_if(&mut |s| s.dirty_since.map(|_| Kind::Full));
        }
        interval
    }
}
