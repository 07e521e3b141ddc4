//! Merging two segments of one parent, at the mount: a table that was large once becomes small again.
//!
//! ```text
//!   zero what is stale in the lower half, fence
//!   copy the upper half's slots into the lower half, fence     stale there: they do not fit its pattern
//!   record := lower half, MERGE, depth after it, fence         from here on the merge happens
//!   header of the lower half: one bit less, fence              all of them fit
//!   directory entries of the upper half, fence
//!   record := 0
//! ```
//!
//! Only pairs are merged of which each is less than a quarter full and has no overflow pages, so that the
//! next inserts do not split them again. Source: the sources have no shrinking while mounted, nor has this.

use super::split::merge_record;
use super::{BUCKET, Header, Kind, Table, full, header_at};
use crate::alloc::Clusters;
use crate::layout::SPLIT;
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::{BLOCK, Pm};

impl Table {
    /// Drops empty overflow pages, and merges what is nearly empty. Nobody else uses the table yet. Says how
    /// many pairs there were.
    ///
    /// # Errors
    /// The device's.
    pub fn merge_sparse(&self, pm: &Pm, clusters: &Clusters) -> Result<u64> {
        self.drop_empty_pages(pm, clusters)?;
        let (mut merged, mut from) = (0, 0);
        while let Some((low, header)) = self.next_pair(from) {
            from = low + 1;
            if self.merge(pm, clusters, low, header)? {
                (merged, from) = (merged + 1, 0);
            }
        }
        Ok(merged)
    }

    /// The first lower half from cluster `from` on whose sibling is a segment of the same depth.
    fn next_pair(&self, from: u32) -> Option<(u32, Header)> {
        let dir = self.dir.read();
        let lower = |(_, h): &(&u32, &Header)| h.depth > 0 && h.pattern & 1 == 0;
        let paired = |(_, h): &(&u32, &Header)| {
            let sibling = dir.segments[((h.pattern as usize) + 1) << (dir.depth - h.depth)];
            dir.headers[&sibling].depth == h.depth
        };
        dir.headers.range(from..).filter(lower).find(paired).map(|(s, h)| (*s, *h))
    }

    fn merge(&self, pm: &Pm, clusters: &Clusters, low: u32, header: Header) -> Result<bool> {
        let mut dir = self.dir.write();
        let first = (header.pattern as usize + 1) << (dir.depth - header.depth);
        let high = dir.segments[first];
        if [low, high].iter().any(|segment| dir.overflow.contains_key(segment)) {
            return Ok(false);
        }
        let other = Header { depth: header.depth, pattern: header.pattern + 1 };
        let (size, base) = (self.kind.slot(), u64::from(low) * BLOCK);
        let fits =
            |s: &[u8], header: Header| self.kind.place(s, self.chunk).is_some_and(|p| header.fits(p.hash));
        let (mut bytes, upper) = (self.load_segment(pm, low)?, self.load_segment(pm, high)?);
        let moving: Vec<&[u8]> = upper.chunks_exact(size).filter(|s| fits(s, other)).collect();
        let quarter = bytes.len() / size / 4;
        if moving.len() >= quarter || bytes.chunks_exact(size).filter(|s| fits(s, header)).count() >= quarter
        {
            return Ok(false);
        }
        let mut b = pm.batch();
        for (i, s) in bytes.chunks_exact_mut(size).enumerate() {
            if !fits(s, header) && s.iter().any(|byte| *byte != 0) {
                s.fill(0);
                b.put(base + (i * size) as u64, s, self.kind.what())?;
            }
        }
        b.fence()?;
        for s in moving {
            let place = self.kind.place(s, self.chunk).ok_or_else(full)?;
            let free = self.probe(low, place).find_map(|at| {
                let at = (at - base) as usize;
                let mut slots = bytes[at..at + BUCKET].chunks_exact(size);
                slots.position(|s| s.iter().all(|byte| *byte == 0)).map(|i| at + i * size)
            });
            // Its buckets are full: what was copied so far stays stale.
            let Some(free) = free else { return b.fence().map(|()| false) };
            bytes[free..free + size].copy_from_slice(s);
            b.put(base + free as u64, s, self.kind.what())?;
        }
        let _step = granary_sim::step("spfs: segments of a table merge");
        b.fence()?;
        let parent = Header { depth: header.depth - 1, pattern: header.pattern >> 1 };
        b.put_u64(SPLIT, merge_record(self.kind, low, parent.depth), Structure::Superblock)?;
        b.fence()?;
        finish(pm, self.kind, self.segment, (dir.depth, dir.cluster), (low, parent))?;
        for i in first..first + (1 << (dir.depth - header.depth)) {
            dir.segments[i] = low;
        }
        dir.headers.insert(low, parent);
        dir.headers.remove(&high);
        dir.epoch += 1;
        clusters.give(high.into(), self.segment)?;
        Ok(true)
    }
}

/// Steps of a merge after its record; may be done again. `parent`: the header after it.
pub(super) fn finish(
    pm: &Pm,
    kind: Kind,
    segment: u64,
    (depth, directory): (u32, u64),
    (low, parent): (u32, Header),
) -> Result<()> {
    let mut b = pm.batch();
    b.put_u64(header_at(low.into(), segment) + 8, parent.word(), kind.what())?;
    b.fence()?;
    let first = u64::from(parent.pattern) << (depth - parent.depth);
    for i in first..first + (1 << (depth - parent.depth)) {
        b.put_u32(directory * BLOCK + 4 * i, low, kind.what())?;
    }
    b.fence()?;
    b.put_u64(SPLIT, 0, Structure::Superblock)?;
    b.fence()
}
