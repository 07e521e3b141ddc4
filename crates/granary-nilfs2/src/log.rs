//! A log: the dirty blocks, in order, with new numbers and places.
//!
//! ```text
//!   collect   files -> blocks that the cleaner moves -> ifile -> cpfile -> sufile
//!             each: data, then nodes bottom-up
//!   close     DAT: all of its blocks that this changed are known now
//!   lay       places: parts of segments (segments.rs)
//!   settle    places go into DAT and DAT's own map, usages into the sufile
//!   encode    summaries, checksums, super root
//! ```
//!
//! Each stage makes only blocks of later ones dirty, so once through is enough. Clean flags are set on the
//! way: a log that cannot be written breaks the file system.
//!
//! Source: reference/nilfs2.md section 5.2; the kernel's `segment.c`.

use crate::buffers::Buffers;
use crate::dat::{Dat, Physical, Virtual};
use crate::layout::DAT_INO;
use crate::layout::checkpoint::{self, Checkpoint, VALID};
use crate::layout::summary::{BEGIN, END, GC, Header, Part, SR, SYNDT, Summary, SummaryEntry, TIMES};
use crate::layout::super_root::SuperRoot;
use crate::layout::usage::{self, USAGE};
use crate::media::Media;
use crate::state::{INODES, State};
use granary_device::Structure;
use granary_fs::{FileKind, FsError, Result};
use granary_units::Page;

/// Kinds of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Everything, with a super root.
    Full,
    /// The data of one file, which was overwritten.
    Data(u64),
}

/// A block on its way into a log.
pub(crate) struct Item {
    pub entry: SummaryEntry,
    /// Its content; `None`: it is known when all places are, or REMAP moves it.
    pub page: Option<Page>,
    pub what: Structure,
    /// Where REMAP finds it.
    pub from: Option<u64>,
}

/// A log that is ready to be written.
#[derive(Default)]
pub(crate) struct Log {
    /// Address, content.
    pub blocks: Vec<(u64, Page, Structure)>,
    /// Blocks that REMAP moves: from, to.
    pub remaps: Vec<(u64, u64)>,
    /// The place where it begins; a superblock names it.
    pub at: u64,
    pub seq: u64,
    pub serial: u64,
    /// It has a super root, of this checkpoint.
    pub cno: Option<u64>,
    /// Blocks of data, of this file and from this block of it on each: FS_WRITE tells the drive.
    pub file: Option<(u64, Vec<(u64, u64)>)>,
    /// The file grew, and so many bytes of the last of them are its.
    pub grown: Option<u16>,
    /// Its times: mtime, ctime.
    pub times: (i64, i64),
}

/// Data and nodes of a file whose map has virtual numbers. `dead`: no checkpoint needs what they replace.
fn collect(
    file: &mut Buffers,
    dat: &mut Dat,
    media: &Media,
    cno: u64,
    dead: bool,
    items: &mut Vec<Item>,
) -> Result<()> {
    collect_data(file, dat, media, cno, dead, items)?;
    let ino = file.ino;
    file.tree.place_nodes(&mut |node, old| {
        let vblk = dat.begin(if old == 0 { dat.target(ino) } else { old }, cno, media)?;
        if old != 0 {
            dat.end(old, cno, dead, media)?;
        }
        let entry = SummaryEntry { ino, part: Part::Node { level: 0, key: 0 }, vblk, remapped: false };
        items.push(Item {
            entry,
            page: Some(node.encode()),
            what: entry.structure(Structure::DataPointer),
            from: None,
        });
        Ok(vblk)
    })
}

fn collect_data(
    file: &mut Buffers,
    dat: &mut Dat,
    media: &Media,
    cno: u64,
    dead: bool,
    items: &mut Vec<Item>,
) -> Result<()> {
    for index in std::mem::take(&mut file.dirty) {
        let old = file.tree.lookup(index, &mut Virtual { media, dat })?;
        let behind = match index.checked_sub(1) {
            Some(before) if file.last.0 == before && file.last.1 != 0 => Some(file.last.1),
            Some(before) if old.is_none() => file.tree.lookup(before, &mut Virtual { media, dat })?,
            _ => None,
        };
        let target = old.or(behind).map_or(dat.target(file.ino), |n| n + 1);
        let vblk = dat.begin(target, cno, media)?;
        if let Some(old) = old {
            dat.end(old, cno, dead, media)?;
        }
        file.tree.set(index, vblk, &mut Virtual { media, dat })?;
        file.last = (index, vblk);
        let entry = SummaryEntry { ino: file.ino, part: Part::Data(index), vblk, remapped: false };
        let page = file.pages.get(&index).cloned();
        items.push(Item { entry, page, what: entry.structure(file.what), from: None });
    }
    Ok(())
}

