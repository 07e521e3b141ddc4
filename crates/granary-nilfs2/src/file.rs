//! Content of files: promised, staged, read, cut.
//!
//! ```text
//!   reserve      room for a block each, whether it is there or not: every page is written to a new place
//!   write_pages  pages are staged: they are in the next log, of the file's data (fdatasync) or of everything
//!   a log        pulls what the vfs has dirty, of all files (construct.rs)
//! ```
//!
//! The vfs counts pages as clean when they are staged. Until a log has them readers get them from here, so
//! nobody sees old content.

use crate::dat::Virtual;
use crate::fs::{Held, Nilfs2};
use crate::layout::BS;
use crate::log::Kind;
use crate::space::Want;
use crate::state::{Node, Promise, State};
use granary_device::Structure;
use granary_fs::{Attributes, Call, Data, DirtyPage, FsError, Inode, Result, SetAttr, WriteBackCause};
use granary_kit::work::Kind as Work;
use granary_sim::{costs, cpu, now};
use granary_units::Page;
use std::sync::atomic::Ordering::Relaxed;

impl State {
    /// The inode in memory.
    pub fn held(&mut self, ino: u64) -> Result<&mut Node> {
        self.nodes.get_mut(&ino).ok_or(FsError::Stale)
    }

    /// The vfs's attributes are newer than the ifile's.
    pub fn note(&mut self, inode: &Inode) {
        if let Some(node) = self.nodes.get_mut(&inode.ino().0) {
            let blocks = node.shown_blocks();
            inode.update(|a| a.blocks = blocks);
            node.attr = inode.attr();
            node.attr_dirty = true;
            self.dirty.insert(inode.ino().0);
            self.changed();
        }
    }
}

impl Nilfs2 {
    /// Changes what is in memory; no log is made meanwhile.
    pub(crate) fn operate<T>(&self, change: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        self.may_change()?;
        let _op = self.ops.read();
        self.working()?;
        let mut s = self.state.lock();
        let began = s.dirty_since.is_none();
        let result = change(&mut s);
        let kick = began && s.dirty_since.is_some() || s.pending >= self.options.watermark as u64;
        drop(s);
        if kick {
            self.kick();
        }
        result
    }

    /// Promises blocks for pages that are about to be dirtied.
    pub(crate) fn promise(&self, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.may_change()?;
        let (ino, pages) = (inode.ino().0, pos / BS..(pos + len).div_ceil(BS));
        let missing = |s: &mut State| -> Result<Vec<(u64, bool)>> {
            let State { nodes, dat, .. } = s;
            let node = nodes.get_mut(&ino).ok_or(FsError::Stale)?;
            let mut from = Virtual { media: &self.media, dat };
            let all = pages.clone().filter(|i| !node.promised.contains_key(i));
            let all: Vec<u64> = all.collect();
            all.into_iter()
                .map(|i| {
                    let there =
                        node.file.dirty.contains(&i) || node.file.tree.lookup(i, &mut from)?.is_some();
                    Ok((i, !there))
                })
                .collect()
        };
        loop {
            let (todo, fits) = {
                let mut s = self.state.lock();
                let todo = missing(&mut s)?;
                let new = todo.iter().filter(|(_, new)| *new).count() as u64;
                let fits = todo.is_empty() || s.has_space(Want::Grow, todo.len() as u64, new, 0);
                ((todo.len() as u64, new), fits)
            };
            if !fits {
                self.space_for(Want::Grow, todo.0, todo.1, 0)?;
            }
            let done = self.operate(|s| {
                let todo = missing(s)?;
                let new = todo.iter().filter(|(_, new)| *new).count() as u64;
                if !todo.is_empty() && !s.has_space(Want::Grow, todo.len() as u64, new, 0) {
                    return Ok(None);
                }
                let node = s.held(ino)?;
                let mut runs = 0;
                for (i, new) in &todo {
                    let beside = [i.checked_sub(1), Some(i + 1)].into_iter().flatten();
                    runs += u64::from(!beside.into_iter().any(|i| node.promised.contains_key(&i)));
                    node.promised.insert(*i, Promise { new: *new, at: now() });
                }
                node.new_blocks += new;
                let blocks = node.shown_blocks();
                inode.update(|a| a.blocks = blocks);
                s.promising.insert(ino);
                s.pending += todo.len() as u64;
                s.pending_new += new;
                s.runs += runs;
                s.changed();
                Ok(Some(new))
            })?;
            if let Some(new) = done {
                cpu(costs().delayed_page * new);
                return Ok(());
            }
        }
    }

    /// Reads consecutive pages; holes are zeros. Takes no lock while it reads: where segments were taken
    /// again meanwhile, or old addresses ended, what was looked up may name something else, so everything is
    /// read once more.
    pub(crate) fn read_run(&self, ino: u64, first: u64, out: &mut [Page]) -> Result<()> {
        loop {
            let (mut wanted, mut addrs) = (Vec::new(), Vec::new());
            let before = {
                let mut s = self.state.lock();
                s.node(ino, &self.media)?;
                let before = (s.segs.reuses, self.media.era());
                let State { nodes, dat, .. } = &mut *s;
                let node = nodes.get_mut(&ino).ok_or(FsError::Stale)?;
                for (i, page) in out.iter_mut().enumerate() {
                    let index = first + i as u64;
                    if let Some(staged) = node.file.pages.get(&index) {
                        *page = staged.clone();
                        continue;
                    }
                    match node.file.tree.lookup(index, &mut Virtual { media: &self.media, dat })? {
                        None => *page = Page::ZERO,
                        Some(vblk) => {
                            wanted.push(i);
                            addrs.push(dat.address(vblk, &self.media)?);
                        }
                    }
                }
                before
            };
            let mut pages = vec![Page::ZERO; addrs.len()];
            let ticket = self.media.submit_reads(&addrs, &mut pages, Structure::Data)?;
            self.media.port.wait(ticket);
            wanted.into_iter().zip(pages).for_each(|(i, page)| out[i] = page);
            if (self.state.lock().segs.reuses, self.media.era()) == before {
                return Ok(());
            }
        }
    }

