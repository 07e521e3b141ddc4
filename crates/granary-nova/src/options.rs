//! Options of `mkfs` and of `mount`. Testbed files contain these tables.

use granary_fs::Time;
use serde::{Deserialize, Serialize};

/// Choices of `mkfs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MkfsOptions {
    /// CPUs, each with a journal, an inode table and a free list; 1 to 64. 8: the cores of the testbed's
    /// host.
    pub cpus: u32,
    /// Blocks in one piece of an inode table; `None` = 2 MB (the original's), 64 KiB on drives below 1 GiB.
    pub piece: Option<u32>,
    /// Time stamp of the root directory, nanoseconds since 1970.
    pub time: i64,
    /// Permission bits of the root directory.
    pub root_mode: u16,
}

impl Default for MkfsOptions {
    fn default() -> MkfsOptions {
        MkfsOptions { cpus: 8, piece: None, time: 0, root_mode: 0o755 }
    }
}

impl MkfsOptions {
    pub(crate) fn made(&self) -> Time {
        Time(self.time)
    }
}

/// How data is written over data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataMode {
    /// Copy on write: a write is atomic (the paper's, mount option `data_cow`).
    #[default]
    Cow,
    /// In place: a write may be torn, its size and times are atomic (the released kernel tree's default).
    InPlace,
}

/// Choices of `mount`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MountOptions {
    /// How data is written over data.
    pub data: DataMode,
}
