//! Files: reading, writing in place, truncating.
//!
//! ```text
//!   write, all mapped       data (movnt) | fence where the size grows | times and size: one line | fence
//!   write, some holes       new blocks <── zeros at the edges + data | transaction: pointers, inode
//!   truncate                truncate item | fence | list head | fence | zeros to the end of the page,
//!                           pointers := 0, inode | fence | head back | fence
//! ```
//!
//! A truncation zeroes the rest of the last page behind the new end (`pmfs_block_truncate_page`). The list
//! has the inode until the zeros are safe, and recovery zeroes again. A power failure may leave garbage of a
//! write there. Where the bytes are not known to be zero, they are zeroed and fenced before the file grows
//! over them. Source: PMFS sections 3.2 and 3.3; reference/baselines.md sections 7.3 and 7.4.

use crate::fs::{Pmfs, node};
use crate::layout::LIST_HEAD;
use crate::layout::inode::{Tree, bytes};
use crate::namespace::inode_edit;
use crate::tree::Mapping;
use granary_device::Structure;
use granary_fs::{Attr, Attributes, Call, Data, DirtyPage, FsError, Inode, Result, SetAttr, WriteBackCause};
use granary_pm::{BLOCK, Batch, From, Keep, pages};
use granary_units::{Dest, PAGE_SIZE, Page, Payload};
use std::sync::atomic::Ordering::Relaxed;

const INODE: Structure = Structure::Inode;
/// Pages written in one transaction at most, where a redo log has no less room.
const STEP: u64 = 512;

/// Whether growth from one size to another gives a file another last page: a new one, zero but for what is
/// written, or one that lay wholly beyond the end, which is zero (fallocate.rs).
fn new_last_page(old: u64, new: u64) -> bool {
    new.div_ceil(BLOCK) > old.div_ceil(BLOCK)
}

impl Pmfs {
    /// Reads `pos..pos + dest.len()`, which lies within the file.
    pub(crate) fn read_file(&self, inode: &Inode, pos: u64, mut dest: Dest<'_>) -> Result<()> {
        let tree = *node(inode).tree.read();
        let (len, mut done) = (dest.len(), 0);
        let mut pages = [const { Page::ZERO }; 32];
        while done < len {
            let at = pos + done as u64;
            let from = (at % BLOCK) as usize;
            let wanted = ((from + len - done) as u64).div_ceil(BLOCK).min(pages.len() as u64);
            let blocks = self.blocks(tree, at / BLOCK, wanted)?;
            let mut skip = from;
            for run in blocks.chunk_by(|a, b| if *a == 0 { *b == 0 } else { a + 1 == *b }) {
                let n = (run.len() * PAGE_SIZE - skip).min(len - done);
                let mut part = dest.part(done, n);
                if run[0] == 0 {
                    part.zero();
                } else {
                    let out = &mut pages[..run.len()];
                    self.pm.load_pages(run[0] * BLOCK + skip as u64, n, out, Structure::Data)?;
                    let mut copied = 0;
                    for page in out.iter() {
                        let start = if copied == 0 { skip } else { 0 };
                        let m = (PAGE_SIZE - start).min(n - copied);
                        part.part(copied, m).copy_from(page, start);
                        copied += m;
                    }
                }
                (done, skip) = (done + n, 0);
            }
        }
        Ok(())
    }

    /// Pages written in one transaction at most: data, new nodes and pointers are half of what a redo log
    /// takes at once.
    fn step(&self) -> u64 {
        match self.pm.redo() {
            Some(redo) if redo.keep() == Keep::Storage => {
                (redo.most_in_transaction() / 2 / BLOCK).clamp(1, STEP)
            }
            _ => STEP,
        }
    }

    /// Stores whole blocks that nothing leads to yet, as many in one transaction as a redo log takes.
    pub(crate) fn store_fresh<'p>(
        &self,
        b: &mut Batch<'_>,
        pages: impl Iterator<Item = (u64, &'p Page)>,
        what: Structure,
    ) -> Result<()> {
        let step = self.pm.redo().filter(|redo| redo.keep() == Keep::Storage).map(|_| self.step());
        for (n, (block, page)) in (1..).zip(pages) {
            b.stream_page(block, page, what)?;
            if step.is_some_and(|step| n % step == 0) {
                b.fence()?;
            }
        }
        Ok(())
    }

