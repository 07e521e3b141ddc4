//! [`FileMap`]: where a file's blocks are, in host memory, and in which slots that is written.
//!
//! ```text
//!   extents (sorted):   [block, lba, len, slot] [block, lba, len, slot] ...
//!   slots on media:     0 1 2 in the inode | 3.. in extent blocks, in any order; free ones are reused
//! ```
//!
//! All extents are loaded with the inode, so a lookup never reads. Changes are made here first and return the
//! slots to write; who changes the map holds the inode's `change` lock and writes the slots in the same
//! transaction.
//!
//! Invariants: extents are sorted, do not overlap, and neighbours that continue each other on the drive are
//! one extent; each has its own slot, except in an inode that is no longer on media ([`NO_SLOT`]).
//!
//! Source: ByteFS section 4.5 (data pointers).

use crate::layout::bitmap::BITS_PER_GROUP;
use crate::layout::{Extent, INLINE_SLOTS, POINTERS_PER_INDEX, SLOTS_PER_EXTENT_BLOCK, extent};
use crate::ranges::Ranges;
use crate::space::Run;
use smallvec::SmallVec;
use std::ops::Range;

/// The slot of an extent that is not on media.
pub const NO_SLOT: u32 = u32::MAX;

/// An extent in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// First block in the file.
    pub block: u64,
    /// First block on the drive.
    pub lba: u32,
    /// Number of blocks.
    pub len: u32,
    /// Where it is written.
    pub slot: u32,
}

/// Place of a file block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// At this block of the drive, as are the next `len - 1`.
    At {
        /// Block on the drive.
        lba: u32,
        /// Blocks that follow without a gap, this one included.
        len: u64,
    },
    /// Nowhere, as are the next `len - 1`.
    Hole {
        /// Blocks up to the next extent; `u64::MAX` = none follows.
        len: u64,
    },
}

/// A slot to write: its number and its new content.
pub type SlotEdit = (u32, Extent);
/// Most changes of a map write one or two.
pub type SlotEdits = SmallVec<[SlotEdit; 4]>;

/// Where a file's blocks are.
#[derive(Default)]
pub struct FileMap {
    extents: SmallVec<[Mapped; 2]>,
    free_slots: SmallVec<[u32; INLINE_SLOTS as usize + 1]>,
    slots: u32,
    /// Extent blocks on media.
    pub slot_blocks: Vec<u32>,
    /// Index blocks on media.
    pub index_blocks: Vec<u32>,
    /// Blocks of extended attributes on media, the head first.
    pub xattr_blocks: Vec<u32>,
    /// Content of the slots in the inode.
    pub inline: [Extent; INLINE_SLOTS as usize],
    /// Pages with reserved space and no block.
    pub reserved: Ranges,
    /// Blocks reserved for extent blocks that the reserved pages may need.
    pub reserved_meta: u64,
    mapped: u64,
}

impl FileMap {
    /// From the slots on media, in order of slots.
    ///
    /// # Errors
    /// A sentence where two extents overlap or an extent runs over the end of block numbers.
    pub fn load(slots: u32, content: impl Iterator<Item = Extent>) -> Result<FileMap, String> {
        let mut map = FileMap { slots, ..FileMap::default() };
        for (slot, e) in content.enumerate().take(slots as usize) {
            let slot = slot as u32;
            if let Some(inline) = map.inline.get_mut(slot as usize) {
                *inline = e;
            }
            match e.len.get() {
                0 => map.free_slots.push(slot),
                len => {
                    let (block, lba) = (e.block.get(), e.lba.get());
                    if block.checked_add(len as u64).is_none() || lba.checked_add(len).is_none() {
                        return Err(format!("extent {block}+{len} at {lba} runs over the end"));
                    }
                    map.mapped += len as u64;
                    map.extents.push(Mapped { block, lba, len, slot });
                }
            }
        }
        map.free_slots.reverse();
        map.extents.sort_unstable_by_key(|e| e.block);
        match map.extents.windows(2).find(|w| w[0].block + w[0].len as u64 > w[1].block) {
            Some(w) => Err(format!("extents {:?} and {:?} overlap", w[0], w[1])),
            None => Ok(map),
        }
    }

