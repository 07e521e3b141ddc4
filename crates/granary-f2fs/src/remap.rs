//! Cleaning by REMAP keep: valid blocks get new places without being read or written.
//!
//! ```text
//!   victim   | a . b c . d |      REMAP keep, one command of three ranges         cold log   | a b c d |
//!   until the checkpoint      both places read the block: the checkpoint names the old one, memory the new one
//!   footer is durable         BAM_RESET ends the old places
//!   power fails before it     recovery trims the place that is not valid of each pair, then a checkpoint, then BAM_RESET
//! ```
//!
//! Settling comes before the reset because the reset leaves the newest name, and the checkpoint may have an older one. A second
//! failure in between finds what the first did: the checkpoint and the log of nodes are the same, and so is what is valid.
//!
//! Source: PebbleSSD sections 4.2.1 and 5.2 (F2FS-opt).

use crate::F2fs;
use granary_device::{BamName, DriveError, RemapRange, Structure, Ticket};
use granary_units::{Lpa, Page};
use granary_vfs::Result;

/// Neighbours that go to neighbours are one range.
pub(crate) fn ranges(from: &[u32], to: &[u32]) -> Vec<RemapRange> {
    let mut all: Vec<RemapRange> = Vec::new();
    for (&src, &dst) in from.iter().zip(to) {
        let (src, dst) = (Lpa(src as u64), Lpa(dst as u64));
        match all.last_mut() {
            Some(r) if r.src.offset(r.count) == src && r.dst.offset(r.count) == dst => r.count += 1,
            _ => all.push(RemapRange { src, dst, count: 1 }),
        }
    }
    all
}

impl F2fs {
    /// Gives blocks second names; false where the drive has no room for them (a checkpoint makes some): they have to be written then.
    ///
    /// # Errors
    /// The drive's.
    pub(crate) fn remap(&self, from: &[u32], to: &[u32]) -> Result<bool> {
        let ranges = ranges(from, to);
        match self.port.submit_remap_keep(&ranges) {
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

    /// After the log was rolled forward and before anything is written: of each pair of names the one that is not valid ends.
    ///
    /// # Errors
    /// The drive's.
    pub(crate) fn settle_names(&self) -> Result<()> {
        if self.port.info().names == 0 {
            return Ok(());
        }
        let valid = |lpa: Lpa| {
            let at = u32::try_from(lpa.0).unwrap_or(u32::MAX);
            self.geo.in_main(at) && self.segs.lock().is_valid(at)
        };
        let mut done = Ticket::NONE;
        let mut names: Vec<Lpa> = self.port.bam_names()?.into_iter().flat_map(|n| [n.src, n.dst]).collect();
        names.sort_unstable();
        names.dedup();
        for lpa in names.into_iter().filter(|lpa| !valid(*lpa)) {
            done = done.and(self.port.trim(lpa, 1)?);
        }
        self.port.wait(done);
        // What is still a pair has two owners, which nothing of ours makes: each gets a block of its own.
        for BamName { src, .. } in self.port.bam_names()? {
            let mut page = [Page::ZERO];
            self.port.read(src, &mut page, Structure::Data)?;
            self.port.write(src, &page, Structure::Data)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_that_go_to_neighbours_are_one_range() {
        let of = |src, dst, count| RemapRange { src: Lpa(src), dst: Lpa(dst), count };
        let found = ranges(&[4, 5, 7, 8, 9], &[100, 101, 102, 103, 300]);
        assert_eq!(found, [of(4, 100, 2), of(7, 102, 2), of(9, 300, 1)]);
    }
}
