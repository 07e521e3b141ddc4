//! Log cleaning: removal of dead entries.
//!
//! ```text
//!   fast      page A ──> page B (all dead) ──> page C        one word: A.next := C; B is free
//!   thorough  page A, B, C (few live entries) ──> tail page
//!             copies of the live entries in new pages ──> tail page; one word: head := first new page
//! ```
//!
//! Both leave the page with the tail alone, so that a power failure leaves the old log or the new one. A log
//! entry may have set dead flags on the entries that it superseded. Before it is dropped, a fence makes these
//! flags safe: an entry that takes a name away may go only when the entry of that name can no longer come
//! back.
//!
//! Trigger (reference/baselines.md section 6.4): a log that had to grow; thorough, where less than half of it
//! is alive. A directory that has lost its last name does not wait for that: it is cleaned fast at once. Of
//! the pages prepared for growth it keeps as many as a log of its new length would grow by
//! ([`crate::log::growth`]). Source: NOVA section 4.2 and 5.3.

use crate::Nova;
use crate::layout::entry::{CUT, LogEntry, NEXT_PAGE, parse};
use crate::layout::{LOG_SPACE, PAGE_NEXT, inode};
use crate::node::{Body, LogPage, Node, NodeState};
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::{BLOCK, Batch, From};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// Pages before the tail page that make cleaning worth while: the least of which a live page is less than
/// half (`need_thorough_gc` of the original: `blocks && blocks * 2 < checked_pages`).
const LEAST: usize = 3;

impl Nova {
    /// After an operation: cleans the log where it just used up its prepared pages.
    pub(crate) fn clean_log(&self, node: &Node, st: &mut NodeState) -> Result<()> {
        let at = st.current;
        // The tail has just entered a page, and the next one is not there yet: the log is about to grow.
        if at < LEAST || at + 1 < st.pages.len() || st.pages[at].entries > 2 {
            return Ok(());
        }
        let (mut live, mut all, mut empty) = (0, 0, 0);
        for p in &st.pages[..at] {
            live += u64::from(p.entries - p.dead.min(p.entries));
            all += u64::from(p.entries);
            empty += usize::from(p.dead >= p.entries);
        }
        let live = live.saturating_sub(st.stale as u64);
        if empty == 0 && live * 2 >= all {
            return Ok(());
        }
        self.cleanings.fetch_add(1, Relaxed);
        self.stores(|b| {
            b.fence()?;
            self.clean_fast(b, st)?;
            if live * 2 < all && st.current > 1 { self.clean_thoroughly(b, node, st) } else { Ok(()) }
        })
    }

    /// Unlinks pages in which everything is dead.
    pub(crate) fn clean_fast(&self, b: &mut Batch<'_>, st: &mut NodeState) -> Result<()> {
        let gone = |p: &LogPage| p.dead >= p.entries;
        if !st.pages[..st.current].iter().any(gone) {
            return Ok(());
        }
        let _step = granary_sim::step("nova: pages of a log are freed");
        let mut kept: Vec<LogPage> = Vec::with_capacity(st.pages.len());
        let mut freed = Vec::new();
        let tail_page = st.pages[st.current].block;
        for (i, page) in st.pages.iter().enumerate() {
            if i < st.current && gone(page) {
                freed.push(page.block);
                continue;
            }
            if i > 0 && freed.last() == Some(&st.pages[i - 1].block) {
                match kept.last() {
                    Some(before) => {
                        b.put_u64(before.block * BLOCK + PAGE_NEXT, page.block, Structure::Log)?
                    }
                    None => b.put_u64(st.slot + inode::HEAD, page.block, Structure::Inode)?,
                }
            }
            kept.push(*page);
        }
        b.fence()?;
        st.current = kept.iter().position(|p| p.block == tail_page).expect("the tail page is kept");
        st.pages = kept;
        for block in freed {
            self.free.give(block, 1)?;
        }
        Ok(())
    }

    /// Whether the entry at `addr` is still needed. `reach`: file pages that kept write entries may map.
    fn is_live(&self, st: &NodeState, addr: u64, entry: &LogEntry, reach: &mut u64) -> bool {
        match entry {
            LogEntry::Write(w) => {
                let live = st.file().entries.contains_key(&addr);
                if live {
                    *reach = (*reach).max(w.page + w.pages as u64);
                }
                live
            }
            LogEntry::Dentry { name, .. } => {
                let dir = st.dir();
                addr == dir.dot || addr == dir.dotdot || dir.get(name).is_some_and(|d| d.addr == addr)
            }
            LogEntry::Attr { flags, size, .. } => {
                addr == st.last_attr.addr || (flags & CUT != 0 && *reach > size.div_ceil(BLOCK))
            }
            LogEntry::Link { .. } => addr == st.last_link,
        }
    }

