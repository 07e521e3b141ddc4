//! Views of the flash for tests and benches, past the host's interface, and the faults that they switch on.

use super::Mssd;
use granary_flash::{Faults, NandStats};
use granary_units::Lpa;

impl Mssd {
    /// From now on flash operations fail as `faults` says; `None` for never.
    pub fn set_faults(&self, faults: Option<Faults>) {
        self.state.lock().inner.backend.ftl_mut().set_faults(faults);
    }

    /// From now on every read of the flash page that holds `lpa` fails, until its block is erased. False
    /// where there is none.
    pub fn break_page(&self, lpa: Lpa) -> bool {
        let mut s = self.state.lock();
        let ftl = s.inner.backend.ftl_mut();
        let at = ftl.location(lpa);
        at.into_iter().for_each(|ppa| ftl.nand_mut().break_page(ppa));
        at.is_some()
    }

    /// Counters of the NAND array itself, over all causes.
    pub fn nand_stats(&self) -> NandStats {
        self.state.lock().inner.backend.ftl().nand_stats()
    }

    /// Logical pages that have a live copy in flash.
    pub fn mapped_pages(&self) -> u64 {
        self.state.lock().inner.backend.ftl().mapped_pages()
    }

    /// Flash blocks out of service.
    pub fn lost_blocks(&self) -> u32 {
        self.state.lock().inner.backend.ftl().lost_blocks()
    }
}
