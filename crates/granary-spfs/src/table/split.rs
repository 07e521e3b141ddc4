//! Splitting a segment, and doubling the directory, so that a power failure leaves the old table or the new
//! one.
//!
//! ```text
//!   fill the new segment, fence        nobody leads to it
//!   double the directory if needed     filled whole, then one store of the root
//!   record := new segment, fence       from here on the split happens
//!   directory entries, fence           upper half of the old segment's
//!   old header, fence                  its slots of the upper half are stale now
//!   record := 0
//! ```
//!
//! Recovery does the last three again where the record is set; all of them may be done twice. Clusters that
//! nobody leads to are free after recovery. So a split copies what goes, and writes nothing over what is
//! there: its slots are stale when all is done.
//!
//! A split moves nothing, or everything, where all slots of the segment, and the one that wants in, have the
//! same next bit. It is made all the same where a later bit parts them, and the next one follows at once.
//! Where none does, as with the keys of one chunk of a file, which have one hash, the segment gets an
//! overflow page instead.

use super::{
    BUCKET, Dir, Header, Kind, MAX_DEPTH, Table, directory_clusters, full, header_at, overflow, top,
};
use crate::alloc::Clusters;
use crate::layout::slot::SlotPlace;
use crate::layout::{SPLIT, word};
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::bytes::{put_u32, put_u64, u32_at};
use granary_pm::{BLOCK, Pm, corrupt};
use granary_units::Payload;

/// The table of a record, plus one, lies above the rest.
const TABLE: u32 = 56;
/// Set in the record of a merge. The segment is the one that stays.
const MERGE: u64 = 1 << 48;
/// Its depth after the merge.
const DEPTH: u32 = 40;

/// The record of a split into this new segment.
fn record(kind: Kind, new: u32) -> u64 {
    (kind as u64 + 1) << TABLE | u64::from(new)
}

/// The record of a merge into this segment.
pub(super) fn merge_record(kind: Kind, low: u32, depth: u32) -> u64 {
    record(kind, low) | MERGE | u64::from(depth) << DEPTH
}

impl Table {
    /// Splits the segment of this place, or gives it an overflow page; another may have done so before.
    pub(super) fn make_room(&self, pm: &Pm, clusters: &Clusters, place: SlotPlace) -> Result<()> {
        let mut dir = self.dir.write();
        // Another task may have made room while this one waited for the lock.
        if let Some(at) = self.claim(pm, &dir, place)? {
            self.claimed.lock().remove(&at);
            return Ok(());
        }
        let old = dir.segments[top(place.hash, dir.depth) as usize];
        let header = dir.headers[&old];
        let bytes = self.load_segment(pm, old)?;
        let mut pages = Vec::new();
        for page in self.pages(&dir, old) {
            pages.extend(self.load_page(pm, *page)?);
        }
        let [stays, goes] =
            [0, 1].map(|bit| Header { depth: header.depth + 1, pattern: header.pattern << 1 | bit });
        // Whether a split, this one or a later one, parts a slot from the new one: hashes differ within the
        // deepest directory's bits.
        let here = |h: &u32| header.fits(*h) && top(*h, self.deepest) != top(place.hash, self.deepest);
        let hashes =
            |bytes| self.fitting(bytes, header).filter_map(|s| Some(self.kind.place(s, self.chunk)?.hash));
        let parts = hashes(&bytes).chain(hashes(&pages)).any(|h| here(&h));
        if !parts {
            return self.overflow(pm, clusters, &mut dir, old);
        }
        let new = clusters.metadata(self.segment).ok_or_else(full)? as u32;
        let done = self.split_into(pm, clusters, &mut dir, (old, stays), (new, goes), (bytes, &pages));
        if done.is_err() {
            // Nothing leads to it before the record is set, and a device that fails after that is recovered
            // by the next mount.
            let _ = clusters.give(new.into(), self.segment);
        }
        done
    }

