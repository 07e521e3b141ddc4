//! PebbleSSD's drive: cleaning by REMAP keep, fsync by FS_WRITE (PebbleSSD sections 4.2.1 and 5.2).
//!
//! ```text
//!   cleaner   REMAP keep old -> places in the log | summary, metadata, super root | superblock | BAM_RESET
//!             | segments are free
//!             until the reset both names read the block: DAT on media names the old one, the log the new one
//!   fsync     summary, data by FS_WRITE                  ...      the next super root, then BAM_RESET
//!   recovery  of each pair of names the one that no log has is trimmed; data of logs by their summaries, as
//!             ever
//! ```
//!
//! Nothing is read from BAM for files: the summary of an fsync's log says the same, and where the file ends.
//! FS_WRITE saves the fsync its nodes, its metadata and its super root.

use crate::construct::submit;
use crate::fs::Nilfs2;
use crate::log::Log;
use crate::media::Media;
use crate::segments::Segments;
use granary_device::vendor::pebble::Bam;
use granary_device::{DriveError, FileEnd, RemapRange, Structure, Ticket};
use granary_fs::Result;
use granary_units::{Lpa, PAGE_SIZE, Page};
use std::sync::atomic::Ordering::Relaxed;

impl Nilfs2 {
    /// Gives blocks their places in a log. Where the drive has no room for names they are written, before the
    /// log is.
    ///
    /// # Errors
    /// The drive's, here and below.
    pub(crate) fn rename(&self, moves: &[(u64, u64)]) -> Result<()> {
        if moves.is_empty() {
            return Ok(());
        }
        self.bam_used.store(true, Relaxed);
        let pairs = moves.iter().map(|(src, dst)| (Lpa(*src), Lpa(*dst)));
        match self.media.port.require::<Bam>()?.submit_remap_keep(&RemapRange::of_pairs(pairs)) {
            Ok(ticket) => self.media.port.wait(ticket),
            Err(DriveError::BamFull(_)) => {
                let mut ticket = Ticket::NONE;
                for (from, to) in moves {
                    let mut page = [Page::ZERO];
                    self.media.port.read(Lpa(*from), &mut page, Structure::Data)?;
                    ticket = ticket.and(self.media.port.submit_write(Lpa(*to), &page, Structure::Data)?);
                }
                self.media.port.wait(ticket);
                // The log's checksum does not cover them: they have to be there first.
                self.media.port.flush()?;
                let mut stats = self.stats.lock();
                stats.refused += 1;
                stats.refused_blocks += moves.len() as u64;
            }
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }

    /// Starts writing a log of one file's data with FS_WRITE; as others where BAM is full.
    pub(crate) fn submit_file(&self, log: &Log, (ino, places): &(u64, Vec<(u64, u64)>)) -> Result<Ticket> {
        let port = &self.media.port;
        let mut ticket = Ticket::NONE;
        self.bam_used.store(true, Relaxed);
        let content = |at: u64| log.blocks.iter().find(|(a, ..)| *a == at).map(|(_, page, _)| page.clone());
        let last = places.last().map(|(at, _)| *at);
        for run in places.chunk_by(|a, b| a.0 + 1 == b.0 && a.1 + 1 == b.1) {
            let pages: Vec<Page> = run.iter().filter_map(|(at, _)| content(*at)).collect();
            let grown = log.grown.filter(|_| run.last().map(|(at, _)| *at) == last);
            let end = FileEnd { valid: grown.unwrap_or(PAGE_SIZE as u16), grew: grown.is_some() };
            let (lpa, offset) = (Lpa(run[0].0), run[0].1 as u32);
            match port.require::<Bam>()?.submit_fs_write(lpa, &pages, *ino, offset, end, Structure::Data) {
                Ok(t) => ticket = ticket.and(t),
                Err(DriveError::BamFull(_)) => return Ok(ticket.and(submit(port, log)?)),
                Err(e) => return Err(e.into()),
            }
            self.stats.lock().fs_written += pages.len() as u64;
        }
        for (at, page, what) in log.blocks.iter().filter(|(_, _, what)| *what == Structure::Log) {
            ticket = ticket.and(port.submit_write(Lpa(*at), std::slice::from_ref(page), *what)?);
        }
        Ok(ticket)
    }

    /// After a super root: it has all that BAM tells of.
    pub(crate) fn reset_bam(&self) -> Result<()> {
        let _step = granary_sim::step("nilfs2: BAM is reset");
        if self.bam_used.swap(false, Relaxed) {
            self.media.port.flush()?;
            self.media.end_old_addresses()?;
        }
        Ok(())
    }
}

/// After the newest log is known and before anything is written: of each pair of names the one that no log
/// has ends. A second failure finds what the first one did: the logs are the same.
///
/// # Errors
/// The drive's.
pub(crate) fn settle_names(media: &Media, segs: &Segments) -> Result<()> {
    let Some(bam) = media.port.vendor::<Bam>() else { return Ok(()) };
    Ok(bam.settle_names(|lpa| media.geo.holds(lpa.0) && segs.is_written(lpa.0))?)
}
