//! [`Piece`]: lines of one page in one entry of the log.

/// Names an entry of either half of the log: region in bit 31, *native* (not migrated) in bit 30, number
/// below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryRef(pub u32);

impl EntryRef {
    const REGION: u32 = 1 << 31;
    const NATIVE: u32 = 1 << 30;

    /// Entry `number` of region 0 or 1.
    pub fn new(region: usize, native: bool, number: u32) -> EntryRef {
        debug_assert!(number < EntryRef::NATIVE);
        let region = if region == 1 { EntryRef::REGION } else { 0 };
        EntryRef(region | if native { EntryRef::NATIVE } else { 0 } | number)
    }

    /// The region.
    #[inline]
    pub fn region(self) -> usize {
        (self.0 >> 31) as usize
    }

    /// The number within the region.
    #[inline]
    pub fn number(self) -> u32 {
        self.0 & (EntryRef::NATIVE - 1)
    }
}

/// A run of lines of a page and the entry that holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The entry.
    pub entry: EntryRef,
    /// First line in the page, 0 to 63.
    pub first: u8,
    /// Number of lines, 1 to 64.
    pub lines: u8,
}

impl Piece {
    /// One bit for each line.
    #[inline]
    pub fn mask(&self) -> u64 {
        mask(self.first as usize, self.lines as usize)
    }

    /// The pieces of this entry whose lines are in `keep`.
    pub fn parts(self, keep: u64) -> impl Iterator<Item = Piece> {
        runs(self.mask() & keep).map(move |(first, lines)| Piece { entry: self.entry, first, lines })
    }
}

/// Bits `first..first + lines`.
#[inline]
pub fn mask(first: usize, lines: usize) -> u64 {
    debug_assert!(lines >= 1 && first + lines <= 64);
    (u64::MAX >> (64 - lines)) << first
}

/// The runs of set bits as (first, length).
pub fn runs(mut mask: u64) -> impl Iterator<Item = (u8, u8)> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let first = mask.trailing_zeros();
            let length = (mask >> first).trailing_ones();
            mask &= !(self::mask(first as usize, length as usize));
            (first as u8, length as u8)
        })
    })
}
