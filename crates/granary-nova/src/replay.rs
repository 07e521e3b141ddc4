//! Replay: an inode's state in memory from its log.
//!
//! ```text
//!   inode ──> page: entry entry entry ... ──> page: entry | tail
//!     write   maps its pages over what older entries mapped        (skipped where all its pages are dead)
//!     dentry  adds or takes away a name                            (an added one that is dead: skipped)
//!     attr    cuts what lies beyond its size, if it cut            attributes: from the entry with the
//!                                                                  highest epoch,
//!                                                                 or from the inode, where that changed
//!                                                                 later
//! ```
//!
//! Everything that media say is checked before it is used. Source: NOVA section 4.6 (recovery by log scan).

use crate::Nova;
use crate::layout::entry::{CUT, DEAD, LogEntry, NEXT_PAGE, inode_flags, parse};
use crate::layout::{LOG_SPACE, PAGE_DEAD, PAGE_ENTRIES, PAGE_NEXT, PAGE_OWNER, inode};
use crate::mount::first_free;
use crate::node::{AttrEntry, Body, LogPage, NodeState};
use granary_device::Structure;
use granary_fs::{Attr, FileKind, FsError, Ino, Result, Time};
use granary_pm::bytes::{u32_at, u64_at};
use granary_pm::{BLOCK, corrupt};
use granary_units::PAGE_SIZE;
use rustc_hash::FxHashSet;

/// An inode as its log has it.
pub struct Replayed {
    pub attr: Attr,
    pub state: NodeState,
    pub parent: u64,
    pub generation: u32,
    /// Entries and dead entries that each page's tail has on media.
    pub counts: Vec<(u32, u32)>,
    /// The page with the tail points on to this one.
    pub next: u64,
    /// The size comes from a truncation.
    pub was_cut: bool,
}

/// Most bytes of a file: what the block numbers of a write entry's CRC-protected fields can sanely hold.
pub const MAX_FILE_SIZE: u64 = 1 << 44;

struct Replay<'a> {
    nova: &'a Nova,
    ino: Ino,
    out: Replayed,
    /// Epochs of what times, links, size, and mode and owner came from.
    newest: [u32; 4],
    /// Access time of the inode itself, and its epoch.
    atime: (Time, u32),
}

impl Nova {
    /// Reads the inode in `slot`; `None` where it is free.
    pub(crate) fn replay(&self, ino: Ino, slot: u64, prepared: bool) -> Result<Option<Replayed>> {
        let mut bytes = [0; inode::SIZE];
        self.pm.load(slot, &mut bytes, Structure::Inode)?;
        if !inode::is_valid(&bytes) {
            return Ok(None);
        }
        let (attr, log) = inode::parse(&bytes, ino)?;
        let (since, was_cut) = inode::since(&bytes);
        let mut state = NodeState::new(slot, u64_at(&bytes, 0), attr.kind);
        state.epoch = since;
        let generation = inode::generation(&bytes);
        let out = Replayed { attr, state, parent: 0, generation, counts: Vec::new(), next: 0, was_cut };
        let atime = (attr.atime, u32_at(&bytes, inode::ATIME_EPOCH as usize));
        let mut r = Replay { nova: self, ino, out, newest: [since; 4], atime };
        if log.tail != 0 {
            r.pages(log.head, log.tail, prepared)?;
        }
        r.finish().map(Some)
    }
}

