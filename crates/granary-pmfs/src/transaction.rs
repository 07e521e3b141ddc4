//! Changes in place, all or nothing, as the file system's protocol makes them so.

use crate::fs::{Pmfs, Protocol};
use crate::journal::Edit;
use crate::layout::journal::{DATA, UNDO};
use granary_fs::Result;
use granary_pm::Batch;
use granary_sim::{costs, cpu};

impl Pmfs {
    /// Changes everything in `groups` in place, all or nothing. Each group's old bytes are fenced on their
    /// own, as the original fences each structure that it logs. Data that was streamed into `b` before is
    /// safe before the transaction counts.
    pub(crate) fn transact(&self, b: &mut Batch<'_>, groups: &[Vec<Edit>]) -> Result<()> {
        let Protocol::Undo(journal) = &self.protocol else {
            for e in groups.iter().flatten() {
                b.put(e.addr, &e.new, e.what)?;
            }
            cpu(costs().log_entry);
            b.fence()?;
            if let Some(dentries) = &self.dentries {
                dentries.changed(groups.iter().flatten());
            }
            return Ok(());
        };
        let entries: usize = groups.iter().flatten().map(|e| e.old.len().div_ceil(DATA)).sum();
        let mut tx = journal.begin(b, entries as u64)?;
        for group in groups.iter().filter(|g| !g.is_empty()) {
            cpu(costs().log_entry);
            for e in group {
                for (i, part) in e.old.chunks(DATA).enumerate() {
                    journal.entry(b, &mut tx, UNDO, e.addr + (i * DATA) as u64, part)?;
                }
            }
            b.fence()?;
        }
        for e in groups.iter().flatten() {
            b.put(e.addr, &e.new, e.what)?;
        }
        journal.commit(b, tx)
    }
}
