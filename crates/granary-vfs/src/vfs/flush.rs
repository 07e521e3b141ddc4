//! Write-back: the flushers, fsync, sync, and writers that wait because too much is dirty.
//!
//! ```text
//!   dirty pages   0 -------- background -------- limit ------->
//!                 only files      all files,          writers wait
//!                 dirty > 30 s    oldest first        for the flushers
//! ```
//!
//! A flusher takes the file that has been dirty longest and writes all its dirty pages, in ascending order, a
//! few thousand at a time, under the inode's write-back lock (and no other). Pages dirtied meanwhile stay
//! dirty; the file then queues again. The page in which the file ended before it grew is written before any
//! later one, because what media have beyond the old end is garbage, and a later page may let the size on
//! media grow over it. After a failed write the pages count as clean, as in Linux, and the error is
//! remembered until one `fsync` has reported it, also while the inode is not in memory (Linux forgets it with
//! the inode).

use super::Vfs;
use super::io::OpenFile;
use super::node::{NO_TAIL, Node, NodeRef};
use crate::cache::Batch;
use granary_fs::{
    Call, Caller, DirtyPage, DirtyPages, FileKind, FsError, Ino, Inode, Result, WriteBackCause,
};
use granary_sim::sync::Mutex;
use granary_sim::{Signal, Stopper, cpu, now, spawn};
use granary_units::{Nanos, PAGE_SIZE};
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::{Arc, Weak};

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages given to one `write_pages`: 4 MiB, the least that Linux writes of one file before it looks at
/// another (`MIN_WRITEBACK_PAGES`).
const BATCH: usize = 1024;

/// The body of a write-back daemon.
pub(super) fn flusher(vfs: &Weak<Vfs>, stop: &Stopper) {
    let Some(interval) = vfs.upgrade().map(|v| v.config.writeback_interval) else { return };
    while stop.pause(interval) != Signal::Stop {
        match vfs.upgrade() {
            Some(vfs) => vfs.flush_round(stop),
            None => return,
        }
    }
}

/// A use of a node by a daemon of the file system; declared before the node, so that it ends after that.
struct Lent<'a>(&'a [AtomicU64; 2]);

impl Lent<'_> {
    fn new(lent: &[AtomicU64; 2]) -> Lent<'_> {
        lent[0].fetch_add(1, AcqRel);
        Lent(lent)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0[1].fetch_add(1, AcqRel);
    }
}

impl DirtyPages for Vfs {
    fn write_dirty_page(
        &self,
        ino: Ino,
        index: u64,
        may: &dyn Fn(&Inode, u64) -> Result<bool>,
        write: &mut dyn FnMut(&Inode, &DirtyPage) -> Result<()>,
    ) {
        let _lent = Lent::new(&self.lent);
        let Some(node) = self.names.cached(ino) else { return };
        let Some(_quiet) = node.writeback.try_lock() else { return };
        if let Err(e) = self.write_if_dirty(&node, index, may, write) {
            node.remember_error(&e);
        }
    }
}

impl Vfs {
    fn flush_round(&self, stop: &Stopper) {
        while !stop.stopped() {
            let expired = now().0.checked_sub(self.config.dirty_expire.0);
            let due = match (self.cache.over_background(), expired) {
                (true, _) => self.cache.take_dirty(None),
                (false, Some(t)) => self.cache.take_dirty(Some(Nanos(t))),
                (false, None) => None,
            };
            let Some(ino) = due else { break };
            if let Some(node) = self.names.cached(ino) {
                // An error is the node's to remember. Nothing written: all that is dirty lies beyond the end
                // of a file that is just being extended; its writer comes to `throttle` soon.
                let wrote = self.write_back(&self.kernel(), &node, 0..u64::MAX, WriteBackCause::Background);
                self.cache.requeue(&node);
                if wrote == Ok(false) {
                    break;
                }
            }
            self.reap();
        }
        self.kicked.store(false, Relaxed);
        // A file that lost its last name while a flusher or a commit wrote it back: nobody else may ever
        // call.
        self.reap();
    }

