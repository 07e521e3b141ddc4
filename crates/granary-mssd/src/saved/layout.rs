//! [`Layout`]: where everything lies in the file `dram`, the drive's battery-backed memory.
//!
//! ```text
//!   0       4 KiB
//!   | state | blocks | pages | TxLog | log 0 | log 1 | cache slots | cache pages | BAM | file ends | ...
//!     |        |        |                                |
//!     |        |        24 B per flash page              16 B per slot
//!     |        16 B per erase block
//!     which half of the log is active, cleaning, ends of the TxLog
//!   ... | names | checksums |
//!                 4 B per 4 KiB of all before
//! ```
//!
//! Every zone begins at a multiple of 4 KiB. Bytes that were never written are zero and mean "as new", so
//! that the file of an empty drive takes no space. It does *not* say what the log's halves hold, nor BAM: see
//! `firmware/log/region.rs`, `bam/saved.rs` and `bam/names.rs`.

use crate::config::{DriveConfig, Mode};
use granary_redo::{long, region, word};
use granary_units::PAGE_SIZE;
use std::ops::Range;

/// Unit of zones.
pub use granary_redo::region::BLOCK;
/// Bytes for each erase block: pages programmed 4, erases 4, bad 4, zero 4.
pub const BLOCK_ENTRY: u64 = 16;
/// Bytes for each flash page: see [`PageEntry`].
pub const PAGE_ENTRY: u64 = 24;
/// Bytes for each slot of the drive's page cache.
pub const SLOT_ENTRY: u64 = 16;
/// Bytes of a cached page.
pub const CACHED_PAGE: u64 = PAGE_SIZE as u64;

/// Bytes of BAM's tables before their entries.
pub const BAM_ENTRIES: u64 = BLOCK;
/// Bytes of an entry of BAM.
pub const BAM_ENTRY: u64 = 16;

/// Bytes of what an entry of BAM says of the file's end.
pub const FILE_END: u64 = 2;
/// Bytes of BAM's names before the first.
pub const BAM_NAMES: u64 = BLOCK;
/// Bytes of a name of BAM.
pub const BAM_NAME: u64 = 12;

/// Offsets of the zones in `dram`, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Erase blocks.
    pub blocks: u64,
    /// Flash pages.
    pub pages: u64,
    /// Transaction log.
    pub txlog: u64,
    /// Halves of the write log.
    pub log: [u64; 2],
    /// Bytes of one half.
    pub half: u64,
    /// Slots of the page cache.
    pub slots: u64,
    /// Their pages.
    pub cache: u64,
    /// Number of slots.
    pub slot_count: u64,
    /// Tables of BAM; no bytes where the drive has none.
    pub bam: u64,
    /// The file's end as BAM's entries state it; no bytes where the drive has no names.
    pub ends: u64,
    /// Names of BAM; likewise.
    pub names: u64,
    /// Checksums of the blocks before.
    pub checksums: u64,
    /// Length of the file.
    pub end: u64,
    /// Length of the file `flash`.
    pub flash: u64,
}

impl Layout {
    /// The layout of a valid configuration.
    pub fn new(config: &DriveConfig) -> Layout {
        let (g, f) = (&config.flash.geometry, &config.firmware);
        let (half, txlog, slot_count) = match f.mode {
            Mode::Log => (f.log_region.0 / 2, f.txlog.0, 0),
            Mode::Cache => (0, 0, f.cache.0 / PAGE_SIZE as u64),
            Mode::Own(_) => (0, 0, 0),
        };
        let mut end = BLOCK;
        let mut zone = |len: u64| {
            let at = end;
            end = (at + len).next_multiple_of(BLOCK);
            at
        };
        let blocks = zone(g.blocks() as u64 * BLOCK_ENTRY);
        let pages = zone(g.pages() * PAGE_ENTRY);
        let txlog = zone(txlog);
        let log = [zone(half), zone(half)];
        let slots = zone(slot_count * SLOT_ENTRY);
        let cache = zone(slot_count * CACHED_PAGE);
        let bam = zone(f.bam.as_ref().map_or(0, |b| BAM_ENTRIES + b.entries as u64 * BAM_ENTRY));
        let named = f.bam.as_ref().filter(|_| f.names() > 0);
        let ends = zone(named.map_or(0, |b| b.entries as u64 * FILE_END));
        let names = zone(named.map_or(0, |_| BAM_NAMES + f.names() as u64 * BAM_NAME));
        let checksums = zone(0);
        let end = region::file_len(checksums);
        let flash = g.pages() * PAGE_SIZE as u64;
        Layout {
            blocks,
            pages,
            txlog,
            log,
            half,
            slots,
            cache,
            slot_count,
            bam,
            ends,
            names,
            checksums,
            end,
            flash,
        }
    }

