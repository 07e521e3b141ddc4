//! A table as a whole: all of its slots, and the clusters that it occupies.

use super::{BUCKET, Table, directory_clusters};
use granary_fs::Result;
use granary_pm::{BLOCK, Batch, Pm};

impl Table {
    /// Calls `each` for every slot that counts, with its address. Nobody changes the table meanwhile.
    ///
    /// # Errors
    /// Those of `each`; the device's.
    pub fn for_each(&self, pm: &Pm, each: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let dir = self.dir.read();
        for (&segment, header) in &dir.headers {
            let bytes = self.load_segment(pm, segment)?;
            for (i, s) in bytes.chunks_exact(self.kind.slot()).enumerate() {
                if self.kind.place(s, self.chunk).is_some_and(|p| header.fits(p.hash)) {
                    each(u64::from(segment) * BLOCK + (i * self.kind.slot()) as u64, s)?;
                }
            }
            for &page in self.pages(&dir, segment) {
                for (i, s) in self.load_page(pm, page)?.chunks_exact(self.kind.slot()).enumerate() {
                    if self.kind.place(s, self.chunk).is_some_and(|p| header.fits(p.hash)) {
                        each(u64::from(page) * BLOCK + (i * self.kind.slot()) as u64, s)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Zeroes the slot at an address that [`Table::for_each`] gave: for recovery, which is alone.
    ///
    /// # Errors
    /// The device's.
    pub fn scrub(&self, batch: &mut Batch<'_>, at: u64) -> Result<()> {
        batch.put(at, &vec![0; self.kind.slot()], self.kind.what())
    }

    /// The buckets of a segment.
    pub(super) fn load_segment(&self, pm: &Pm, segment: u32) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.buckets() as usize * BUCKET];
        for (i, part) in bytes.chunks_mut(BLOCK as usize).enumerate() {
            pm.load((u64::from(segment) + i as u64) * BLOCK, part, self.kind.what())?;
        }
        Ok(bytes)
    }

    /// The runs of clusters that it occupies.
    pub fn occupies(&self) -> Vec<(u64, u64)> {
        let dir = self.dir.read();
        let segments = dir.headers.keys().map(|s| (u64::from(*s), self.segment));
        let pages = dir.overflow.values().flatten().map(|page| (u64::from(*page), 1));
        std::iter::once((dir.cluster, directory_clusters(dir.depth))).chain(segments).chain(pages).collect()
    }

    /// Number of overflow pages.
    pub fn overflow_pages(&self) -> usize {
        self.dir.read().overflow.values().map(Vec::len).sum()
    }

    /// Depth of the directory and number of segments.
    pub fn shape(&self) -> (u32, usize) {
        let dir = self.dir.read();
        (dir.depth, dir.headers.len())
    }
}
