//! Files in memory: mmap, loads and stores through a mapping, msync.
//!
//! ```text
//!   shared    load:  page of the cache                    store: page of the cache, in place
//!             first store to a clean page: a duplicate of it stays behind; write-back compares the two, line
//!             by line
//!   private   load:  own copy, else page of the cache     store: own copy of the page, made by the first
//!                                                         store
//! ```
//!
//! A program in virtual time has no memory that the kernel maps for it, so its loads and stores are calls;
//! what they see and leave is what mmap(2) says. A load or a store is atomic, as if the program held a lock;
//! real ones are atomic by word. Both go from page to page, so no writer may be at work meanwhile: where
//! writers share the inode's lock (`Quirks::parallel_writes`), a load takes it alone, as every store does. A
//! fault (a page that must be read, or is written for the first time since it was clean) costs what a kernel
//! entry costs; a store to a page that is dirty costs its bytes only.
//!
//! On file systems without a page cache a mapping is the media itself (DAX): loads and stores go to
//! `read_direct` and `write_direct`.
//!
//! Invariant: bytes of a cached page beyond the end of the file stay zero: a shared store there is dropped
//! (Linux keeps such bytes until the page leaves memory; they never reach the file either).
//!
//! It does *not* share anonymous memory, change protections or unmap parts of a mapping; a private copy of a
//! page stays when the file is cut (POSIX leaves that open).
//!
//! Source: mmap(2), msync(2); ByteFS section 4.6 (memory-mapped I/O).

use super::io::OpenFile;
use super::node::{Node, NodeRef};
use super::{Vfs, perm};
use crate::cache::Look;
use crate::posix::{MapHow, OpenFlags};
use granary_fs::{Call, Caller, FileKind, FsError, Origin, Result, flag};
use granary_sim::sync::{RwLockReadGuard, RwLockWriteGuard};
use granary_sim::{costs, cpu};
use granary_units::{Dest, Nanos, PAGE_SIZE, Page, Payload};
use std::collections::BTreeMap;

const PAGE: u64 = PAGE_SIZE as u64;

/// A mapped range of a file; keeps its inode in use.
pub struct MemoryMap {
    node: NodeRef,
    pos: u64,
    len: u64,
    how: MapHow,
    /// Own copies of a private mapping, by page of the file.
    own: BTreeMap<u64, Page>,
}

/// A lock under which a file's content does not change; held, never looked into.
enum Still<'a> {
    Shared(#[expect(dead_code, reason = "held until dropped")] RwLockReadGuard<'a, ()>),
    Alone(#[expect(dead_code, reason = "held until dropped")] RwLockWriteGuard<'a, ()>),
}

/// The parts of `pos..pos + len` by page: page, first byte in it, offset in the range, length.
fn parts(pos: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = pos + done as u64;
        let inside = (at % PAGE) as usize;
        let n = (PAGE_SIZE - inside).min(len - done);
        let part = (at / PAGE, inside, done, n);
        done += n;
        (n > 0).then_some(part)
    })
}

impl MemoryMap {
    /// Where in the file an access lies.
    ///
    /// # Errors
    /// `Fault`: beyond the mapping (SIGSEGV).
    fn place(&self, at: u64, len: usize) -> Result<u64> {
        let end = at.checked_add(len as u64).filter(|&end| end <= self.len);
        end.map(|_| self.pos + at).ok_or(FsError::Fault)
    }
}

impl Vfs {
    /// Maps `len` bytes from `pos` on.
    ///
    /// # Errors
    /// `Invalid` for no length or an unaligned position; `NotMappable` for what is no regular file; `Access`
    /// where the file is not open for reading, or for a shared writable mapping not for reading and writing,
    /// or appends; `TooBig`.
    pub fn mmap(&self, file: &OpenFile, pos: u64, len: u64, how: MapHow) -> Result<MemoryMap> {
        self.enter(Origin::Program, Nanos::ZERO);
        let flags = file.flags();
        if len == 0 || !pos.is_multiple_of(PAGE) {
            return Err(FsError::Invalid);
        }
        let writes_file = how.shared && how.write;
        if !flags.reads() || (writes_file && (!flags.writes() || flags.contains(OpenFlags::APPEND))) {
            return Err(FsError::Access);
        }
        if file.node().kind() != FileKind::File {
            return Err(FsError::NotMappable);
        }
        if writes_file && file.node().view(|a| a.flags & flag::APPEND != 0) {
            return Err(FsError::Access);
        }
        pos.checked_add(len).filter(|&end| end <= self.max_file_size()).ok_or(FsError::TooBig)?;
        Ok(MemoryMap { node: file.node().clone(), pos, len, how, own: BTreeMap::new() })
    }

    /// Loads `dest.len()` bytes from place `at` of the mapping.
    ///
    /// # Errors
    /// `Fault` beyond the mapping, and for a page wholly beyond the end of the file (SIGBUS); those of
    /// reading, which a program sees as SIGBUS, too.
    pub fn map_load(&self, caller: &Caller, map: &MemoryMap, at: u64, mut dest: Dest<'_>) -> Result<()> {
        let pos = map.place(at, dest.len())?;
        cpu(costs().copy(dest.len()));
        let node = &*map.node;
        let _still = self.keep_still(node);
        check_end(node, pos, dest.len(), &map.own)?;
        for (page, inside, done, n) in parts(pos, dest.len()) {
            let mut part = dest.part(done, n);
            match map.own.get(&page) {
                Some(own) => part.copy_from(own, inside),
                None => part.copy_from(&self.page_in(&self.call(caller), node, page)?, inside),
            }
        }
        Ok(())
    }

