//! Undo slots: bytes that a write is about to change in place are copied first (`data_atomicity = "undo"`).
//!
//! ```text
//!   1 old pages and blocks copied to free ones
//!   2 slot: number, inode, (target, copy)...; fence
//!   3 in place; fence
//!   4 group: entries, size, times, and the slot's number in the inode                       the write counts
//!   5 slot: number 0; fence; the copies are free
//!
//!   slot   0 number 8, 0: none | 8 inode 8 | 16 entries 4 | 20 CRC-32C of the rest, itself zero 4
//!          24 zero 8 | 32 entries
//!   entry  target 8, copy 8: kind in the highest byte (1 NVM page, 2 SSD block), number below
//! ```
//!
//! A mount that finds a slot whose number its inode does not have puts the copies back: the write is as if it
//! had never been. The copies belong to nobody, so a mount finds them free, and nothing is taken before all
//! slots are settled.
//!
//! One slot for each journal. A file has one such write at a time, since its inode remembers one number.
//!
//! Source: the released code names such a mode (ORCHFS_ATOMIC_WRITE) and has none; the paper offers "optional
//! logical journaling" (section 4, notes). The protocol is this file's.

use crate::engine::{Group, Work};
use crate::fs::OrchFs;
use crate::geometry::Pages;
use crate::geometry::{BLOCK, PAGE};
use crate::layout::inode;
use crate::layout::{Area, Layout};
use crate::node::Node;
use crate::pools::{Claim, Taken};
use crate::write::Job;
use granary_device::{Port, Structure};
use granary_fs::Result;
use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};
use granary_pm::{Pm, corrupt};
use granary_sim::Step;
use granary_sim::sync::MutexGuard;
use granary_units::{Lpa, Page};
use std::sync::atomic::Ordering::Relaxed;

const HEAD: usize = 32;
const ENTRY: usize = 16;
/// Most entries of a slot, which is a page.
pub const ENTRIES: usize = (PAGE as usize - HEAD) / ENTRY;
const SHIFT: u32 = 56;
const NUMBER: u64 = (1 << SHIFT) - 1;

/// Something that is overwritten, and where its old bytes are.
type Entry = (Area, u64, u64);

/// Old bytes that are kept until the write counts.
pub struct Kept<'a> {
    fs: &'a OrchFs,
    slot: u64,
    /// The slot's number.
    pub number: u64,
    _step: Step,
    _copies: Taken<'a>,
    _slot: MutexGuard<'a, ()>,
    _file: MutexGuard<'a, ()>,
}

impl OrchFs {
    /// Copies what these jobs overwrite. `None`: they overwrite nothing.
    ///
    /// # Errors
    /// `NoSpace` where there is no room for copies; the drives'. Nothing is changed then.
    pub(crate) fn keep_old<'a>(
        &'a self,
        process: u32,
        node: &'a Node,
        jobs: &[Job<'_>],
    ) -> Result<Option<Kept<'a>>> {
        let targets: Vec<(Area, u64)> = jobs.iter().flat_map(Job::overwrites).collect();
        if targets.is_empty() {
            return Ok(None);
        }
        let file = node.undoing.lock();
        let journal = self.journal_of(process);
        let slot_lock = self.journals[journal].undo.lock();
        // Content, but given back at once: it may use what is kept for names.
        let mut copies = Taken::new(&self.pools, process, Claim::Metadata);
        let mut entries: Vec<Entry> = Vec::with_capacity(targets.len());
        for (area, target) in targets {
            let copy = self.take(&mut copies, area)?;
            entries.push((area, target, copy));
        }
        let (mut b, mut group) = (self.pm.batch(), Group::default());
        for (area, target, copy) in &entries {
            match area {
                Area::Page => {
                    let mut old = [Page::ZERO];
                    self.pm.load_pages(
                        self.layout.at(Area::Page, *target),
                        PAGE as usize,
                        &mut old,
                        Structure::Journal,
                    )?;
                    b.stream_page(self.layout.at(Area::Page, *copy) / PAGE, &old[0], Structure::Journal)?;
                }
                _ => {
                    let pages = load_block(&self.ssd, *target)?;
                    self.engine.submit(Work::block_write(*copy, pages), Some(&mut group));
                }
            }
        }
        self.engine.wait(&group)?;
        if entries.iter().any(|(area, ..)| *area == Area::Block) {
            self.ssd.make_safe()?;
        }
        let number = self.undone.fetch_add(1, Relaxed);
        let slot = self.layout.undo(journal as u64);
        b.fence()?;
        let _step = granary_sim::step("orchfs: a write may be undone");
        b.put(slot, &encode(number, node.ino.0, &entries), Structure::Journal)?;
        b.fence()?;
        Ok(Some(Kept { fs: self, slot, number, _step, _copies: copies, _slot: slot_lock, _file: file }))
    }
}

impl Kept<'_> {
    /// The write counts: the old bytes are nobody's any more.
    ///
    /// # Errors
    /// The drive's.
    pub fn let_go(self) -> Result<()> {
        clear(&self.fs.pm, self.slot)
    }
}

fn clear(pm: &Pm, slot: u64) -> Result<()> {
    let mut b = pm.batch();
    b.put_u64(slot, 0, Structure::Journal)?;
    b.fence()
}

fn load_block(ssd: &Port, block: u64) -> Result<Pages> {
    let mut pages = Pages::default();
    ssd.read(Lpa(block * BLOCK / PAGE), &mut pages, Structure::Journal)?;
    Ok(pages)
}