impl State {
    /// Makes a log of all dirty blocks, and of the blocks that the cleaner moves.
    ///
    /// # Errors
    /// `NoSpace`: no room for it; `Corrupt`, the drive's. After an error the state in memory is inconsistent.
    pub fn make_log(&mut self, media: &Media, kind: Kind, moved: Vec<Item>) -> Result<Log> {
        let mut flags = if moved.is_empty() { 0 } else { GC };
        let mut items = Vec::new();
        let (mut file, mut grown) = (None, None);
        let root = match kind {
            Kind::Full => {
                flags |= SR;
                self.collect_all(media, moved, &mut items)?
            }
            Kind::Data(ino) => {
                flags |= SYNDT | TIMES;
                grown = self.collect_file_data(ino, media, &mut items)?;
                file = Some(ino);
                None
            }
        };
        let log = self.write_down(media, items, root, flags, (file, grown))?;
        self.dirty_since = if self.dirty.is_empty() { None } else { self.dirty_since };
        Ok(log)
    }

    /// Says where the file ends in its last block, where it grew.
    fn collect_file_data(&mut self, ino: u64, media: &Media, items: &mut Vec<Item>) -> Result<Option<u16>> {
        let State { nodes, dat, cno, live, .. } = self;
        let node = nodes.get_mut(&ino).ok_or(FsError::Stale)?;
        let (before, last) = (node.file.tree.count, node.file.dirty.last().copied());
        collect_data(&mut node.file, dat, media, *cno, false, items)?;
        *live = (*live + node.file.tree.count).saturating_sub(before);
        node.file.pages.clear();
        node.new_blocks = node.promised.values().filter(|p| p.new).count() as u64;
        node.attr_dirty |= node.grew;
        let ends =
            last.filter(|last| node.grew && node.media_size > 0 && (node.media_size - 1) / 4096 == *last);
        let grown = ends.map(|last| (node.media_size - last * 4096) as u16);
        self.recount();
        Ok(grown)
    }

    /// Counts again the blocks that are promised and not written yet.
    pub fn recount(&mut self) {
        let (mut pending, mut new) = (0, 0);
        let nodes = &self.nodes;
        self.promising.retain(|ino| nodes.get(ino).is_some_and(|n| !n.promised.is_empty()));
        for node in self.promising.iter().filter_map(|ino| nodes.get(ino)) {
            pending += node.promised.len() as u64;
            new += node.promised.values().filter(|p| p.new).count() as u64;
        }
        for node in self.dirty.iter().filter_map(|ino| nodes.get(ino)) {
            pending += node.file.dirty.len() as u64;
        }
        (self.pending, self.runs, self.pending_new) = (pending, pending, new);
    }

    /// Everything but DAT; the checkpoint's number.
    fn collect_all(&mut self, media: &Media, moved: Vec<Item>, items: &mut Vec<Item>) -> Result<Option<u64>> {
        let cno = self.cno;
        for ino in std::mem::take(&mut self.dirty) {
            let State { nodes, dat, live, .. } = self;
            let Some(node) = nodes.get_mut(&ino) else { continue };
            let before = node.file.tree.count;
            if node.file.is_dirty() {
                collect(&mut node.file, dat, media, cno, false, items)?;
                node.attr_dirty = true;
            }
            *live = (*live + node.file.tree.count).saturating_sub(before);
            if node.attr.kind != FileKind::Dir {
                node.file.pages.clear();
            }
            (node.needs_root, node.grew) = (false, false);
            node.new_blocks = node.promised.values().filter(|p| p.new).count() as u64;
            if node.attr_dirty {
                self.store_inode(ino, media)?;
            }
        }
        for item in &moved {
            self.dat.touch(item.entry.vblk, media)?;
        }
        items.extend(moved);
        for ino in std::mem::take(&mut self.freeing) {
            INODES.mark(&mut self.ifile, ino, false, &mut Virtual { media, dat: &mut self.dat })?;
        }
        collect(&mut self.ifile, &mut self.dat, media, cno, false, items)?;
        self.enter_checkpoint(cno, media)?;
        collect(&mut self.cpfile, &mut self.dat, media, cno, true, items)?;
        self.open_usages(items.len() as u64, media)?;
        collect(&mut self.sufile, &mut self.dat, media, cno, true, items)?;
        items.extend(self.close_dat(media)?);
        self.misc = 0;
        self.recount();
        Ok(Some(cno))
    }

