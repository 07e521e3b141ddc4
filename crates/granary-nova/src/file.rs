//! Files: reading, writing, truncating.
//!
//! ```text
//!   copy on write    new blocks <── old edges + data (movnt) | fence | write entries | fence | tail | fence
//!                    then: older entries are marked, their blocks are free
//!   in place         old blocks <── data (movnt) | lite transaction over the write entry (size, times)
//!                    holes and the part beyond the end: as above
//!   truncate         attribute entry with the size | tail | bytes beyond the end := 0 | fence
//!                    where the log finds no page and no block is freed: the inode itself (in_place.rs)
//! ```
//!
//! Invariant: bytes on media beyond a file's end are zero, in every mapped page. A power failure between the
//! tail and the zeros of a truncation is repaired at mount.
//!
//! Source: NOVA sections 4.5 and 5; reference/baselines.md sections 6.2 and 6.3.

use crate::Nova;
use crate::layout::entry::{self, Write};
use crate::log::Pending;
use crate::namespace::node;
use crate::node::{Body, Displaced, Node, NodeState};
use crate::options::DataMode;
use granary_device::Structure;
use granary_fs::{Call, Data, DirtyPage, FsError, Inode, Result, Time, WriteBackCause};
use granary_pm::bytes::u64_at;
use granary_pm::{BLOCK, Batch, From, pages};
use granary_units::{Dest, PAGE_SIZE, Page, Payload};

/// Pages written (and held in memory) in one entry at most.
pub(crate) const RUN: u64 = 1024;

/// Blocks on their way into a file: (first page, first block, pages).
pub(crate) type Run = (u64, u64, u64);

impl Nova {
    /// Reads `pos..pos + dest.len()`, which lies within the file.
    pub(crate) fn read_file(&self, node: &Node, pos: u64, mut dest: Dest<'_>) -> Result<()> {
        let st = node.state.read();
        let (map, len) = (st.file(), dest.len());
        let mut done = 0;
        let mut pages = [const { Page::ZERO }; 32];
        while done < len {
            let at = pos + done as u64;
            let (page, from) = (at / BLOCK, (at % BLOCK) as usize);
            let wanted = ((from + len - done) as u64).div_ceil(BLOCK);
            let Some((block, run)) = map.block(page) else {
                let hole = map.hole(page, wanted);
                let n = ((hole * BLOCK) as usize - from).min(len - done);
                dest.part(done, n).zero();
                done += n;
                continue;
            };
            let run = run.min(wanted).min(pages.len() as u64);
            let n = ((run * BLOCK) as usize - from).min(len - done);
            let out = &mut pages[..run as usize];
            self.pm.load_pages(block * BLOCK + from as u64, n, out, Structure::Data)?;
            let mut copied = 0;
            for (i, page) in out.iter().enumerate() {
                let start = if i == 0 { from } else { 0 };
                let part = (PAGE_SIZE - start).min(n - copied);
                dest.part(done + copied, part).copy_from(page, start);
                copied += part;
            }
            done += n;
        }
        Ok(())
    }

    /// Copy on write, atomic as a whole.
    fn write_copy(
        &self,
        b: &mut Batch<'_>,
        inode: &Inode,
        st: &mut NodeState,
        time: Time,
        pos: u64,
        data: Payload<'_>,
    ) -> Result<()> {
        let (old_size, end) = (inode.size(), pos + data.len() as u64);
        let size = old_size.max(end);
        let (first, last) = (pos / BLOCK, (end - 1) / BLOCK);
        let mut runs: Vec<Run> = Vec::new();
        let result = self.new_pages(
            b,
            st,
            (first, last),
            &mut runs,
            |page, base| {
                fill(base, page, pos, data);
            },
            (pos, end, old_size),
        );
        let mut p = Pending::new(st);
        let result = result.and_then(|()| {
            b.fence()?;
            self.append_runs(b, inode, st, &mut p, &runs, (time, size))
        });
        let addrs = match result {
            Ok(addrs) => addrs,
            Err(e) => {
                for (_, block, n) in runs {
                    self.free.give(block, n)?;
                }
                self.take_back(b, st, &p)?;
                return Err(e);
            }
        };
        self.commit(b, st, p)?;
        self.map_runs(b, inode, st, &runs, &addrs, (time, size))
    }

