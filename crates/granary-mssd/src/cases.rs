//! [`DriveCase`]: a kind of drive that power failures are tried on beside the usual one, and what it does not
//! promise.
//!
//! The crash explorer names a file system on one `FS@CASE`, and on a drive that is not built in
//! `FS@DRIVE@CASE` (docs/CRASH.md).

use crate::config::{DriveConfig, WriteAck};
use granary_flash::ErrorConfig;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct DriveCase {
    /// Its name.
    pub name: &'static str,
    /// A line about it.
    pub about: &'static str,
    /// Makes a drive one of these. How large the drive is, others say.
    pub change: fn(&mut DriveConfig),
    /// Promises that such a drive does not keep. Only file systems that do without them are tried on it.
    pub weakens: &'static [Promise],
}

impl DriveCase {
    /// Whether the drive keeps this promise.
    pub fn keeps(&self, promise: Promise) -> bool {
        !self.weakens.contains(&promise)
    }
}

/// A promise of a drive, where nothing weakens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Acknowledged writes survive a power failure. Without this, only those that a FLUSH covers do.
    Durable,
    /// A page that a power failure meets is old or new as a whole.
    WholePages,
}

impl Promise {
    /// A few words about it.
    pub fn about(self) -> &'static str {
        match self {
            Promise::Durable => "acknowledged is durable",
            Promise::WholePages => "pages are old or new",
        }
    }
}

/// The drive's cache is lost.
pub const VOLATILE: DriveCase = DriveCase {
    name: "volatile",
    about: "the cache is lost: only what a FLUSH covers stays",
    change: |c| c.firmware.volatile_cache = true,
    weakens: &[Promise::Durable],
};

/// The same, by sectors.
pub const TORN: DriveCase = DriveCase {
    name: "torn",
    about: "of the cache parts of pages are lost, by sectors of 512 B",
    change: |c| (c.firmware.volatile_cache, c.firmware.tears_pages) = (true, true),
    weakens: &[Promise::Durable, Promise::WholePages],
};

/// Late acknowledgements.
pub const PROGRAM: DriveCase = DriveCase {
    name: "program",
    about: "block writes are acknowledged when flash holds them",
    change: |c| (c.firmware.write_ack, c.firmware.cache_write_ack) = (WriteAck::Program, None),
    weakens: &[],
};

/// Flash that fails. One operation in 5,000: some in each run, and not so many that the spare blocks end.
/// Pages that cannot be read are no power failure.
pub const FAILING: DriveCase = DriveCase {
    name: "failing",
    about: "of flash operations one program and one erase in 5,000 fail",
    change: |c| {
        c.flash.errors = ErrorConfig { program_ppb: 200_000, erase_ppb: 200_000, ..ErrorConfig::default() };
    },
    weakens: &[],
};
