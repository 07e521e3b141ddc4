//! Writing: below, or to persistent memory.
//!
//! ```text
//!   plan: how many clusters ── too few? purge, else demote and write below ── throttle
//!   for each run of the range:   an extent has it, also one of zeros: overwrite.rs
//!                                a hole: base bytes and new ones to new clusters, then one store
//!   size and times
//! ```
//!
//! A hole up to `limit` takes its base bytes from the lower file, in aligned pieces, so that the next writes
//! near it find an extent. Behind `limit` base bytes are zeros. The pages of the lower page cache under a
//! piece are dropped: nobody reads them any more.

use crate::exthash;
use crate::factor::Use;
use crate::fs::Spfs;
use crate::layout::inode;
use crate::options::PromotionCopy;
use crate::tier::Tier;
use granary_device::Structure;
use granary_fs::{Call, FsError, Result};
use granary_pm::{BLOCK, Batch};
use granary_units::{Dest, Nanos, Payload};
use granary_vfs::{NodeRef, Through};
use std::ops::Range;

/// Clusters that are taken ahead of an append: 16 KB (released code).
const AHEAD: u64 = 4;
/// Clusters beyond a write's own that it may need: undo copies, a split of each table.
const SLACK: u64 = 16;
/// Waits of an allocation where memory is nearly full (released code: 0.5 to 1 ms, and 5 ms).
const SLOW: Nanos = Nanos::from_micros(750);
const CRAWL: Nanos = Nanos::from_millis(5);

/// One write: its place, its bytes, and the file below.
pub(crate) struct Write<'a> {
    pub call: &'a Call<'a>,
    /// None of a file that is in persistent memory alone.
    pub below: Option<&'a NodeRef>,
    pub pos: u64,
    pub data: Payload<'a>,
}

impl Write<'_> {
    /// The file below, which has something of the bytes.
    fn lower(&self) -> Result<&NodeRef> {
        self.below.ok_or(FsError::Stale)
    }

    pub(crate) fn end(&self) -> u64 {
        self.pos + self.data.len() as u64
    }

    /// Its bytes within a range of the file.
    pub(crate) fn part(&self, from: u64, to: u64) -> Payload<'_> {
        self.data.part((from - self.pos) as usize, (to - from) as usize)
    }
}

impl Spfs {
    /// # Errors
    /// `NoSpace`: persistent memory has no room; no byte within the size has changed.
    pub(crate) fn write_tiered(&self, t: &mut Tier, w: &Write<'_>) -> Result<()> {
        self.store.load_chain(t)?;
        self.make_room(t, w)?;
        t.factor.lock().used(Use::Write(w.data.len() as u64), self.options.factor_percent.into());
        let mut at = w.pos;
        while at < w.end() {
            let lcn = (at / BLOCK) as u32;
            at = match t.covering(lcn) {
                Some((start, piece)) => {
                    let to = w.end().min(u64::from(start + piece.len) * BLOCK);
                    match piece.is_zeros() {
                        true => self.fill_zeros(t, w, at..to)?,
                        false => self.overwrite(t, w, (start, piece), at..to)?,
                    }
                    to
                }
                None => {
                    let hole = self.hole(t, w, lcn)?;
                    let to = w.end().min(u64::from(hole.end) * BLOCK);
                    self.fill(t, w, hole, at..to)?;
                    to
                }
            };
        }
        t.size = t.size.max(w.end());
        (t.mtime, t.ctime) = (w.call.time, w.call.time);
        let time = w.call.time.0 as u64;
        let fields = [(inode::FILE_SIZE, t.size), (inode::MTIME, time), (inode::CTIME, time)];
        self.store.put_fields(t.number, &fields)
    }

