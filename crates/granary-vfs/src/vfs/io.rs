//! Open files, and reading and writing them through the page cache.
//!
//! ```text
//!   read:   [cached pages] copy -> [missing] one reader fills, with read-ahead, others wait -> copy ...
//!   write:  zero gap after the old end | reserve -> fill pages written in part -> dirty lines
//!           -> wrote (size, times)
//! ```
//!
//! A read holds `rwsem` shared and a write exclusively for the whole call, so that each is atomic.

use super::node::{Node, NodeRef};
use super::{Vfs, perm};
use crate::cache::Look;
use crate::posix::{Access, OpenFlags};
use crate::vfs::attrs::Change;
use granary_fs::{Call, Caller, FileKind, FsError, Result, SetAttr, WriteBackCause};
use granary_sim::sync::RwLockReadGuard;
use granary_sim::{costs, cpu};
use granary_units::{Dest, Nanos, PAGE_SIZE, Page, Payload};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages dirtied, or read from the drive, in one step; bounds what a step holds on to. 1 MiB.
const STEP: u64 = 256;
/// Pages handed over from the cache at once.
const BATCH: usize = 16;

/// An open file: a node, how it was opened, and where the last read ended.
pub struct OpenFile {
    pub(super) node: NodeRef,
    pub(super) flags: OpenFlags,
    /// Page at which a sequential read would go on; `None`: the node knows.
    next: Option<AtomicU64>,
    /// Errors of write-backs that it has been told of.
    pub(super) told: AtomicU32,
}

impl OpenFile {
    /// The node.
    pub fn node(&self) -> &NodeRef {
        &self.node
    }

    /// How it was opened.
    pub fn flags(&self) -> OpenFlags {
        self.flags
    }

    fn next(&self) -> &AtomicU64 {
        self.next.as_ref().unwrap_or(&self.node.next_read)
    }
}

impl Vfs {
    /// Opens a node; with `TRUNC` cuts it. `created`: the caller just created it, permissions do not matter.
    ///
    /// # Errors
    /// `Loop` for a symbolic link; `IsDir` for writing a directory; `NotDir` with `DIRECTORY`; `Access`;
    /// `NotPermitted` with `NOATIME` unless owner, or where the file's flags forbid it; `NoDevice` for
    /// special files; the file system's.
    pub fn open(&self, caller: &Caller, node: NodeRef, flags: OpenFlags, created: bool) -> Result<OpenFile> {
        let truncates = flags.contains(OpenFlags::TRUNC) && !created;
        if flags.contains(OpenFlags::DIRECTORY) && !node.is_dir() {
            return Err(FsError::NotDir);
        }
        match node.kind() {
            FileKind::Symlink => return Err(FsError::Loop),
            FileKind::Dir if flags.writes() || truncates => return Err(FsError::IsDir),
            _ => {}
        }
        if !created {
            let mut wanted = Access::empty();
            wanted.set(Access::READ, flags.reads());
            wanted.set(Access::WRITE, flags.writes() || truncates);
            self.allow(&self.call(caller), &node, wanted)?;
        }
        if flags.writes() || truncates {
            let appends = flags.contains(OpenFlags::APPEND) && !truncates;
            node.view(|a| perm::content_may_change(a, appends))?;
        }
        if flags.contains(OpenFlags::NOATIME) && !node.view(|a| perm::owns(&caller.cred, a)) {
            return Err(FsError::NotPermitted);
        }
        if !matches!(node.kind(), FileKind::File | FileKind::Dir) {
            return Err(FsError::NoDevice);
        }
        if truncates {
            self.setattr(caller, &node, &Change::size(0))?;
        }
        self.fs.opened(&self.call(caller), &node)?;
        let told = AtomicU32::new(node.errors());
        Ok(OpenFile { node, flags, next: Some(AtomicU64::new(0)), told })
    }