impl Replay<'_> {
    fn bad(&self, what: &str, at: u64) -> FsError {
        corrupt(format!("{}: {what} at byte {at:#x} of its log", self.ino))
    }

    fn pages(&mut self, head: u64, tail: u64, prepared: bool) -> Result<()> {
        let last = (tail - 1) / BLOCK;
        let (mut block, mut past) = (head, false);
        let mut seen = FxHashSet::default();
        loop {
            if !self.nova.is_data(block, 1) {
                return Err(corrupt(format!("{}: its log goes on in block {block}", self.ino)));
            }
            if !seen.insert(block) {
                return Err(corrupt(format!("{}: its log comes back to block {block}", self.ino)));
            }
            let page = self.nova.pm.load_block(block, Structure::Log)?;
            let p = &page[..];
            if u64_at(p, PAGE_OWNER as usize) != self.ino.0 {
                return Err(self.bad("a page of another inode", block * BLOCK));
            }
            let on_media = (u32_at(p, PAGE_ENTRIES as usize), u32_at(p, PAGE_DEAD as usize));
            self.out.counts.push(on_media);
            self.out.state.pages.push(LogPage { block, entries: 0, dead: 0 });
            let next = u64_at(p, PAGE_NEXT as usize);
            if !past {
                let end = if block == last { (tail - 1) % BLOCK + 1 } else { LOG_SPACE };
                self.entries(&page, block * BLOCK, end.min(LOG_SPACE), block == last)?;
            }
            if block == last {
                self.out.state.current = self.out.state.pages.len() - 1;
                self.out.state.tail = tail;
                self.out.next = next;
                past = true;
                if !prepared {
                    return Ok(());
                }
            }
            if next == 0 {
                return if past { Ok(()) } else { Err(self.bad("the end before the tail", block * BLOCK)) };
            }
            block = next;
        }
    }

    fn entries(&mut self, page: &[u8; PAGE_SIZE], base: u64, end: u64, last: bool) -> Result<()> {
        let mut at = 0;
        while at < end {
            if !last && page[at as usize] == NEXT_PAGE {
                return Ok(());
            }
            let (entry, epoch, len) = parse(&page[at as usize..LOG_SPACE as usize]).map_err(|e| match e {
                FsError::Corrupt(text) => self.bad(&text, base + at),
                other => other,
            })?;
            if let Some(p) = self.out.state.pages.last_mut() {
                p.entries += 1;
            }
            let st = &mut self.out.state;
            st.epoch = if st.epoch == 0 || epoch.wrapping_sub(st.epoch) < 1 << 31 { epoch } else { st.epoch };
            self.entry(entry, epoch, base + at)?;
            at += len as u64;
        }
        if last && at != end { Err(self.bad("an entry beyond the tail", base + at)) } else { Ok(()) }
    }

    /// Whether an entry of this epoch is the newest for an attribute of class `class`; then it is remembered.
    fn newer(&mut self, class: usize, epoch: u32) -> bool {
        let newest = &mut self.newest[class];
        let newer = *newest == 0 || epoch.wrapping_sub(*newest) < 1 << 31;
        if newer {
            *newest = epoch;
        }
        newer
    }

    fn dead(&mut self, addr: u64) {
        if let Some(page) = self.out.state.page_of(addr) {
            page.dead += 1;
        }
    }

    fn entry(&mut self, entry: LogEntry, epoch: u32, at: u64) -> Result<()> {
        match (entry, &mut self.out.state.body) {
            (LogEntry::Write(w), Body::File(map)) => {
                let sane = w.pages > 0
                    && self.nova.is_data(w.block, w.pages as u64)
                    && w.page < MAX_FILE_SIZE / BLOCK
                    && w.page + w.pages as u64 <= MAX_FILE_SIZE / BLOCK
                    && w.size <= MAX_FILE_SIZE;
                if !sane {
                    return Err(self.bad("an impossible write entry", at));
                }
                let mut out = Vec::new();
                if w.dead < w.pages {
                    map.put(w.page, w.block, w.pages, at, &mut out);
                } else {
                    self.dead(at);
                }
                self.displaced(&out);
                if self.newer(2, epoch) {
                    (self.out.attr.size, self.out.attr.mtime) = (w.size, w.mtime);
                    self.out.was_cut = false;
                }
                if self.newer(0, epoch) {
                    self.out.attr.ctime = w.mtime;
                }
            }
            (LogEntry::Dentry { name, ino, kind, dead, time, links }, Body::Dir(dir)) => {
                match (&name[..], ino) {
                    (b".", _) => dir.dot = at,
                    (b"..", _) => {
                        dir.dotdot = at;
                        self.out.parent = ino;
                    }
                    (_, 0) => {
                        let old = dir.remove(&name);
                        self.dead(at);
                        if let Some(old) = old {
                            self.dead(old.addr);
                        }
                    }
                    _ if dead => self.dead(at),
                    _ => {
                        let old = dir.insert(&name, ino, kind, at);
                        if let Some(old) = old {
                            self.dead(old.addr);
                        }
                    }
                }
                if self.newer(0, epoch) {
                    let a = &mut self.out.attr;
                    (a.mtime, a.ctime, a.nlink) = (time, time, links);
                }
            }
            (LogEntry::Attr { size, .. }, _) if size > MAX_FILE_SIZE => {
                return Err(self.bad("an impossible size", at));
            }
            (LogEntry::Attr { flags, mode, uid, gid, times, size, links }, body) => {
                let mut out = Vec::new();
                if flags & CUT != 0
                    && let Body::File(map) = body
                {
                    map.cut(size.div_ceil(BLOCK), u64::MAX / BLOCK, &mut out);
                }
                self.displaced(&out);
                let st = &mut self.out.state;
                let (old, old_link) = (st.last_attr, std::mem::take(&mut st.last_link));
                st.last_attr = AttrEntry { addr: at, flags: flags & !DEAD, size };
                if old_link != 0 {
                    self.dead(old_link);
                }
                match old {
                    AttrEntry { addr: 0, .. } => {}
                    AttrEntry { flags, size, .. } if flags & CUT != 0 && size > 0 => {
                        self.out.state.stale += 1;
                    }
                    _ => self.dead(old.addr),
                }
                if self.newer(3, epoch) {
                    let a = &mut self.out.attr;
                    (a.mode, a.uid, a.gid, a.flags) = (mode, uid, gid, inode_flags(flags));
                }
                let (own, since) = self.atime;
                self.out.attr.atime = if epoch > since { times[0] } else { own };
                if self.newer(1, epoch) {
                    self.out.attr.nlink = links;
                }
                if self.newer(2, epoch) {
                    (self.out.attr.size, self.out.attr.mtime) = (size, times[1]);
                    self.out.was_cut = flags & CUT != 0;
                }
                if self.newer(0, epoch) {
                    let a = &mut self.out.attr;
                    (a.mtime, a.ctime, a.nlink) = (times[1], times[2], links);
                }
            }
            (LogEntry::Link { links, ctime, .. }, _) => {
                let old = std::mem::replace(&mut self.out.state.last_link, at);
                if old != 0 {
                    self.dead(old);
                }
                if self.newer(1, epoch) {
                    self.out.attr.nlink = links;
                }
                if self.newer(0, epoch) {
                    (self.out.attr.ctime, self.out.attr.nlink) = (ctime, links);
                }
            }
            _ => return Err(self.bad("an entry that does not fit the inode's kind", at)),
        }
        Ok(())
    }

    fn displaced(&mut self, list: &[(u64, u64, u32)]) {
        for &(entry, _, len) in list {
            if let Some((_, true)) = self.out.state.file_mut().count_dead(entry, len) {
                self.dead(entry);
            }
        }
    }

    fn finish(mut self) -> Result<Replayed> {
        let attr = &mut self.out.attr;
        if attr.size > MAX_FILE_SIZE {
            return Err(corrupt(format!("{}: a size of {}", self.ino, attr.size)));
        }
        match &self.out.state.body {
            Body::File(map) => attr.blocks = map.blocks * (BLOCK / 512),
            Body::Dir(dir) => {
                if dir.dot == 0 || dir.dotdot == 0 {
                    return Err(corrupt(format!("{}: a directory without \".\" and \"..\"", self.ino)));
                }
                attr.size = BLOCK;
            }
            Body::Special => {}
        }
        if attr.kind == FileKind::Symlink && (attr.size == 0 || attr.size >= granary_fs::PATH_MAX as u64) {
            return Err(corrupt(format!("{}: a link's target of {} B", self.ino, attr.size)));
        }
        Ok(self.out)
    }
}

impl Nova {
    /// Whether pointers may lead to `block..block + count`.
    pub(crate) fn is_data(&self, block: u64, count: u64) -> bool {
        block >= first_free(&self.superblock)
            && count <= self.blocks
            && block < self.blocks
            && block + count <= self.data_end
    }
}