    /// Sees to it that the write finds its clusters, before anything is changed.
    pub(crate) fn make_room(&self, t: &Tier, w: &Write<'_>) -> Result<()> {
        let mut need = 0;
        let (mut lcn, end) = ((w.pos / BLOCK) as u32, w.end().div_ceil(BLOCK) as u32);
        while lcn < end {
            lcn = match t.covering(lcn) {
                Some((start, piece)) => {
                    let to = start + piece.len;
                    need += if piece.is_zeros() { u64::from(to.min(end) - lcn) } else { 0 };
                    to
                }
                None => {
                    let hole = self.hole(t, w, lcn)?;
                    need += u64::from(hole.end - hole.start);
                    hole.end
                }
            };
        }
        let enough = |fs: &Spfs| fs.store.clusters.available() >= need + SLACK;
        if !enough(self) {
            self.purge(w.call)?;
            if !enough(self) {
                return Err(FsError::NoSpace);
            }
        }
        if need > 0 {
            match self.store.clusters.used_percent() {
                used if used > self.options.crawl_above => granary_sim::sleep(CRAWL),
                used if used > self.options.slow_above => granary_sim::sleep(SLOW),
                _ => {}
            }
        }
        Ok(())
    }

    /// The clusters that a write fills of the hole at `lcn`: its own, and those of the lower file around them
    /// that are copied along. All of one chunk.
    fn hole(&self, t: &Tier, w: &Write<'_>, lcn: u32) -> Result<Range<u32>> {
        let chunk = self.store.chunk;
        let (first, end) = (t.end_before(lcn), t.next_start(lcn).unwrap_or(u32::MAX));
        let border = (lcn / chunk + 1).saturating_mul(chunk);
        let (first, end) = (first.max(lcn / chunk * chunk), end.min(border));
        let own = lcn..(w.end().div_ceil(BLOCK) as u32).min(end);
        let below = t.limit.div_ceil(BLOCK) as u32;
        if lcn >= below {
            return Ok(own);
        }
        let around = match self.options.promotion_copy {
            PromotionCopy::Piece => {
                let piece = self.options.piece;
                own.start / piece * piece..own.end.div_ceil(piece).saturating_mul(piece)
            }
            PromotionCopy::Extent => self.data_around(w, own.clone())?,
        };
        // Only what is there below is copied.
        Ok(around.start.max(first).min(own.start)..around.end.min(below).min(end).max(own.end))
    }

    /// The lower file's data without a hole around these clusters.
    fn data_around(&self, w: &Write<'_>, own: Range<u32>) -> Result<Range<u32>> {
        let at = u64::from(own.start) * BLOCK;
        let below = w.lower()?;
        let size = self.lower.stat(below).attr.size;
        if at >= size || self.lower.seek_data(w.call, below, at)? != Some(at) {
            return Ok(own);
        }
        let end = self.lower.seek_hole(w.call, below, at)?.div_ceil(BLOCK) as u32;
        let chunk = self.store.chunk;
        let mut start = own.start / chunk * chunk;
        // The last hole before the place: from the chunk's start, hole by hole.
        loop {
            let hole = self.lower.seek_hole(w.call, below, u64::from(start) * BLOCK)?;
            if hole >= at {
                return Ok(start..end.max(own.end));
            }
            let data = self.lower.seek_data(w.call, below, hole)?.unwrap_or(at);
            start = ((data / BLOCK) as u32).min(own.start);
        }
    }

    /// Fills a hole: `hole` gets clusters, the bytes `range` of them are the write's.
    fn fill(&self, t: &mut Tier, w: &Write<'_>, hole: Range<u32>, range: Range<u64>) -> Result<()> {
        let mut b = self.store.pm.batch();
        let base = u64::from(hole.start) * BLOCK..u64::from(hole.end) * BLOCK;
        let head = self.base(t, w, base.start..range.start)?;
        let tail = self.base(t, w, range.end..base.end)?;
        let (grown, taken) = self.place(t, hole.clone())?;
        // Everything below gives its clusters back where it fails.
        let stored = taken.iter().chain(&grown).try_for_each(|&(lcn, len, pcn)| {
            let here = u64::from(lcn) * BLOCK..u64::from(lcn + len) * BLOCK;
            let mut put =
                |from: u64, payload: Payload<'_>| stream(&mut b, (here.clone(), pcn), from, payload);
            put(base.start, Payload::Bytes(&head))?;
            put(range.start, w.part(range.start, range.end))?;
            put(range.end, Payload::Bytes(&tail))
        });
        let stored = stored.and_then(|()| self.store.add(t, &mut b, &taken));
        if let Err(e) = stored {
            for &(_, len, pcn) in taken.iter().chain(&grown) {
                self.store.clusters.give(pcn.into(), len.into())?;
            }
            return Err(e);
        }
        if let Some((lcn, len, _)) = grown {
            let (start, piece) = t.covering(lcn - 1).ok_or(FsError::Stale)?;
            self.store.change(t, &mut b, start, piece.pcn, piece.len + len)?;
        }
        if base.start < t.limit { self.lower.let_go_of_pages(w.call, w.lower()?, base) } else { Ok(()) }
    }

