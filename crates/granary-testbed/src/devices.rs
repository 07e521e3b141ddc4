//! The devices of a testbed: made new, with the firmware that a file system runs on.

use crate::error::TestbedError;
use crate::testbed::Testbed;
use granary_bench::{BenchError, memory};
use granary_device::{Devices, Drive, Need, Role};
use granary_fs::FsEntry;
use granary_mssd::{DriveConfig, Mode};
use granary_pmem::DimmConfig;
use granary_units::{Bytes, PAGE_SIZE};
use std::sync::Arc;

/// The least that a device gets beside the one whose size was asked for.
const LEAST_SHARE: Bytes = Bytes::mib(64);

impl Testbed {
    /// The SSD.
    ///
    /// # Errors
    /// The testbed has none: with those that have one.
    pub fn ssd(&self) -> Result<&DriveConfig, TestbedError> {
        self.drive.as_ref().ok_or_else(|| self.lacks("this", Need::Blocks, &[Need::Blocks]))
    }

    /// The NVM DIMMs.
    ///
    /// # Errors
    /// The testbed has none: with those that have some.
    pub fn nvm(&self) -> Result<&DimmConfig, TestbedError> {
        self.device.nvm.as_ref().ok_or_else(|| self.lacks("this", Need::Nvm, &[Need::Nvm]))
    }

    /// The SSD with the firmware that a file system runs on.
    ///
    /// # Errors
    /// As [`Testbed::ssd`].
    pub fn ssd_for(&self, fs: Option<&FsEntry>) -> Result<DriveConfig, TestbedError> {
        let ssd = self.ssd()?.clone();
        let mode = match ssd.firmware.mode {
            _ if fs.is_some_and(|fs| fs.write_log) => Mode::Log,
            // A testbed's own firmware serves all that need no write log.
            Mode::Own(name) => Mode::Own(name),
            _ => Mode::Cache,
        };
        let ssd = ssd.with_mode(mode);
        Ok(if fs.is_some_and(|fs| fs.needs.contains(&Need::Inside)) { ssd.from_inside() } else { ssd })
    }

    /// The memory that new devices for a file system take.
    ///
    /// # Errors
    /// The testbed lacks one.
    pub fn memory_for(&self, fs: &FsEntry) -> Result<memory::Need, TestbedError> {
        self.roles_for(fs)?.into_iter().try_fold(memory::Need::default(), |all, role| {
            Ok(all.and(match role {
                Role::Ssd => memory::Need::of_ssd(&self.ssd_for(Some(fs))?, memory::Use::NEW),
                Role::Nvm => memory::Need::of_nvm(self.nvm()?),
            }))
        })
    }

    /// New devices for a file system: those that it needs. `ssd` makes the SSD.
    ///
    /// # Errors
    /// The testbed lacks one; a device cannot be made.
    pub fn devices_with(
        &self,
        fs: &FsEntry,
        mut ssd: impl FnMut(&DriveConfig) -> Result<Arc<dyn Drive>, BenchError>,
    ) -> Result<Devices, TestbedError> {
        self.roles_for(fs)?.into_iter().try_fold(Devices::none(), |all, role| {
            let drive: Arc<dyn Drive> = match role {
                Role::Ssd => ssd(&self.ssd_for(Some(fs))?)?,
                Role::Nvm => Arc::new(memory::nvm(&self.name, self.nvm()?)?),
            };
            Ok(all.with(role, drive))
        })
    }

    /// New devices for a file system.
    ///
    /// # Errors
    /// As [`Testbed::devices_with`].
    pub fn devices(&self, fs: &FsEntry) -> Result<Devices, TestbedError> {
        self.devices_with(fs, |config| Ok(Arc::new(memory::ssd(&self.name, config, memory::Use::NEW)?)))
    }

    /// The roles of the devices that a file system uses here, in order.
    ///
    /// # Errors
    /// The testbed lacks one.
    pub fn roles_for(&self, fs: &FsEntry) -> Result<Vec<Role>, TestbedError> {
        let mut roles = Vec::new();
        for need in fs.needs {
            roles.push(self.role_for(*need).ok_or_else(|| self.lacks(fs.name, *need, fs.needs))?);
        }
        roles.sort_unstable();
        roles.dedup();
        Ok(roles)
    }