    /// Whether a page that is cut has to be written again (`block_truncate_page` makes it dirty).
    pub(crate) fn has_block(&self, ino: u64, size: u64) -> Result<bool> {
        if size.is_multiple_of(BS) {
            return Ok(false);
        }
        let mut s = self.state.lock();
        s.node(ino, &self.media)?;
        let State { nodes, dat, .. } = &mut *s;
        let Some(node) = nodes.get_mut(&ino) else { return Ok(false) };
        Ok(node.file.tree.lookup(size / BS, &mut Virtual { media: &self.media, dat })?.is_some())
    }

    /// The first block at or after one that holds data, or is promised.
    pub(crate) fn next_block(&self, ino: u64, index: u64) -> Result<Option<u64>> {
        let mut s = self.state.lock();
        s.node(ino, &self.media)?;
        let State { nodes, dat, .. } = &mut *s;
        let Some(node) = nodes.get_mut(&ino) else { return Ok(None) };
        let mapped =
            node.file.tree.next(index, &mut Virtual { media: &self.media, dat })?.map(|(key, _)| key);
        let promised = node.promised.range(index..).next().map(|(i, _)| *i);
        let dirty = node.file.dirty.range(index..).next().copied();
        Ok([mapped, promised, dirty].into_iter().flatten().min())
    }

    /// Something changes, which a log has to wait for: the daemon's timer runs.
    pub(crate) fn kick(&self) {
        if !self.recovering.load(Relaxed) {
            self.daemons.lock().iter().take(1).for_each(|d| d.kick());
        }
    }
}

impl Data for Nilfs2 {
    // As in the kernel direct writes go through the page cache.
    granary_fs::file_system_lacks!(direct, flush_on_close);

    fn read_pages(&self, _call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        self.read_run(inode.ino().0, first, out)
    }

    fn reserve(&self, _call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.promise(inode, pos, len)
    }

    /// Size and times after pages were dirtied.
    fn wrote(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        let end = pos + len;
        self.operate(|s| {
            let grew = inode.update(|a| a.wrote(end, call.time));
            s.note(inode);
            s.held(inode.ino().0)?.grew |= grew;
            Ok(())
        })
    }

    /// Stages dirty pages.
    fn write_pages(
        &self,
        _call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _why: WriteBackCause,
    ) -> Result<()> {
        let Some(last) = pages.last() else { return Ok(()) };
        let ino = inode.ino().0;
        self.operate(|s| {
            let blocks = |s: &mut State| -> Result<bool> {
                let State { nodes, dat, .. } = s;
                let node = nodes.get_mut(&ino).ok_or(FsError::Stale)?;
                let mut from = Virtual { media: &self.media, dat };
                let mut new = false;
                for p in pages {
                    new |= node.file.tree.lookup(p.index, &mut from)?.is_none();
                }
                Ok(new)
            };
            let new = blocks(s)?;
            pages.iter().for_each(|p| s.stage(ino, p.index, p.page.clone()));
            let end = last.end().min(inode.size());
            let node = s.held(ino)?;
            node.grew |= new || end > node.media_size;
            node.media_size = node.media_size.max(end);
            node.attr_dirty |= new;
            Ok(())
        })?;
        cpu(Work::WriteBack.inodes());
        // Memory is not for what the vfs has given up: that much staged data gets its log at once.
        let limit = 4 * self.options.watermark as u64;
        if self.state.lock().pending > limit {
            self.construct_if(&mut |s| (s.pending > limit).then_some(Kind::Full))?;
        }
        Ok(())
    }

    fn fsync(&self, _call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()> {
        self.sync_inode(inode, data_only)
    }

    fn rewrites_cut_page(&self, _call: &Call<'_>, inode: &Inode, size: u64) -> Result<bool> {
        self.has_block(inode.ino().0, size)
    }
}

impl Attributes for Nilfs2 {
    granary_fs::file_system_lacks!(xattrs);

    /// Changes attributes; with a size, frees what lies behind it.
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        let (ino, old) = (inode.ino().0, inode.size());
        self.space_for(Want::Free, 0, 0, 2)?;
        self.operate(|s| {
            if let Some(size) = set.size {
                s.cut(ino, size.div_ceil(BS), &self.media)?;
                let node = s.held(ino)?;
                node.media_size = size;
            }
            s.held(ino)?.needs_root = true;
            inode.update(|a| a.set(set, call.time));
            s.misc += 1;
            s.note(inode);
            Ok(())
        })?;
        let kind = if set.size.is_some_and(|size| size < old) { Work::Truncate } else { Work::Attributes };
        cpu(kind.inodes() + costs().inode_dirty);
        Ok(())
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        if self.options.cp.is_none() {
            inode.update(|a| a.accessed(call.time));
            // Readers do not wait for logs: the next one has it, or the one after.
            self.state.lock().note(inode);
            self.kick();
        }
        Ok(())
    }

    fn generation(&self, inode: &Inode) -> u32 {
        inode.private::<Held>().generation
    }
}