    /// Where the zones are, and where a larger drive has them: those that are no longer than before, in both.
    pub fn moves(&self, larger: &Layout) -> Vec<(Range<u64>, u64)> {
        let starts = |l: &Layout| {
            [
                0,
                l.blocks,
                l.pages,
                l.txlog,
                l.log[0],
                l.log[1],
                l.slots,
                l.cache,
                l.bam,
                l.ends,
                l.names,
                l.checksums,
            ]
        };
        let (from, to) = (starts(self), starts(larger));
        from.windows(2).zip(to).map(|(zone, to)| (zone[0]..zone[1], to)).collect()
    }
}

/// The entry of a flash page, beside its content.
///
/// ```text
///   0          8               16     20    22     24
///   | sequence | word or CRC   | lpa  | len | flags |      little endian
/// ```
///
/// A page that is one repeated word has it here, with the bytes that it fills, and nothing in `flash`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEntry {
    /// Sequence number of the program.
    pub seq: u64,
    /// The repeated word, or the sum of the content in `flash`.
    pub word: u64,
    /// Logical page; the P2L table's where the drive has one.
    pub lpa: u32,
    /// Bytes that the word fills.
    pub len: u16,
    /// [`LIVE`], [`BYTES`].
    pub flags: u16,
}

/// Flag: the current copy of its logical page.
pub const LIVE: u16 = 1;
/// Flag: the content is bytes in a file, not a repeated word. In a cache slot: in the cache zone.
pub const BYTES: u16 = 2;
/// Offset of the logical page in a [`PageEntry`].
pub const LPA_AT: u64 = 16;
/// Offset of the flags in a [`PageEntry`].
pub const FLAGS_AT: u64 = 22;

impl PageEntry {
    /// As stored.
    pub fn to_bytes(self) -> [u8; PAGE_ENTRY as usize] {
        let mut b = [0; PAGE_ENTRY as usize];
        b[0..8].copy_from_slice(&self.seq.to_le_bytes());
        b[8..16].copy_from_slice(&self.word.to_le_bytes());
        b[16..20].copy_from_slice(&self.lpa.to_le_bytes());
        b[20..22].copy_from_slice(&self.len.to_le_bytes());
        b[22..24].copy_from_slice(&self.flags.to_le_bytes());
        b
    }

    /// From what is stored; any bytes give something.
    pub fn from_bytes(b: &[u8; PAGE_ENTRY as usize]) -> PageEntry {
        PageEntry {
            seq: long(b, 0),
            word: long(b, 8),
            lpa: word(b, 16),
            len: u16::from_le_bytes([b[20], b[21]]),
            flags: u16::from_le_bytes([b[22], b[23]]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_follow_each_other_without_overlap() {
        for mode in [Mode::Log, Mode::Cache] {
            let drives = [DriveConfig::tiny(mode), DriveConfig::bytefs_emulator().with_mode(mode)];
            for config in drives.iter().flat_map(|c| [c.clone(), c.clone().with_bam()]) {
                let entries = config.firmware.bam.as_ref().map_or(0, |b| BLOCK + b.entries as u64 * 16);
                let named = config.firmware.names() as u64;
                let ends =
                    config.firmware.bam.as_ref().filter(|_| named > 0).map_or(0, |b| b.entries as u64 * 2);
                let names = if named > 0 { BLOCK + named * 12 } else { 0 };
                let l = Layout::new(&config);
                let g = config.flash.geometry;
                let ends = [
                    (BLOCK, l.blocks),
                    (l.blocks + g.blocks() as u64 * BLOCK_ENTRY, l.pages),
                    (l.pages + g.pages() * PAGE_ENTRY, l.txlog),
                    (l.log[0] + l.half, l.log[1]),
                    (l.log[1] + l.half, l.slots),
                    (l.slots + l.slot_count * SLOT_ENTRY, l.cache),
                    (l.cache + l.slot_count * CACHED_PAGE, l.bam),
                    (l.bam + entries, l.ends),
                    (l.ends + ends, l.names),
                    (l.names + names, l.checksums),
                    (l.checksums + l.checksums / BLOCK * 4, l.end),
                ];
                assert!(ends.iter().all(|(end, next)| end <= next && next - end < BLOCK), "{l:?}");
            }
        }
    }

    #[test]
    fn a_page_entry_comes_back() {
        let e = PageEntry { seq: 1 << 40 | 7, word: u64::MAX - 3, lpa: 0xdead, len: 4096, flags: LIVE };
        assert_eq!(PageEntry::from_bytes(&e.to_bytes()), e);
    }
}