    /// The extents in file order.
    pub fn extents(&self) -> &[Mapped] {
        &self.extents
    }

    /// The file block behind the last extent.
    pub fn end(&self) -> u64 {
        self.extents.last().map_or(0, |e| e.block + e.len as u64)
    }

    /// Slots ever used.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Blocks that the file owns: data, extent and index blocks, extended attributes.
    pub fn blocks(&self) -> u64 {
        self.mapped + (self.slot_blocks.len() + self.index_blocks.len() + self.xattr_blocks.len()) as u64
    }

    /// Place of file block `n`.
    pub fn piece(&self, n: u64) -> Piece {
        let i = self.extents.partition_point(|e| e.block + e.len as u64 <= n);
        match self.extents.get(i) {
            Some(e) if e.block <= n => {
                let skip = n - e.block;
                Piece::At { lba: e.lba + skip as u32, len: e.len as u64 - skip }
            }
            Some(e) => Piece::Hole { len: e.block - n },
            None => Piece::Hole { len: u64::MAX },
        }
    }

    /// Where file block `n` should be allocated: behind the block before it.
    pub fn goal(&self, n: u64) -> Option<u32> {
        let i = self.extents.partition_point(|e| e.block < n);
        let before = self.extents[..i].last()?;
        before.lba.checked_add(before.len)
    }

    /// Slots free for extents without a new extent block.
    fn free_slot_count(&self) -> u64 {
        let capacity = INLINE_SLOTS as u64 + self.slot_blocks.len() as u64 * SLOTS_PER_EXTENT_BLOCK as u64;
        self.free_slots.len() as u64 + capacity - self.slots as u64
    }

    /// Extent and index blocks to allocate before `n` more extents can be added.
    pub fn blocks_missing(&self, n: u64) -> (u64, u64) {
        let short = n.saturating_sub(self.free_slot_count());
        let slot_blocks = short.div_ceil(SLOTS_PER_EXTENT_BLOCK as u64);
        let all = self.slot_blocks.len() as u64 + slot_blocks;
        let index = all.div_ceil(POINTERS_PER_INDEX as u64) - self.index_blocks.len() as u64;
        (slot_blocks, index)
    }

    /// How many of these runs, which lay nowhere before and come in ascending order, need a slot: those that
    /// neither go on where the one before ends nor lead to the one behind.
    pub fn slots_for(&self, new: &[(u64, Run)]) -> u64 {
        let mut end = None;
        let mut needs = |&(block, run): &(u64, Run)| {
            let goes_on = end.replace((block + run.len as u64, run.lba + run.len)) == Some((block, run.lba));
            let i = self.extents.partition_point(|e| e.block < block);
            let left = i.checked_sub(1).map(|i| &self.extents[i]);
            let joins = goes_on
                || left.is_some_and(|e| (e.block + e.len as u64, e.lba + e.len) == (block, run.lba))
                || self.extents.get(i).is_some_and(|e| Some((e.block, e.lba)) == end);
            !joins
        };
        new.iter().filter(|n| needs(n)).count() as u64
    }

    /// Blocks that must be reserved besides the pages: room for one extent per reserved page.
    pub fn meta_needed(&self) -> u64 {
        match self.reserved.count() {
            0 => 0,
            pages => {
                let (slots, index) = self.blocks_missing(pages);
                slots + index
            }
        }
    }

    fn write(&mut self, slot: u32, e: Extent, edits: &mut SlotEdits) {
        if slot != NO_SLOT {
            if let Some(inline) = self.inline.get_mut(slot as usize) {
                *inline = e;
            }
            edits.push((slot, e));
        }
    }

    fn write_extent(&mut self, i: usize, edits: &mut SlotEdits) {
        let e = self.extents[i];
        self.write(e.slot, Extent::new(e.block, e.lba, e.len), edits);
    }

    fn clear(&mut self, slot: u32, edits: &mut SlotEdits) {
        self.write(slot, Extent::default(), edits);
        if slot != NO_SLOT {
            self.free_slots.push(slot);
        }
    }

