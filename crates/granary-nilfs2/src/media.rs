//! [`Media`]: blocks of the drive by address, with those that are on their way to it.
//!
//! ```text
//!   a log gets its addresses  --publish-->  under way: address -> page   --retire-->  on the drive
//!                                           (readers find them here)
//! ```
//!
//! As soon as a log is laid out the maps name its blocks' new addresses, while the drive is still writing
//! them. Readers do not wait for that: they are served from here.
//!
//! A block that REMAP moves has two addresses until BAM_RESET, which ends the old one: it reads as zeros from
//! then on. A reader looks up an address and asks the drive later, so the reset may come in between. The
//! order of things makes that visible:
//!
//! ```text
//!   constructor   maps name the new address | retire | era + 1 | BAM_RESET
//!   reader        era before | look up | read | era after      the same: the read came before the reset;
//!                                                              else once more
//! ```
//!
//! A reader that sees the new era before it looks up finds new addresses alone, whether the reset is done or
//! not.

use crate::geometry::Geometry;
use crate::layout::corrupt;
use granary_device::vendor::pebble::Bam;
use granary_device::{Port, Structure, Ticket};
use granary_fs::Result;
use granary_units::{Lpa, Page};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// See the module.
pub(crate) struct Media {
    pub port: Port,
    pub geo: Geometry,
    under_way: RwLock<FxHashMap<u64, Page>>,
    /// Blocks that the drive is renaming: where they are as yet.
    renamed: RwLock<FxHashMap<u64, u64>>,
    /// Times that old addresses of renamed blocks ended, or are about to.
    era: AtomicU64,
}

impl Media {
    pub fn new(port: Port, geo: Geometry) -> Media {
        Media { port, geo, under_way: RwLock::default(), renamed: RwLock::default(), era: AtomicU64::new(0) }
    }

    /// These are being written.
    pub fn publish(&self, blocks: impl Iterator<Item = (u64, Page)>) {
        self.under_way.write().extend(blocks);
    }

    /// These are being renamed: from, to.
    pub fn renaming(&self, blocks: &[(u64, u64)]) {
        self.renamed.write().extend(blocks.iter().map(|(from, to)| (*to, *from)));
    }

    fn present(&self, at: u64) -> u64 {
        self.renamed.read().get(&at).copied().unwrap_or(at)
    }

    /// All that was published is on the drive.
    pub fn retire(&self) {
        *self.under_way.write() = FxHashMap::default();
        *self.renamed.write() = FxHashMap::default();
    }

    /// Which addresses are good: to be asked for before they are looked up, and again when what lies there
    /// has been read. Where it moved the read is void.
    pub fn era(&self) -> u64 {
        self.era.load(SeqCst)
    }

    /// Ends the old addresses of all renamed blocks. The maps name the new ones, and [`Media::retire`] came
    /// before.
    ///
    /// # Errors
    /// The drive's.
    pub fn end_old_addresses(&self) -> Result<()> {
        self.era.fetch_add(1, SeqCst);
        Ok(self.port.require::<Bam>()?.reset()?)
    }

    fn check(&self, at: u64) -> Result<()> {
        match self.geo.holds(at) {
            true => Ok(()),
            false => Err(corrupt(format!("a pointer to block {at}"))),
        }
    }

    /// One block. Its address was looked up under the lock of the maps, which is still held, so it is a new
    /// one.
    ///
    /// # Errors
    /// `Corrupt` where there is no such block; the drive's.
    pub fn read(&self, at: u64, what: Structure) -> Result<Page> {
        self.check(at)?;
        loop {
            let era = self.era();
            let present = self.present(at);
            if let Some(page) = self.under_way.read().get(&present) {
                return Ok(page.clone());
            }
            let mut page = [Page::ZERO];
            self.port.read(Lpa(present), &mut page, what)?;
            // The place that it had as yet may have ended meanwhile.
            if self.era() == era {
                let [page] = page;
                return Ok(page);
            }
        }
    }

    /// Consecutive blocks that nobody is writing.
    pub fn read_run(&self, at: u64, out: &mut [Page], what: Structure) -> Result<()> {
        self.check(at)?;
        self.check(at + out.len() as u64 - 1)?;
        Ok(self.port.read(Lpa(at), out, what)?)
    }

    /// Starts reading blocks, neighbours in one command. The content is good if the [`Media::era`] of the
    /// look-up is unchanged when the read has completed.
    pub fn submit_reads(&self, addrs: &[u64], out: &mut [Page], what: Structure) -> Result<Ticket> {
        let (mut ticket, mut at) = (Ticket::NONE, 0);
        let addrs: Vec<u64> = addrs.iter().map(|at| self.present(*at)).collect();
        for run in addrs.chunk_by(|a, b| a + 1 == *b) {
            let part = &mut out[at..at + run.len()];
            at += run.len();
            self.check(run[0])?;
            self.check(run[run.len() - 1])?;
            let under_way = self.under_way.read();
            let here = |a: &u64| under_way.get(a).cloned();
            if under_way.is_empty() || run.iter().all(|a| here(a).is_none()) {
                drop(under_way);
                ticket = ticket.and(self.port.submit_read(Lpa(run[0]), part, what)?);
                continue;
            }
            let found: Vec<Option<Page>> = run.iter().map(here).collect();
            drop(under_way);
            for (i, page) in found.into_iter().enumerate() {
                match page {
                    Some(page) => part[i] = page,
                    None => {
                        ticket = ticket.and(self.port.submit_read(Lpa(run[i]), &mut part[i..=i], what)?)
                    }
                }
            }
        }
        Ok(ticket)
    }
}
