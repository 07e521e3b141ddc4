//! The memory-semantic SSD: one drive that answers byte loads and stores and 4 KiB block commands.
//!
//! ```text
//!   file system ── Port (blocks the task, charges host CPU) ──┐
//!                                                             v
//!   Drive   byte window: load store flush_lines verify | NVMe: read write flush trim
//!           vendor: COMMIT RECOVER
//!     link      full duplex, write-combining buffers, posted writes, queues
//!     firmware  `Log` (ByteFS): write log + three-layer index + TxLog + cleaning
//!               `Cache` (baselines): page-granular write-back cache
//!               one of your own: docs/ADDING_A_DRIVE.md
//!     companion beside any of them: `bam` (PebbleSSD): FS_WRITE, REMAP, BAM_RESET, BAM_READ
//!     flash     granary-flash: FTL, NAND
//! ```
//!
//! An image keeps a drive on files that survive the process or the machine: [`Kept`] is what it makes the
//! drive from, [`Layout`] where everything lies; the image itself is granary-image's.
//!
//! The drive never blocks anybody: every call takes the present instant and returns the instant at which the
//! host sees it done; [`Port`](granary_device::Port) waits. docs/FAULT_MODEL.md states the effects of a power
//! failure.

#![forbid(unsafe_code)]

mod bam;
pub mod cases;
mod companion;
mod config;
mod entry;
mod firmware;
mod link;
mod mssd;
mod power;
mod saved;

pub use bam::BAM;
pub use bam::space::{BamSpace, BamTable};
pub use cases::{DriveCase, Promise};
pub use companion::{Beside, Companion, CompanionEntry, LoadCompanion, Pending, Reach, Seen};
pub use config::{
    BamConfig, ConfigError, DriveConfig, FirmwareConfig, LinkConfig, Mode, NvmeConfig, WriteAck,
};
pub use entry::{BESIDE, BUILT_IN, CACHE, DriveEntry, LOG, LoadFirmware};
pub use firmware::{Backend, Cores, Firmware, Transaction, Transactions};
pub use mssd::{Controller, Kept, Mssd, in_range};
pub use saved::layout::Layout;

#[doc(hidden)]
pub mod bench {
    //! The log index on its own, for `benches/index.rs`. Not part of the interface.
    pub use crate::firmware::log::index::{Index, LineVersions, TOGETHER};
    pub use crate::firmware::log::{EntryRef, Piece};
}
