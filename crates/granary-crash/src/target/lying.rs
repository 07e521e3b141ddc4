//! A target whose SSD does nothing when it is told to flush: what an explorer must find, for tests of those
//! who use it.

use super::Target;
use granary_device::{Command, Devices, Drive, DriveError, Role};
use granary_units::Nanos;
use std::sync::Arc;

/// This target, on a drive that answers each FLUSH and does nothing.
pub fn without_flushes(honest: Arc<dyn Target>) -> Arc<dyn Target> {
    Arc::new(Lying(honest))
}

struct Lying(Arc<dyn Target>);

impl Target for Lying {
    crate::forward_target!(0: name, renames_are_whole, times_are_durable, every_call_is_durable, inodes_may_change, checks, grows, keeps_snapshots, snapshot, mount_snapshot, repair, pages_are_whole, cuts_are_finished, configs, mkfs, mount, vfs, costs);

    fn devices(&self, seed: u64) -> Devices {
        self.0.devices(seed).map(|role, inner| match role {
            Role::Ssd => Arc::new(Lazy { inner }),
            Role::Nvm => inner,
        })
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
