//! [`ImageMedium`]: flash pages in a file, their OOB and the saved map in the drive's memory.
//!
//! ```text
//!   blocks[b] ---> entries   len = pages programmed; nothing allocated while erased
//!                            24 B each, see `layout.rs`
//!   wear[b]   erases, top bit: bad
//!   content   repeated word: in the entry | bytes: `flash` at 4096 ppa, its sum in the entry
//!             riding: see granary-redo
//! ```
//!
//! The map is saved as one bit of each entry: whether the page is the current copy of its logical page. Where
//! the drive has BAM, that logical page is the P2L table's, which REMAP changes, and not the one under which
//! the page was programmed. Every change leaves a redo record. A page whose checksum is wrong reads as an
//! error of kind `InvalidData`, which the flash array reports as unreadable.
//!
//! Memory: 24 B for each programmed page, 12 B for each block.

use super::holes::Holes;
use super::layout::{BLOCK_ENTRY, BYTES, FLAGS_AT, LIVE, LPA_AT, Layout, PAGE_ENTRY, PageEntry};
use crate::config::DriveConfig;
use granary_flash::{BlockHeader, BlockNo, Medium, Oob};
use granary_redo::direct::{Done, LogBypass};
use granary_redo::files::DRAM;
use granary_redo::journal::{Change, Journal};
use granary_redo::redo::Redo;
use granary_redo::region::Region;
use granary_redo::{ImageError, sum, wal, word};
use granary_units::{PAGE_SIZE, Page};
use rustc_hash::FxHashMap;
use std::io;
use std::sync::Arc;

const BAD: u32 = 1 << 31;
/// Blocks whose page entries are read at once.
const BLOCKS_AT_ONCE: u64 = 256;
/// Pages at most that a call which programs many of them puts into `flash` together: with 64 planes runs of
/// 16 neighbours.
const MANY: u64 = 1024;
/// Of small drives, this part of all pages: they take steps, too.
const SMALL: u64 = 64;
/// The number of a step that is under way, in the place of the group under which it will be safe. (The
/// largest number of all: not yet handed over.)
const STEP: u64 = 1 << 63;

/// Flash pages in an image.
pub struct ImageMedium {
    pages_per_block: u32,
    #[allow(
        clippy::box_collection,
        reason = "8 bytes for an erased block, of which a large drive has millions"
    )]
    blocks: Vec<Option<Box<Vec<PageEntry>>>>,
    wear: Vec<u32>,
    layout: Layout,
    journal: Arc<Journal>,
    redo: Redo,
    change: Change,
    /// Blocks erased lately, and the group under which that becomes safe; the largest number while it is not
    /// published.
    erased: FxHashMap<u32, u64>,
    frame: Vec<u8>,
    holes: Holes,
    /// Contents of a call that programs many pages.
    direct: LogBypass,
    /// Newest group that was safe when such a call began, or when the last step was done that was waited for.
    safe: u64,
    /// The group of the last step of a call whose rest has not been published.
    published: u64,
}

impl ImageMedium {
    /// The flash of an image, as its memory says; not to be changed before [`ImageMedium::with_journal`].
    pub fn load(config: &DriveConfig, layout: Layout, dram: &Region) -> Result<ImageMedium, ImageError> {
        let g = &config.flash.geometry;
        let mut medium = ImageMedium {
            pages_per_block: g.pages_per_block,
            blocks: std::iter::repeat_with(|| None).take(g.blocks() as usize).collect(),
            wear: vec![0; g.blocks() as usize],
            layout,
            journal: Arc::new(Journal::idle()),
            redo: Redo::new(0),
            change: Change::default(),
            erased: FxHashMap::default(),
            frame: Vec::new(),
            holes: Holes::new(g.blocks(), g.plane_count()),
            direct: LogBypass::default(),
            safe: 0,
            published: 0,
        };
        let mut headers = Vec::new();
        let end = layout.blocks + g.blocks() as u64 * BLOCK_ENTRY;
        for used in dram.used(layout.blocks..end)? {
            headers.resize((used.end - used.start) as usize, 0);
            dram.read(used.start, &mut headers)?;
            let first = (used.start - layout.blocks) / BLOCK_ENTRY;
            medium.load_blocks(first, &headers, dram)?;
        }
        Ok(medium)
    }