    /// Copies the live entries of all pages before the tail page into a new log.
    fn clean_thoroughly(&self, b: &mut Batch<'_>, node: &Node, st: &mut NodeState) -> Result<()> {
        let _step = granary_sim::step("nova: a log is copied");
        let mut new: Vec<LogPage> = Vec::new();
        let old: Vec<LogPage> = st.pages[..st.current].to_vec();
        // Without space, or where a page cannot be read, the log stays as it is. The call that is behind this
        // has been done: an error would say that it has not. The next read of the page tells.
        let Ok(Some((moved, stale))) = self.copy_live(b, node, st, &old, &mut new) else {
            return new.iter().try_for_each(|p| self.free.give(p.block, 1));
        };
        let tail_page = st.pages[st.current].block;
        b.fence()?;
        let head = new.first().map_or(tail_page, |p| p.block);
        b.put_u64(st.slot + inode::HEAD, head, Structure::Inode)?;
        b.fence()?;
        let rest = st.pages.split_off(st.current);
        // Superseded truncations in the tail page stay what they are.
        let kept_stale = st.stale.saturating_sub(stale_in(&old, st));
        (st.current, st.stale) = (new.len(), stale + kept_stale);
        st.pages = new;
        st.pages.extend(rest);
        readdress(st, &moved);
        for page in old {
            self.free.give(page.block, 1)?;
        }
        Ok(())
    }

    /// Copies the live entries of `old` into new pages, which nothing leads to yet. Returns where each entry
    /// went, and how many hold superseded attributes; `None` where there is no space. The pages in `new` are
    /// the caller's to give back then, and after an error.
    fn copy_live(
        &self,
        b: &mut Batch<'_>,
        node: &Node,
        st: &NodeState,
        old: &[LogPage],
        new: &mut Vec<LogPage>,
    ) -> Result<Option<(BTreeMap<u64, u64>, u32)>> {
        let mut moved: BTreeMap<u64, u64> = BTreeMap::new();
        let mut buffer = vec![0u8; LOG_SPACE as usize];
        let (mut fill, mut reach, mut stale) = (0, 0, 0);
        for page in old {
            let bytes = self.pm.load_block(page.block, Structure::Log)?;
            let mut at = 0;
            for _ in 0..page.entries {
                if bytes[at] == NEXT_PAGE {
                    break;
                }
                let (e, _, len) = parse(&bytes[at..LOG_SPACE as usize])?;
                let addr = page.block * BLOCK + at as u64;
                if self.is_live(st, addr, &e, &mut reach) {
                    if new.is_empty() || fill + len > LOG_SPACE as usize {
                        let Some((block, _)) = self.free.take(self.cpu(), 1, From::Above, false) else {
                            return Ok(None);
                        };
                        if let Some(last) = new.last() {
                            self.put_page(b, node, last, &mut buffer, fill, block)?;
                        }
                        new.push(LogPage { block, entries: 0, dead: 0 });
                        fill = 0;
                    }
                    let Some(last) = new.last_mut() else { break };
                    buffer[fill..fill + len].copy_from_slice(&bytes[at..at + len]);
                    moved.insert(addr, last.block * BLOCK + fill as u64);
                    last.entries += 1;
                    stale += u32::from(matches!(e, LogEntry::Attr { .. }) && addr != st.last_attr.addr);
                    fill += len;
                }
                at += len;
            }
        }
        let tail_page = st.pages[st.current].block;
        if let Some(last) = new.last() {
            self.put_page(b, node, last, &mut buffer, fill, tail_page)?;
        }
        Ok(Some((moved, stale)))
    }

    fn put_page(
        &self,
        b: &mut Batch<'_>,
        node: &Node,
        page: &LogPage,
        buffer: &mut [u8],
        fill: usize,
        next: u64,
    ) -> Result<()> {
        let mut len = fill;
        if fill < LOG_SPACE as usize {
            buffer[fill] = NEXT_PAGE;
            len += 1;
        }
        b.put(page.block * BLOCK, &buffer[..len], Structure::Log)?;
        self.init_page(b, page.block, node.ino, page.entries, next)?;
        b.write_back()
    }
}

/// Superseded truncations in these pages: entries that are neither dead, nor live, nor hold attributes.
fn stale_in(pages: &[LogPage], st: &NodeState) -> u32 {
    let Body::File(map) = &st.body else { return 0 };
    let live = map.entries.keys().filter(|a| in_pages(pages, **a)).count() as u32;
    let holders = [st.last_attr.addr, st.last_link];
    let holders = holders.iter().filter(|a| **a != 0 && in_pages(pages, **a)).count() as u32;
    let sum: u32 = pages.iter().map(|p| p.entries.saturating_sub(p.dead)).sum();
    sum.saturating_sub(live + holders)
}

fn in_pages(pages: &[LogPage], addr: u64) -> bool {
    pages.iter().any(|p| p.block == addr / BLOCK)
}

/// Points the indexes to where the entries are now.
fn readdress(st: &mut NodeState, moved: &BTreeMap<u64, u64>) {
    let new = |addr: u64| moved.get(&addr).copied().unwrap_or(addr);
    st.last_attr.addr = new(st.last_attr.addr);
    st.last_link = new(st.last_link);
    match &mut st.body {
        Body::File(map) => {
            for e in map.extents.values_mut() {
                e.entry = new(e.entry);
            }
            map.entries = std::mem::take(&mut map.entries).into_iter().map(|(a, c)| (new(a), c)).collect();
        }
        Body::Dir(dir) => {
            (dir.dot, dir.dotdot) = (new(dir.dot), new(dir.dotdot));
            for d in dir.by_cookie.values_mut() {
                d.addr = new(d.addr);
            }
        }
        Body::Special => {}
    }
}
