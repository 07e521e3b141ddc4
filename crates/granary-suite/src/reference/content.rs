//! A file's bytes, sparse: pages that were never written are zero.

use granary_units::Payload;
use std::collections::BTreeMap;

const PAGE: u64 = 4096;

#[derive(Clone, Default)]
pub(super) struct Content {
    size: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Content {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Cuts, or extends with zeros.
    pub(super) fn resize(&mut self, size: u64) {
        self.size = size;
        self.pages.split_off(&size.div_ceil(PAGE));
        if let Some(page) = self.pages.get_mut(&(size / PAGE)) {
            page[(size % PAGE) as usize..].fill(0);
        }
    }

    pub(super) fn write(&mut self, pos: u64, data: Payload<'_>) {
        let mut bytes = vec![0; data.len()];
        data.copy_to(pos, &mut bytes);
        for (at, byte) in (pos..).zip(bytes) {
            self.pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE as usize])[(at % PAGE) as usize] =
                byte;
        }
        self.size = self.size.max(pos + data.len() as u64);
    }

    /// Makes the bytes `pos..end`, which lie within the file, zero.
    pub(super) fn zero(&mut self, pos: u64, end: u64) {
        for (n, page) in self.pages.range_mut(pos / PAGE..) {
            let start = n * PAGE;
            if start >= end {
                break;
            }
            let (from, to) = (pos.max(start) - start, end.min(start + PAGE) - start);
            if from < to {
                page[from as usize..to as usize].fill(0);
            }
        }
    }

    /// The bytes `pos..pos + len`, which lie within the file.
    pub(super) fn read(&self, pos: u64, len: usize) -> Vec<u8> {
        let byte = |at: u64| self.pages.get(&(at / PAGE)).map_or(0, |p| p[(at % PAGE) as usize]);
        (pos..pos + len as u64).map(byte).collect()
    }
}