    /// Erased blocks are added; entries and headers are kept at other places from now on. Nothing waits to be
    /// published.
    pub fn grow(&mut self, config: &DriveConfig, layout: Layout) {
        assert_eq!(self.redo.len(), 0, "records that wait name the former places");
        let g = &config.flash.geometry;
        self.blocks.resize_with(g.blocks() as usize, || None);
        self.wear.resize(g.blocks() as usize, 0);
        self.holes.grow(g.blocks(), g.plane_count());
        self.layout = layout;
    }

    fn load_blocks(&mut self, first: u64, headers: &[u8], dram: &Region) -> Result<(), ImageError> {
        let per_block = self.pages_per_block as usize;
        let row = per_block * PAGE_ENTRY as usize;
        let mut bytes = Vec::new();
        for (i, some) in headers.chunks(BLOCKS_AT_ONCE as usize * BLOCK_ENTRY as usize).enumerate() {
            let first = first as usize + i * BLOCKS_AT_ONCE as usize;
            let headers = some.chunks_exact(BLOCK_ENTRY as usize);
            if headers.clone().any(|h| word(h, 0) > 0) {
                bytes.resize(headers.len() * row, 0);
                dram.read(self.layout.pages + (first * row) as u64, &mut bytes)?;
            }
            for (j, h) in headers.enumerate() {
                let (programmed, erases, bad) = (word(h, 0) as usize, word(h, 4), word(h, 8));
                if programmed > per_block || erases >= BAD || bad > 1 {
                    let why =
                        format!("block {} has {programmed} pages, {erases} erases, bad {bad}", first + j);
                    return Err(ImageError::damaged(DRAM, why));
                }
                self.wear[first + j] = erases | if bad == 1 { BAD } else { 0 };
                if programmed > 0 {
                    let entries = &bytes[j * row..j * row + programmed * PAGE_ENTRY as usize];
                    let entries = entries.chunks_exact(PAGE_ENTRY as usize);
                    let parse = |e: &[u8]| PageEntry::from_bytes(e.try_into().expect("whole entries"));
                    self.blocks[first + j] = Some(Box::new(entries.map(parse).collect()));
                    self.check_entries(first + j)?;
                    let entries = self.blocks[first + j].iter().flat_map(|b| b.iter());
                    let live = entries.filter(|e| e.flags & LIVE != 0).count();
                    self.holes.loaded((first + j) as u32, live);
                }
            }
        }
        Ok(())
    }

    fn check_entries(&self, block: usize) -> Result<(), ImageError> {
        for e in self.blocks[block].iter().flat_map(|b| b.iter()) {
            if e.flags & !(LIVE | BYTES) != 0 || e.len as usize > PAGE_SIZE {
                return Err(ImageError::damaged(DRAM, format!("block {block} has a malformed page: {e:?}")));
            }
        }
        Ok(())
    }

    /// The same with another journal.
    pub fn with_journal(self, journal: Arc<Journal>) -> ImageMedium {
        ImageMedium { journal, ..self }
    }

    /// Whether the image takes no changes: they live as long as this process.
    pub fn is_read_only(&self) -> bool {
        self.journal.is_read_only()
    }

    /// Whether a programmed page is the current copy of its logical page.
    pub fn is_live(&self, block: BlockNo, page: u32) -> bool {
        self.entry(block, page).flags & LIVE != 0
    }

