//! Every file system that uses REMAP keep does this with second names (PebbleSSD sections 4.2.1 and 5.2).
//!
//! ```text
//!   cleaning    blocks and their new places ── RemapRange::of_pairs ──> a few ranges, one command
//!   recovery    pairs of names ── Bam::settle_names ──> of each pair the name that nothing leads to
//!                                                       is trimmed, then BAM_RESET
//! ```

use super::{Bam, BamName, REMAP_KEEP, RemapRange};
use crate::drive::DriveError;
use crate::port::Ticket;
use crate::structure::Structure;
use granary_units::{Lpa, Page};

impl RemapRange {
    /// Pages and their second names: neighbours that go to neighbours are one range.
    pub fn of_pairs(pairs: impl IntoIterator<Item = (Lpa, Lpa)>) -> Vec<RemapRange> {
        let mut all: Vec<RemapRange> = Vec::new();
        for (src, dst) in pairs {
            match all.last_mut() {
                Some(r) if r.src.offset(r.count) == src && r.dst.offset(r.count) == dst => r.count += 1,
                _ => all.push(RemapRange { src, dst, count: 1 }),
            }
        }
        all
    }
}

impl Bam<'_> {
    /// At recovery, before anything is written: of each pair of names the one that is not `valid` ends. The
    /// reset that comes later leaves the newest name, but the file system's recovered page may have an older
    /// one. Where the power fails in between, the next recovery finds this one's work.
    ///
    /// # Errors
    /// The drive's.
    pub fn settle_names(&self, valid: impl Fn(Lpa) -> bool) -> Result<(), DriveError> {
        let port = self.port;
        if !port.offers(REMAP_KEEP) {
            return Ok(());
        }
        let mut names: Vec<Lpa> = self.names()?.into_iter().flat_map(|n| [n.src, n.dst]).collect();
        names.sort_unstable();
        names.dedup();
        let mut done = Ticket::NONE;
        for lpa in names.into_iter().filter(|lpa| !valid(*lpa)) {
            done = done.and(port.trim(lpa, 1)?);
        }
        port.wait(done);
        // A remaining pair has two owners, which no file system makes on purpose: each gets a page of its
        // own.
        for BamName { src, .. } in self.names()? {
            let mut page = [Page::ZERO];
            port.read(src, &mut page, Structure::Data)?;
            port.write(src, &page, Structure::Data)?;
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
        let pairs = [(4, 100), (5, 101), (7, 102), (8, 103), (9, 300)];
        let found = RemapRange::of_pairs(pairs.map(|(src, dst)| (Lpa(src), Lpa(dst))));
        assert_eq!(found, [of(4, 100, 2), of(7, 102, 2), of(9, 300, 1)]);
    }
}