    fn enter_checkpoint(&mut self, cno: u64, media: &Media) -> Result<()> {
        let entry = Checkpoint {
            flags: VALID,
            age: self.age(),
            inodes: self.inodes,
            blocks: self.live,
            orphans: self.orphans.len() as u64,
            ifile: State::meta_inode(&self.ifile),
        };
        let (block, at) = checkpoint::place(cno);
        let mut from = Virtual { media, dat: &mut self.dat };
        let b = self.cpfile.change(block, &mut from)?;
        entry.store(&mut b[at..]);
        let b = self.cpfile.change(0, &mut from)?;
        let (all, snapshots) = checkpoint::counts(b);
        checkpoint::set_counts(b, (all + 1, snapshots));
        if let Some(history) = &mut self.history {
            history.insert(cno, entry.age);
        }
        Ok(())
    }

    /// Blocks of the sufile that the log will change.
    fn open_usages(&mut self, items: u64, media: &Media) -> Result<()> {
        let more = self.dat.file.dirty.len() as u64;
        let nodes = more.min(self.dat.file.tree.count / 64 + 4);
        let all = items + more + nodes + 24;
        let crossings = self.segs.crossings(all + all / 100 + 2);
        let mut segs: Vec<u64> = self.segs.choose(crossings).iter().copied().collect();
        segs.extend(&self.segs.touched);
        segs.extend([self.segs.cursor.seg, self.segs.cursor.next].into_iter().take(1 + crossings.min(1)));
        let mut from = Virtual { media, dat: &mut self.dat };
        self.sufile.change(0, &mut from)?;
        for seg in segs {
            self.sufile.change(usage::place(seg).0, &mut from)?;
        }
        Ok(())
    }

    /// All of DAT that is dirty; nothing makes more of it dirty from now on.
    fn close_dat(&mut self, media: &Media) -> Result<Vec<Item>> {
        /// No place yet: no drive has so many blocks.
        const NOWHERE: u64 = u64::MAX;
        let file = &mut self.dat.file;
        let dirty: Vec<u64> = file.dirty.iter().copied().collect();
        for index in &dirty {
            let old = file.tree.lookup(*index, &mut Physical(media))?;
            file.tree.set(*index, old.unwrap_or(NOWHERE), &mut Physical(media))?;
        }
        let nodes = file.tree.dirty_nodes().into_iter().map(|(level, key)| Part::Node { level, key });
        let parts = dirty.into_iter().map(Part::Data).chain(nodes);
        let item = |part| {
            let entry = SummaryEntry { ino: DAT_INO, part, vblk: 0, remapped: false };
            Item { entry, page: None, what: Structure::DataPointer, from: None }
        };
        Ok(parts.map(item).collect())
    }

    /// Places, checksums, summaries.
    fn write_down(
        &mut self,
        media: &Media,
        items: Vec<Item>,
        root: Option<u64>,
        flags: u16,
        (file, grown): (Option<u64>, Option<u16>),
    ) -> Result<Log> {
        let age = self.age();
        let entries: Vec<SummaryEntry> = items.iter().map(|i| i.entry).collect();
        let parts = self.segs.lay(&entries, root.is_some(), age)?;
        let mut places = Vec::with_capacity(items.len());
        for p in &parts {
            places.extend((0..p.count as u64).map(|i| p.at + p.summary + i));
        }
        let mut nodes = self.settle(media, &entries, &places, root.is_some())?.into_iter();
        let mut log = Log { cno: root, grown, ..Log::default() };
        if let Some(node) = file.and_then(|ino| self.nodes.get_mut(&ino)) {
            log.times = (node.attr.mtime.0, node.attr.ctime.0);
            node.told = Some(log.times);
        }
        log.file = file.map(|ino| {
            let data = |(at, e): (&u64, &SummaryEntry)| {
                if let Part::Data(n) = e.part { Some((*at, n)) } else { None }
            };
            (ino, places.iter().zip(&entries).filter_map(data).collect())
        });
        let prev = self.segs.cursor.serial;
        let base = (self.mounts as u64) << 32;
        log.serial = if prev >= base { prev + 1 } else { base };
        self.segs.cursor.serial = log.serial;
        let mut pages: Vec<Option<Page>> = Vec::with_capacity(items.len());
        for (item, place) in items.iter().zip(&places) {
            let late = match (item.entry.ino, item.entry.part) {
                (DAT_INO, Part::Data(n)) => self.dat.file.pages.get(&n).cloned(),
                (DAT_INO, Part::Node { .. }) => nodes.next(),
                (crate::layout::SUFILE_INO, Part::Data(n)) => self.sufile.pages.get(&n).cloned(),
                _ => item.page.clone(),
            };
            if let Some(from) = item.from {
                log.remaps.push((from, *place));
            } else if late.is_none() {
                return Err(FsError::Corrupt(format!("a block of a log has no content: {:?}", item.entry)));
            }
            pages.push(late);
        }
        for (number, p) in parts.iter().enumerate() {
            self.encode_part(&items, &entries, &pages, p, (number, parts.len(), flags, prev, age), &mut log)?;
        }
        if let Some(p) = parts.first() {
            (log.at, log.seq) = (p.at, p.seq);
        }
        Ok(log)
    }