    /// The sequence number of the newest program of a flash page, if it holds anything.
    pub fn sequence(&self, ppa: u32) -> Option<u64> {
        let (block, page) = (ppa / self.pages_per_block, ppa % self.pages_per_block);
        self.blocks.get(block as usize)?.as_ref()?.get(page as usize).map(|e| e.seq)
    }

    fn entry(&self, block: BlockNo, page: u32) -> &PageEntry {
        let entries = self.blocks[block.0 as usize].as_ref().expect("a programmed page's block has entries");
        &entries[page as usize]
    }

    fn ppa(&self, block: BlockNo, page: u32) -> u32 {
        block.0 * self.pages_per_block + page
    }

    /// Puts content where it is to be found; returns how the entry describes it: (word or checksum, length,
    /// flags).
    fn place(&mut self, block: BlockNo, ppa: u32, seq: u64, content: &Page) -> io::Result<(u64, u16, u16)> {
        if let Some((word, len)) = content.as_word() {
            return Ok((word, len as u16, 0));
        }
        let content = &content.unpacked();
        let bytes = content.as_bytes().expect("no word, so unpacked bytes");
        let sum = sum::page(bytes);
        let erased = self.erased.get(&block.0).copied();
        let goes_direct = if self.direct.is_many() {
            // Not by the groups that are safe at this moment: the work shall not depend on how quick the
            // thread is.
            !self.journal.is_read_only() && erased.is_none_or(|g| g <= self.safe)
        } else {
            self.journal.may_write_flash(erased, self.change.riders.len())
        };
        if !goes_direct {
            self.change.riders.push(self.journal.rider(ppa, seq, content, sum));
        } else if self.direct.is_many() {
            self.direct.put(ppa, content.clone());
        } else {
            self.journal.write_flash(ppa, &[bytes]).map_err(io::Error::other)?;
            self.change.wrote_flash = true;
        }
        Ok((sum as u64, 0, BYTES))
    }

    fn put_entry(&mut self, ppa: u32, entry: PageEntry) {
        self.redo.put(self.layout.pages + ppa as u64 * PAGE_ENTRY, &entry.to_bytes());
    }

    fn unlive(&mut self, block: BlockNo, page: u32) {
        let ppa = self.ppa(block, page);
        let Some(entries) = &mut self.blocks[block.0 as usize] else { return };
        let e = &mut entries[page as usize];
        if e.flags & LIVE != 0 {
            e.flags &= !LIVE;
            self.holes.remove(block.0);
            if e.flags & BYTES != 0
                && let Some(newer) = self.journal.death()
            {
                self.change.dead.push((ppa, newer));
            }
            let flags = e.flags.to_le_bytes();
            self.redo.put(self.layout.pages + ppa as u64 * PAGE_ENTRY + FLAGS_AT, &flags);
        }
    }

    /// Puts the changes of another part of the drive into one group with the flash's changes from here on.
    pub fn carry(&mut self, redo: &mut Redo) {
        self.redo.take(redo);
    }

    /// Whether enough has changed that long work in small steps should publish.
    pub fn is_publish_due(&self) -> bool {
        let (blocks, per_block) = self.shape();
        let many = (blocks as u64 * per_block as u64 / SMALL).clamp(1, MANY);
        self.redo.len() > 64 << 10 || self.change.riders.len() > 16 || self.direct.len() as u64 >= many
    }

    /// One call is about to program many pages, which then need not ride in the log, or has done so.
    pub fn program_many(&mut self, many: bool) {
        if many {
            self.safe = self.journal.safe_group();
            self.direct.begin();
        } else if let Some(last) = self.direct.finish(&self.journal) {
            self.erases_safe_with(last.group, last.safe, |g| g & STEP != 0 && g != u64::MAX);
            // The rest of the call is published with a later group, or with none, where nothing is left of
            // it.
            self.published = last.group;
        }
    }

