//! [`BamSpace`]: the uses of a PebbleSSD's persistent memory, as in the paper's section 6.5.
//!
//! ```text
//!   table                      entries x bytes            the paper, for 512 GB      here, for the same
//!   L2P                        logical pages x 4          512 MB                     512 MB
//!   P2L                        physical pages x 4         512 MB (with remap)        512 MB
//!   page -> entry              logical pages x 4          -                          512 MB
//!   file-offset table          entries x 16               pages x 8: 1 GB            what `entries` says
//!   names                      names x 12             -                          12 MB for 1 M names
//!   inode table                2 slots a file x 16        16 MB                      32 MB for 1 M files
//! ```
//!
//! The paper indexes its file-offset table by page and measures `remap` and `fs_write` each on its own. Here
//! an entry has to move with its page, which needs a way from the page to the entry. So this table is only as
//! long as the host's longest interval between two checkpoints needs it. Both fit into 2 GB together.

use crate::config::BamConfig;
use granary_units::Bytes;
use std::fmt;

/// One table in persistent memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BamTable {
    /// Its name.
    pub name: &'static str,
    /// Its entries.
    pub entries: u64,
    /// Bytes of each.
    pub entry: u64,
}

impl BamTable {
    /// Its size.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.entries * self.entry)
    }
}

/// The tables of a drive, and the memory that they share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BamSpace {
    /// The tables.
    pub tables: Vec<BamTable>,
    /// The drive's persistent memory.
    pub memory: Bytes,
}

impl BamSpace {
    /// The tables of a drive with this BAM, `logical` pages for the host on `physical` pages of flash.
    pub fn of(config: &BamConfig, logical: u64, physical: u64) -> BamSpace {
        let table = |name, entries, entry| BamTable { name, entries, entry };
        let tables = vec![
            table("L2P", logical, 4),
            table("P2L", physical, 4),
            table("page to entry", logical, 4),
            table("file-offset table", config.entries as u64, 16),
            table("inode table", config.file_slots(), 16),
            table("names", config.names as u64, 12),
            table("other structures", 1, config.other.0),
        ];
        BamSpace { tables, memory: config.memory }
    }

    /// The three firmwares of the paper's section 6.5 with 512 GB of flash and 2 GB of memory: conventional
    /// (the paper says 35 %), with remap (60 %), with fs_write (80 %). The other structures are the 35 % less
    /// the L2P table.
    pub fn of_the_paper() -> [(&'static str, BamSpace); 3] {
        let table = |name, entries, entry| BamTable { name, entries, entry };
        let pages = 1 << 27;
        let l2p = || table("L2P", pages, 4);
        let other = || table("other structures", 1, 205 << 20);
        let space = |tables| BamSpace { tables, memory: Bytes::gib(2) };
        [
            ("conventional", space(vec![l2p(), other()])),
            ("remap", space(vec![l2p(), table("P2L", pages, 4), other()])),
            (
                "fs_write",
                space(vec![
                    l2p(),
                    table("file-offset table", pages, 8),
                    table("inode table", 1 << 21, 8),
                    other(),
                ]),
            ),
        ]
    }

    /// Size of all tables together.
    pub fn used(&self) -> Bytes {
        Bytes(self.tables.iter().map(|t| t.bytes().0).sum())
    }

    /// The same as a part of the memory, 0 to 1 where it fits.
    pub fn utilization(&self) -> f64 {
        self.used().0 as f64 / self.memory.0 as f64
    }
}

impl fmt::Display for BamSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        writeln!(f, "{:<20} {:>12} {:>11} {:>11}", "table", "entries", "bytes each", "MiB")?;
        for t in &self.tables {
            writeln!(f, "{:<20} {:>12} {:>11} {:>11.1}", t.name, t.entries, t.entry, mib(t.bytes().0))?;
        }
        let percent = 100.0 * self.utilization();
        let (used, memory) = (mib(self.used().0), mib(self.memory.0));
        writeln!(f, "{:<44} {used:>11.1}  {percent:.0} % of {memory:.0} MiB", "together")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 6.5: 35, 60 and 80 %. The last one leaves 86 MB for other structures where the first two
    /// leave 205.
    #[test]
    fn the_papers_utilisations_come_out_of_its_tables() {
        let percent: Vec<f64> =
            BamSpace::of_the_paper().iter().map(|(_, s)| (100.0 * s.utilization()).round()).collect();
        assert_eq!(percent, [35.0, 60.0, 86.0]);
        let without_other: u64 =
            BamSpace::of_the_paper()[2].1.tables.iter().take(3).map(|t| t.bytes().0).sum();
        assert_eq!(without_other, (512 + 1024 + 16) << 20);
    }

    #[test]
    fn remap_and_fs_write_fit_into_the_papers_memory_together() {
        let space = BamSpace::of(&BamConfig::default(), 1 << 27, 1 << 27);
        assert!(space.utilization() < 1.0, "{space}");
        assert!(space.to_string().contains("file-offset table"));
    }
}