    /// An open file for a single call, of a kernel that keeps its open files to itself and has checked
    /// permissions. It is dropped, not closed; a sequential read goes on where the last such call to this
    /// node ended, and a write with `APPEND` goes where the kernel, which knows the end, has placed it.
    ///
    /// # Errors
    /// `Loop` for a symbolic link; `IsDir`; `NoDevice` for special files.
    pub fn open_for_call(&self, node: NodeRef, flags: OpenFlags) -> Result<OpenFile> {
        match node.kind() {
            FileKind::File => {
                let told = AtomicU32::new(node.errors());
                Ok(OpenFile { node, flags, next: None, told })
            }
            FileKind::Dir => Err(FsError::IsDir),
            FileKind::Symlink => Err(FsError::Loop),
            _ => Err(FsError::NoDevice),
        }
    }

    /// Closes an open file; the last close of a file without links frees it.
    pub fn close(&self, caller: &Caller, file: OpenFile) {
        let call = self.call(caller);
        if file.flags.writes() {
            self.flush_closed(&call, &file.node);
        }
        self.fs.closed(&call, &file.node);
        drop(file);
        self.reap();
    }

    /// Writes back what is dirty of a file that was open for writing, where the file system wants that.
    pub(crate) fn flush_closed(&self, call: &Call<'_>, node: &Node) {
        if self.fs.flush_on_close(call, node) {
            // An error is the node's to remember: close does not wait for the disk, in Linux's terms.
            let _ = self.write_back(call, node, 0..u64::MAX, WriteBackCause::Background);
        }
    }

    /// Whether the cache is passed by where it does (`cached`) serve such calls: the file was opened so.
    fn is_direct(&self, file: &OpenFile, cached: bool) -> bool {
        !cached || file.flags.contains(OpenFlags::DIRECT) && self.features.direct_io
    }