    /// `bytes`, `pages`: the slots of the old segment's buckets, and of its overflow pages.
    fn split_into(
        &self,
        pm: &Pm,
        clusters: &Clusters,
        dir: &mut Dir,
        (old, stays): (u32, Header),
        (new, goes): (u32, Header),
        (mut bytes, pages): (Vec<u8>, &[u8]),
    ) -> Result<()> {
        let (depth, size) = (goes.depth, self.kind.slot());
        for s in bytes.chunks_exact_mut(size) {
            if !self.kind.place(s, self.chunk).is_some_and(|p| goes.fits(p.hash)) {
                s.fill(0);
            }
        }
        // Slots of the overflow pages that go find room in buckets now, or get pages again.
        let mut rest = Vec::new();
        for s in self.fitting(pages, goes) {
            let Some(place) = self.kind.place(s, self.chunk) else { continue };
            let free = self.probe(0, place).find_map(|at| {
                let mut slots = bytes[at as usize..at as usize + BUCKET].chunks_exact(size);
                slots.position(|s| self.kind.place(s, self.chunk).is_none()).map(|i| at as usize + i * size)
            });
            match free {
                Some(at) => bytes[at..at + size].copy_from_slice(s),
                None => rest.extend_from_slice(s),
            }
        }
        let new_pages = self.new_pages(pm, clusters, &rest)?;
        let done = self.publish(pm, clusters, dir, (old, stays), (new, goes), (&bytes, &new_pages));
        if let Err(e) = done {
            for page in new_pages {
                let _ = clusters.give(page.into(), 1);
            }
            return Err(e);
        }
        let first = goes.pattern << (dir.depth - depth);
        for i in first..first + (1 << (dir.depth - depth)) {
            dir.segments[i as usize] = new;
        }
        dir.headers.extend([(old, stays), (new, goes)]);
        if !new_pages.is_empty() {
            dir.overflow.insert(new, new_pages);
        }
        dir.epoch += 1;
        Ok(())
    }

    fn publish(
        &self,
        pm: &Pm,
        clusters: &Clusters,
        dir: &mut Dir,
        (old, stays): (u32, Header),
        (new, goes): (u32, Header),
        (bytes, pages): (&[u8], &[u32]),
    ) -> Result<()> {
        let mut b = pm.batch();
        b.stream(u64::from(new) * BLOCK, Payload::Bytes(bytes), self.kind.what())?;
        let mut last = [0; BUCKET];
        last[..16].copy_from_slice(&goes.bytes());
        let link = overflow::first_at(new.into(), self.segment) - header_at(new.into(), self.segment);
        put_u64(&mut last, link as usize, pages.first().copied().unwrap_or(0).into());
        b.stream(header_at(new.into(), self.segment), Payload::Bytes(&last), self.kind.what())?;
        // A doubling has fences and a step of its own.
        let _step =
            (stays.depth <= dir.depth).then(|| granary_sim::step("spfs: a segment of a table splits"));
        b.fence()?;
        if stays.depth > dir.depth {
            self.double(pm, clusters, dir)?;
        }
        b.put_u64(SPLIT, record(self.kind, new), Structure::Superblock)?;
        b.fence()?;
        finish_split(pm, self.kind, self.segment, (dir.depth, dir.cluster), (old, stays), (new, goes))
    }

    fn double(&self, pm: &Pm, clusters: &Clusters, dir: &mut Dir) -> Result<()> {
        let _step = granary_sim::step("spfs: a table's directory doubles");
        let depth = dir.depth + 1;
        let n = directory_clusters(depth);
        let new = clusters.metadata(n).ok_or_else(full)?;
        let segments: Vec<u32> = dir.segments.iter().flat_map(|s| [*s, *s]).collect();
        let mut bytes = vec![0; (n * BLOCK) as usize];
        for (i, s) in segments.iter().enumerate() {
            put_u32(&mut bytes, 4 * i, *s);
        }
        let mut b = pm.batch();
        b.stream(new * BLOCK, Payload::Bytes(&bytes), self.kind.what())?;
        b.fence()?;
        b.put_u64(self.kind.root(), u64::from(depth) << 56 | new, Structure::Superblock)?;
        b.fence()?;
        let old = (dir.cluster, directory_clusters(dir.depth));
        (dir.depth, dir.cluster, dir.segments) = (depth, new, segments);
        clusters.give(old.0, old.1)
    }
}

