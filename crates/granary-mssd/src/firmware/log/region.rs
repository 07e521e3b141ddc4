//! [`Region`]: one half of the write log, byte for byte as the drive's battery-backed DRAM holds it.
//!
//! ```text
//!   0        64                                                                      size
//!   | header | line 0 | line 1 | line 2 |...->      free      <-...| t2 | t1 | t0 |
//!     64 B     data of the entries, 64 B-aligned                     trailers, 16 B each
//!
//!   trailer  0        4       5       6       7       8           12          16
//!            | lpa    | first | lines | flags | epoch | data line | TxID      |     little endian
//!
//!   header   magic "GRNYLOG1" 8 | epoch 4 | entries 4 | data lines 4 | reserved 4 | cleaned_below 8 | zeros
//! ```
//!
//! An entry is a run of 1 to 64 lines of one page plus a 16 B trailer whose last four bytes are the TxID, as
//! in the paper (64 B-aligned entries, TxID at the end). The trailers are kept at the region's other end, so
//! that data stays aligned and an entry of `n` lines takes `64 n + 16` bytes (with the trailer in a line of
//! its own a single line would take 128). A trailer with `lines == 0` has no data: it *voids* everything of
//! its page that the log got before it (a block write or a trim).
//!
//! Flags: bit 0 *lost* (never arrived, or dropped by RECOVER), bit 1 *migrated* (moved here uncommitted from
//! the other half: older than every entry of the page without this flag).
//!
//! Invariants: entries are only appended, until [`Region::clear`]; the header counts them, so old bytes
//! behind the counts mean nothing. Pages below `cleaned_below` have been cleaned out: their entries are void.
//! It does *not* know which entries are current (the index does) or committed (the TxLog does).
//!
//! Source: ByteFS section 4.3; the place of the LPA is not stated there.

use granary_redo::redo::Redo;
use granary_units::{LINE_SIZE, TxId, large_pages, prefetch};

const HEADER: usize = 64;
const TRAILER: usize = 16;
const MAGIC: &[u8; 8] = b"GRNYLOG1";

/// Flag: the entry never arrived, or was dropped.
pub const LOST: u8 = 1;
/// Flag: moved here from the other half.
pub const MIGRATED: u8 = 2;

/// Metadata of an entry in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The page.
    pub lpa: u32,
    /// First line within the page.
    pub first: u8,
    /// Number of lines; 0 voids the page.
    pub lines: u8,
    /// [`LOST`], [`MIGRATED`].
    pub flags: u8,
    /// Where the data starts, in lines from the start of the data area.
    pub data: u32,
    /// The transaction.
    pub tx: TxId,
}

impl Trailer {
    /// Where in the data area line 0 of the page would be, modulo 2^32.
    fn origin(&self) -> u32 {
        self.data.wrapping_sub(self.first as u32)
    }
}

/// One half of the log.
#[derive(Clone)]
pub struct Region {
    bytes: Vec<u8>,
    epoch: u32,
    entries: u32,
    lines: u32,
    cleaned_below: u64,
    /// Of each entry where in the data area line 0 of its page would be (modulo 2^32): what reads need of a
    /// trailer, so that they touch 4 bytes of memory instead of 16. The emulator's, not the drive's: made
    /// again from the trailers.
    origins: Vec<u32>,
    /// Changes of the bytes, where an image keeps them.
    redo: Option<Redo>,
}

impl Region {
    /// Bytes that an entry of `lines` lines takes.
    pub const fn space(lines: usize) -> u64 {
        (lines * LINE_SIZE + TRAILER) as u64
    }

    /// An empty region of `size` bytes.
    pub fn new(size: u64) -> Region {
        let bytes = vec![0; size as usize];
        large_pages(&bytes);
        let mut r = Region {
            bytes,
            epoch: 1,
            entries: 0,
            lines: 0,
            cleaned_below: 0,
            origins: Vec::new(),
            redo: None,
        };
        r.write_header();
        r
    }

    /// The image keeps the region at `base` of its memory from now on.
    pub fn rebase(&mut self, base: u64) {
        if let Some(redo) = &mut self.redo {
            redo.rebase(base);
        }
    }