    /// Those of the noted erases that `are` meant become safe with this group; up to the group `safe` all
    /// are.
    fn erases_safe_with(&mut self, group: u64, safe: u64, are: impl Fn(u64) -> bool) {
        self.erased.values_mut().filter(|g| are(**g)).for_each(|g| *g = group);
        self.erased.retain(|_, g| *g > safe);
    }

    /// Hands over all changes since the last time, and those that `gather` adds from the rest of the drive.
    ///
    /// # Errors
    /// Why the image takes no more changes.
    pub fn publish(&mut self, gather: impl FnOnce(&mut Vec<u8>)) -> Result<(), String> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        frame.resize(wal::FRAME, 0);
        self.redo.drain_into(&mut frame);
        gather(&mut frame);
        if self.direct.is_many() && !self.journal.is_read_only() {
            return self.publish_step(frame);
        }
        if !self.direct.is_empty() && self.journal.failure().is_none() {
            self.direct.write(&self.journal)?;
            self.change.wrote_flash = true;
        }
        let published = self.journal.publish(&mut frame, &mut self.change);
        self.frame = frame;
        let group = published?.max(std::mem::take(&mut self.published));
        self.change.wrote_flash = false;
        if std::mem::take(&mut self.change.erased) {
            // Group 0 is safe already: process mode.
            self.erases_safe_with(group, self.journal.safe_group(), |g| g == u64::MAX);
        }
        self.holes.published(group);
        if self.holes.is_due() {
            self.punch(false);
        }
        Ok(())
    }

    /// The same beside which the call goes on. Holes wait until its end.
    fn publish_step(&mut self, frame: Vec<u8>) -> Result<(), String> {
        let change = std::mem::take(&mut self.change);
        if change.erased {
            // In process mode a frame is safe with its step, and so before contents of later steps are
            // written.
            let group = if self.journal.has_barriers() { STEP | self.direct.next() } else { 0 };
            self.erases_safe_with(group, self.safe, |g| g == u64::MAX);
        }
        if let Some(Done { number, group, safe }) = self.direct.hand_over(&self.journal, frame, change)? {
            self.safe = safe;
            self.erases_safe_with(group, safe, |g| g == STEP | number);
        }
        Ok(())
    }

    /// Gives space of blocks that hold nothing current back to the host: a batch of those that have waited
    /// longest, or with `all` of all. Where the host refuses, the space stays taken.
    pub fn punch(&mut self, all: bool) {
        let block = self.pages_per_block as u64 * PAGE_SIZE as u64;
        for (first, n) in self.holes.take(self.journal.safe_group(), all) {
            self.journal.punch_flash(first as u64 * block, n as u64 * block);
        }
    }
}

impl Medium for ImageMedium {
    fn shape(&self) -> (u32, u32) {
        (self.blocks.len() as u32, self.pages_per_block)
    }

    fn header(&self, block: BlockNo) -> io::Result<BlockHeader> {
        let (wear, entries) = (self.wear[block.0 as usize], &self.blocks[block.0 as usize]);
        let programmed = entries.as_ref().map_or(0, |e| e.len() as u32);
        Ok(BlockHeader { programmed, erases: wear & !BAD, bad: wear & BAD != 0 })
    }