    /// Called by writers: wakes the flushers above the background threshold, waits above the limit.
    pub(super) fn throttle(&self) {
        if !self.cache.over_background() {
            return;
        }
        if !self.kicked.swap(true, Relaxed) {
            self.kick();
        }
        if self.cache.over_limit() {
            self.cache.below_limit.wait_while(|| {
                let over = self.cache.over_limit();
                if over && !self.kicked.swap(true, Relaxed) {
                    self.kick();
                }
                over
            });
        }
    }

    fn kick(&self) {
        self.flushers.lock().iter().for_each(|f| f.kick());
    }

    /// Writes the dirty pages of a range of pages; on return the drive has them, and those that somebody else
    /// was writing. Says whether there were any.
    pub(super) fn write_back(
        &self,
        call: &Call<'_>,
        node: &Node,
        pages: Range<u64>,
        why: WriteBackCause,
    ) -> Result<bool> {
        if !self.cache.has_pages(node) {
            return Ok(false);
        }
        let _quiet = node.writeback.lock();
        self.write_old_end(call, node, pages.start, why)?;
        self.write_batches(call, node, pages, true, why)
    }

    /// Writes one page with its lines beyond the end of the file, where the caller has put zeros.
    pub(super) fn write_back_with_tail(
        &self,
        call: &Call<'_>,
        node: &Node,
        page: u64,
        why: WriteBackCause,
    ) -> Result<()> {
        let _quiet = node.writeback.lock();
        self.write_old_end(call, node, page, why)?;
        self.write_batches(call, node, page..page + 1, false, why).map(|_| ())
    }

    /// Before a page from `first` on takes the size on media past it: the page of the old end.
    fn write_old_end(&self, call: &Call<'_>, node: &Node, first: u64, why: WriteBackCause) -> Result<()> {
        let tail = node.tail.load(Relaxed);
        if tail < first {
            self.write_batches(call, node, tail..tail + 1, true, why)?;
        }
        Ok(())
    }

    fn write_batches(
        &self,
        call: &Call<'_>,
        node: &Node,
        mut pages: Range<u64>,
        within_size: bool,
        why: WriteBackCause,
    ) -> Result<bool> {
        let mut batch = Batch::new();
        let mut result = Ok(false);
        // If the file grows from here on, its old end has to be written again: that page may be in a batch
        // that has gone already. The new pages then belong to another call.
        if pages.contains(&node.tail.load(Relaxed)) {
            node.tail.store(NO_TAIL, Relaxed);
        }
        let size = if within_size { node.size() } else { u64::MAX };
        loop {
            let compared = self.cache.gather(node, pages.clone(), BATCH, size, &mut batch);
            if compared > 0 {
                cpu(self.config.compare_page * compared);
            }
            let Some(last) = batch.last() else { return result };
            pages.start = last.index + 1;
            let wrote = self.fs.write_pages(call, node, &batch, why);
            self.cache.written(node, &batch);
            if let Err(e) = &wrote {
                node.remember_error(e);
            }
            result = result.and(wrote.map(|()| true));
            batch.clear();
        }
    }

    fn write_if_dirty(
        &self,
        node: &Node,
        index: u64,
        may: &dyn Fn(&Inode, u64) -> Result<bool>,
        write: &mut dyn FnMut(&Inode, &DirtyPage) -> Result<()>,
    ) -> Result<()> {
        let size = node.size();
        if index * PAGE >= size || !may(node, size.min((index + 1) * PAGE))? {
            return Ok(());
        }
        let mut batch = Batch::new();
        let compared = self.cache.gather(node, index..index + 1, 1, size, &mut batch);
        cpu(self.config.compare_page * compared);
        let wrote = batch.iter().try_for_each(|page| write(node, page));
        self.cache.written(node, &batch);
        wrote
    }

    /// Calls `change`, which may find no space only because dirty pages have more promised than they need:
    /// then again when those of `node`, whose write-back lock is free, have been written, and once more when
    /// all have.
    pub(super) fn with_space<T>(
        &self,
        call: &Call<'_>,
        node: &Node,
        mut change: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let first = change();
        if !matches!(first, Err(FsError::NoSpace)) || !self.features.quirks.reserves_worst_case {
            return first;
        }
        // An error of the write-back is its file's to remember.
        if self.write_back(call, node, 0..u64::MAX, WriteBackCause::Background) == Ok(true) {
            match change() {
                Err(FsError::NoSpace) => {}
                other => return other,
            }
        }
        if !self.write_back_all(call, WriteBackCause::Background) {
            return first;
        }
        change()
    }