    /// The region that an image kept at `base` of its memory, read by `read(offset, out)`.
    ///
    /// # Errors
    /// Those of `read`; `Err(Err(_))` says what contradicts itself.
    pub fn load<E>(
        size: u64,
        pages: u64,
        base: u64,
        read: impl Fn(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<Region, Result<E, String>> {
        let mut r = Region::new(size);
        r.redo = Some(Redo::new(base));
        let mut header = [0; HEADER];
        read(0, &mut header).map_err(Ok)?;
        if header == [0; HEADER] {
            // As new: the header is put into the image with the first change.
            r.write_header();
            return Ok(r);
        }
        let word = |i: usize| u32::from_le_bytes(header[i..i + 4].try_into().expect("4 bytes"));
        (r.epoch, r.entries, r.lines) = (word(8), word(12), word(16));
        r.cleaned_below = u64::from_le_bytes(header[24..32].try_into().expect("8 bytes"));
        if &header[0..8] != MAGIC || r.used() > r.capacity() {
            return Err(Err(format!("header {:?}, {} entries, {} lines", &header[..8], r.entries, r.lines)));
        }
        r.bytes[..HEADER].copy_from_slice(&header);
        let (data, trailers) = (r.lines as usize * LINE_SIZE, r.bytes.len() - r.entries as usize * TRAILER);
        read(HEADER as u64, &mut r.bytes[HEADER..HEADER + data]).map_err(Ok)?;
        read(trailers as u64, &mut r.bytes[trailers..]).map_err(Ok)?;
        r.origins = (0..r.entries).map(|n| r.trailer(n).origin()).collect();
        r.check("").map_err(|bad| Err(bad.join("; ")))?;
        match (0..r.entries).map(|n| r.trailer(n)).find(|t| t.lpa as u64 >= pages) {
            Some(t) => Err(Err(format!("an entry of page {} on a drive of {pages}", t.lpa))),
            None => Ok(r),
        }
    }

    /// Moves the changes since the last time to the end of `out`.
    pub fn drain_redo(&mut self, out: &mut Vec<u8>) {
        if let Some(redo) = &mut self.redo {
            redo.drain_into(out);
        }
    }

    /// The bytes `at..at + len` have changed.
    #[inline]
    fn changed(&mut self, at: usize, len: usize) {
        if let Some(redo) = &mut self.redo {
            redo.put(at as u64, &self.bytes[at..at + len]);
        }
    }

    /// Bytes that entries can take.
    pub fn capacity(&self) -> u64 {
        (self.bytes.len() - HEADER) as u64
    }

    /// Bytes that entries take.
    pub fn used(&self) -> u64 {
        self.lines as u64 * LINE_SIZE as u64 + self.entries as u64 * TRAILER as u64
    }

    /// Entries, void ones included.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// How often the region has been cleared.
    #[cfg(test)]
    fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Entries of pages below this page are void.
    pub fn cleaned_below(&self) -> u64 {
        self.cleaned_below
    }

    /// Declares the entries of all pages below `lpa` void.
    pub fn set_cleaned_below(&mut self, lpa: u64) {
        self.cleaned_below = lpa;
        self.bytes[24..32].copy_from_slice(&lpa.to_le_bytes());
        self.changed(24, 8);
    }

    /// Appends an entry; `data` is whole lines. Returns its number.
    ///
    /// # Panics
    /// Where it does not fit: the caller has made room.
    pub fn append(&mut self, lpa: u32, first: u8, data: &[u8], flags: u8, tx: TxId) -> u32 {
        let lines = data.len() / LINE_SIZE;
        assert_eq!(data.len() % LINE_SIZE, 0, "log entries are whole lines");
        let at = HEADER + self.lines as usize * LINE_SIZE;
        assert!(self.capacity() - self.used() >= Region::space(lines), "log region overflows");
        self.bytes[at..at + data.len()].copy_from_slice(data);
        self.changed(at, data.len());
        let t = Trailer { lpa, first, lines: lines as u8, flags, data: self.lines, tx };
        self.lines += lines as u32;
        self.append_trailer(t)
    }

    /// Appends a trailer for data that is in the region already (part of an entry that survived a power
    /// failure). Returns its number; `None` where there is no room.
    pub fn append_part(&mut self, part: Trailer) -> Option<u32> {
        (self.capacity() - self.used() >= TRAILER as u64).then(|| self.append_trailer(part))
    }

    fn append_trailer(&mut self, t: Trailer) -> u32 {
        let number = self.entries;
        self.entries += 1;
        self.origins.push(t.origin());
        self.write_trailer(number, t);
        self.bytes[12..16].copy_from_slice(&self.entries.to_le_bytes());
        self.bytes[16..20].copy_from_slice(&self.lines.to_le_bytes());
        self.changed(12, 8);
        number
    }

    fn write_trailer(&mut self, number: u32, t: Trailer) {
        let at = self.bytes.len() - TRAILER * (number as usize + 1);
        let b = &mut self.bytes[at..at + TRAILER];
        b[0..4].copy_from_slice(&t.lpa.to_le_bytes());
        b[4] = t.first;
        b[5] = t.lines;
        b[6] = t.flags;
        b[7] = self.epoch as u8;
        b[8..12].copy_from_slice(&t.data.to_le_bytes());
        b[12..16].copy_from_slice(&t.tx.0.to_le_bytes());
        self.changed(at, TRAILER);
    }

    /// The trailer of entry `number`.
    #[inline]
    pub fn trailer(&self, number: u32) -> Trailer {
        let at = self.bytes.len() - TRAILER * (number as usize + 1);
        let b: &[u8; TRAILER] = self.bytes[at..at + TRAILER].try_into().expect("16 bytes");
        let word = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        Trailer { lpa: word(0), first: b[4], lines: b[5], flags: b[6], data: word(8), tx: TxId(word(12)) }
    }

    /// The transaction of entry `number`.
    #[inline]
    pub fn tx(&self, number: u32) -> TxId {
        let at = self.bytes.len() - TRAILER * number as usize - 4;
        TxId(u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("4 bytes")))
    }

    /// The data of `count` lines of the page from line `first` on, which entry `number` holds.
    #[inline]
    pub fn data(&self, number: u32, first: usize, count: usize) -> &[u8] {
        let at = self.data_at(number, first);
        &self.bytes[at..at + count * LINE_SIZE]
    }

    /// Where in the region the data of line `first` of the page is, which entry `number` holds.
    #[inline]
    fn data_at(&self, number: u32, first: usize) -> usize {
        HEADER + self.origins[number as usize].wrapping_add(first as u32) as usize * LINE_SIZE
    }

    /// Fetches what [`Region::prefetch_data`] needs into the processor's cache.
    #[inline]
    pub fn prefetch_place(&self, number: u32) {
        prefetch(&self.origins, number as usize);
    }

    /// Fetches the data of line `first` of the page, which entry `number` holds, into the processor's cache.
    #[inline]
    pub fn prefetch_data(&self, number: u32, first: usize) {
        prefetch(&self.bytes, self.data_at(number, first));
    }

    /// Marks entry `number` as lost.
    pub fn lose(&mut self, number: u32) {
        let t = self.trailer(number);
        self.write_trailer(number, Trailer { flags: t.flags | LOST, ..t });
    }

    /// Empties the region.
    pub fn clear(&mut self) {
        self.epoch += 1;
        (self.entries, self.lines, self.cleaned_below) = (0, 0, 0);
        self.origins.clear();
        self.write_header();
    }

    fn write_header(&mut self) {
        self.bytes[..HEADER].fill(0);
        self.bytes[0..8].copy_from_slice(MAGIC);
        self.bytes[8..12].copy_from_slice(&self.epoch.to_le_bytes());
        self.bytes[12..16].copy_from_slice(&self.entries.to_le_bytes());
        self.bytes[16..20].copy_from_slice(&self.lines.to_le_bytes());
        self.bytes[24..32].copy_from_slice(&self.cleaned_below.to_le_bytes());
        self.changed(0, HEADER);
    }

    /// Reads the header back, as after power-up: what the fields say must be what the bytes say.
    ///
    /// # Errors
    /// One sentence per contradiction.
    pub fn check(&self, name: &str) -> Result<(), Vec<String>> {
        let word = |i: usize| u32::from_le_bytes(self.bytes[i..i + 4].try_into().expect("4 bytes"));
        let mut bad = Vec::new();
        if &self.bytes[0..8] != MAGIC {
            bad.push(format!("log region {name}: bad magic"));
        }
        if (word(8), word(12), word(16)) != (self.epoch, self.entries, self.lines) {
            bad.push(format!("log region {name}: header contradicts the firmware's counts"));
        }
        if self.used() > self.capacity() {
            bad.push(format!("log region {name}: {} bytes used of {}", self.used(), self.capacity()));
        }
        for n in 0..self.entries {
            let t = self.trailer(n);
            let at = self.bytes.len() - TRAILER * (n as usize + 1);
            if self.bytes[at + 7] != self.epoch as u8
                || t.first as usize + t.lines as usize > 64
                || t.data as u64 + t.lines as u64 > self.lines as u64
                || self.origins.get(n as usize) != Some(&t.origin())
            {
                bad.push(format!("log region {name}: entry {n} is malformed: {t:?}"));
            }
        }
        if bad.is_empty() { Ok(()) } else { Err(bad) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_as_they_were_appended() {
        let mut r = Region::new(4096);
        let a = r.append(7, 3, &[1; 128], 0, TxId(9));
        let b = r.append(8, 0, &[2; 64], MIGRATED, TxId::NONE);
        assert_eq!(r.trailer(a), Trailer { lpa: 7, first: 3, lines: 2, flags: 0, data: 0, tx: TxId(9) });
        assert_eq!(r.data(a, 4, 1), &[1; 64]);
        assert_eq!(r.data(b, 0, 1), &[2; 64]);
        assert_eq!(r.used(), 64 * 3 + 16 * 2);
        r.check("a").expect("consistent");
        r.clear();
        assert_eq!((r.entries(), r.used(), r.epoch()), (0, 0, 2));
        r.check("a").expect("consistent");
    }

    #[test]
    fn a_region_takes_entries_until_not_another_line_fits() {
        let mut r = Region::new(1024);
        let mut n = 0;
        while r.capacity() - r.used() >= Region::space(1) {
            r.append(n, 0, &[n as u8; 64], 0, TxId(n));
            n += 1;
        }
        assert_eq!(n, 12); // (1024 - 64) / 80
        for i in 0..n {
            assert_eq!(r.data(i, 0, 1), &[i as u8; 64], "entry {i}");
        }
    }
}