    /// Enters that file blocks from `block` on lie in `run`; they lay nowhere before. With `on_media`, slots
    /// must be there ([`FileMap::blocks_missing`]).
    pub fn add(&mut self, block: u64, run: Run, on_media: bool, edits: &mut SlotEdits) {
        let i = self.extents.partition_point(|e| e.block < block);
        let end = (block + run.len as u64, run.lba + run.len);
        self.mapped += run.len as u64;
        let joins_left = i > 0 && {
            let e = &self.extents[i - 1];
            debug_assert!(e.block + e.len as u64 <= block);
            (e.block + e.len as u64, e.lba + e.len) == (block, run.lba)
        };
        let joins_right = self.extents.get(i).is_some_and(|e| (e.block, e.lba) == end);
        if joins_left {
            self.extents[i - 1].len += run.len;
            if joins_right {
                let right = self.extents.remove(i);
                self.extents[i - 1].len += right.len;
                self.clear(right.slot, edits);
            }
            self.write_extent(i - 1, edits);
        } else if joins_right {
            let e = &mut self.extents[i];
            (e.block, e.lba, e.len) = (block, run.lba, e.len + run.len);
            self.write_extent(i, edits);
        } else {
            let slot = match (on_media, self.free_slots.pop()) {
                (false, _) => NO_SLOT,
                (true, Some(slot)) => slot,
                (true, None) => {
                    self.slots += 1;
                    debug_assert!(self.slots <= INLINE_SLOTS + self.slot_blocks.len() as u32 * 256);
                    self.slots - 1
                }
            };
            self.extents.insert(i, Mapped { block, lba: run.lba, len: run.len, slot });
            self.write_extent(i, edits);
        }
    }

    /// Makes the slots in use reach into the last extent block: new extents may have joined others, so that a
    /// block allocated for them is not needed yet, but which blocks exist is told by [`FileMap::slots`]
    /// alone.
    pub fn cover_slot_blocks(&mut self, edits: &mut SlotEdits) {
        while (extent::blocks_for(self.slots) as usize) < self.slot_blocks.len() {
            self.slots += 1;
            self.clear(self.slots - 1, edits);
        }
    }

    /// Removes blocks from `keep` on, from the end backwards, until done or `lines` lines (of the bitmap and
    /// of slots) would be changed. Returns whether it is done; `freed` and `edits` receive what to do.
    pub fn cut(&mut self, keep: u64, lines: u32, freed: &mut Vec<Run>, edits: &mut SlotEdits) -> bool {
        let mut left = lines as u64;
        while let Some(&e) = self.extents.last() {
            let end = e.block + e.len as u64;
            if end <= keep {
                return true;
            }
            if left < 4 {
                return false;
            }
            let mut n = (end - keep.max(e.block)) as u32;
            // A slot's line, and a run can begin and end within a group: at most two lines more than it
            // fills.
            let room = (left - 3) * BITS_PER_GROUP;
            n = n.min(room.min(u32::MAX as u64) as u32);
            left -= 3 + n as u64 / BITS_PER_GROUP;
            freed.push(Run { lba: e.lba + e.len - n, len: n });
            self.mapped -= n as u64;
            if n == e.len {
                self.extents.pop();
                self.clear(e.slot, edits);
            } else {
                let i = self.extents.len() - 1;
                self.extents[i].len -= n;
                self.write_extent(i, edits);
            }
        }
        true
    }

    /// Whether making `range` a hole cuts an extent in two.
    pub fn splits(&self, range: &Range<u64>) -> bool {
        let at = |n: u64| match self.piece(n) {
            Piece::At { len, .. } => len,
            Piece::Hole { .. } => 0,
        };
        // The block behind the range goes on the extent that the last one is in.
        !range.is_empty() && at(range.end - 1) > 1
    }

