//! The P2L table and `remap`: moving a page in the logical address space without touching the flash.
//!
//! ```text
//!   before   l2p[src] = p    OOB of p: src   p2l[p] = src        l2p[dst] = q   p2l[q] = dst
//!   after    l2p[src] = -    OOB of p: src   p2l[p] = dst        l2p[dst] = p   q is stale
//! ```
//!
//! Without a P2L table the OOB of a live page names its logical page, and cannot be rewritten before an
//! erase: such an FTL cannot remap. With one ([`Ftl::keep_p2l`]) the table has the last word; it is
//! persistent memory of the drive (battery-backed RAM), so it survives [`Ftl::power_cycle`] even where the
//! L2P table is lost. Gc copies a page under the logical page that it has by then, so the OOB is right again
//! in the copy.
//!
//! Invariant: with the table, `p2l[p] == l + 1` exactly where `l2p[l] == p + 1`.
//!
//! Source: PebbleSSD section 4.2.1 (an array, updated by write and remap together with the L2P table).

use super::check::in_use;
use super::{Ftl, empty_map};
use crate::error::FlashError;
use crate::medium::Medium;
use granary_units::{Lpa, Ppa};

impl<M: Medium> Ftl<M> {
    /// From now on a P2L table is kept, which [`Ftl::remap`] needs: 4 B for each physical page.
    pub fn keep_p2l(&mut self) {
        if self.p2l.is_empty() {
            self.p2l = empty_map(self.config.geometry.pages() as usize);
            for (l, ppa) in (1..).zip(&self.l2p) {
                if let Some(ppa) = ppa.checked_sub(1) {
                    self.p2l[ppa as usize] = l;
                }
            }
        }
    }

    /// Moves the content of logical page `src` to `dst`, whose former content is dropped; `src` reads as
    /// zeros afterwards. Takes no time at the flash.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`]; [`FlashError::ReadOnly`] at the end of life.
    ///
    /// # Panics
    /// Without a P2L table.
    pub fn remap(&mut self, src: Lpa, dst: Lpa) -> Result<(), FlashError> {
        assert!(!self.p2l.is_empty(), "remap without a P2L table");
        let (s, d) = (self.index(src)?, self.index(dst)?);
        self.writable()?;
        if s == d {
            return Ok(());
        }
        self.unmap(d);
        let entry = std::mem::take(&mut self.l2p[s as usize]);
        if let Some(ppa) = entry.checked_sub(1) {
            self.l2p[d as usize] = entry;
            self.p2l[ppa as usize] = d + 1;
            self.nand.rename(Ppa(ppa), d);
        }
        Ok(())
    }

    /// The logical page that a live flash page holds whose OOB says `holds`.
    #[inline]
    pub(super) fn owner(&self, ppa: u32, holds: u32) -> u32 {
        // Entry 0 is a stale page's: whoever asks finds a page number that no map entry confirms.
        self.p2l.get(ppa as usize).map_or(holds, |l| l.wrapping_sub(1))
    }

    /// After the L2P table was lost: the P2L table names every live page.
    pub(super) fn invert_p2l(&mut self) {
        self.l2p.fill(0);
        for (ppa, l) in (1..).zip(&self.p2l) {
            if let Some(l) = l.checked_sub(1) {
                self.l2p[l as usize] = ppa;
            }
        }
    }

    /// The table against the map.
    pub(super) fn check_p2l(&self, bad: &mut Vec<String>) {
        let (mut held, mapped) = (0, self.mapped);
        for (ppa, entry) in in_use(&self.p2l) {
            held += 1;
            let l = entry - 1;
            if self.l2p.get(l as usize) != Some(&(ppa as u32 + 1)) {
                bad.push(format!("P2L: flash page {ppa} holds page {l}, which is mapped elsewhere"));
            }
        }
        if !self.p2l.is_empty() && held != mapped {
            bad.push(format!("P2L: {held} entries, {mapped} pages are mapped"));
        }
    }
}
