//! Overwriting bytes of an extent.
//!
//! ```text
//!   meta     in place
//!   data     70 % of the extent or more: new clusters, then one store changes the extent's slot
//!            less, of 64 clusters or more: these become extents of their own (tier/split.rs), each of which
//!            gets new clusters
//!            less: copy of the old bytes, undo record, in place, record away
//!   zeros    the same extents of their own, each gets clusters with the new bytes and zeros around them
//! ```
//!
//! Bytes behind the size are not protected: nobody has seen them. Source: the released code's `consistency=`,
//! `undo_opt_util` and WR_SPLIT.

use crate::fs::Spfs;
use crate::layout::inode::{self, Undo};
use crate::options::Consistency;
use crate::tier::{Piece, Tier};
use crate::write::Write;
use granary_device::Structure;
use granary_fs::{FsError, Result};
use granary_pm::BLOCK;
use granary_units::{Dest, Payload};
use std::ops::Range;

/// Most clusters that one undo record protects; from so many on an extent is split instead (released
/// code: 64).
const STEP: u64 = 64;

impl Spfs {
    /// Overwrites the bytes `range` of the file, which one extent has.
    pub(crate) fn overwrite(
        &self,
        t: &mut Tier,
        w: &Write<'_>,
        (start, piece): (u32, Piece),
        range: Range<u64>,
    ) -> Result<()> {
        let seen = range.start..range.end.min(t.size);
        if self.options.consistency == Consistency::Meta || seen.is_empty() {
            return self.in_place(w, (start, piece), range);
        }
        let all = u64::from(piece.len) * BLOCK;
        if (range.end - range.start) * 100 >= all * u64::from(self.options.replace_percent)
            && self.replace(t, w, (start, piece), range.clone())?
        {
            return Ok(());
        }
        if self.split_out(t, (start, piece), &range)? {
            return self.overwrite_pieces(t, w, range);
        }
        let mut at = range.start;
        while at < seen.end {
            let want = (seen.end.div_ceil(BLOCK) - at / BLOCK).min(STEP);
            let (copy, n) = self.store.clusters.data(want).ok_or(FsError::NoSpace)?;
            let to = seen.end.min((at / BLOCK + n) * BLOCK);
            let done = self.with_undo(t, w, (start, piece), at..to, copy);
            self.store.clusters.give(copy, n)?;
            done?;
            at = to;
        }
        if at < range.end { self.in_place(w, (start, piece), at..range.end) } else { Ok(()) }
    }

