//! Appending to an inode's log.
//!
//! ```text
//!   inode: head ──> page ──> page ──> page ──> (prepared) ──> 0
//!          tail ────────────────────────^ behind the last entry that counts
//!   append   entry and page counts are stored behind the tail; nothing counts yet
//!   commit   fence, store the tail, write back, fence
//! ```
//!
//! A log grows by as many pages as it has, at most 256 (reference/baselines.md section 6.1); pages that an
//! operation did not come to use stay linked for the next. An entry never crosses a page; where it does not
//! fit, a mark says so.
//!
//! Source: NOVA sections 4.2 and 4.3.

use crate::Nova;
use crate::layout::entry::{CUT, DEAD, DENTRY_DEAD, FLAGS, NEXT_PAGE, WRITE_DEAD};
use crate::layout::{LOG_SPACE, PAGE_DEAD, PAGE_ENTRIES, PAGE_NEXT, inode};
use crate::node::{Displaced, LogPage, NodeState};
use granary_device::Structure;
use granary_fs::{FsError, Ino, Result};
use granary_pm::bytes::put_u64;
use granary_pm::{BLOCK, Batch, From};
use granary_sim::{costs, cpu};

/// Most pages by which a log grows.
const GROWTH: usize = 256;

/// By how many pages a log of `pages` grows.
pub fn growth(pages: usize) -> usize {
    pages.clamp(1, GROWTH)
}

/// Entries appended, not committed yet.
#[derive(Debug, Default)]
pub struct Pending {
    /// Address behind the last of them; 0 = none.
    pub tail: u64,
    current: usize,
    /// Entries in pages, by index.
    counts: Vec<(usize, u32)>,
    entries: u32,
}

impl Pending {
    pub fn new(st: &NodeState) -> Pending {
        Pending { tail: st.tail, current: st.current, counts: Vec::new(), entries: 0 }
    }

    /// The epoch of the next entry.
    pub fn epoch(&self, st: &NodeState) -> u32 {
        st.epoch.wrapping_add(self.entries + 1)
    }

    /// Indexes of the pages that hold them.
    pub fn pages(&self) -> impl Iterator<Item = usize> + '_ {
        self.counts.iter().map(|(page, _)| *page)
    }

    /// The entries count now.
    pub fn apply(self, st: &mut NodeState) {
        (st.tail, st.current) = (self.tail, self.current);
        st.epoch = st.epoch.wrapping_add(self.entries);
        for (page, n) in self.counts {
            st.pages[page].entries += n;
        }
    }
}

impl Nova {
    /// Prepares more log pages: links them behind the last. An urgent caller takes from the reserve no more
    /// than the one page that its entry needs, so that there is enough for others.
    fn grow_log(&self, b: &mut Batch<'_>, st: &mut NodeState, ino: Ino, urgent: bool) -> Result<()> {
        let _step = granary_sim::step("nova: a log grows");
        let mut want = growth(st.pages.len()) as u64;
        let cpu = self.cpu();
        let mut got = false;
        while want > 0 {
            let ordinary = self.free.take(cpu, want, From::Above, false);
            let taken = match ordinary {
                None if urgent && !got => self.free.take(cpu, 1, From::Above, true),
                taken => taken,
            };
            let Some((first, n)) = taken else { break };
            for block in first..first + n {
                let next = if block + 1 < first + n { block + 1 } else { 0 };
                self.init_page(b, block, ino, 0, next)?;
                st.pages.push(LogPage { block, entries: 0, dead: 0 });
            }
            if let Some(at) = st.pages.len().checked_sub(n as usize + 1) {
                let last = st.pages[at].block;
                b.put_u64(last * BLOCK + PAGE_NEXT, first, Structure::Log)?;
            }
            (want, got) = (want - n, true);
        }
        if got { Ok(()) } else { Err(FsError::NoSpace) }
    }

    /// Gives the pages behind the one with the tail back, but for the first `keep` of them.
    pub(crate) fn give_prepared(&self, b: &mut Batch<'_>, st: &mut NodeState, keep: usize) -> Result<()> {
        let last = st.current + keep;
        if st.tail == 0 || last + 1 >= st.pages.len() {
            return Ok(());
        }
        b.put_u64(st.pages[last].block * BLOCK + PAGE_NEXT, 0, Structure::Log)?;
        b.fence()?;
        st.pages.drain(last + 1..).try_for_each(|page| self.free.give(page.block, 1))
    }

    /// Initialises a log page's tail.
    pub(crate) fn init_page(
        &self,
        b: &mut Batch<'_>,
        block: u64,
        ino: Ino,
        entries: u32,
        next: u64,
    ) -> Result<()> {
        let mut tail = [0; (BLOCK - LOG_SPACE) as usize];
        tail[..4].copy_from_slice(&entries.to_le_bytes());
        put_u64(&mut tail, 8, ino.0);
        put_u64(&mut tail, 16, next);
        b.put(block * BLOCK + LOG_SPACE, &tail, Structure::Log)
    }

