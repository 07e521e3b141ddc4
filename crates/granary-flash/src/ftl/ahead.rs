//! Looking ahead: the tables' entries of pages that will be accessed soon, brought into the processor's cache
//! at once.
//!
//! ```text
//!   one after the other   |miss l2p|miss OOB| work |miss l2p|miss OOB| work | ...
//!   looked ahead          |miss x 32|miss x 32| work | work | work | ...
//! ```
//!
//! An access of a large drive at random waits for main memory twice, each time for longer than the model
//! works. Accesses that are known ahead wait together. No result depends on it.

use super::Ftl;
use crate::medium::{BlockNo, Medium};
use granary_units::{Lpa, Ppa, prefetch};

/// Pages looked up together.
const TOGETHER: usize = 32;

impl<M: Medium> Ftl<M> {
    /// Touches what accesses to these pages will look up. Changes nothing, counts nothing.
    pub fn look_ahead(&self, lpas: &[Lpa]) {
        for lpas in lpas.chunks(TOGETHER) {
            let mut entries = [0; TOGETHER];
            for (entry, lpa) in entries.iter_mut().zip(lpas) {
                *entry = self.l2p.get(lpa.0 as usize).copied().unwrap_or(0);
            }
            for ppa in entries.into_iter().filter_map(|entry| entry.checked_sub(1)) {
                let (block, page) = self.config.geometry.split(Ppa(ppa));
                self.nand.medium().touch(BlockNo(block), page);
            }
        }
    }

    /// Reads of `n` pages from `lpa` on come now: their content on the medium is fetched into the processor's
    /// cache together.
    #[inline]
    pub fn prefetch_reads(&self, lpa: Lpa, n: usize) {
        for ppa in (0..n.min(TOGETHER) as u64).filter_map(|i| self.location(lpa.offset(i))) {
            let (block, page) = self.config.geometry.split(ppa);
            self.nand.medium().prefetch_oob(BlockNo(block), page, 1);
        }
    }

    /// A write to this page comes soon: its map entry is fetched into the processor's cache.
    #[inline]
    pub fn prefetch_entry(&self, lpa: Lpa) {
        prefetch(&self.l2p, lpa.0 as usize);
    }

    /// The same for what such a write makes stale. To be called when the entry has come.
    #[inline]
    pub fn prefetch_copy(&self, lpa: Lpa) {
        if let Some(ppa) = self.location(lpa) {
            self.live.prefetch(ppa.0);
            self.valid.prefetch(self.config.geometry.split(ppa).0);
        }
    }
}