fn encode(number: u64, ino: u64, entries: &[Entry]) -> Vec<u8> {
    let mut b = vec![0; HEAD + ENTRY * entries.len()];
    put_u64(&mut b, 0, number);
    put_u64(&mut b, 8, ino);
    put_u32(&mut b, 16, entries.len() as u32);
    for (i, (area, target, copy)) in entries.iter().enumerate() {
        let kind = if *area == Area::Page { 1u64 } else { 2 } << SHIFT;
        put_u64(&mut b, HEAD + ENTRY * i, kind | target);
        put_u64(&mut b, HEAD + ENTRY * i + 8, kind | copy);
    }
    let crc = crc32c::crc32c(&b);
    put_u32(&mut b, 20, crc);
    b
}

/// A slot that is in use and whole: number, inode, entries.
fn decode(b: &[u8], layout: &Layout) -> Option<(u64, u64, Vec<Entry>)> {
    let (number, ino, count) = (u64_at(b, 0), u64_at(b, 8), u32_at(b, 16) as usize);
    if number == 0 || count > ENTRIES {
        return None;
    }
    let mut plain = b[..HEAD + ENTRY * count].to_vec();
    put_u32(&mut plain, 20, 0);
    if crc32c::crc32c(&plain) != u32_at(b, 20) {
        return None;
    }
    let entry = |i: usize| {
        let (target, copy) = (u64_at(b, HEAD + ENTRY * i), u64_at(b, HEAD + ENTRY * i + 8));
        let area = match (target >> SHIFT, copy >> SHIFT) {
            (1, 1) => Area::Page,
            (2, 2) => Area::Block,
            _ => return None,
        };
        let (target, copy) = (target & NUMBER, copy & NUMBER);
        (layout.has(area, target) && layout.has(area, copy)).then_some((area, target, copy))
    };
    let entries: Option<Vec<Entry>> = (0..count).map(entry).collect();
    Some((number, ino, entries?))
}

/// Whether an inode has all of these.
type Belongs<'a> = dyn Fn(u64, &[(Area, u64)]) -> Result<bool> + 'a;

/// Settles the slot of a journal at a mount, when everything else is at home; how many pages and blocks were
/// put back. `belongs`: whether the inode has it, since whoever wrote the slot may be hostile.
///
/// # Errors
/// `Corrupt` where it names what is not its inode's; the drives'.
pub fn settle((pm, ssd): (&Pm, &Port), layout: &Layout, journal: u64, belongs: &Belongs<'_>) -> Result<u64> {
    let at = layout.undo(journal);
    let mut b = vec![0; PAGE as usize];
    pm.load(at, &mut b, Structure::Journal)?;
    let Some((number, ino, entries)) = decode(&b, layout) else { return Ok(0) };
    let _step = granary_sim::step("orchfs: a mount settles an undo slot");
    let mut old = [0; inode::SIZE];
    if !layout.has(Area::Inode, ino) {
        return Err(corrupt(format!("an undo slot is of inode {ino}")));
    }
    pm.load(layout.at(Area::Inode, ino), &mut old, Structure::Inode)?;
    let mut back = 0;
    if inode::kind(&old)?.is_some() && u64_at(&old, inode::UNDO) != number {
        let targets: Vec<(Area, u64)> = entries.iter().map(|(area, target, _)| (*area, *target)).collect();
        if !belongs(ino, &targets)? {
            return Err(corrupt(format!("an undo slot of inode {ino} names what is another's")));
        }
        let mut b = pm.batch();
        for (area, target, copy) in &entries {
            match area {
                Area::Page => {
                    let mut page = [Page::ZERO];
                    pm.load_pages(
                        layout.at(Area::Page, *copy),
                        PAGE as usize,
                        &mut page,
                        Structure::Journal,
                    )?;
                    b.stream_page(layout.at(Area::Page, *target) / PAGE, &page[0], Structure::Data)?;
                }
                _ => ssd.write_safe(Lpa(target * BLOCK / PAGE), &load_block(ssd, *copy)?, Structure::Data)?,
            }
        }
        b.fence()?;
        back = entries.len() as u64;
    }
    clear(pm, at)?;
    Ok(back)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::superblock::Superblock;
    use granary_sim::rng::Stream;

    #[test]
    fn slots_come_back_and_torn_ones_do_not() {
        let sb = Superblock { journals: 1, blocks: 50, inodes: 9, pages: 70, ..Superblock::default() };
        let layout = Layout::of(&sb);
        let entries = [(Area::Page, 3, 69), (Area::Block, 0, 49), (Area::Page, 1, 2)];
        let mut bytes = encode(77, 5, &entries);
        let mut random = Stream::new(1, "slots");
        bytes.resize(PAGE as usize, 0xaa);
        assert_eq!(decode(&bytes, &layout), Some((77, 5, entries.to_vec())));
        for _ in 0..300 {
            let mut torn = bytes.clone();
            torn[random.below((HEAD + ENTRY * 3) as u64) as usize] ^= 1 << random.below(8);
            assert_eq!(decode(&torn, &layout), None);
        }
        for beyond in [(Area::Page, 70, 1), (Area::Page, 0, 1), (Area::Block, 1, 50)] {
            let mut bytes = encode(77, 5, &[beyond]);
            bytes.resize(PAGE as usize, 0);
            assert_eq!(decode(&bytes, &layout), None, "{beyond:?}");
        }
    }
}
