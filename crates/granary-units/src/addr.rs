//! Addresses: logical and physical pages, the byte window, transaction numbers.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes in a page: flash page, NVMe logical block and host page are all 4 KiB (ByteFS Table 4).
pub const PAGE_SIZE: usize = 4096;
/// Bytes in a cache line, the unit of the byte interface and of the write log (ByteFS section 4.3).
pub const LINE_SIZE: usize = 64;
/// Lines in a page; a `u64` holds one bit for each.
pub const LINES_PER_PAGE: usize = PAGE_SIZE / LINE_SIZE;

/// Logical page address: the number of a 4 KiB page as the host sees the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lpa(pub u64);

impl Lpa {
    /// The page's first byte in the byte window.
    pub const fn byte(self) -> ByteAddr {
        ByteAddr(self.0 * PAGE_SIZE as u64)
    }

    /// The page `n` further on.
    pub const fn offset(self, n: u64) -> Lpa {
        Lpa(self.0 + n)
    }
}

/// Physical page address: the number of a 4 KiB page of flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppa(pub u32);

/// An address in the drive's byte window: byte `n` of the window is byte `n % 4096` of page `n / 4096`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteAddr(pub u64);

impl ByteAddr {
    /// The page that holds this byte.
    pub const fn lpa(self) -> Lpa {
        Lpa(self.0 / PAGE_SIZE as u64)
    }

    /// The byte's place within its page, 0 to 4095.
    pub const fn in_page(self) -> usize {
        (self.0 % PAGE_SIZE as u64) as usize
    }

    /// The number of the 64 B line that holds this byte.
    pub const fn line(self) -> u64 {
        self.0 / LINE_SIZE as u64
    }

    /// The address `n` bytes further on.
    pub const fn offset(self, n: u64) -> ByteAddr {
        ByteAddr(self.0 + n)
    }
}

impl fmt::Display for Lpa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.0)
    }
}

impl fmt::Display for ByteAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {:#x}", self.0)
    }
}

/// Transaction number, 4 B as log entries carry it (ByteFS section 4.3).
///
/// [`TxId::NONE`] (0) marks a write outside any transaction: it counts as committed once the drive has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TxId(pub u32);

impl TxId {
    /// Outside any transaction.
    pub const NONE: TxId = TxId(0);
}
