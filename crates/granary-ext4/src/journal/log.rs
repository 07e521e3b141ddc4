//! Places in the log, and its superblock.

use super::Journal;
use crate::layout::journal::LogSuper;
use granary_device::Structure;
use granary_fs::Result;
use granary_units::{Lpa, Page};

/// The page of log block `at`, and how many log blocks from it on lie together.
pub(super) fn place(map: &[(u32, u64, u32)], at: u32) -> (u64, u32) {
    let i = map.partition_point(|run| run.0 <= at) - 1;
    let (first, lpa, len) = map[i];
    (lpa + (at - first) as u64, first + len - at)
}

impl Journal {
    /// Writes the journal's superblock.
    pub(super) fn write_super(&self, sequence: u32, start: u32, fua: bool) -> Result<()> {
        let page = LogSuper { len: self.config.len, sequence, start }.page();
        let mut s = self.state.lock();
        s.stats.superblock_writes += 1;
        s.stats.fua_writes += fua as u64;
        drop(s);
        let ticket = self.port.submit_write(Lpa(self.config.map[0].1), &[page], Structure::Journal)?;
        if fua {
            return self.wait_safe(ticket);
        }
        self.port.wait(ticket);
        Ok(())
    }

    /// The log block `n` blocks after `at`.
    pub(super) fn after(&self, at: u32, n: u32) -> u32 {
        let room = self.config.len - 1;
        (at - 1 + n) % room + 1
    }

    /// Blocks from log block `from` up to `to`.
    pub(super) fn distance(&self, from: u32, to: u32) -> u32 {
        let room = self.config.len - 1;
        (to + room - from) % room
    }

    /// Starts writing pages into the log from block `at` on, in as few commands as the log's runs allow.
    pub(super) fn submit_log(&self, mut at: u32, mut pages: &[Page]) -> Result<granary_device::Ticket> {
        let mut ticket = granary_device::Ticket::NONE;
        while !pages.is_empty() {
            let (lpa, run) = place(&self.config.map, at);
            let n = (run as usize).min(pages.len());
            ticket = ticket.and(self.port.submit_write(Lpa(lpa), &pages[..n], Structure::Journal)?);
            pages = &pages[n..];
            at = self.after(at, n as u32);
        }
        Ok(ticket)
    }
}
