//! [`Kind`]: which table it is, and what its slots mean.

use crate::layout::ROOTS;
use crate::layout::slot::{self, Extent, SlotPlace};
use granary_device::Structure;
use granary_pm::bytes::u64_at;

/// Which of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Lower inode and generation -> inode.
    Names,
    /// Cluster -> map of its blocks.
    Usage,
    /// Inode and file cluster -> extent.
    Extents,
}

impl Kind {
    /// All, in the order of their roots.
    pub const ALL: [Kind; 3] = [Kind::Names, Kind::Usage, Kind::Extents];

    /// Where its root lies.
    pub fn root(self) -> u64 {
        ROOTS + 8 * self as u64
    }

    /// Bytes of a slot.
    pub(super) fn slot(self) -> usize {
        if self == Kind::Extents { slot::EXTENT } else { slot::SMALL }
    }

    /// Buckets that are looked at: the released code's 2, and 8 for extents.
    pub(super) fn probes(self) -> u64 {
        if self == Kind::Extents { 8 } else { 2 }
    }

    /// Structure that its transfers count as.
    pub fn what(self) -> Structure {
        match self {
            Kind::Names => Structure::Dentry,
            Kind::Usage => Structure::Bitmap,
            Kind::Extents => Structure::DataPointer,
        }
    }

    /// The place of a slot's entry; `None` where it holds nothing.
    pub(super) fn place(self, b: &[u8], chunk: u32) -> Option<SlotPlace> {
        if u64_at(b, 0) == 0 {
            return None;
        }
        match self {
            // No lower inode has the number 0: such a slot was being removed.
            Kind::Names => Some(slot::name_place(slot::read_name(b).0)).filter(|_| u64_at(b, 8) != 0),
            Kind::Usage => Some(slot::cluster_place(slot::read_usage(b).0)),
            Kind::Extents => {
                let e = Extent::read(b)?;
                Some(slot::extent_place(e.inode, e.lcn / chunk, e.key))
            }
        }
    }
}