    /// Places go where they are looked for; the nodes of DAT.
    fn settle(
        &mut self,
        media: &Media,
        entries: &[SummaryEntry],
        places: &[u64],
        root: bool,
    ) -> Result<Vec<Page>> {
        let mut nodes = Vec::new();
        for (e, at) in entries.iter().zip(places) {
            match (e.ino, e.part) {
                (DAT_INO, Part::Data(n)) => {
                    let file = &mut self.dat.file;
                    let old = file.tree.lookup(n, &mut Physical(media))?;
                    file.tree.set(n, *at, &mut Physical(media))?;
                    self.dat.moved(old.unwrap_or(0), *at);
                }
                (DAT_INO, Part::Node { .. }) => nodes.push(*at),
                _ => self.dat.put(e.vblk, *at, media)?,
            }
        }
        if !root {
            return Ok(Vec::new());
        }
        let (mut at, mut made) = (nodes.into_iter(), Vec::new());
        let missing = || FsError::Corrupt("a node of DAT has no place".to_owned());
        let Dat { file, counts, .. } = &mut self.dat;
        file.tree.place_nodes(&mut |node, old| {
            made.push(node.encode());
            let new = at.next().ok_or_else(missing)?;
            if let Some(counts) = counts {
                counts.move_dat(old, new);
            }
            Ok(new)
        })?;
        self.dat.file.dirty.clear();
        let mut from = Virtual { media, dat: &mut self.dat };
        for seg in std::mem::take(&mut self.segs.touched) {
            let (block, byte) = usage::place(seg);
            let b = self.sufile.block(block, &mut from)?.bytes_mut();
            self.segs.usages[seg as usize].store(&mut b[byte..byte + USAGE]);
        }
        let all = self.segs.geo.segments;
        let b = self.sufile.block(0, &mut from)?.bytes_mut();
        usage::set_header(b, (self.segs.clean, all - self.segs.clean, self.segs.last));
        Ok(made)
    }

    #[allow(clippy::too_many_arguments)]
    fn encode_part(
        &mut self,
        items: &[Item],
        entries: &[SummaryEntry],
        pages: &[Option<Page>],
        p: &crate::segments::Part,
        (number, parts, flags, prev, age): (usize, usize, u16, u64, u64),
        log: &mut Log,
    ) -> Result<()> {
        let range = p.first..p.first + p.count;
        let mut blocks = Vec::with_capacity(p.count + 1);
        for (i, n) in range.clone().enumerate() {
            if let (Some(page), None) = (&pages[n], items[n].from) {
                blocks.push((p.at + p.summary + i as u64, page.clone(), items[n].what));
            }
        }
        if let (true, Some(cno)) = (p.root, log.cno) {
            let inodes = [&self.dat.file, &self.cpfile, &self.sufile].map(State::meta_inode);
            let page = Page::from_bytes(&SuperRoot { cno, age, inodes }.encode());
            blocks.push((p.at + p.summary + p.count as u64, page, Structure::Superblock));
        }
        let data_sum =
            blocks.iter().fold(0, |sum, (_, page, _)| page.with_bytes(|b| crc32c::crc32c_append(sum, b)));
        let first = if number == 0 { BEGIN } else { 0 };
        let last = if number + 1 == parts { END } else { 0 };
        let kept = flags & !(if p.root { 0 } else { SR });
        let header = Header {
            flags: kept | first | last,
            number: number as u16,
            serial: log.serial,
            prev,
            seq: p.seq,
            next: p.next,
            blocks: (p.summary + p.count as u64 + u64::from(p.root)) as u32,
            age: (age / 1_000_000_000) as u32,
            data_sum,
            ..Header::default()
        };
        let grown = log.grown.filter(|_| number + 1 == parts);
        let summary = Summary { header, entries: entries[range].to_vec(), grown, times: log.times }.encode();
        log.blocks.extend((p.at..).zip(summary).map(|(at, page)| (at, page, Structure::Log)));
        log.blocks.extend(blocks);
        Ok(())
    }
}
