//! Looking ahead: fetches the memory that the next reads of lines will look up into the processor's cache.
//!
//! ```text
//!   one after the other   |record|entry|place|data| |record|entry|place|data| ...      each waits for memory
//!   looked ahead          |record x 32|entry x 32|place x 32|data x 32| read, read, read ...
//! ```
//!
//! A line of a large log is found by way of four things that lie far apart, each naming the next. Of reads
//! that are known ahead, all first things are fetched together, then all second ones. No result depends on
//! it, and nothing is counted.

use super::Log;
use super::chunks::EntryRef;
use super::index::TOGETHER;
use granary_units::{ByteAddr, LINE_SIZE, Lpa};

/// Lines of a log that the processor's caches hold anyway: half a megabyte.
const CACHED: u64 = 8192;

impl Log {
    /// Lines of this page will be written soon: it takes the first of the index's steps that the write will
    /// take, and those that came before it their next ones. A store of no bytes may name the page behind the
    /// last, which the index does not know.
    #[inline]
    pub fn expect(&mut self, lpa: Lpa) {
        let [last, before] = self.coming;
        if lpa.0 != last as u64 && lpa.0 < self.pages {
            let lpa = lpa.0 as u32;
            self.index.prefetch_group(lpa);
            self.index.prefetch_record(last);
            self.index.prefetch_chunks(before);
            self.coming = [lpa, last];
        }
    }

    /// Fetches what reads of the lines that hold these bytes will look up; pages of lines that the log may
    /// not hold are appended to `missed`.
    pub fn look_ahead(&self, at: &[ByteAddr], missed: &mut Vec<Lpa>) {
        if self.index.lines() < CACHED {
            missed.extend(at.iter().map(|at| at.lpa()));
            return;
        }
        for at in at.chunks(TOGETHER) {
            let mut lines = [(0, 0); TOGETHER];
            for (line, at) in lines.iter_mut().zip(at) {
                *line = (at.lpa().0 as u32, (at.in_page() / LINE_SIZE) as u8);
            }
            let places = self.index.look_ahead(&lines[..at.len()]);
            let (mut found, mut n) = ([(EntryRef(0), 0); TOGETHER], 0);
            for ((place, at), (_, line)) in places.iter().zip(at).zip(lines) {
                match place {
                    Some((chunks, place)) => {
                        let entry = chunks.entry_at(*place);
                        self.regions[entry.region()].prefetch_place(entry.number());
                        (found[n], n) = ((entry, line), n + 1);
                    }
                    None => missed.push(at.lpa()),
                }
            }
            for &(entry, line) in &found[..n] {
                self.regions[entry.region()].prefetch_data(entry.number(), line as usize);
            }
        }
    }
}
