//! Overflow pages: room for a segment whose buckets are full, where splitting it would move nothing away.
//!
//! ```text
//!   segment's last bucket   magic | pattern, depth | first page
//!                                                    └──> page: 15 buckets, last bucket: magic | next page
//!                                                                                             └──> ...
//! ```
//!
//! A page has slots of its segment that found no room in their buckets; any of them lies anywhere in the
//! segment's pages. A slot that does not fit the segment's pattern is stale there, too.
//!
//! A page is zeroed and linked to the first one before it is reached: by one store of 8 bytes, into the
//! segment's last bucket. A page that nobody reaches is free after recovery. At the mount pages without slots
//! are unlinked, each by one store.
//!
//! Source: SPFS slides name the dynamic hash table; that a segment may be full although it was split, a
//! comment of the released code admits. The page is ours.

use super::{BUCKET, Dir, Header, Kind, Table, full, header_at};
use crate::alloc::Clusters;
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};
use granary_pm::{BLOCK, Pm, corrupt};
use granary_units::Payload;
use std::collections::BTreeMap;

const MAGIC: u32 = u32::from_le_bytes(*b"OVFL");
/// Where the next page's number is in a last bucket.
const NEXT: u64 = 16;
/// Bytes of slots in a page.
pub(super) const ROOM: usize = BLOCK as usize - BUCKET;
/// Most pages of a segment: more is a circle. \[choice\] 61,440 names of one hash.
const MOST: usize = 256;

/// Byte address of the word that leads to the first page of a segment.
pub(super) fn first_at(segment: u64, clusters: u64) -> u64 {
    header_at(segment, clusters) + NEXT
}

/// Byte address of the word that leads to the page after this one.
fn next_at(page: u32) -> u64 {
    first_at(page.into(), 1)
}

/// A page with these slots, and the next page.
fn page(slots: &[u8], next: u32) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK as usize];
    bytes[..slots.len()].copy_from_slice(slots);
    put_u32(&mut bytes, ROOM, MAGIC);
    put_u64(&mut bytes, ROOM + NEXT as usize, next.into());
    bytes
}

/// The pages of a segment, whose first one is `first` (0: none).
///
/// # Errors
/// `Corrupt`; the device's.
pub(super) fn chain(pm: &Pm, kind: Kind, first: u64) -> Result<Vec<u32>> {
    let (mut at, mut pages) = (first, Vec::new());
    while at != 0 {
        let bad =
            || corrupt(format!("the overflow pages of table {kind:?} lead to cluster {at}, which is none"));
        if at >= pm.info().pages || pages.len() == MOST {
            return Err(bad());
        }
        let mut b = [0; 24];
        pm.load(at * BLOCK + ROOM as u64, &mut b, kind.what())?;
        if u32_at(&b, 0) != MAGIC {
            return Err(bad());
        }
        pages.push(at as u32);
        at = u64_at(&b, NEXT as usize);
    }
    Ok(pages)
}

impl Table {
    /// The pages of a segment.
    pub(super) fn pages<'a>(&self, dir: &'a Dir, segment: u32) -> &'a [u32] {
        dir.overflow.get(&segment).map_or(&[], Vec::as_slice)
    }

    /// The bytes of slots of a page.
    pub(super) fn load_page(&self, pm: &Pm, page: u32) -> Result<Vec<u8>> {
        let mut bytes = vec![0; ROOM];
        pm.load(u64::from(page) * BLOCK, &mut bytes, self.kind.what())?;
        Ok(bytes)
    }

    /// Gives a segment another page: an empty one, before those that it has.
    ///
    /// # Errors
    /// `NoSpace` where there is none; the device's.
    pub(super) fn overflow(&self, pm: &Pm, clusters: &Clusters, dir: &mut Dir, segment: u32) -> Result<()> {
        let _step = granary_sim::step("spfs: a table gets an overflow page");
        let pages = dir.overflow.entry(segment).or_default();
        if pages.len() == MOST {
            return Err(full());
        }
        let new = clusters.metadata(1).ok_or_else(full)? as u32;
        let next = pages.first().copied().unwrap_or(0);
        let mut b = pm.batch();
        b.stream(u64::from(new) * BLOCK, Payload::Bytes(&page(&[], next)), self.kind.what())?;
        b.fence()?;
        b.put_u64(first_at(segment.into(), self.segment), new.into(), self.kind.what())?;
        b.fence()?;
        pages.insert(0, new);
        Ok(())
    }

    /// Writes pages with these slots for a segment that nobody leads to yet; gives them in order. Not fenced.
    ///
    /// # Errors
    /// `NoSpace`, with nothing taken; the device's.
    pub(super) fn new_pages(&self, pm: &Pm, clusters: &Clusters, slots: &[u8]) -> Result<Vec<u32>> {
        let mut pages: Vec<u32> = Vec::new();
        let mut b = pm.batch();
        for part in slots.chunks(ROOM).rev() {
            let Some(new) = clusters.metadata(1) else {
                pages.into_iter().try_for_each(|page| clusters.give(page.into(), 1))?;
                return Err(full());
            };
            let next = pages.last().copied().unwrap_or(0);
            b.stream(new * BLOCK, Payload::Bytes(&page(part, next)), self.kind.what())?;
            pages.push(new as u32);
        }
        pages.reverse();
        Ok(pages)
    }

    /// Unlinks the pages that have no slots. Nobody else uses the table yet.
    ///
    /// # Errors
    /// The device's.
    pub fn drop_empty_pages(&self, pm: &Pm, clusters: &Clusters) -> Result<u64> {
        let mut dir = self.dir.write();
        let dir = &mut *dir;
        let mut dropped = 0;
        for (&segment, pages) in &mut dir.overflow {
            let header = dir.headers[&segment];
            let mut from = first_at(segment.into(), self.segment);
            let (mut kept, mut rest) = (Vec::new(), std::mem::take(pages).into_iter().peekable());
            while let Some(page) = rest.next() {
                if self.fitting(&self.load_page(pm, page)?, header).next().is_some() {
                    from = next_at(page);
                    kept.push(page);
                    continue;
                }
                let _step = granary_sim::step("spfs: empty overflow pages are unlinked");
                let mut b = pm.batch();
                b.put_u64(from, rest.peek().copied().unwrap_or(0).into(), self.kind.what())?;
                b.fence()?;
                clusters.give(page.into(), 1)?;
                dropped += 1;
            }
            *pages = kept;
        }
        dir.overflow.retain(|_, pages| !pages.is_empty());
        Ok(dropped)
    }

    /// The slots that fit a header.
    pub(super) fn fitting<'a>(&self, bytes: &'a [u8], header: Header) -> impl Iterator<Item = &'a [u8]> {
        let (kind, chunk) = (self.kind, self.chunk);
        bytes
            .chunks_exact(kind.slot())
            .filter(move |s| kind.place(s, chunk).is_some_and(|p| header.fits(p.hash)))
    }
}

/// The pages of all segments, whose headers have been read.
///
/// # Errors
/// As [`chain`].
pub(super) fn all(
    pm: &Pm,
    kind: Kind,
    clusters: u64,
    headers: &BTreeMap<u32, Header>,
) -> Result<BTreeMap<u32, Vec<u32>>> {
    let mut all = BTreeMap::new();
    for &segment in headers.keys() {
        let first = crate::layout::word(pm, first_at(segment.into(), clusters), Structure::Bitmap)?;
        let pages = chain(pm, kind, first)?;
        if !pages.is_empty() {
            all.insert(segment, pages);
        }
    }
    Ok(all)
}
