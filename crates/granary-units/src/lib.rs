//! Units and the page: the vocabulary that every Granary crate shares.
//!
//! Every quantity that crosses a crate border is a newtype with only its meaningful operations, so that a
//! byte count can never be taken for a page count or a time. Arithmetic is checked (release builds keep
//! `overflow-checks`).
//!
//! | type | unit | meaning |
//! |---|---|---|
//! | [`Nanos`] | ns | a span of time, or an instant since the start of the world |
//! | [`Bytes`] | B | a size |
//! | [`Lpa`] | 4 KiB page | logical page address: what the host names (one NVMe logical block) |
//! | [`Ppa`] | 4 KiB page | physical page address: where the flash holds it |
//! | [`ByteAddr`] | B | an address in the drive's byte window |
//! | [`TxId`] | - | transaction number that log entries carry (4 B, ByteFS section 4.3) |
//!
//! It does *not* know about devices, time sources or files.

mod addr;
pub mod bits;
mod bytes;
pub mod page;
mod prefetch;
mod time;

pub use addr::{ByteAddr, LINE_SIZE, LINES_PER_PAGE, Lpa, PAGE_SIZE, Ppa, TxId};
pub use bytes::{Bytes, ParseBytesError};
pub use page::{Dest, Page, Payload};
pub use prefetch::{large_pages, prefetch, prefetch_at};
pub use time::Nanos;