    fn serves(&self, need: Need, role: Role) -> bool {
        match role {
            Role::Nvm => self.device.nvm.is_some(),
            Role::Ssd => match need {
                Need::Bytes | Need::Inside | Need::Both => self.drive.as_ref().is_some_and(|ssd| ssd.window),
                Need::Names => self.drive.as_ref().is_some_and(|ssd| ssd.firmware.names() > 0),
                _ => self.drive.is_some(),
            },
        }
    }

    fn role_for(&self, need: Need) -> Option<Role> {
        need.roles().iter().copied().find(|role| self.serves(need, *role))
    }

    /// Built-in testbeds that have all of this, in their order.
    pub fn having(needs: &[Need]) -> Vec<&'static str> {
        let has_all = |t: Testbed| needs.iter().all(|need| t.role_for(*need).is_some());
        crate::builtin::builtins()
            .map(|(name, _)| name)
            .filter(|name| Testbed::load(name, &[]).is_ok_and(has_all))
            .collect()
    }

    /// The error of `who` for a testbed that lacks a device, with the testbeds that have all that it needs.
    fn lacks(&self, who: &str, need: Need, all: &[Need]) -> TestbedError {
        TestbedError::Lacks(format!(
            "{who} needs {need}, which testbed {} has not: --testbed {} has",
            self.name,
            Testbed::having(all).join(", ")
        ))
    }

    /// The same with devices of another capacity, for a file system (or for blocks, where there is none): the
    /// first device that it needs gets at least `size`, others keep their share of it.
    ///
    /// # Errors
    /// The testbed lacks a device, or it cannot have this size.
    pub fn with_size(mut self, fs: Option<&FsEntry>, size: Bytes) -> Result<Testbed, TestbedError> {
        let roles = fs.map_or(Ok(vec![Role::Ssd]), |fs| self.roles_for(fs))?;
        let main = *roles.first().ok_or_else(|| self.lacks("this", Need::Blocks, &[Need::Blocks]))?;
        let share = size.0 as f64 / (self.pages_of(main) * PAGE_SIZE as u64).max(1) as f64;
        let of = |testbed: &Testbed, role: Role| match role == main {
            true => size,
            false => {
                Bytes((testbed.pages_of(role) as f64 * PAGE_SIZE as f64 * share) as u64).max(LEAST_SHARE)
            }
        };
        let (for_ssd, for_nvm) = (of(&self, Role::Ssd), of(&self, Role::Nvm));
        self.drive = match roles.contains(&Role::Ssd) {
            true => {
                let mut ssd = self.ssd_for(fs)?;
                ssd.flash = ssd.flash.with_capacity(for_ssd);
                Some(ssd)
            }
            false => None,
        };
        self.device.nvm =
            self.device.nvm.filter(|_| roles.contains(&Role::Nvm)).map(|nvm| nvm.with_capacity(for_nvm));
        Ok(self)
    }

    /// Capacity of a device, in pages of 4 KiB; 0 where there is none.
    pub fn pages_of(&self, role: Role) -> u64 {
        match role {
            Role::Ssd => self.drive.as_ref().map_or(0, DriveConfig::pages),
            Role::Nvm => self.device.nvm.as_ref().map_or(0, DimmConfig::pages),
        }
    }

    /// Capacity of the largest device that a file system uses here, in pages: what its files can take.
    pub fn pages_for(&self, fs: &FsEntry) -> u64 {
        let roles = self.roles_for(fs).unwrap_or_default();
        roles.into_iter().map(|role| self.pages_of(role)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::FILE_SYSTEMS;

    /// Each file system has a testbed, and a testbed that lacks something names those on which it runs, and
    /// no other.
    #[test]
    fn a_testbed_that_lacks_a_device_names_those_that_lack_none() {
        for fs in FILE_SYSTEMS {
            let having = Testbed::having(fs.needs);
            assert!(!having.is_empty(), "{} runs nowhere", fs.name);
            for (name, _) in crate::builtin::builtins() {
                match Testbed::load(name, &[]).expect("a built-in testbed").roles_for(fs) {
                    Ok(_) => assert!(having.contains(&name), "{} runs on {name}", fs.name),
                    Err(e) => {
                        assert!(!having.contains(&name), "{} does not run on {name}", fs.name);
                        let named = format!("--testbed {} has", having.join(", "));
                        assert!(e.to_string().contains(&named), "{e}");
                    }
                }
            }
        }
    }
}
