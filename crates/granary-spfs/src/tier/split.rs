//! Splitting an extent in two, and giving an extent up for zeros, so that a power failure leaves the file's
//! bytes as they were.
//!
//! ```text
//!   [3, 40)  ──split at 16──>   slots of [16, 40), which name the same clusters, fence
//!                               one store of the chain reaches them; from here on [3, 40) ends where they
//!                               begin
//!                               the old pointers from 16 on away, the slot at 3 says [3, 16), fence
//! ```
//!
//! Between the last two steps an extent is longer than the next one lets it be: the chain decides, and
//! recovery shortens it. Both name the same clusters until then, so that whichever a search finds is right.
//!
//! Source: the third way of the released code's overwrites (WR_SPLIT), whose log entry is a pointer into host
//! memory; the steps are ours.

use super::Tier;
use crate::exthash;
use crate::store::Store;
use granary_fs::Result;
use std::ops::Range;

impl Store {
    /// Sees to it that an extent begins at `lcn`, where one has that cluster.
    ///
    /// # Errors
    /// `NoSpace` where the table has no room, with nothing changed; the device's.
    pub fn split_at(&self, t: &mut Tier, lcn: u32) -> Result<()> {
        let Some((start, piece)) = t.covering(lcn).filter(|(start, _)| *start < lcn) else { return Ok(()) };
        let (end, base) = (start + piece.len, lcn - self.key(lcn));
        let cluster = |at: u32| if piece.is_zeros() { 0 } else { piece.pcn + at - start };
        let behind: Vec<(u32, u32, u32)> =
            exthash::extents(self.sb.form, self.key(lcn), end - lcn, self.chunk)
                .into_iter()
                .map(|(key, n)| (base + key, n, cluster(base + key)))
                .collect();
        let mut b = self.pm.batch();
        self.add(t, &mut b, &behind)?;
        self.leave(&mut b, t.number, start, piece.len, lcn - start)?;
        self.change(t, &mut b, start, piece.pcn, lcn - start)
    }

    /// Splits extents so that none crosses either end of the range; gives the first clusters of those within.
    ///
    /// # Errors
    /// As [`Store::split_at`]; the first end may be split then.
    pub fn cut_out(&self, t: &mut Tier, range: Range<u32>) -> Result<Vec<u32>> {
        self.split_at(t, range.start)?;
        self.split_at(t, range.end)?;
        Ok(t.map.range(range).map(|(start, _)| *start).collect())
    }

    /// An extent becomes zeros: its clusters are free.
    ///
    /// # Errors
    /// The device's.
    pub fn zero_extent(&self, t: &mut Tier, start: u32) -> Result<()> {
        let Some(piece) = t.map.get(&start).copied().filter(|piece| !piece.is_zeros()) else { return Ok(()) };
        let mut b = self.pm.batch();
        self.change(t, &mut b, start, 0, piece.len)?;
        self.clusters.give(piece.pcn.into(), piece.len.into())
    }
}
