//! [`Change`]: effects of BAM's commands on the drive, while they are in flight.
//!
//! A page of FS_WRITE lands with its entry or not at all; REMAP and REMAP keep land whole or not at all.

use super::FileBlock;
use crate::companion::{Pending, Reach, Seen};
use granary_device::RemapRange;
use granary_sim::rng::Thing;
use granary_units::{Lpa, Page};
use std::any::Any;

/// See the module.
#[derive(Clone, Debug)]
pub enum Change {
    /// A page gets new content, which is a block of a file.
    FsWrite {
        /// The page.
        lpa: Lpa,
        /// Its content.
        page: Page,
        /// The block.
        block: FileBlock,
    },
    /// Pages move.
    Remap {
        /// First page.
        src: Lpa,
        /// Its new place.
        dst: Lpa,
        /// Number of pages.
        count: u64,
    },
    /// Pages get second names.
    Keep(Box<[RemapRange]>),
    /// The tables are emptied.
    Reset,
}

impl Change {
    /// The change that this is.
    pub fn of(pending: &dyn Pending) -> Option<&Change> {
        (pending as &dyn Any).downcast_ref()
    }
}

impl Pending for Change {
    fn fork(&self) -> Box<dyn Pending> {
        Box::new(self.clone())
    }

    fn thing(&self) -> Thing {
        match self {
            Change::FsWrite { lpa, .. } => Thing::Page("write", lpa.0),
            Change::Remap { dst, .. } => Thing::Page("remap", dst.0),
            Change::Keep(ranges) => Thing::Page("name", ranges.first().map_or(0, |range| range.dst.0)),
            Change::Reset => Thing::Other("reset"),
        }
    }

    fn reach(&self) -> Reach {
        match self {
            Change::FsWrite { lpa, .. } => Reach::Page(*lpa),
            Change::Remap { .. } | Change::Keep(_) => Reach::Pages,
            Change::Reset => Reach::Nothing,
        }
    }

    fn concerns(&self, page: Lpa) -> bool {
        match self {
            Change::FsWrite { lpa, .. } => *lpa == page,
            Change::Remap { src, dst, count } => within(page, *src, *count) || within(page, *dst, *count),
            Change::Keep(ranges) => {
                ranges.iter().any(|r| within(page, r.src, r.count) || within(page, r.dst, r.count))
            }
            Change::Reset => false,
        }
    }

    fn seen(&self, page: Lpa) -> Seen {
        match self {
            Change::FsWrite { page, .. } => Seen::Content(page.clone()),
            Change::Remap { src, dst, count } if within(page, *dst, *count) => {
                Seen::Of(src.offset(page.0 - dst.0))
            }
            // Backwards through the ranges: the source of each was the result of those before it.
            Change::Keep(ranges) => Seen::Of(ranges.iter().rev().fold(page, |page, r| {
                if within(page, r.dst, r.count) { r.src.offset(page.0 - r.dst.0) } else { page }
            })),
            Change::Remap { .. } | Change::Reset => Seen::Content(Page::ZERO),
        }
    }

    fn brings_page(&self) -> bool {
        matches!(self, Change::FsWrite { .. })
    }
}

fn within(page: Lpa, first: Lpa, count: u64) -> bool {
    (first.0..first.0 + count).contains(&page.0)
}
