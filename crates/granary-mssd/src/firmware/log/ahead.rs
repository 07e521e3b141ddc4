//! Looking ahead: what the next reads of lines will look up, brought into the processor's cache.
//!
//! ```text
//!   one after the other   |record|entry|place|data| |record|entry|place|data| ...      each waits for memory
//!   looked ahead          |record x 32|entry x 32|place x 32|data x 32| read, read, read ...
//! ```
//!
//! A line of a large log is found by way of four things that lie far apart, each naming the next. Of reads that are known
//! ahead, all first things are fetched together, then all second ones. No result depends on it, and nothing is counted.

use super::Log;
use super::chunks::EntryRef;
use granary_units::{ByteAddr, LINE_SIZE, Lpa};

/// Reads looked up together.
const TOGETHER: usize = 32;

impl Log {
    /// Fetches what reads of the lines that hold these bytes will look up; pages of lines that the log does not hold are
    /// appended to `missed`.
    pub fn look_ahead(&self, at: &[ByteAddr], missed: &mut Vec<Lpa>) {
        for at in at.chunks(TOGETHER) {
            let line_of = |at: &ByteAddr| at.in_page() / LINE_SIZE;
            at.iter().for_each(|at| self.index.prefetch_record(at.lpa().0 as u32));
            // Of each read the place of its entry, then the entry.
            let mut entries = [None; TOGETHER];
            for (entry, at) in entries.iter_mut().zip(at) {
                *entry = self.index.prefetch_entry(at.lpa().0 as u32, line_of(at));
                if entry.is_none() {
                    missed.push(at.lpa());
                }
            }
            for (slot, at) in entries.iter_mut().zip(at) {
                let Some(place) = *slot else { continue };
                let entry = self.index.entry_at(at.lpa().0 as u32, place);
                *slot = Some(entry.0);
                self.regions[entry.region()].prefetch_place(entry.number());
            }
            for (entry, at) in entries.iter().zip(at) {
                if let Some(entry) = entry.map(EntryRef) {
                    self.regions[entry.region()].prefetch_data(entry.number(), line_of(at));
                }
            }
        }
    }
}
