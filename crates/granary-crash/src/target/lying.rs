//! A target whose SSD does nothing when it is told to flush: what an explorer must find, for tests of those who use it.

use super::Target;
use granary_device::{Command, Devices, Drive, DriveError, Role, Structure};
use granary_fs::{FileSystem, FsError, Repaired};
use granary_mssd::DriveConfig;
use granary_pmem::DimmConfig;
use granary_sim::HostCosts;
use granary_units::Nanos;
use granary_vfs::VfsConfig;
use std::sync::Arc;

/// This target, on a drive that answers each FLUSH and does nothing.
pub fn without_flushes(honest: Arc<dyn Target>) -> Arc<dyn Target> {
    Arc::new(Lying(honest))
}

struct Lying(Arc<dyn Target>);

impl Target for Lying {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn devices(&self, seed: u64) -> Devices {
        self.0.devices(seed).map(|role, inner| match role {
            Role::Ssd => Arc::new(Lazy { inner }),
            Role::Nvm => inner,
        })
    }

    fn renames_are_whole(&self) -> bool {
        self.0.renames_are_whole()
    }

    fn times_are_durable(&self) -> bool {
        self.0.times_are_durable()
    }

    fn every_call_is_durable(&self) -> bool {
        self.0.every_call_is_durable()
    }

    fn inodes_may_change(&self) -> bool {
        self.0.inodes_may_change()
    }

    fn checks(&self, what: Structure) -> bool {
        self.0.checks(what)
    }

    fn grows(&self) -> bool {
        self.0.grows()
    }

    fn repair(&self, devices: &Devices) -> Option<Result<Repaired, FsError>> {
        self.0.repair(devices)
    }

    fn pages_are_whole(&self) -> bool {
        self.0.pages_are_whole()
    }

    fn cuts_are_finished(&self) -> bool {
        self.0.cuts_are_finished()
    }

    fn configs(&self) -> (Option<DriveConfig>, Option<DimmConfig>) {
        self.0.configs()
    }

    fn mkfs(&self, devices: &Devices) -> Result<(), FsError> {
        self.0.mkfs(devices)
    }

    fn mount(&self, devices: &Devices) -> Result<Arc<dyn FileSystem>, FsError> {
        self.0.mount(devices)
    }

    fn vfs(&self) -> VfsConfig {
        self.0.vfs()
    }

    fn costs(&self) -> HostCosts {
        self.0.costs()
    }
}

struct Lazy {
    inner: Arc<dyn Drive>,
}

impl Drive for Lazy {
    granary_device::forward_drive!(inner: info, identify, load, store_from, flush_lines, load_pages, load_known, stream, verify, look_ahead, look_ahead_lines, wants_attention, settle, power_fail, power_on, track_in_flight, traffic, counters, counters_at, check);

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        match command {
            Command::Flush => Ok(now),
            command => self.inner.submit(now, command),
        }
    }

    fn fork(&self) -> Option<Arc<dyn Drive>> {
        Some(Arc::new(Lazy { inner: self.inner.fork()? }))
    }
}
