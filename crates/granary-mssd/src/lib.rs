//! The memory-semantic SSD: one drive that answers byte loads and stores and 4 KiB block commands.
//!
//! ```text
//!   file system ── Port (blocks the task, charges host CPU) ──┐
//!                                                             v
//!   Drive   byte window: load store flush_lines verify | NVMe: read write flush trim | vendor: COMMIT RECOVER
//!     link      full duplex, write-combining buffers, posted writes, queues
//!     firmware  log mode (ByteFS): write log + three-layer index + TxLog + cleaning
//!               cache mode (baselines): page-granular write-back cache
//!               either with BAM (PebbleSSD): FS_WRITE, REMAP, BAM_RESET, BAM_READ
//!     flash     granary-flash: FTL, NAND
//! ```
//!
//! An image keeps a drive on files that survive the process or the machine: see [`image`].
//!
//! The drive never blocks anybody: every call takes the present instant and returns the instant at which the host
//! sees it done; [`Port`] waits. What a power failure takes and leaves is stated in docs/FAULT_MODEL.md.

#![deny(unsafe_code)] // but for image/host/map.rs

mod config;
mod firmware;
pub mod image;
mod link;
mod mssd;
mod power;

pub use config::{
    BamConfig, ConfigError, DriveConfig, FirmwareConfig, LinkConfig, Mode, NvmeConfig, WriteAck,
};
pub use firmware::bam::space::{BamSpace, BamTable};
pub use mssd::Mssd;

#[doc(hidden)]
pub mod bench {
    //! The log index on its own, for `benches/index.rs`. Not part of the interface.
    pub use crate::firmware::log::index::{Index, TOGETHER, Versions};
    pub use crate::firmware::log::{EntryRef, Piece};
}