    fn write_step(
        &self,
        b: &mut Batch<'_>,
        call: &Call<'_>,
        inode: &Inode,
        pos: u64,
        data: Payload<'_>,
    ) -> Result<()> {
        let own = node(inode);
        let tree = *own.tree.read();
        let (first, end) = (pos / BLOCK, pos + data.len() as u64);
        let count = end.div_ceil(BLOCK) - first;
        let mut blocks = Vec::with_capacity(count as usize);
        while (blocks.len() as u64) < count {
            let at = blocks.len() as u64;
            blocks.extend(self.blocks(tree, first + at, count - at)?);
        }
        let old = inode.attr();
        self.zero_gap(b, inode, pos)?;
        // Until the size has moved, what is stored behind the end is not zero.
        let was_zero = own.zero_behind.fetch_and(end <= old.size, Relaxed);
        let mut new = old.with(|a| a.wrote(end, call.time));
        if blocks.iter().all(|block| *block != 0) {
            self.stream_mapped(b, first, &blocks, pos, data)?;
            if new.size > old.size {
                b.fence()?;
            }
            // Size and times lie in one line.
            let line = &bytes(&new, tree)[8..40];
            b.put(own.addr + 8, line, INODE)?;
            b.fence()?;
            inode.update(|a| *a = new);
            own.zero_behind.store(was_zero || new_last_page(old.size, new.size), Relaxed);
            return Ok(());
        }
        let holes: Vec<bool> = blocks.iter().map(|block| *block == 0).collect();
        let mut m = Mapping::new(tree);
        let planned = self.fill_holes(&mut m, first, &mut blocks);
        if let Err(e) = planned {
            let new =
                blocks.iter().zip(&holes).filter(|(block, hole)| **hole && **block != 0).map(|(b, _)| *b);
            self.give_all(new.chain(m.node_blocks()))?;
            return Err(e);
        }
        for (i, (&block, hole)) in blocks.iter().zip(&holes).enumerate() {
            let start = (first + i as u64) * BLOCK;
            let (from, to) = (pos.max(start), end.min(start + BLOCK));
            let part = data.part((from - pos) as usize, (to - from) as usize);
            if *hole {
                let mut page = Page::ZERO;
                page.write((from - start) as usize, part);
                b.stream_page(block, &page, Structure::Data)?;
            } else {
                b.stream(block * BLOCK + (from - start), part, Structure::Data)?;
            }
        }
        m.write_nodes(b)?;
        // The count on media may be anything.
        let more = holes.iter().filter(|h| **h).count() as u64 * (BLOCK / 512);
        new.blocks = new.blocks.saturating_add(more);
        let inode_change = inode_edit(own.addr, (&old, tree), (&new, m.tree));
        let pointers = Pmfs::pointer_edits(&m);
        self.transact(b, &[vec![inode_change], pointers])?;
        *own.tree.write() = m.tree;
        inode.update(|a| *a = new);
        own.zero_behind.store(was_zero || new_last_page(old.size, new.size), Relaxed);
        Ok(())
    }

    /// Allocates a block for every hole among `blocks`, and maps them.
    pub(crate) fn fill_holes(&self, m: &mut Mapping, first: u64, blocks: &mut [u64]) -> Result<()> {
        let mut at = 0;
        while at < blocks.len() {
            let run = blocks[at..].iter().take_while(|block| **block == 0).count();
            if run == 0 {
                at += 1;
                continue;
            }
            let got = self.free.take(0, run as u64, From::Below, false).ok_or(FsError::NoSpace)?;
            for (i, block) in (got.0..got.0 + got.1).enumerate() {
                blocks[at + i] = block;
            }
            self.map(m, first + at as u64, &blocks[at..at + got.1 as usize])?;
            at += got.1 as usize;
        }
        Ok(())
    }

    /// Before a file grows, or is written from `to` on: zeros from its end to there, in its last page.
    pub(crate) fn zero_gap(&self, b: &mut Batch<'_>, inode: &Inode, to: u64) -> Result<()> {
        let (own, old) = (node(inode), inode.size());
        let end = to.min(old.next_multiple_of(BLOCK));
        if end <= old || own.zero_behind.load(Relaxed) {
            return Ok(());
        }
        let tree = *own.tree.read();
        if self.zero_in_page(b, tree, old, end)? {
            b.fence()?;
        }
        Ok(())
    }

    /// Stores zeros in bytes `from..to` of one page, unless it is a hole; whether it is none.
    fn zero_in_page(&self, b: &mut Batch<'_>, tree: Tree, from: u64, to: u64) -> Result<bool> {
        let block = self.blocks(tree, from / BLOCK, 1)?[0];
        if block != 0 {
            let zeros = Payload::Fill { word: 0, len: (to - from) as usize };
            b.stream(block * BLOCK + from % BLOCK, zeros, Structure::Data)?;
        }
        Ok(block != 0)
    }