    /// The context of a call that moves bytes of an open file.
    fn io_call<'a>(&self, caller: &'a Caller, file: &OpenFile) -> Call<'a> {
        Call { direct: file.flags.contains(OpenFlags::DIRECT), ..self.call(caller) }
    }

    /// Reads up to `dest.len()` bytes from `pos`; fewer only at the end of the file.
    ///
    /// # Errors
    /// `BadFd` where it is not open for reading; `IsDir`; the file system's, where not a byte could be read.
    pub fn read(&self, caller: &Caller, file: &OpenFile, pos: u64, mut dest: Dest<'_>) -> Result<usize> {
        let node = &file.node;
        if !file.flags.reads() {
            return Err(FsError::BadFd);
        }
        if node.is_dir() {
            return Err(FsError::IsDir);
        }
        let c = costs();
        let _shared = node.rwsem.read();
        let len = node.size().saturating_sub(pos).min(dest.len() as u64) as usize;
        if len == 0 {
            self.enter(caller.origin, Nanos::ZERO);
            return Ok(0);
        }
        let pages = (pos + len as u64 - 1) / PAGE - pos / PAGE + 1;
        let call = self.io_call(caller, file);
        let done = if self.is_direct(file, self.features.cache.reads) {
            self.enter(caller.origin, Nanos::ZERO);
            self.read_past_cache(&call, node, pos, dest.part(0, len))?;
            len
        } else {
            self.enter(caller.origin, c.page * pages + c.copy(len));
            self.read_cached(&call, file, pos, dest.part(0, len))?
        };
        if !file.flags.contains(OpenFlags::NOATIME) {
            self.touch_atime(&call, node);
        }
        Ok(done)
    }

    fn read_cached(&self, call: &Call<'_>, file: &OpenFile, pos: u64, mut dest: Dest<'_>) -> Result<usize> {
        let node = &*file.node;
        let (len, first) = (dest.len(), pos / PAGE);
        let end = (pos + len as u64).div_ceil(PAGE);
        let next = file.next().swap(end, Relaxed);
        // Linux: from the start, on where the last read ended, or again on its last, partly read page.
        let sequential = first == 0 || first == next || first + 1 == next;
        let mut done = 0;
        while done < len {
            let at = pos + done as u64;
            let mut got = [const { Page::ZERO }; BATCH];
            let want = (end - at / PAGE).min(BATCH as u64) as usize;
            match self.cache.look(node, at / PAGE, &mut got[..want]) {
                Look::Found(n) => {
                    for page in &got[..n] {
                        let from = ((pos + done as u64) % PAGE) as usize;
                        let part = (PAGE_SIZE - from).min(len - done);
                        dest.part(done, part).copy_from(page, from);
                        done += part;
                    }
                }
                Look::Filling => node.filled.wait_while(|| self.cache.is_filling(node, at / PAGE)),
                Look::Missing => {
                    let wanted = (end - at / PAGE).min(STEP);
                    if let Err(e) = self.fill_ahead(call, node, at / PAGE, wanted, sequential) {
                        return if done > 0 { Ok(done) } else { Err(e) };
                    }
                }
            }
        }
        Ok(done)
    }

    /// Reads the missing page `first` and the missing pages next to it: as many as wanted, or the read-ahead
    /// window.
    fn fill_ahead(
        &self,
        call: &Call<'_>,
        node: &Node,
        first: u64,
        wanted: u64,
        sequential: bool,
    ) -> Result<()> {
        let window = if sequential { self.config.read_ahead.0 / PAGE } else { 0 };
        let end_of_file = node.size().div_ceil(PAGE);
        let count = wanted.max(window).min(end_of_file - first);
        match self.fill(call, node, first, count) {
            // The drive may have failed beyond what the caller wants.
            Err(_) if count > wanted => self.fill(call, node, first, wanted),
            other => other,
        }
    }

    /// Reads up to `count` missing pages from `first` on into the cache.
    pub(super) fn fill(&self, call: &Call<'_>, node: &Node, first: u64, count: u64) -> Result<()> {
        let count = self.cache.begin_fill(node, first, count);
        if count == 0 {
            return Ok(());
        }
        let mut pages = vec![Page::ZERO; count];
        let result = self.fs.read_pages(call, node, first, &mut pages);
        self.cache.end_fill(node, first, count, result.is_ok().then_some(pages), node.size());
        node.filled.open();
        result
    }

    /// Writes at `pos` (`APPEND`: at the end). Returns where the write began and how many bytes were written.
    ///
    /// # Errors
    /// `BadFd` where it is not open for writing; `NotPermitted` where its flags forbid it; `TooBig` at the
    /// largest size; `NoSpace` and the file system's, where not a byte could be written.
    pub fn write(
        &self,
        caller: &Caller,
        file: &OpenFile,
        pos: u64,
        data: Payload<'_>,
    ) -> Result<(u64, usize)> {
        if !file.flags.writes() {
            return Err(FsError::BadFd);
        }
        self.enter(caller.origin, Nanos::ZERO);
        if data.is_empty() {
            return Ok((pos, 0));
        }
        let node = &file.node;
        let written = {
            let appends = file.flags.contains(OpenFlags::APPEND);
            let end = pos.saturating_add(data.len() as u64);
            let _shared = (!appends && self.features.quirks.parallel_writes)
                .then(|| self.shared_for_write(node, caller, end))
                .flatten();
            let _alone = _shared.is_none().then(|| node.rwsem.write());
            node.view(|a| perm::content_may_change(a, appends))?;
            let pos = if appends && file.next.is_some() { node.size() } else { pos };
            let room = self.features.max_file_size.saturating_sub(pos);
            if room == 0 {
                return Err(FsError::TooBig);
            }
            let data = data.part(0, (data.len() as u64).min(room) as usize);
            let call = self.io_call(caller, file);
            if let Some(mode) = node.view(|a| perm::mode_after_write(call.cred, a)) {
                self.fs.setattr(&call, node, &SetAttr { mode: Some(mode), ..SetAttr::default() })?;
            }
            let n = if self.is_direct(file, self.features.cache.writes) {
                self.with_space(&call, node, || self.write_past_cache(&call, node, pos, data))?;
                data.len()
            } else {
                self.write_cached(&call, node, pos, data)?
            };
            self.effects.mark();
            (pos, n)
        };
        if file.flags.contains(OpenFlags::DSYNC) {
            let data_only = !file.flags.contains(OpenFlags::SYNC);
            self.sync_range(&self.call(caller), node, Some(file), written.0, written.1 as u64, data_only)?;
        }
        self.throttle();
        Ok(written)
    }

    /// The lock of a write up to `end` that changes neither size nor mode; `None` where it does.
    fn shared_for_write<'a>(
        &self,
        node: &'a Node,
        caller: &Caller,
        end: u64,
    ) -> Option<RwLockReadGuard<'a, ()>> {
        let shared = node.rwsem.read();
        let within = end <= node.size();
        (within && node.view(|a| perm::mode_after_write(&caller.cred, a)).is_none()).then_some(shared)
    }

    fn write_cached(&self, call: &Call<'_>, node: &Node, pos: u64, data: Payload<'_>) -> Result<usize> {
        let (c, mut done, mut most) = (costs(), 0, STEP * PAGE);
        while done < data.len() {
            let at = pos + done as u64;
            let step = ((most - at % PAGE) as usize).min(data.len() - done);
            let pages = (at % PAGE + step as u64).div_ceil(PAGE);
            cpu(c.page * pages + c.copy(step));
            let part = data.part(done, step);
            let wrote = self.with_space(call, node, || self.write_step(call, node, at, part));
            if pages > 1 && wrote == Err(FsError::NoSpace) {
                // Retry with half the pages: those that fit are written.
                most = pages / 2 * PAGE;
                continue;
            }
            match wrote.and_then(|()| self.write_through(call, node, at, step as u64)) {
                Ok(()) => done += step,
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
            if done < data.len() {
                self.throttle();
            }
        }
        Ok(done)
    }

    /// Gives what a call changed to a file system that wants it at once.
    pub(super) fn write_through(&self, call: &Call<'_>, node: &Node, pos: u64, len: u64) -> Result<()> {
        if !self.features.quirks.writes_through || !self.features.cache.writes {
            return Ok(());
        }
        // With the page of the old end, so that the file does not grow in two steps.
        let first = node.tail.load(Relaxed).min(pos / PAGE);
        self.write_back(call, node, first..(pos + len).div_ceil(PAGE), WriteBackCause::Background).map(drop)
    }

    fn write_step(&self, call: &Call<'_>, node: &Node, pos: u64, data: Payload<'_>) -> Result<()> {
        let old = node.size();
        let gap_end = pos.min(old.next_multiple_of(PAGE));
        if gap_end > old && !self.is_empty_page(call, node, old / PAGE)? {
            self.dirty(call, node, old, Payload::Fill { word: 0, len: (gap_end - old) as usize }, old)?;
        }
        let dirtied = self.dirty(call, node, pos, data, old);
        // Before the size grows, so that no write-back of a later page misses it; and after, because one that
        // came between has written the page as it was and taken the mark away.
        let mark = || {
            if !old.is_multiple_of(PAGE) {
                node.tail.fetch_min(old / PAGE, Relaxed);
            }
        };
        if pos + data.len() as u64 > old {
            mark();
        }
        let result = dirtied.and_then(|()| self.fs.wrote(call, node, pos, data.len() as u64));
        if node.size() > old {
            mark();
        }
        if result.is_err() && node.size() == old {
            let _quiet = node.writeback.lock();
            self.cache.truncate(node, old);
        }
        result
    }

    /// Puts `data` into the cache and marks its lines dirty. `old`: the file's size; pages from there on are
    /// new.
    pub(super) fn dirty(
        &self,
        call: &Call<'_>,
        node: &Node,
        pos: u64,
        data: Payload<'_>,
        old: u64,
    ) -> Result<()> {
        self.fs.reserve(call, node, pos, data.len() as u64)?;
        self.put(call, node, pos, data, old)
    }

    /// The same for a range that has its space.
    pub(super) fn put(
        &self,
        call: &Call<'_>,
        node: &Node,
        pos: u64,
        data: Payload<'_>,
        old: u64,
    ) -> Result<()> {
        // Filling waits, and a page filled before may be gone again by then: look until all are there.
        loop {
            match self.cache.write(node, pos, data, old) {
                Ok(0) => return Ok(()),
                Ok(duplicates) => {
                    cpu(costs().copy(PAGE_SIZE) * duplicates);
                    return Ok(());
                }
                Err(page) => self.fill(call, node, page, 1)?,
            }
        }
    }
}