    /// Appends an entry behind the pending ones; returns its address.
    ///
    /// # Errors
    /// `NoSpace`: then nothing has happened but that pages are prepared.
    pub(crate) fn append(
        &self,
        b: &mut Batch<'_>,
        st: &mut NodeState,
        p: &mut Pending,
        ino: Ino,
        (entry, what, urgent): (&[u8], Structure, bool),
    ) -> Result<u64> {
        let in_page = (p.tail + BLOCK - 1) % BLOCK + 1;
        if p.tail == 0 || in_page + entry.len() as u64 > LOG_SPACE {
            let next = if p.tail == 0 { 0 } else { p.current + 1 };
            if next >= st.pages.len() {
                self.grow_log(b, st, ino, urgent)?;
            }
            if p.tail != 0 && in_page < LOG_SPACE {
                b.put(p.tail, &[NEXT_PAGE], Structure::Log)?;
            }
            (p.current, p.tail) = (next, st.pages[next].block * BLOCK);
        }
        cpu(costs().log_entry);
        let at = p.tail;
        b.put(at, entry, what)?;
        match p.counts.last_mut() {
            Some((page, n)) if *page == p.current => *n += 1,
            _ => p.counts.push((p.current, 1)),
        }
        let new = p.counts.last().map_or(0, |c| c.1);
        let page = st.pages[p.current];
        b.put_u32(page.block * BLOCK + PAGE_ENTRIES, page.entries + new, Structure::Log)?;
        p.tail += entry.len() as u64;
        p.entries += 1;
        Ok(at)
    }

    /// Stores a log's new tail (and its head, where the log is new), without a fence behind them. Of a new
    /// log both are in one line; where lines may be torn the head is safe first.
    pub(crate) fn put_tail(&self, b: &mut Batch<'_>, st: &NodeState, p: &Pending) -> Result<()> {
        if st.tail == 0 {
            if !self.pm.info().whole_lines {
                // The tail is what counts: without it nobody looks at the head.
                b.put_u64(st.slot + inode::HEAD, st.pages[0].block, Structure::Inode)?;
                b.fence()?;
                return b.put_u64(st.slot + inode::TAIL, p.tail, Structure::Inode);
            }
            let mut both = [0; 16];
            put_u64(&mut both, 0, st.pages[0].block);
            put_u64(&mut both, 8, p.tail);
            return b.put(st.slot + inode::HEAD, &both, Structure::Inode);
        }
        b.put_u64(st.slot + inode::TAIL, p.tail, Structure::Inode)
    }

    /// Commits what is pending in one log: fence, tail, fence.
    pub(crate) fn commit(&self, b: &mut Batch<'_>, st: &mut NodeState, p: Pending) -> Result<()> {
        b.fence()?;
        self.put_tail(b, st, &p)?;
        b.fence()?;
        p.apply(st);
        Ok(())
    }

    /// Counts a dead entry in its page's tail.
    fn page_dead(&self, b: &mut Batch<'_>, st: &mut NodeState, addr: u64) -> Result<()> {
        let Some(page) = st.page_of(addr) else { return Ok(()) };
        page.dead += 1;
        b.put_u32(page.block * BLOCK + PAGE_DEAD, page.dead, Structure::Log)
    }

    /// Displaced pages: their entries are marked, their blocks are free. After the commit of what displaced
    /// them.
    pub(crate) fn displaced(&self, b: &mut Batch<'_>, st: &mut NodeState, list: &[Displaced]) -> Result<()> {
        for &(entry, block, len) in list {
            if let Some((dead, all)) = st.file_mut().count_dead(entry, len) {
                b.put_u32(entry + WRITE_DEAD, dead, Structure::DataPointer)?;
                if all {
                    self.page_dead(b, st, entry)?;
                }
            }
            self.free.give(block, len as u64)?;
        }
        Ok(())
    }

    /// Marks a dentry dead that was taken away or replaced.
    pub(crate) fn dentry_dead(&self, b: &mut Batch<'_>, st: &mut NodeState, addr: u64) -> Result<()> {
        b.put(addr + DENTRY_DEAD, &[1], Structure::Dentry)?;
        self.page_dead(b, st, addr)
    }

    /// A dentry that is dead from the start was appended: counts it.
    pub(crate) fn born_dead(&self, b: &mut Batch<'_>, st: &mut NodeState, addr: u64) -> Result<()> {
        self.page_dead(b, st, addr)
    }

    /// The link-change entry at `addr` (0 = none) is superseded.
    pub(crate) fn link_superseded(&self, b: &mut Batch<'_>, st: &mut NodeState) -> Result<()> {
        let addr = std::mem::take(&mut st.last_link);
        if addr == 0 {
            return Ok(());
        }
        b.put(addr + FLAGS, &[DEAD], Structure::Inode)?;
        self.page_dead(b, st, addr)
    }

    /// The newest attribute entry is superseded. A truncation to more than nothing stays: it cuts older
    /// entries.
    pub(crate) fn attr_superseded(&self, b: &mut Batch<'_>, st: &mut NodeState) -> Result<()> {
        let old = std::mem::take(&mut st.last_attr);
        if old.addr == 0 {
            return Ok(());
        }
        if old.flags & CUT != 0 && old.size > 0 {
            st.stale += 1;
            return Ok(());
        }
        b.put(old.addr + FLAGS, &[old.flags | DEAD], Structure::Inode)?;
        self.page_dead(b, st, old.addr)
    }
}