    /// Allocates blocks for the pages of a range and streams their content; `runs` has them even after an
    /// error.
    fn new_pages(
        &self,
        b: &mut Batch<'_>,
        st: &NodeState,
        (first, last): (u64, u64),
        runs: &mut Vec<Run>,
        content: impl Fn(u64, &mut Page),
        (pos, end, old_size): (u64, u64, u64),
    ) -> Result<()> {
        let mut page = first;
        while page <= last {
            let want = (last - page + 1).min(RUN);
            let Some((block, n)) = self.free.take(self.cpu(), want, From::Below, false) else {
                return Err(FsError::NoSpace);
            };
            runs.push((page, block, n));
            for i in 0..n {
                let mut new = self.edges(st, page + i, pos, end, old_size)?;
                content(page + i, &mut new);
                b.stream_page(block + i, &new, Structure::Data)?;
            }
            page += n;
        }
        Ok(())
    }

    /// Content of `page` outside `pos..end`, where it is written in part; zeros past the old end.
    fn edges(&self, st: &NodeState, page: u64, pos: u64, end: u64, old_size: u64) -> Result<Page> {
        let start = page * BLOCK;
        let used = old_size.saturating_sub(start).min(BLOCK);
        let head = pos.saturating_sub(start).min(used);
        let tail = (end.saturating_sub(start).min(BLOCK), used);
        let has_tail = tail.0 < tail.1;
        let mut out = [Page::ZERO];
        if head == 0 && !has_tail {
            return Ok(Page::ZERO);
        }
        let Some((block, _)) = st.file().block(page) else { return Ok(Page::ZERO) };
        let from = if head > 0 { 0 } else { tail.0 };
        let to = if has_tail { tail.1 } else { head };
        self.pm.load_pages(block * BLOCK + from, (to - from) as usize, &mut out, Structure::Data)?;
        let [mut page] = out;
        // Lines that were not loaded mean nothing; neither does what lies beyond the old end.
        if used < BLOCK {
            page.zero_from(used as usize);
        }
        Ok(page)
    }

    pub(crate) fn append_runs(
        &self,
        b: &mut Batch<'_>,
        inode: &Inode,
        st: &mut NodeState,
        p: &mut Pending,
        runs: &[Run],
        (mtime, size): (Time, u64),
    ) -> Result<Vec<u64>> {
        let mut addrs = Vec::with_capacity(runs.len());
        for &(page, block, n) in runs {
            let w = Write { page, block, pages: n as u32, dead: 0, mtime, size };
            let e = entry::write(p.epoch(st), &w);
            addrs.push(self.append(b, st, p, inode.ino(), (&e, Structure::DataPointer, false))?);
        }
        Ok(addrs)
    }

    /// After the commit: the new pages are the file's, the old ones are free.
    pub(crate) fn map_runs(
        &self,
        b: &mut Batch<'_>,
        inode: &Inode,
        st: &mut NodeState,
        runs: &[Run],
        addrs: &[u64],
        (time, size): (Time, u64),
    ) -> Result<()> {
        let mut old: Vec<Displaced> = Vec::new();
        for (&(page, block, n), addr) in runs.iter().zip(addrs) {
            st.file_mut().put(page, block, n as u32, *addr, &mut old);
        }
        let blocks = st.file().blocks * (BLOCK / 512);
        inode.update(|a| {
            a.wrote(size, time);
            a.blocks = blocks;
        });
        self.displaced(b, st, &old)?;
        b.write_back()
    }