    /// Stores zeros behind the end of a file that is being cut to `size`, in the page that it cuts.
    pub(crate) fn zero_behind(&self, b: &mut Batch<'_>, tree: Tree, size: u64) -> Result<()> {
        if !size.is_multiple_of(BLOCK) {
            self.zero_in_page(b, tree, size, size.next_multiple_of(BLOCK))?;
        }
        Ok(())
    }

    /// A file grew, but for data: its last page is another, of which all behind the old end was zero.
    pub(crate) fn grown(&self, inode: &Inode, old: u64) {
        if new_last_page(old, inode.size()) {
            node(inode).zero_behind.store(true, Relaxed);
        }
    }

    fn stream_mapped(
        &self,
        b: &mut Batch<'_>,
        first: u64,
        blocks: &[u64],
        pos: u64,
        data: Payload<'_>,
    ) -> Result<()> {
        let mut page = first;
        let end = pos + data.len() as u64;
        for run in blocks.chunk_by(|a, b| a + 1 == *b) {
            let start = page * BLOCK;
            let (from, to) = (pos.max(start), end.min(start + run.len() as u64 * BLOCK));
            let part = data.part((from - pos) as usize, (to - from) as usize);
            b.stream(run[0] * BLOCK + (from - start), part, Structure::Data)?;
            page += run.len() as u64;
        }
        Ok(())
    }

    fn truncate(&self, b: &mut Batch<'_>, inode: &Inode, tree: Tree, mut new: Attr) -> Result<()> {
        let own = node(inode);
        let mut list = self.list.lock();
        let listed = list.contains(&inode.ino().0);
        if !listed {
            self.put_item(b, own.addr, &list, Some(&new))?;
            b.fence()?;
            b.put_u64(LIST_HEAD, inode.ino().0, INODE)?;
            b.fence()?;
            list.push(inode.ino().0);
        }
        own.zero_behind.store(false, Relaxed);
        self.zero_behind(b, tree, new.size)?;
        let mut freed = Vec::new();
        let left = self.cut_tree(b, tree, new.size.div_ceil(BLOCK), &mut freed)?;
        let gone = freed.iter().filter(|(_, data)| *data).count() as u64 * (BLOCK / 512);
        new.blocks = new.blocks.saturating_sub(gone);
        // The part that changes lies in the first line.
        b.put(own.addr, &bytes(&new, left)[..64], INODE)?;
        b.fence()?;
        if !listed {
            list.pop();
            b.put_u64(LIST_HEAD, list.last().copied().unwrap_or(0), INODE)?;
            b.fence()?;
        }
        *own.tree.write() = left;
        inode.update(|a| *a = new);
        own.zero_behind.store(true, Relaxed);
        self.give_freed(&freed)
    }
}

impl Data for Pmfs {
    granary_fs::file_system_lacks!(reserve, wrote, rewrites_cut_page, flush_on_close);

    fn read_pages(&self, call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        pages::read(self, call, inode, first, out)
    }

    fn write_pages(
        &self,
        call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _why: WriteBackCause,
    ) -> Result<()> {
        pages::write(self, call, inode, pages)
    }

    fn read_direct(&self, _call: &Call<'_>, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        self.read_file(inode, pos, dest)
    }

    /// Writes `data` at `pos`; size and times with it.
    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = pos + done as u64;
            let n = ((self.step() * BLOCK - at % BLOCK) as usize).min(data.len() - done);
            self.stores(|b| self.write_step(b, call, inode, at, data.part(done, n)))?;
            done += n;
        }
        Ok(())
    }

    fn fsync(&self, _call: &Call<'_>, _inode: &Inode, _data_only: bool) -> Result<()> {
        // Everything is durable when its call returns; the original issues a fence.
        self.pm.batch().fence()
    }
}

impl Attributes for Pmfs {
    granary_fs::file_system_lacks!(xattrs);

    /// Changes attributes; with a smaller size, frees what lies beyond.
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        let (own, old) = (node(inode), inode.attr());
        let tree = *own.tree.read();
        let mut new = old;
        new.set(set, call.time);
        if new.size < old.size {
            return self.stores(|b| self.truncate(b, inode, tree, new));
        }
        self.stores(|b| self.zero_gap(b, inode, new.size))?;
        self.stores(|b| self.transact(b, &[vec![inode_edit(own.addr, (&old, tree), (&new, tree))]]))?;
        inode.update(|a| *a = new);
        self.grown(inode, old.size);
        Ok(())
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        // In place, eight bytes, without a fence (`pmfs_dirty_inode`).
        inode.update(|a| a.accessed(call.time));
        self.stores(|b| {
            b.put_u64(node(inode).addr + 16, call.time.0 as u64, Structure::Inode)?;
            b.write_back()
        })
    }

    fn generation(&self, inode: &Inode) -> u32 {
        node(inode).generation
    }
}
