//! Calibration: the model of ext4 beside the kernel's ext4 on the same drive, under the same operations.
//!
//! ```text
//!   Load (one thread, one stream of calls)
//!        ├──> KernelClient ──> kernel's ext4 ──> loop ──> exported drive ──> record ───────┐
//!        └──> Process ──> granary-ext4 ──> drive in virtual time                           │
//!                               └─ counters                           layout + classify <──┘
//!                                      └───────────> Traffic | Traffic ──> table
//!   reference: isolated operations beside the measurements of Linux 6.1 (baselines.md 3.3, 3.6, 4.4)
//! ```
//!
//! The layout that the kernel has itself written tells the structure of its blocks ([`layout`]); nothing is
//! assumed. Timers do not take part. Transactions commit when an fsync or sync says so, and a run is over
//! before data is old enough to be written back. Otherwise differences between the two clocks would be taken
//! for a difference of the file systems.
//!
//! It does *not* mount or export: the caller (`granary calibrate`) brings a mounted kernel file system and
//! the record.

pub mod classify;
pub mod kernel;
mod land;
pub mod layout;
pub mod load;
pub mod model;
pub mod reference;
mod table;

pub use classify::classify;
pub use granary_ext4::DataMode;
pub use kernel::KernelClient;
pub use load::{Edge, LOADS, Load};
pub use model::model;
pub use table::{judge, table};

use granary_device::Structure;

/// Both sides' drive has a volatile cache beside what the testbed says. Else neither gets a FLUSH, and there
/// is none to compare.
pub const SETS: [&str; 2] = ["drive.firmware.mode=cache", "drive.firmware.volatile_cache=true"];

/// Traffic between file system and drive in a measured run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes written, by structure.
    pub written: [u64; Structure::COUNT],
    /// Bytes read, by structure.
    pub read: [u64; Structure::COUNT],
    /// Bytes written that no structure could be found for.
    pub unknown: u64,
    /// Waits for the drive's cache: FLUSH commands and FUA writes (a loop device makes a flush of each).
    pub flushes: u64,
    /// Transactions committed.
    pub commits: u64,
}

impl Traffic {
    /// All bytes written.
    pub fn total_written(&self) -> u64 {
        self.written.iter().sum::<u64>() + self.unknown
    }

    /// All bytes read.
    pub fn total_read(&self) -> u64 {
        self.read.iter().sum()
    }
}