    /// Makes the inode durable, for a caller that has no open file of ours.
    ///
    /// # Errors
    /// The file system's; also that of an earlier write-back that nobody was told about.
    pub fn fsync(&self, caller: &Caller, node: &NodeRef, data_only: bool) -> Result<()> {
        self.enter(caller.origin, Nanos::ZERO);
        self.sync_range(&self.call(caller), node, None, 0, u64::MAX, data_only)
    }

    /// Makes the inode of an open file durable.
    ///
    /// # Errors
    /// The file system's; also that of a write-back since the file was opened, once, whoever else was told
    /// about it.
    pub fn fsync_file(&self, caller: &Caller, file: &OpenFile, data_only: bool) -> Result<()> {
        self.enter(caller.origin, Nanos::ZERO);
        self.sync_range(&self.call(caller), file.node(), Some(file), 0, u64::MAX, data_only)
    }

    /// Writes back the pages of a range, and makes the inode durable.
    pub(super) fn sync_range(
        &self,
        call: &Call<'_>,
        node: &NodeRef,
        file: Option<&OpenFile>,
        pos: u64,
        len: u64,
        data_only: bool,
    ) -> Result<()> {
        let end = pos.saturating_add(len).div_ceil(PAGE);
        let wrote = self.write_back(call, node, pos / PAGE..end, WriteBackCause::Sync);
        let told = || file.map_or_else(|| node.take_error(), |file| node.error_since(&file.told));
        if let Some(error) = told().or(wrote.err()) {
            return Err(error);
        }
        // The data of a directory is its entries: programs (SQLite) make names durable with fdatasync, too.
        let done = self.fs.fsync(call, node, data_only && node.attr().kind != FileKind::Dir);
        if let Err(e) = &done {
            // Other open files are to be told, too: a file system below has told this caller, and tells
            // nobody again.
            node.remember_error(e);
        }
        // Where another caller was told meanwhile, that was of this file's data, too.
        let error = told();
        done.and(error.map_or(Ok(()), Err))
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// The file system's; a file's write-back error is left for its `fsync`, as in Linux.
    pub fn sync(self: &Arc<Vfs>, caller: &Caller) -> Result<()> {
        /// Files that one task writes back; more get company, as the kernel does not wait for each in turn.
        const PER_TASK: usize = 16;
        self.enter(caller.origin, Nanos::ZERO);
        let todo = self.cache.dirty_inodes();
        let helpers = (todo.len() / PER_TASK).min(self.config.flushers.saturating_sub(1));
        let todo = Arc::new(Mutex::new(todo.into_iter()));
        let drain = |vfs: Arc<Vfs>, todo: Arc<Mutex<std::vec::IntoIter<_>>>| {
            move || {
                loop {
                    let next = todo.lock().next();
                    let Some(ino) = next else { return };
                    let node = vfs.names.cached(ino).or_else(|| {
                        // The task that lets the node leave memory is writing it back.
                        vfs.names.wait(ino);
                        vfs.names.cached(ino)
                    });
                    if let Some(node) = node {
                        let _ = vfs.write_back(&vfs.kernel(), &node, 0..u64::MAX, WriteBackCause::Sync);
                    }
                }
            }
        };
        let tasks: Vec<_> =
            (0..helpers).map(|_| spawn("sync", drain(Arc::clone(self), Arc::clone(&todo)))).collect();
        drain(Arc::clone(self), todo)();
        tasks.into_iter().for_each(|t| t.join());
        self.reap();
        self.fs.sync(&self.call(caller))
    }

    /// Writes back everything. Says whether there was anything.
    pub(super) fn write_back_all(&self, call: &Call<'_>, why: WriteBackCause) -> bool {
        let write = |ino| self.names.cached(ino).map(|node| self.write_back(call, &node, 0..u64::MAX, why));
        self.cache
            .dirty_inodes()
            .into_iter()
            .filter_map(write)
            .fold(false, |any, wrote| any | (wrote == Ok(true)))
    }
}
