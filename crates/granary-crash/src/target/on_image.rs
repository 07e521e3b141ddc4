//! [`OnImage`]: how an image keeps a target: which file system it is, its devices, and how it is mounted.

use super::{Case, Target};
use granary_fs::FsError;
use granary_mssd::DriveConfig;
use granary_pmem::DimmConfig;
use toml::{Table, Value};

/// See the module.
#[derive(Clone, Debug)]
pub struct OnImage {
    /// Name of the file system, as in the registry.
    pub fs: &'static str,
    /// The SSD, if it has one.
    pub ssd: Option<DriveConfig>,
    /// NVM DIMMs, if it has such.
    pub nvm: Option<DimmConfig>,
    /// How it is mounted, where that is not as ever: sections of file systems, and keys of the host.
    pub host: Table,
}

impl Case {
    pub(super) fn kept(&self) -> Result<OnImage, String> {
        if self.drive.load.is_none() {
            return Err(format!(
                "no image keeps {}: a drive with the firmware '{}' lives in memory alone; take {} on another device",
                self.name, self.drive.name, self.case.name
            ));
        }
        let host = self.host().map_err(|e| e.to_string())?;
        let (ssd, nvm) = self.configs();
        Ok(OnImage { fs: self.fs.name, ssd, nvm, host })
    }

    /// The options of all layers, and the memory for metadata.
    fn host(&self) -> Result<Table, FsError> {
        let mut host = Table::new();
        let memory = Value::try_from(self.case.metadata_cache);
        let memory = memory.map_err(|e| FsError::Corrupt(format!("options of a crash case: {e}")))?;
        host.insert("metadata_cache".to_owned(), memory);
        for fs in std::iter::successors(Some(self.fs), |fs| fs.below) {
            if let Some(of) = &fs.options {
                host.insert(of.section.to_owned(), Value::Table(self.options(fs)?));
            }
        }
        Ok(host)
    }
}