    /// Writes over mapped pages in place, entry by entry; the rest by new entries.
    fn write_in_place(
        &self,
        b: &mut Batch<'_>,
        inode: &Inode,
        st: &mut NodeState,
        time: Time,
        pos: u64,
        data: Payload<'_>,
    ) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = pos + done as u64;
            let (page, from) = (at / BLOCK, at % BLOCK);
            let left = (data.len() - done) as u64;
            let wanted = (from + left).div_ceil(BLOCK);
            match st.file().block(page) {
                Some((block, run)) => {
                    let n = (run * BLOCK - from).min(left) as usize;
                    b.stream(block * BLOCK + from, data.part(done, n), Structure::Data)?;
                    b.fence()?;
                    let entry = st.file().find(page).map_or(0, |(_, e)| e.entry);
                    self.update_entry(b, inode, st, entry, time, inode.size().max(at + n as u64))?;
                    done += n;
                }
                None => {
                    let hole = st.file().hole(page, wanted);
                    let n = (hole * BLOCK - from).min(left) as usize;
                    self.write_copy(b, inode, st, time, at, data.part(done, n))?;
                    done += n;
                }
            }
        }
        Ok(())
    }

    /// Gives a write entry a new size, time and epoch, in a lite transaction over its eight words.
    fn update_entry(
        &self,
        b: &mut Batch<'_>,
        inode: &Inode,
        st: &mut NodeState,
        addr: u64,
        time: Time,
        size: u64,
    ) -> Result<()> {
        let mut old = [0; entry::WRITE];
        self.pm.load(addr, &mut old, Structure::DataPointer)?;
        let (entry::LogEntry::Write(w), _, _) = entry::parse(&old)? else {
            return Err(granary_pm::corrupt(format!("no write entry at byte {addr:#x}")));
        };
        let epoch = st.epoch.wrapping_add(1);
        let new = entry::write(epoch, &Write { mtime: time, size, ..w });
        let words: Vec<_> =
            (0..entry::WRITE).step_by(8).map(|i| (addr + i as u64, u64_at(&old, i))).collect();
        self.transaction(b, &words, |b| b.put(addr, &new, Structure::DataPointer))?;
        st.epoch = epoch;
        inode.update(|a| a.wrote(size, time));
        Ok(())
    }

    /// After the commit of a smaller size.
    pub(crate) fn cut_file(
        &self,
        b: &mut Batch<'_>,
        inode: &Inode,
        st: &mut NodeState,
        old: u64,
        size: u64,
    ) -> Result<()> {
        if !matches!(st.body, Body::File(_)) {
            return b.write_back();
        }
        let end = (size / BLOCK + 1) * BLOCK;
        if !size.is_multiple_of(BLOCK)
            && let Some((block, _)) = st.file().block(size / BLOCK)
        {
            let zeros = Payload::Fill { word: 0, len: (old.min(end) - size) as usize };
            b.stream(block * BLOCK + size % BLOCK, zeros, Structure::Data)?;
            b.fence()?;
        }
        let mut out = Vec::new();
        st.file_mut().cut(size.div_ceil(BLOCK), u64::MAX / BLOCK, &mut out);
        let blocks = st.file().blocks * (BLOCK / 512);
        inode.update(|a| a.blocks = blocks);
        self.displaced(b, st, &out)?;
        b.write_back()
    }
}

/// Puts the bytes of `data`, which begins at file offset `pos`, that belong to `page` into its content.
fn fill(content: &mut Page, page: u64, pos: u64, data: Payload<'_>) {
    let start = page * BLOCK;
    let from = pos.max(start);
    let to = (pos + data.len() as u64).min(start + BLOCK);
    content.write((from - start) as usize, data.part((from - pos) as usize, (to - from) as usize));
}

impl Data for Nova {
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
        self.read_file(node(inode), pos, dest)
    }

    /// Writes `data` at `pos`; size and times with it.
    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        let node = node(inode);
        let mut st = node.state.write();
        let st = &mut *st;
        self.stores(|b| {
            if self.options.data == DataMode::InPlace {
                self.write_in_place(b, inode, st, call.time, pos, data)
            } else {
                self.write_copy(b, inode, st, call.time, pos, data)
            }
        })?;
        self.clean_log(node, st)
    }

    fn fsync(&self, _call: &Call<'_>, _inode: &Inode, _data_only: bool) -> Result<()> {
        // Everything is durable when its call returns; the original issues a fence.
        self.pm.batch().fence()
    }
}
