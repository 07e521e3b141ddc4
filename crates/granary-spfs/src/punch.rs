//! fallocate of a tiered file, piece by piece: what persistent memory has of the range there, the rest below.
//!
//! ```text
//!   the whole call below, but for the size          what the lower file is master of; and its space
//!   zeroing: extents within the range ── zeros      each by one store; the bytes at the edges are
//!                                                   overwritten
//!   growing: the size                               one store
//! ```
//!
//! The call below comes first, since it may be refused: then nothing has changed. It also reserves the space
//! that a demotion will need there. Its effect below is durable with the next fsync, its effect here at once.
//!
//! An extent that was punched stays, without clusters: its absence would make the lower file the master of
//! bytes that a power failure may bring back there. Source: SPFS's slides have no punch, the released code
//! refuses it.

use crate::fs::Spfs;
use crate::layout::inode::{CTIME, MTIME};
use crate::tier::Tier;
use crate::write::Write;
use granary_fs::{Allocate, Call, Result};
use granary_pm::BLOCK;
use granary_units::Payload;
use granary_vfs::NodeRef;
use std::ops::Range;

impl Spfs {
    /// fallocate of a tiered file. Its chain is known.
    ///
    /// # Errors
    /// The lower file system's, with nothing changed; `NoSpace`: persistent memory has no room for the
    /// pieces, and the call is to be made again when the file has left it; the device's.
    pub(crate) fn allocate(
        &self,
        call: &Call<'_>,
        below: &NodeRef,
        t: &mut Tier,
        how: Allocate,
        range: Range<u64>,
    ) -> Result<()> {
        let keeping = match how {
            Allocate::Reserve { .. } => Allocate::Reserve { keep_size: true },
            Allocate::ZeroRange { .. } => Allocate::ZeroRange { keep_size: true },
            Allocate::PunchHole => Allocate::PunchHole,
        };
        self.lower.fallocate(call, below, keeping, range.start, range.end - range.start)?;
        if how.zeroes() {
            self.zero(call, below, t, range.start..range.end.min(t.size))?;
        }
        if how.grows() && range.end > t.size {
            return self.resize(call, Some(below), t, range.end);
        }
        // As the file systems below, for whatever it was (Linux: `file_modified`).
        (t.mtime, t.ctime) = (call.time, call.time);
        let times = [(MTIME, t.mtime.0 as u64), (CTIME, t.ctime.0 as u64)];
        self.store.put_fields(t.number, &times)
    }

    /// Makes what persistent memory has of these bytes zeros.
    fn zero(&self, call: &Call<'_>, below: &NodeRef, t: &mut Tier, range: Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let whole = range.start.div_ceil(BLOCK)..range.end / BLOCK;
        // The cluster with the file's end is whole: behind it are zeros.
        let whole = whole.start..if range.end == t.size { range.end.div_ceil(BLOCK) } else { whole.end };
        if whole.start < whole.end {
            for start in self.store.cut_out(t, whole.start as u32..whole.end as u32)? {
                self.store.zero_extent(t, start)?;
            }
        }
        let edges = match whole.start < whole.end {
            true => [range.start..whole.start * BLOCK, (whole.end * BLOCK).min(range.end)..range.end],
            false => {
                let border = range.end.min(whole.start * BLOCK);
                [range.start..border, border..range.end]
            }
        };
        for edge in edges.into_iter().filter(|edge| !edge.is_empty()) {
            // One cluster; what of it the lower file has, is zero there.
            if let Some((start, piece)) =
                t.covering((edge.start / BLOCK) as u32).filter(|(_, piece)| !piece.is_zeros())
            {
                let len = (edge.end - edge.start) as usize;
                let write =
                    Write { call, below: Some(below), pos: edge.start, data: Payload::Fill { word: 0, len } };
                self.make_room(t, &write)?;
                self.overwrite(t, &write, (start, piece), edge)?;
            }
        }
        Ok(())
    }
}