    /// Makes extents of the clusters of a range of many, which is a part of one; says whether it did.
    fn split_out(&self, t: &mut Tier, (start, piece): (u32, Piece), range: &Range<u64>) -> Result<bool> {
        let clusters = (range.start / BLOCK) as u32..range.end.div_ceil(BLOCK) as u32;
        let whole = clusters.start == start && clusters.end == start + piece.len;
        if u64::from(clusters.end - clusters.start) < STEP || whole {
            return Ok(false);
        }
        match self.store.cut_out(t, clusters) {
            Ok(_) => Ok(true),
            // The table has no room: the undo record needs none.
            Err(FsError::NoSpace) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Overwrites a range, all of which extents have.
    fn overwrite_pieces(&self, t: &mut Tier, w: &Write<'_>, range: Range<u64>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let (start, piece) = t.covering((at / BLOCK) as u32).ok_or(FsError::Stale)?;
            let to = range.end.min(u64::from(start + piece.len) * BLOCK);
            self.overwrite(t, w, (start, piece), at..to)?;
            at = to;
        }
        Ok(())
    }

    /// Writes the bytes `range` of the file, which an extent of zeros has.
    pub(crate) fn fill_zeros(&self, t: &mut Tier, w: &Write<'_>, range: Range<u64>) -> Result<()> {
        let clusters = (range.start / BLOCK) as u32..range.end.div_ceil(BLOCK) as u32;
        self.store.cut_out(t, clusters.clone())?;
        let mut at = clusters.start;
        while at < clusters.end {
            let Some((start, piece)) = t.covering(at) else { return Err(FsError::Stale) };
            let Some(new) = self.store.clusters.data_run(piece.len.into()) else {
                // No run is as long: two shorter ones may be there.
                if piece.len == 1 {
                    return Err(FsError::NoSpace);
                }
                self.store.split_at(t, start + piece.len / 2)?;
                continue;
            };
            let (from, to) = (u64::from(start) * BLOCK, u64::from(start + piece.len) * BLOCK);
            let (first, last) = (range.start.max(from), range.end.min(to));
            let mut b = self.store.pm.batch();
            let zeros = |len: u64| Payload::Fill { word: 0, len: len as usize };
            b.stream(new * BLOCK, zeros(first - from), Structure::Data)?;
            b.stream(new * BLOCK + first - from, w.part(first, last), Structure::Data)?;
            b.stream(new * BLOCK + last - from, zeros(to - last), Structure::Data)?;
            self.store.change(t, &mut b, start, new as u32, piece.len)?;
            at = start + piece.len;
        }
        Ok(())
    }

    fn in_place(&self, w: &Write<'_>, (start, piece): (u32, Piece), range: Range<u64>) -> Result<()> {
        let mut b = self.store.pm.batch();
        let at = u64::from(piece.pcn) * BLOCK + range.start - u64::from(start) * BLOCK;
        b.stream(at, w.part(range.start, range.end), Structure::Data)?;
        b.fence()
    }

    /// New clusters for all of the extent; says whether there were some in one run.
    fn replace(
        &self,
        t: &mut Tier,
        w: &Write<'_>,
        (start, piece): (u32, Piece),
        range: Range<u64>,
    ) -> Result<bool> {
        let Some(new) = self.store.clusters.data_run(piece.len.into()) else { return Ok(false) };
        let (from, old) = (u64::from(start) * BLOCK, u64::from(piece.pcn) * BLOCK);
        let end = from + u64::from(piece.len) * BLOCK;
        let mut b = self.store.pm.batch();
        let mut copy = |part: Range<u64>| -> Result<()> {
            let mut bytes = vec![0; (part.end - part.start) as usize];
            self.load_bytes(old + part.start - from, Dest::Bytes(&mut bytes))?;
            b.stream(new * BLOCK + part.start - from, Payload::Bytes(&bytes), Structure::Data)
        };
        copy(from..range.start)?;
        copy(range.end..end)?;
        b.stream(new * BLOCK + range.start - from, w.part(range.start, range.end), Structure::Data)?;
        self.store.change(t, &mut b, start, new as u32, piece.len)?;
        self.store.clusters.give(piece.pcn.into(), piece.len.into()).map(|()| true)
    }

    fn with_undo(
        &self,
        t: &Tier,
        w: &Write<'_>,
        (start, piece): (u32, Piece),
        range: Range<u64>,
        copy: u64,
    ) -> Result<()> {
        let _step = granary_sim::step("spfs: an overwrite keeps the old bytes");
        let target = u64::from(piece.pcn) + range.start / BLOCK - u64::from(start);
        let (from, len) = (range.start % BLOCK, range.end - range.start);
        let mut old = vec![0; len as usize];
        self.load_bytes(target * BLOCK + from, Dest::Bytes(&mut old))?;
        let undo = Undo { copy: copy as u32, target: target as u32, from: from as u32, len: len as u32 };
        let [place, bytes] = undo.words();
        let mut b = self.store.pm.batch();
        b.stream(copy * BLOCK + from, Payload::Bytes(&old), Structure::Journal)?;
        b.put_u64(inode::at(t.number, inode::UNDO), place, Structure::Journal)?;
        b.fence()?;
        b.put_u64(inode::at(t.number, inode::UNDO_LEN), bytes, Structure::Journal)?;
        b.fence()?;
        b.stream(target * BLOCK + from, w.part(range.start, range.end), Structure::Data)?;
        b.fence()?;
        b.put_u64(inode::at(t.number, inode::UNDO_LEN), 0, Structure::Journal)?;
        b.fence()
    }
}