    /// Stores `data` at place `at` of the mapping.
    ///
    /// # Errors
    /// As [`Vfs::map_load`]; `Fault` where the mapping is not writable; `NoSpace` where a hole of the file
    /// gets no block (SIGBUS), `NotPermitted` where its flags have forbidden it since.
    pub fn map_store(&self, caller: &Caller, map: &mut MemoryMap, at: u64, data: Payload<'_>) -> Result<()> {
        let pos = map.place(at, data.len())?;
        if !map.how.write {
            return Err(FsError::Fault);
        }
        if data.is_empty() {
            return Ok(());
        }
        cpu(costs().copy(data.len()));
        if !map.how.shared {
            return self.store_private(&self.call(caller), map, pos, data);
        }
        let node = &*map.node;
        {
            let _lock = node.rwsem.write();
            check_end(node, pos, data.len(), &BTreeMap::new())?;
            node.view(|a| perm::content_may_change(a, false))?;
            let inside = data.part(0, (data.len() as u64).min(node.size().saturating_sub(pos)) as usize);
            if !inside.is_empty() {
                self.store_shared(caller, node, pos, inside)?;
                self.effects.mark();
            }
        }
        self.throttle();
        Ok(())
    }

    /// The inode's lock against all writers: see the module's text.
    fn keep_still<'a>(&self, node: &'a Node) -> Still<'a> {
        match self.features.quirks.parallel_writes {
            true => Still::Alone(node.rwsem.write()),
            false => Still::Shared(node.rwsem.read()),
        }
    }

    fn store_private(&self, call: &Call<'_>, map: &mut MemoryMap, pos: u64, data: Payload<'_>) -> Result<()> {
        let node = &*map.node;
        let _still = self.keep_still(node);
        check_end(node, pos, data.len(), &map.own)?;
        // All pages first: a store that fails changes nothing.
        let mut pages = Vec::new();
        for (page, inside, done, n) in parts(pos, data.len()) {
            let mut own = match map.own.get(&page) {
                Some(own) => own.clone(),
                None => {
                    cpu(costs().syscall + costs().page + costs().copy(PAGE_SIZE));
                    self.page_in(call, node, page)?
                }
            };
            own.write(inside, data.part(done, n));
            pages.push((page, own));
        }
        map.own.extend(pages);
        Ok(())
    }

    /// The range lies within the file, which is locked.
    fn store_shared(&self, caller: &Caller, node: &Node, pos: u64, data: Payload<'_>) -> Result<()> {
        let call = &self.call(caller);
        if !self.features.cache.writes {
            return self.store_direct(call, node, pos, data);
        }
        self.with_space(call, node, || self.fs.reserve(call, node, pos, data.len() as u64))?;
        let duplicates = loop {
            match self.cache.store(node, pos, data) {
                Ok(duplicates) => break duplicates,
                Err(page) => {
                    cpu(costs().syscall + costs().page);
                    self.fill(call, node, page, 1)?;
                }
            }
        };
        if duplicates > 0 {
            // `page_mkwrite`: the first store since the page was clean.
            cpu((costs().syscall + costs().page + costs().copy(PAGE_SIZE)) * duplicates);
            self.fs.wrote(call, node, pos, data.len() as u64)?;
        }
        Ok(())
    }

    /// A page of the file, read where it is not in memory. The inode is locked, shared at least.
    pub(super) fn page_in(&self, call: &Call<'_>, node: &Node, page: u64) -> Result<Page> {
        let mut got = [Page::ZERO];
        if !self.features.cache.any() {
            let len = (node.size().saturating_sub(page * PAGE)).min(PAGE) as usize;
            let mut bytes = [0; PAGE_SIZE];
            self.fs.read_direct(call, node, page * PAGE, Dest::Bytes(&mut bytes[..len]))?;
            return Ok(Page::from_bytes(&bytes));
        }
        loop {
            match self.cache.look(node, page, &mut got) {
                Look::Found(_) => {
                    let [page] = got;
                    return Ok(page);
                }
                Look::Filling => node.filled.wait_while(|| self.cache.is_filling(node, page)),
                Look::Missing => self.fill(call, node, page, 1)?,
            }
        }
    }

    /// Makes what was stored into `len` bytes from place `at` of a shared mapping durable, with all else in
    /// these pages of the file. Without `wait` (MS_ASYNC) it does nothing, as in Linux.
    ///
    /// # Errors
    /// `Invalid` for an unaligned place; `Fault` beyond the mapping; those of `fsync`.
    pub fn msync(&self, caller: &Caller, map: &MemoryMap, at: u64, len: u64, wait: bool) -> Result<()> {
        self.enter(caller.origin, Nanos::ZERO);
        if !at.is_multiple_of(PAGE) {
            return Err(FsError::Invalid);
        }
        let len = usize::try_from(len).map_err(|_| FsError::Fault)?;
        let pos = map.place(at, len)?;
        if wait && map.how.shared && len > 0 {
            // Linux: vfs_fsync_range(..., datasync = 1).
            self.sync_range(&self.call(caller), &map.node, None, pos, len as u64, true)?;
        }
        Ok(())
    }
}

/// Whether all pages of an access are there: those that hold a byte of the file, or have an own copy.
fn check_end(node: &Node, pos: u64, len: usize, own: &BTreeMap<u64, Page>) -> Result<()> {
    let pages = node.size().div_ceil(PAGE);
    let there = parts(pos, len).all(|(page, ..)| page < pages || own.contains_key(&page));
    if there { Ok(()) } else { Err(FsError::Fault) }
}
