//! Changing where an inode's blocks are: new extents, freed ones, and the slots that say so on media.
//!
//! Extent and index blocks belong to one inode, whose `change` lock the caller holds: they are changed in
//! memory while the transaction is planned (nobody else stores their lines) and stored when it runs. The
//! caller writes the changes of the inode's own record, according to the [`Half`] returned here.

use crate::core::Core;
use crate::journal::Tx;
use crate::layout::{POINTERS_PER_INDEX, extent};
use crate::map::{SlotEdit, SlotEdits};
use crate::node::{Body, Half, Node, Standing};
use crate::space::{Claim, Run};
use granary_device::Structure;
use granary_fs::{FileKind, Result};
use granary_units::Lpa;
use parking_lot::MutexGuard;
use std::ops::Range;

impl Half {
    /// The half, or both, that two changes need together.
    pub fn and(self, other: Half) -> Half {
        if self == Half::Both { self } else { other }
    }
}

impl Core {
    /// Enters new runs (file block, where it lies) into an inode's map and slots.
    ///
    /// # Errors
    /// `NoSpace` for extent blocks, with nothing changed; drive errors, which stop the journal.
    pub fn add_extents(&self, tx: &mut Tx<'_>, node: &Node, new: &[(u64, Run)]) -> Result<Half> {
        let mut edits = SlotEdits::new();
        let mut body = node.body.lock();
        if body.standing == Standing::Gone {
            for &(block, run) in new {
                body.map.add(block, run, false, &mut edits);
            }
            return Ok(Half::Hot);
        }
        let (slot_blocks, index_blocks) = body.map.blocks_missing(body.map.slots_for(new));
        drop(body);
        let mut half = Half::Hot;
        if slot_blocks > 0 {
            half = self.add_slot_blocks(tx, node, slot_blocks, index_blocks)?;
        }
        let mut body = node.body.lock();
        for &(block, run) in new {
            body.map.add(block, run, true, &mut edits);
        }
        body.map.cover_slot_blocks(&mut edits);
        drop(body);
        Ok(half.and(self.journal.fatal(self.write_slots(tx, node, &edits))?))
    }

    /// Allocates extent blocks and the index blocks that name them.
    fn add_slot_blocks(&self, tx: &mut Tx<'_>, node: &Node, slot_blocks: u64, index: u64) -> Result<Half> {
        let had = node.body.lock().map.reserved_meta;
        let mut taken = Vec::new();
        for _ in 0..slot_blocks + index {
            let promised = node.body.lock().map.reserved_meta > 0;
            match tx.take_blocks(1, None, if promised { Claim::Promised } else { Claim::Kept }) {
                Ok(run) => taken.push(run.lba),
                Err(e) => {
                    // The transaction gives back what was taken, promises included.
                    node.body.lock().map.reserved_meta = had;
                    return Err(e);
                }
            }
            node.body.lock().map.reserved_meta -= promised as u64;
        }
        for &lba in &taken {
            self.cache.fresh(Lpa(lba as u64), Structure::DataPointer);
        }
        let (indexes, slots) = taken.split_at(index as usize);
        self.journal.fatal(self.link_slot_blocks(tx, node, indexes, slots))
    }

    fn link_slot_blocks(&self, tx: &mut Tx<'_>, node: &Node, indexes: &[u32], slots: &[u32]) -> Result<Half> {
        let (old_indexes, mut n) = {
            let mut body = node.body.lock();
            let map = &mut body.map;
            let before = (map.index_blocks.len(), map.slot_blocks.len() as u32);
            map.index_blocks.extend(indexes);
            map.slot_blocks.extend(slots);
            before
        };
        for (i, &lba) in indexes.iter().enumerate() {
            if old_indexes + i > 0 {
                let before = node.body.lock().map.index_blocks[old_indexes + i - 1];
                self.set_pointer(tx, before, POINTERS_PER_INDEX, lba)?;
            }
        }
        for &lba in slots {
            let index = node.body.lock().map.index_blocks[(n / POINTERS_PER_INDEX) as usize];
            self.set_pointer(tx, index, n % POINTERS_PER_INDEX, lba)?;
            n += 1;
        }
        Ok(if old_indexes == 0 { Half::Both } else { Half::Hot })
    }

    fn set_pointer(&self, tx: &mut Tx<'_>, index: u32, n: u32, lba: u32) -> Result<()> {
        let block = self.cache.get(Lpa(index as u64), Structure::DataPointer)?;
        block.change(|b| extent::set_pointer(b, n, lba));
        tx.touch_lines(&block, extent::pointer_line(n), 1);
        Ok(())
    }

    /// Writes slots; those in the inode's record are left to the caller.
    fn write_slots(&self, tx: &mut Tx<'_>, node: &Node, edits: &[SlotEdit]) -> Result<Half> {
        let mut half = Half::Hot;
        for &(slot, e) in edits {
            let place = node.body.lock().map.slot_line(slot);
            match place {
                None if slot == 0 => {}
                None => half = Half::Both,
                Some((lba, line, n)) => {
                    let block = self.cache.get(Lpa(lba as u64), Structure::DataPointer)?;
                    block.change(|b| e.write_to(b, n));
                    tx.touch_lines(&block, line, 1);
                }
            }
        }
        Ok(half)
    }

