//! [`Testbed`], [`Host`]: the values of a testbed, as they stand in its file.

use crate::error::TestbedError;
use crate::options::{self, FsOptions};
use granary_fs::entry::Inside;
use granary_mssd::DriveConfig;
use granary_pmem::DimmConfig;
use granary_sim::HostCosts;
use granary_units::Bytes;
use granary_vfs::VfsConfig;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// A host and its devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Testbed {
    /// Short name.
    pub name: String,
    /// One line for lists.
    pub description: String,
    /// The host.
    pub host: Host,
    /// How file systems are mounted.
    #[serde(default)]
    pub fs: FsOptions,
    /// The SSD. `[device.ssd]` is another way to write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<DriveConfig>,
    /// The other devices.
    #[serde(default, skip_serializing_if = "OtherDevices::is_empty")]
    pub device: OtherDevices,
    /// Processors inside the drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<Inside>,
}

/// Devices beside the SSD, which is `[drive]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherDevices {
    /// NVM DIMMs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvm: Option<DimmConfig>,
}

impl OtherDevices {
    fn is_empty(&self) -> bool {
        self.nvm.is_none()
    }
}

/// The host computer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Cores that tasks share.
    pub cores: usize,
    /// Memory for metadata blocks, beside the page cache, of whatever file system is mounted.
    pub metadata_cache: Bytes,
    /// Costs of host software.
    pub costs: HostCosts,
    /// Page cache, write-back, time stamps.
    #[serde(default)]
    pub vfs: VfsConfig,
}

impl Host {
    /// With how file systems are mounted, as a table of TOML: what an image keeps. The sections of file
    /// systems are in it, as they were in a testbed's host once.
    pub fn table(&self, fs: &FsOptions) -> Result<Table, TestbedError> {
        let mut table =
            Table::try_from(self).map_err(|e| TestbedError::call("writing the host's settings", e))?;
        table.extend(fs.table());
        Ok(table)
    }

    /// From a table that an earlier version may have written: what it does not state is as in `base`.
    pub fn from_table(table: &Table, base: &Testbed) -> Result<(Host, FsOptions), TestbedError> {
        let wrong = |e: &str| TestbedError::call("reading the host's settings in image.toml", e);
        let (mut whole, mut table) = (base.host.table(&base.fs)?, table.clone());
        for (_, section) in &mut table {
            if let Value::Table(section) = section {
                ELSEWHERE.iter().for_each(|(key, _)| drop(section.remove(*key)));
            }
        }
        merge(&mut whole, &table);
        let mut fs = Table::new();
        for of in options::sections() {
            fs.extend(whole.remove_entry(of.section));
        }
        let host = Host::deserialize(whole).map_err(|e| wrong(e.message()))?;
        Ok((host, FsOptions::read(&fs).map_err(|e| wrong(&e))?))
    }
}

/// Former keys of file systems' sections, without effect now, and their replacements.
pub(crate) const ELSEWHERE: [(&str, &str); 3] = [
    (
        "metadata_update",
        "each kind of update has a row of its own now, from host.costs.journal_handle to log_entry (docs/HOST_COSTS.md)",
    ),
    (
        "metadata_cache",
        "no file system has a metadata_cache of its own: it is host.metadata_cache, for whatever is mounted",
    ),
    ("variant", "the variant of ByteFS is its name: bytefs, bytefs-log, bytefs-dual"),
];

/// Puts `over` on top of `under`; the keys of both sections of a name are merged.
fn merge(under: &mut Table, over: &Table) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            _ => drop(under.insert(key.clone(), value.clone())),
        }
    }
}