/// Steps of a split after its record; may be done again.
fn finish_split(
    pm: &Pm,
    kind: Kind,
    segment: u64,
    (depth, directory): (u32, u64),
    (old, stays): (u32, Header),
    (new, goes): (u32, Header),
) -> Result<()> {
    let mut b = pm.batch();
    let first = u64::from(goes.pattern) << (depth - goes.depth);
    for i in first..first + (1 << (depth - goes.depth)) {
        b.put_u32(directory * BLOCK + 4 * i, new, kind.what())?;
    }
    b.fence()?;
    b.put_u64(header_at(old.into(), segment) + 8, stays.word(), kind.what())?;
    b.fence()?;
    b.put_u64(SPLIT, 0, Structure::Superblock)?;
    b.fence()
}

/// Finishes a split or a merge that a power failure cut short. Says whether there was one.
///
/// # Errors
/// `Corrupt`; the device's.
pub fn recover(pm: &Pm, segment: u64) -> Result<bool> {
    let said = word(pm, SPLIT, Structure::Superblock)?;
    if said == 0 {
        return Ok(false);
    }
    let _step = granary_sim::step("spfs: a mount finishes a split or a merge");
    let bad = |what: &str| corrupt(format!("the split record {what}"));
    let kind = *((said >> TABLE) as usize)
        .checked_sub(1)
        .and_then(|i| Kind::ALL.get(i))
        .ok_or_else(|| bad("names no table"))?;
    let named = said as u32;
    let root = word(pm, kind.root(), Structure::Superblock)?;
    let (depth, directory) = ((root >> 56) as u32, root & 0xffff_ffff);
    let there = |cluster: u64, n: u64| cluster > 0 && cluster + n <= pm.info().pages;
    if depth > MAX_DEPTH || !there(directory, directory_clusters(depth)) || !there(named.into(), segment) {
        return Err(bad("leads out of the device"));
    }
    let mut b = [0; 16];
    pm.load(header_at(named.into(), segment), &mut b, kind.what())?;
    let own = Header { depth: u32_at(&b, 12), pattern: u32_at(&b, 8) };
    if own.depth > depth || u64::from(own.pattern) >> own.depth != 0 {
        return Err(bad("names no segment"));
    }
    if said & MERGE != 0 {
        let after = (said >> DEPTH) as u32 & 0xff;
        let parent = match own.depth.checked_sub(after) {
            Some(less) if less <= 1 => Header { depth: after, pattern: own.pattern >> less },
            _ => return Err(bad("names a segment of another depth")),
        };
        super::merge::finish(pm, kind, segment, (depth, directory), (named, parent))?;
        return Ok(true);
    }
    if own.depth == 0 || own.pattern & 1 == 0 {
        return Err(bad("names no segment of an upper half"));
    }
    // Its sibling has the entries below its own.
    let sibling = u64::from(own.pattern - 1) << (depth - own.depth);
    let mut b = [0; 4];
    pm.load(directory * BLOCK + 4 * sibling, &mut b, kind.what())?;
    let old = u32_at(&b, 0);
    if !there(old.into(), segment) {
        return Err(bad("has no sibling"));
    }
    let stays = Header { depth: own.depth, pattern: own.pattern - 1 };
    finish_split(pm, kind, segment, (depth, directory), (old, stays), (named, own))?;
    Ok(true)
}
