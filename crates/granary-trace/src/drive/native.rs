//! Granary's own record of the calls of a drive: [`Writer`], [`Reader`]. Every byte is in SPEC.md, section 9.
//!
//! ```text
//!   magic 8 | version 4 | length 4 | header, TOML | CRC-32C 4 |  operation operation ...
//!                                                             |  end: count, CRC-32C 4
//!   operation:  kind 1 (bit 7: refused) | time since the one before (zigzag) | its numbers | its content
//! ```
//!
//! Numbers are LEB128: 7 bits a byte, the lowest first. A page that repeats a word takes 9 bytes. The content
//! is all there, so that a replay leaves the drive with the same bytes, counters and times as the recorded
//! run.
//!
//! Invariant: the checksums of header and end reveal a record that was cut off or changed. On request
//! ([`Reader::take_cut`]) a record that was cut off gives its whole operations, without a checksum over them.

mod read;
mod write;

use super::event::{FileBlock, Op};
use granary_device::Structure;
use granary_mssd::DriveConfig;
use granary_units::{ByteAddr, Lpa, Page, TxId};
pub use read::Reader;
use serde::{Deserialize, Serialize};
pub use write::Writer;

/// First bytes of a record.
pub const MAGIC: &[u8; 8] = b"GRNYTRAC";
/// Version of the format.
pub const VERSION: u32 = 1;
/// Longest header, list of pages or piece of data that is believed.
const MOST: u64 = 1 << 26;

const END: u8 = 0x3f;
const REFUSED: u8 = 0x80;

/// Header of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the program that wrote it.
    pub granary: String,
    /// The recorded command: `drive bench`, `run varmail on bytefs at scale 1, 12 threads`.
    pub source: String,
    /// The testbed's name.
    pub testbed: String,
    /// Changes to it.
    pub set: Vec<String>,
    /// Root seed of the run.
    pub seed: u64,
    /// Content of the drive before: `none`, `fill`, `random:N`; not among the operations.
    pub precondition: String,
    /// The drive.
    pub drive: DriveConfig,
}

/// An operation with borrowed content, to be written.
pub enum OpRef<'a> {
    /// NVMe read of pages.
    Read(Lpa, u64, Structure),
    /// NVMe write.
    Write(Lpa, &'a [Page], Structure),
    /// Vendor: FS_WRITE.
    FsWrite(Lpa, &'a [Page], FileBlock, Structure),
    /// Store into the write-combining buffers of a core.
    Store(u16, ByteAddr, &'a [u8], TxId, Structure),
    /// Non-temporal stores at a byte of a page.
    Stream(Lpa, usize, granary_device::Streamed<'a>, Structure),
    /// Any without content.
    Plain(Op),
}

/// Numbers of the operations in the format.
mod kind {
    pub const READ: u8 = 1;
    pub const WRITE: u8 = 2;
    pub const FLUSH: u8 = 3;
    pub const TRIM: u8 = 4;
    pub const COMMIT: u8 = 5;
    pub const RECOVER: u8 = 6;
    pub const LOAD: u8 = 7;
    pub const LOAD_PAGES: u8 = 8;
    pub const STORE: u8 = 9;
    pub const FLUSH_LINES: u8 = 10;
    pub const STREAM: u8 = 11;
    pub const VERIFY: u8 = 12;
    pub const SETTLE: u8 = 13;
    pub const TRACK: u8 = 14;
    pub const POWER_FAIL: u8 = 15;
    pub const POWER_ON: u8 = 16;
    pub const MARK: u8 = 17;
    pub const FS_WRITE: u8 = 18;
    pub const REMAP: u8 = 19;
    pub const BAM_RESET: u8 = 20;
    pub const BAM_READ: u8 = 21;
    /// A store of another core than the first.
    pub const STORE_FROM: u8 = 22;
    /// An FS_WRITE whose last page the file does not fill, or that made it longer.
    pub const FS_WRITE_END: u8 = 23;
    pub const REMAP_KEEP: u8 = 24;
    pub const BAM_NAMES: u8 = 25;
}

/// Forms of content.
mod form {
    pub const ZERO: u64 = 0;
    pub const WORD: u64 = 1;
    pub const PREFIX: u64 = 2;
    pub const BYTES: u64 = 3;
    pub const FILL: u64 = 4;
}