    /// The bytes that a hole has: the lower file's up to the limit, then zeros.
    fn base(&self, t: &Tier, w: &Write<'_>, range: Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
        let below = t.limit.saturating_sub(range.start).min(bytes.len() as u64) as usize;
        if below > 0 {
            let dest = Dest::Bytes(&mut bytes[..below]);
            self.read_below(w.call, w.lower()?, range.start, dest, Through::Cache)?;
        }
        Ok(bytes)
    }

    /// Clusters for a hole, as extents (first cluster, clusters, first cluster of the data): what the extent
    /// before the hole grows by, and new ones.
    #[allow(clippy::type_complexity)]
    fn place(
        &self,
        t: &mut Tier,
        hole: Range<u32>,
    ) -> Result<(Option<(u32, u32, u32)>, Vec<(u32, u32, u32)>)> {
        let (chunk, store) = (self.store.chunk, &self.store);
        let (mut at, mut grown, mut new) = (hole.start, None, Vec::new());
        let before = at.checked_sub(1).and_then(|lcn| t.covering(lcn));
        let grows = |(_, piece): &(u32, crate::tier::Piece)| !at.is_multiple_of(chunk) && !piece.is_zeros();
        if let Some((start, piece)) = before.filter(grows) {
            let room =
                exthash::reach(start % chunk, chunk) - piece.len.min(exthash::reach(start % chunk, chunk));
            if let Some((first, n)) = t.spare.filter(|(first, _)| *first == piece.pcn + piece.len && room > 0)
            {
                let len = n.min(room).min(hole.end - at);
                grown = Some((at, len, first));
                t.spare = (n > len).then_some((first + len, n - len));
                at += len;
            }
        }
        while at < hole.end {
            let want = hole.end - at;
            let run = match t.spare.take() {
                Some(spare) => Some((u64::from(spare.0), u64::from(spare.1))),
                None => {
                    // An append will go on.
                    let ahead = if u64::from(want) < AHEAD && t.next_start(at).is_none() {
                        AHEAD
                    } else {
                        want.into()
                    };
                    store.clusters.data(ahead)
                }
            };
            let Some((pcn, n)) = run else {
                for &(_, len, pcn) in new.iter().chain(&grown) {
                    store.clusters.give(u64::from(pcn), u64::from(len))?;
                }
                return Err(FsError::NoSpace);
            };
            let len = (n as u32).min(want);
            t.spare = (n as u32 > len).then_some((pcn as u32 + len, n as u32 - len));
            for (key, n) in exthash::extents(store.sb.form, at % chunk, len, chunk) {
                new.push((at - at % chunk + key, n, pcn as u32 + key - at % chunk));
            }
            at += len;
        }
        Ok((grown, new))
    }
}

/// Streams what of `payload`, which begins at byte `from` of the file, lies in the clusters `here`, whose
/// data is at `pcn`.
fn stream(b: &mut Batch<'_>, (here, pcn): (Range<u64>, u32), from: u64, payload: Payload<'_>) -> Result<()> {
    let to = from + payload.len() as u64;
    let (lo, hi) = (from.max(here.start), to.min(here.end));
    if lo >= hi {
        return Ok(());
    }
    let part = payload.part((lo - from) as usize, (hi - lo) as usize);
    b.stream(u64::from(pcn) * BLOCK + lo - here.start, part, Structure::Data)
}
