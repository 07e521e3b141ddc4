//! Options of `mkfs` and of `mount`. Testbed files contain these tables.

use granary_fs::Time;
use granary_units::Bytes;
use serde::{Deserialize, Serialize};

/// Choices of `mkfs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MkfsOptions {
    /// Journal, at least 64 KiB; `None` = 4 MB (the original's default), on drives below 128 MiB a
    /// thirty-second part.
    pub journal: Option<Bytes>,
    /// Blocks in one piece of the inode table; `None` = 2 MB (the original's), 64 KiB on drives below 1 GiB.
    pub piece: Option<u32>,
    /// Time stamp of the root directory, nanoseconds since 1970.
    pub time: i64,
    /// Permission bits of the root directory; `None` = 0755.
    pub root_mode: Option<u16>,
}

impl MkfsOptions {
    pub(crate) fn made(&self) -> Time {
        Time(self.time)
    }
}

/// Choices of `mount`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MountOptions {}
