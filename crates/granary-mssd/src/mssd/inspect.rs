//! What tests and benches look at in the flash, past the host's interface, and the faults that they switch on.

use super::Mssd;
use granary_flash::{Faults, NandStats};

impl Mssd {
    /// From now on flash operations fail as `faults` says; `None` for never.
    pub fn set_faults(&self, faults: Option<Faults>) {
        self.state.lock().backend.ftl_mut().set_faults(faults);
    }

    /// What the NAND array itself counted, whatever the cause.
    pub fn nand_stats(&self) -> NandStats {
        self.state.lock().backend.ftl().nand_stats()
    }

    /// Logical pages that have a live copy in flash.
    pub fn mapped_pages(&self) -> u64 {
        self.state.lock().backend.ftl().mapped_pages()
    }

    /// Flash blocks out of service.
    pub fn lost_blocks(&self) -> u32 {
        self.state.lock().backend.ftl().lost_blocks()
    }
}
