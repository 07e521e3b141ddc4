//! Growth of a file: the bytes of its last block behind the old end become zeros before anybody sees them.

use super::{Job, Segment, Source};
use crate::fs::OrchFs;
use crate::geometry::{BLOCK, PAGE, Part, parts};
use crate::layout::Area;
use crate::unit::{Slot, Unit};
use granary_fs::{FsError, Result};

impl OrchFs {
    /// Zeros for what a file grows over in its last block: from its end to `to`, or to the block's end.
    /// Nothing where the block has no bytes there.
    pub(crate) fn gap(&self, unit: &Unit, size: u64, to: u64) -> Vec<Segment> {
        let to = to.min(size.next_multiple_of(BLOCK));
        parts(size, to.saturating_sub(size))
            .flat_map(|part| {
                let pages = part.pages().filter(|(page, ..)| unit.has_page(*page));
                pages.map(move |(page, from, to)| {
                    let base = (page as u64 * PAGE) as u32;
                    let part =
                        Part { block: part.block, from: base + u32::from(from), to: base + u32::from(to) };
                    Segment { part, source: Source::Zeros }
                })
            })
            .collect()
    }

    /// A last block whose bytes behind the end become zeros: pages as a whole without any bytes where slots
    /// can say so.
    pub(crate) fn grown(
        &self,
        process: u32,
        block: u64,
        unit: &Unit,
        gap: &[Segment],
        end: u64,
    ) -> Result<Job<'_>> {
        let is_page = |segment: &Segment| {
            segment.part.from.is_multiple_of(PAGE as u32) && segment.part.len() as u64 == PAGE
        };
        let (pages, bytes): (Vec<Segment>, Vec<Segment>) = match unit {
            Unit::Block(_) | Unit::Over { .. } => gap.iter().copied().partition(is_page),
            _ => (Vec::new(), gap.to_vec()),
        };
        let mut job = self.prepare(process, block, unit, &bytes, end)?;
        if pages.is_empty() {
            return Ok(job);
        }
        if let Unit::Block(base) = job.after {
            match self.take(&mut job.taken, Area::Over) {
                Ok(eln) => job.after = Unit::Over { eln, base, slots: Box::default() },
                // In place on the SSD: nobody sees these bytes.
                Err(FsError::NoSpace) => return self.merge_on_ssd(process, block, unit, gap),
                Err(e) => return Err(e),
            }
        }
        if let Unit::Over { slots, .. } = &mut job.after {
            for segment in pages {
                slots[(segment.part.from / PAGE as u32) as usize] = Slot::zeros();
            }
        }
        Ok(job)
    }
}
