//! [`Work`]: one I/O of the SSD, within one block of 32 KiB.

use super::Devices;
use crate::geometry::PAGES;
use crate::geometry::Pages;
use granary_device::{Structure, Ticket};
use granary_fs::Result;
use granary_units::{Lpa, Page};
use parking_lot::Mutex;
use std::sync::Arc;

/// See the module.
pub enum Work {
    /// Pages of a block that follow each other, past the cache; all of them but where an Upage is written
    /// back.
    Write {
        /// Its number.
        block: u64,
        /// The first of the pages.
        first: usize,
        /// Their content.
        pages: Vec<Page>,
    },
    /// Pages of a block, through the cache.
    Read(Arc<Read>),
}

/// Pages that are wanted of a block, and what they turned out to be.
pub struct Read {
    block: u64,
    /// Ascending.
    wanted: Vec<usize>,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    pages: Vec<(usize, Page)>,
    /// From the drive, by runs: not to be looked at before the command has completed.
    runs: Vec<(usize, Vec<Page>)>,
}

impl Read {
    /// Pages of a block that are to be read.
    pub fn new(block: u64, wanted: Vec<usize>) -> Read {
        Read { block, wanted, found: Mutex::default() }
    }

    /// Puts what was read in its place.
    pub fn put_into(&self, pages: &mut Pages) {
        for (i, page) in self.found.lock().pages.drain(..) {
            pages[i] = page;
        }
    }
}

impl Work {
    /// Writes a block as a whole.
    pub fn block_write(block: u64, pages: Pages) -> Work {
        Work::Write { block, first: 0, pages: pages.into() }
    }

    /// The block of the SSD.
    pub fn block(&self) -> u64 {
        match self {
            Work::Write { block, .. } => *block,
            Work::Read(read) => read.block,
        }
    }

    /// Submits its commands.
    ///
    /// # Errors
    /// The drive's.
    pub fn start(&self, devices: &Devices) -> Result<Ticket> {
        let first = self.block() * PAGES as u64;
        match self {
            Work::Write { first: from, pages, .. } => {
                devices.cache.forget(first..first + PAGES as u64);
                Ok(devices.ssd.submit_write(Lpa(first + *from as u64), pages, Structure::Data)?)
            }
            Work::Read(read) => {
                let mut found = Found::default();
                let missing: Vec<usize> = read
                    .wanted
                    .iter()
                    .copied()
                    .filter(|i| match devices.cache.get(first + *i as u64) {
                        Some((page, _)) => {
                            found.pages.push((*i, page));
                            false
                        }
                        None => true,
                    })
                    .collect();
                let mut ticket = Ticket::NONE;
                for run in missing.chunk_by(|a, b| a + 1 == *b) {
                    let mut out = vec![Page::ZERO; run.len()];
                    let lpa = Lpa(first + run[0] as u64);
                    ticket = ticket.and(devices.ssd.submit_read(lpa, &mut out, Structure::Data)?);
                    found.runs.push((run[0], out));
                }
                *read.found.lock() = found;
                Ok(ticket)
            }
        }
    }

    /// Waits for them, and tells the cache.
    pub fn end(&self, devices: &Devices, ticket: Ticket) {
        devices.ssd.wait(ticket);
        let first = self.block() * PAGES as u64;
        match self {
            Work::Write { .. } => devices.cache.forget(first..first + PAGES as u64),
            Work::Read(read) => {
                let mut found = read.found.lock();
                let runs = std::mem::take(&mut found.runs);
                for (from, pages) in runs {
                    for (i, page) in pages.into_iter().enumerate() {
                        devices.cache.put(first + (from + i) as u64, &page);
                        found.pages.push((from + i, page));
                    }
                }
            }
        }
    }
}