    /// Frees blocks of an inode from file block `keep` on, as many as one transaction may; they become free
    /// with its COMMIT. Returns what changed in the record and whether all are gone.
    ///
    /// # Errors
    /// Of the drive; the journal has stopped then.
    pub fn cut_step(&self, tx: &mut Tx<'_>, node: &Node, keep: u64) -> Result<(Half, bool)> {
        // `cut` counts a line for each run and slot; many share lines.
        let lines = self.options.max_free_lines.max(4).saturating_mul(4);
        let (mut freed, mut edits) = (Vec::new(), SlotEdits::new());
        let mut body = node.body.lock();
        let done = body.map.cut(keep, lines, &mut freed, &mut edits);
        Ok((self.write_freed(tx, node, body, freed, edits)?, done))
    }

    /// Makes pages a hole, as many as one transaction may; their blocks become free with its COMMIT. Returns
    /// what changed in the record and whether all are gone.
    ///
    /// # Errors
    /// `NoSpace` where an extent is cut in two and there is no block for the second half, with nothing
    /// changed; of the drive: the journal has stopped then.
    pub fn punch_step(&self, tx: &mut Tx<'_>, node: &Node, range: &Range<u64>) -> Result<(Half, bool)> {
        let mut half = Half::Hot;
        let (gone, missing) = {
            let body = node.body.lock();
            let missing = if body.map.splits(range) { body.map.blocks_missing(1) } else { (0, 0) };
            (body.standing == Standing::Gone, missing)
        };
        if missing.0 > 0 && !gone {
            half = self.add_slot_blocks(tx, node, missing.0, missing.1)?;
        }
        let lines = self.options.max_free_lines.max(5).saturating_mul(4);
        let (mut freed, mut edits) = (Vec::new(), SlotEdits::new());
        let mut body = node.body.lock();
        let done = body.map.punch(range, !gone, lines, &mut freed, &mut edits);
        if gone {
            drop(body);
            let seq = self.journal.sealed();
            freed.into_iter().for_each(|run| self.space.withhold(seq, run));
            return Ok((half, done));
        }
        body.map.cover_slot_blocks(&mut edits);
        Ok((half.and(self.write_freed(tx, node, body, freed, edits)?), done))
    }

    /// Makes `cut` a hole and enters new runs, all in this transaction; what was there becomes free with its
    /// COMMIT. Returns what changed in the record.
    ///
    /// # Errors
    /// `NoSpace` for extent blocks, with nothing changed; of the drive: the journal has stopped then.
    pub fn replace(
        &self,
        tx: &mut Tx<'_>,
        node: &Node,
        cut: &Range<u64>,
        new: &[(u64, Run)],
    ) -> Result<Half> {
        if cut.is_empty() && new.is_empty() {
            return Ok(Half::Hot);
        }
        let (slots, index) = {
            let map = &node.body.lock().map;
            map.blocks_missing(new.len() as u64 + map.splits(cut) as u64)
        };
        let mut half = Half::Hot;
        if slots > 0 {
            half = self.add_slot_blocks(tx, node, slots, index)?;
        }
        let (mut freed, mut edits) = (Vec::new(), SlotEdits::new());
        let mut body = node.body.lock();
        while !body.map.punch(cut, true, u32::MAX, &mut freed, &mut edits) {}
        for &(block, run) in new {
            body.map.add(block, run, true, &mut edits);
            // Their promise went to the blocks.
            body.map.reserved.remove(block..block + run.len as u64);
        }
        let n = body.map.reserved.remove(cut.clone());
        self.space.unreserve(n);
        body.map.cover_slot_blocks(&mut edits);
        Ok(half.and(self.write_freed(tx, node, body, freed, edits)?))
    }

    /// Ends a step that took blocks out of the map: extent blocks that are not needed any more go, all of
    /// them become free with the COMMIT, and the slots are written. Returns what changed in the record.
    fn write_freed(
        &self,
        tx: &mut Tx<'_>,
        node: &Node,
        mut body: MutexGuard<'_, Body>,
        mut freed: Vec<Run>,
        mut edits: SlotEdits,
    ) -> Result<Half> {
        let mut half = Half::Hot;
        if let Some(dropped) = body.map.shrink_slots() {
            // All slots are in the record now.
            edits.clear();
            half = Half::Both;
            for run in &dropped {
                self.cache.forget(Lpa(run.lba as u64));
            }
            freed.extend(dropped);
        }
        self.settle_reservation(&mut body);
        drop(body);
        for run in freed {
            if node.kind == FileKind::Dir {
                (run.lba..run.lba + run.len).for_each(|lba| self.cache.forget(Lpa(lba as u64)));
            }
            tx.free_blocks(run, true);
        }
        Ok(half.and(self.journal.fatal(self.write_slots(tx, node, &edits))?))
    }

    /// Adjusts what is reserved for extent blocks to what the reserved pages may still need.
    pub fn settle_reservation(&self, body: &mut Body) {
        let (need, have) = (body.map.meta_needed(), body.map.reserved_meta);
        if need < have {
            self.space.unreserve(have - need);
            body.map.reserved_meta = need;
        } else if need > have && self.space.reserve(need - have, Claim::Kept) {
            body.map.reserved_meta = need;
        }
    }

    /// Gives up the reservation of pages from `from` on: they will not be written.
    pub fn unreserve_from(&self, body: &mut Body, from: u64) {
        let n = body.map.reserved.remove(from..u64::MAX);
        self.space.unreserve(n);
        self.settle_reservation(body);
    }
}
