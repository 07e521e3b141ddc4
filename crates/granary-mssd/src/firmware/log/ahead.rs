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
use super::chunks::{Chunks, EntryRef};
use granary_units::{ByteAddr, LINE_SIZE, Lpa};

/// Reads looked up together.
const TOGETHER: usize = 32;
/// Lines of a log that the processor's caches hold anyway: half a megabyte.
const CACHED: u64 = 8192;

impl Log {
    /// Fetches what reads of the lines that hold these bytes will look up; pages of lines that the log may not hold are
    /// appended to `missed`.
    pub fn look_ahead(&self, at: &[ByteAddr], missed: &mut Vec<Lpa>) {
        if self.index.lines() < CACHED {
            missed.extend(at.iter().map(|at| at.lpa()));
            return;
        }
        let mut records: [Option<(&Chunks, u32)>; TOGETHER] = [None; TOGETHER];
        let mut found = [(0, 0); TOGETHER];
        for at in at.chunks(TOGETHER) {
            for (record, at) in records.iter_mut().zip(at) {
                *record = self.index.record_of(at.lpa().0 as u32);
                if let Some((chunks, head)) = record {
                    chunks.prefetch(*head);
                }
            }
            // Of the lines that are there, the places of their entries; then the entries.
            let mut n = 0;
            for (i, at) in at.iter().enumerate() {
                let line = (at.in_page() / LINE_SIZE) as u32;
                match records[i].and_then(|(chunks, head)| Some((chunks, chunks.place_of(head, line)?))) {
                    Some((chunks, place)) => {
                        chunks.prefetch(place);
                        (records[n], found[n], n) = (Some((chunks, place)), (place, line), n + 1);
                    }
                    None => missed.push(at.lpa()),
                }
            }
            for (record, found) in records[..n].iter().zip(&mut found) {
                if let Some((chunks, place)) = record {
                    let entry = chunks.entry_at(*place);
                    self.regions[entry.region()].prefetch_place(entry.number());
                    found.0 = entry.0;
                }
            }
            for &(entry, line) in &found[..n] {
                let entry = EntryRef(entry);
                self.regions[entry.region()].prefetch_data(entry.number(), line as usize);
            }
        }
    }
}
