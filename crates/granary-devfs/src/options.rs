//! Options of `mkfs` and of `mount`. Testbed files contain these tables.

use granary_pm::BLOCK;
use granary_units::Bytes;
use serde::{Deserialize, Serialize};

/// Smallest log: lanes of 80 KiB.
const LEAST_LOG: Bytes = Bytes::kib(320);

/// Choices of `mkfs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MkfsOptions {
    /// The log's region; `None` = 4 MiB (PMFS's journal), on storage below 128 MiB a thirty-second part, at
    /// least 320 KiB.
    pub journal: Option<Bytes>,
    /// Time stamp of the root directory, nanoseconds since 1970.
    pub time: i64,
    /// Permission bits of the root directory; `None` = 0755.
    pub root_mode: Option<u16>,
}

impl MkfsOptions {
    /// As PMFS takes them, for storage of so many blocks.
    pub(crate) fn structures(&self, blocks: u64) -> granary_pmfs::MkfsOptions {
        let by_size = Bytes((blocks * BLOCK / 32).min(Bytes::mib(4).0)).max(LEAST_LOG);
        granary_pmfs::MkfsOptions {
            journal: Some(self.journal.unwrap_or(by_size).max(LEAST_LOG)),
            time: self.time,
            root_mode: self.root_mode,
            ..granary_pmfs::MkfsOptions::default()
        }
    }
}

/// How a command comes to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Crossing {
    /// From the program, past the kernel (section 3.1).
    #[default]
    Direct,
    /// By a system call (section 5.2: DevFS+cap and DevFS-naive).
    Trap,
}

/// Choices of `mount`. The variants of the paper are entries of the registry that set some of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MountOptions {
    /// How a command comes to the drive.
    pub crossing: Crossing,
    /// A capacitor keeps the log (section 3.3); else it is on storage, with the data (naive).
    pub capacitor: bool,
    /// Filemap, queue and journal are allocated at the first read or write and freed at the last close
    /// (section 3.4, "demand").
    pub on_demand: bool,
    /// Dentries of closed files move to the host (section 3.4, "dentry").
    pub reverse_dentries: bool,
    /// So do the parts of their inodes that only open files need (section 3.4, "inode").
    pub reverse_inodes: bool,
    /// Host memory for dentries: \[choice\] 64 MiB, a third of a million of the paper's 192 B.
    pub host_dentries: Bytes,
    /// Host memory for inodes: \[choice\] 192 MiB, the same number of 578 B.
    pub host_inodes: Bytes,
    /// Most bytes of the log that are not at home: what the capacitor has energy for. \[choice\] 1 MiB; the
    /// paper has no figure. With its 8 KiB of queue and journal it is what 128 open files have.
    pub capacitor_bytes: Bytes,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            crossing: Crossing::Direct,
            capacitor: true,
            on_demand: true,
            reverse_dentries: true,
            reverse_inodes: true,
            host_dentries: Bytes::mib(64),
            host_inodes: Bytes::mib(192),
            capacitor_bytes: Bytes::mib(1),
        }
    }
}