    /// Makes `range` a hole, from its end backwards, until done or `lines` lines would be changed. One slot
    /// must be free where it [splits](FileMap::splits) an extent. Returns whether it is done.
    pub fn punch(
        &mut self,
        range: &Range<u64>,
        on_media: bool,
        lines: u32,
        freed: &mut Vec<Run>,
        edits: &mut SlotEdits,
    ) -> bool {
        let mut left = lines as u64;
        loop {
            let i = self.extents.partition_point(|e| e.block < range.end);
            let Some(e) = i.checked_sub(1).map(|i| self.extents[i]) else { return true };
            let (start, end) = (e.block.max(range.start), (e.block + e.len as u64).min(range.end));
            if end <= range.start || start >= end {
                return true;
            }
            if left < 5 {
                return false;
            }
            let i = i - 1;
            // Slots' lines, and a run can begin and end within a group: at most two lines more than it fills.
            let n = (end - start).min((left - 4) * BITS_PER_GROUP) as u32;
            left -= 4 + n as u64 / BITS_PER_GROUP;
            let start = end - n as u64;
            let lba = e.lba + (start - e.block) as u32;
            freed.push(Run { lba, len: n });
            self.mapped -= n as u64;
            let behind = (e.block + e.len as u64 - end) as u32;
            let before = (start - e.block) as u32;
            match (before, behind) {
                (0, 0) => {
                    self.extents.remove(i);
                    self.clear(e.slot, edits);
                }
                (0, _) => {
                    self.extents[i] = Mapped { block: end, lba: lba + n, len: behind, ..e };
                    self.write_extent(i, edits);
                }
                (_, 0) => {
                    self.extents[i].len = before;
                    self.write_extent(i, edits);
                }
                _ => {
                    self.extents[i].len = before;
                    self.write_extent(i, edits);
                    self.mapped -= behind as u64;
                    self.add(end, Run { lba: lba + n, len: behind }, on_media, edits);
                }
            }
        }
    }

    /// Where so few extents are left that the inode's own slots hold them: moves them there. Returns the
    /// extent and index blocks, which are free now, or `None` where nothing was to be done. The whole record
    /// has to be written.
    pub fn shrink_slots(&mut self) -> Option<Vec<Run>> {
        let few = self.extents.len() <= INLINE_SLOTS as usize;
        if !few || (self.slot_blocks.is_empty() && (self.slots == 0 || !self.extents.is_empty())) {
            return None;
        }
        self.inline = Default::default();
        for (slot, (e, inline)) in self.extents.iter_mut().zip(&mut self.inline).enumerate() {
            e.slot = slot as u32;
            *inline = Extent::new(e.block, e.lba, e.len);
        }
        self.slots = self.extents.len() as u32;
        self.free_slots.clear();
        let blocks = self.slot_blocks.drain(..).chain(self.index_blocks.drain(..));
        Some(blocks.map(|lba| Run { lba, len: 1 }).collect())
    }

    /// Where the blocks of a range of pages are.
    pub fn runs_in(&self, pages: Range<u64>) -> Vec<Run> {
        let first = self.extents.partition_point(|e| e.block + e.len as u64 <= pages.start);
        let inside = self.extents[first..].iter().take_while(|e| e.block < pages.end);
        let cut = |e: &Mapped| {
            let (from, to) = (e.block.max(pages.start), (e.block + e.len as u64).min(pages.end));
            Run { lba: e.lba + (from - e.block) as u32, len: (to - from) as u32 }
        };
        inside.map(cut).collect()
    }

    /// All blocks of the file.
    pub fn all_runs(&self) -> impl Iterator<Item = Run> + '_ {
        let data = self.extents.iter().map(|e| Run { lba: e.lba, len: e.len });
        let meta = self.slot_blocks.iter().chain(&self.index_blocks).chain(&self.xattr_blocks);
        data.chain(meta.map(|&lba| Run { lba, len: 1 }))
    }

    /// The block and the line in it where a slot of an extent block lies.
    pub fn slot_line(&self, slot: u32) -> Option<(u32, u32, u32)> {
        let (block, n) = extent::place(slot)?;
        Some((self.slot_blocks[block as usize], n / extent::SLOTS_PER_LINE, n))
    }
}

#[cfg(test)]
mod tests;
