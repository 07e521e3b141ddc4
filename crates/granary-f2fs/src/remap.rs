//! Cleaning by REMAP keep: valid blocks get new places without being read or written.
//!
//! ```text
//!   victim   | a . b c . d |      REMAP keep, one command of three ranges         cold log   | a b c d |
//!   until the checkpoint      both places read the block: the checkpoint names the old one, memory the new
//!                             one
//!   footer is durable         BAM_RESET ends the old places
//!   power fails before it     recovery trims the place that is not valid of each pair, then a checkpoint,
//!                             then BAM_RESET
//! ```
//!
//! Settling comes before the reset because the reset leaves the newest name, and the checkpoint may have an
//! older one. A second failure in between finds what the first did: the checkpoint and the log of nodes are
//! the same, and so is what is valid.
//!
//! Source: PebbleSSD sections 4.2.1 and 5.2 (F2FS-opt).

use crate::fs::F2fs;
use granary_device::vendor::pebble::Bam;
use granary_device::{DriveError, RemapRange};
use granary_fs::Result;
use granary_units::Lpa;

impl F2fs {
    /// Gives blocks second names; false where the drive has no room for them (a checkpoint makes some): they
    /// have to be written then.
    ///
    /// # Errors
    /// The drive's.
    pub(crate) fn remap(&self, from: &[u32], to: &[u32]) -> Result<bool> {
        let pages = |blocks: &[u32]| blocks.iter().map(|at| Lpa(*at as u64)).collect::<Vec<_>>();
        let pairs = pages(from).into_iter().zip(pages(to));
        match self.port.require::<Bam>()?.submit_remap_keep(&RemapRange::of_pairs(pairs)) {
            Ok(ticket) => {
                self.port.wait(ticket);
                self.stats.lock().remapped += from.len() as u64;
                Ok(true)
            }
            Err(DriveError::BamFull(_)) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Whether what BAM holds is this file system's to end.
    pub(crate) fn uses_bam(&self) -> bool {
        self.options.remap_cleaning || self.options.fs_write_fsync
    }

    /// After the log was rolled forward and before anything is written: of each pair of names the one that is
    /// not valid ends.
    ///
    /// # Errors
    /// The drive's.
    pub(crate) fn settle_names(&self) -> Result<()> {
        let valid = |lpa: Lpa| {
            let at = u32::try_from(lpa.0).unwrap_or(u32::MAX);
            self.geo.in_main(at) && self.segs.lock().is_valid(at)
        };
        let Some(bam) = self.port.vendor::<Bam>() else { return Ok(()) };
        Ok(bam.settle_names(valid)?)
    }
}