    fn read(&self, block: BlockNo, page: u32) -> io::Result<(Page, Oob)> {
        let e = *self.entry(block, page);
        let oob = Oob { seq: e.seq, lpa: e.lpa };
        if e.flags & BYTES == 0 {
            return Ok((Page::prefix(e.word, e.len as usize), oob));
        }
        let ppa = self.ppa(block, page);
        if let Some(rider) = self.change.riders.iter().rev().find(|r| r.ppa == ppa) {
            return Ok((rider.page.clone(), oob));
        }
        if let Some(content) = self.direct.find(ppa) {
            return Ok((content.clone(), oob));
        }
        if let Some(content) = self.journal.held(ppa)? {
            return Ok((content, oob));
        }
        let mut bytes = [0; PAGE_SIZE];
        self.journal.flash().read_at(ppa as u64 * PAGE_SIZE as u64, &mut bytes)?;
        if sum::page(&bytes) as u64 != e.word {
            let why = format!("flash page {ppa} of the image does not have its checksum");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok((Page::from_bytes(&bytes), oob))
    }

    fn oob(&self, block: BlockNo, page: u32) -> io::Result<Oob> {
        let e = self.entry(block, page);
        Ok(Oob { seq: e.seq, lpa: e.lpa })
    }

    fn program(&mut self, block: BlockNo, page: u32, content: &Page, oob: Oob) -> io::Result<()> {
        if let Some(reason) = self.journal.failure() {
            return Err(io::Error::other(reason));
        }
        let ppa = self.ppa(block, page);
        let (word, len, flags) = self.place(block, ppa, oob.seq, content)?;
        let live = if oob.lpa == Oob::NO_LPA { 0 } else { LIVE };
        if live != 0 {
            self.holes.add(block.0);
        }
        let entry = PageEntry { seq: oob.seq, word, lpa: oob.lpa, len, flags: flags | live };
        let per_block = self.pages_per_block as usize;
        let entries =
            self.blocks[block.0 as usize].get_or_insert_with(|| Box::new(Vec::with_capacity(per_block)));
        assert_eq!(entries.len(), page as usize, "pages of a block are programmed in order");
        entries.push(entry);
        self.put_entry(ppa, entry);
        let at = self.layout.blocks + block.0 as u64 * BLOCK_ENTRY;
        self.redo.put(at, &(page + 1).to_le_bytes());
        Ok(())
    }

    fn erase(&mut self, block: BlockNo) -> io::Result<()> {
        self.blocks[block.0 as usize] = None;
        let pages = self.ppa(block, 0)..self.ppa(block, self.pages_per_block);
        self.direct.forget(pages);
        self.wear[block.0 as usize] += 1;
        let mut header = [0; 8];
        header[4..].copy_from_slice(&(self.wear[block.0 as usize] & !BAD).to_le_bytes());
        self.redo.put(self.layout.blocks + block.0 as u64 * BLOCK_ENTRY, &header);
        self.erased.insert(block.0, u64::MAX);
        self.change.erased = true;
        Ok(())
    }

    fn mark_bad(&mut self, block: BlockNo) -> io::Result<()> {
        self.wear[block.0 as usize] |= BAD;
        self.redo.put(self.layout.blocks + block.0 as u64 * BLOCK_ENTRY + 8, &1u32.to_le_bytes());
        Ok(())
    }

    fn replace(&mut self, block: BlockNo, page: u32, content: &Page) -> io::Result<()> {
        let (ppa, old) = (self.ppa(block, page), *self.entry(block, page));
        // As if its block had just been erased: the old content is needed until the new one is safe.
        self.erased.insert(block.0, u64::MAX);
        self.change.erased = true;
        let (word, len, flags) = self.place(block, ppa, old.seq, content)?;
        let entry = PageEntry { word, len, flags: flags | (old.flags & LIVE), ..old };
        if let Some(entries) = &mut self.blocks[block.0 as usize] {
            entries[page as usize] = entry;
        }
        self.put_entry(ppa, entry);
        Ok(())
    }

    fn rename(&mut self, block: BlockNo, page: u32, lpa: u32) {
        let ppa = self.ppa(block, page);
        if let Some(entries) = &mut self.blocks[block.0 as usize] {
            entries[page as usize].lpa = lpa;
            self.redo.put(self.layout.pages + ppa as u64 * PAGE_ENTRY + LPA_AT, &lpa.to_le_bytes());
        }
    }

    fn forget(&mut self, block: BlockNo, page: u32) {
        self.unlive(block, page);
    }

    fn doomed(&mut self, block: BlockNo, page: u32) {
        self.unlive(block, page);
    }
}
