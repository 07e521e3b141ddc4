//! Targets around other targets: which calls are passed on is written down, call by call.

/// Types that [`forward_target!`](crate::forward_target) names.
#[doc(hidden)]
pub mod parts {
    pub use granary_device::{Devices, Structure};
    pub use granary_fs::{FileSystem, FsError, Repaired};
    pub use granary_mssd::DriveConfig;
    pub use granary_pmem::DimmConfig;
    pub use granary_sim::HostCosts;
    pub use granary_vfs::VfsConfig;
}

/// Within `impl Target for Wrapper`: passes the named calls on to the target in the field of this name.
///
/// ```ignore
/// impl Target for Counting {
///     granary_crash::forward_target!(inner: name, mkfs, mount, vfs, costs /* ... */);
///     fn devices(&self, seed: u64) -> Devices {
///         self.counted(self.inner.devices(seed))
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_target {
    ($inner:tt: $($call:ident),+ $(,)?) => { $($crate::forward_target_call!($inner $call);)+ };
}

/// One call of [`forward_target!`](crate::forward_target).
#[doc(hidden)]
#[macro_export]
macro_rules! forward_target_call {
    ($inner:tt name) => {
        fn name(&self) -> &str {
            self.$inner.name()
        }
    };
    ($inner:tt devices) => {
        fn devices(&self, seed: u64) -> $crate::target::parts::Devices {
            self.$inner.devices(seed)
        }
    };
    ($inner:tt mkfs) => {
        fn mkfs(
            &self,
            devices: &$crate::target::parts::Devices,
        ) -> Result<(), $crate::target::parts::FsError> {
            self.$inner.mkfs(devices)
        }
    };
    ($inner:tt mount) => {
        fn mount(
            &self,
            devices: &$crate::target::parts::Devices,
        ) -> Result<std::sync::Arc<dyn $crate::target::parts::FileSystem>, $crate::target::parts::FsError> {
            self.$inner.mount(devices)
        }
    };
    ($inner:tt snapshot) => {
        fn snapshot(
            &self,
            devices: &$crate::target::parts::Devices,
        ) -> Result<u64, $crate::target::parts::FsError> {
            self.$inner.snapshot(devices)
        }
    };
    ($inner:tt mount_snapshot) => {
        fn mount_snapshot(
            &self,
            devices: &$crate::target::parts::Devices,
            number: u64,
        ) -> Result<std::sync::Arc<dyn $crate::target::parts::FileSystem>, $crate::target::parts::FsError> {
            self.$inner.mount_snapshot(devices, number)
        }
    };
    ($inner:tt checks) => {
        fn checks(&self, what: $crate::target::parts::Structure) -> bool {
            self.$inner.checks(what)
        }
    };
    ($inner:tt repair) => {
        fn repair(
            &self,
            devices: &$crate::target::parts::Devices,
        ) -> Option<Result<$crate::target::parts::Repaired, $crate::target::parts::FsError>> {
            self.$inner.repair(devices)
        }
    };
    ($inner:tt configs) => {
        fn configs(
            &self,
        ) -> (Option<$crate::target::parts::DriveConfig>, Option<$crate::target::parts::DimmConfig>) {
            self.$inner.configs()
        }
    };
    ($inner:tt vfs) => {
        fn vfs(&self) -> $crate::target::parts::VfsConfig {
            self.$inner.vfs()
        }
    };
    ($inner:tt costs) => {
        fn costs(&self) -> $crate::target::parts::HostCosts {
            self.$inner.costs()
        }
    };
    // The rest are promises.
    ($inner:tt $promise:ident) => {
        fn $promise(&self) -> bool {
            self.$inner.$promise()
        }
    };
}
