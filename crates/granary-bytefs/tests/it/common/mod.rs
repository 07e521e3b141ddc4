//! Shared parts of the tests: drives, a client that calls the file system as the vfs would, a plain model.

pub mod client;
pub mod model;
pub mod strict;

use granary_bytefs::{ByteFs, MkfsOptions, MountOptions, RecoveryReport, Variant, mkfs, mount};
use granary_device::{Drive, Port};
use granary_fs::{Call, Life, Result};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::{Stop, World, WorldConfig};
use granary_suite::reference::Limits;
use granary_suite::suite;
use granary_units::{Bytes, Nanos};
use std::sync::Arc;
use strict::StrictDrive;

/// A small real drive: 8 channels, a few MiB of log.
pub fn small_mssd(mib: u64) -> Arc<dyn Drive> {
    emulated(mib, Mode::Log)
}

/// The same with the page-cache firmware.
pub fn small_cached(mib: u64) -> Arc<dyn Drive> {
    emulated(mib, Mode::Cache)
}

fn emulated(mib: u64, mode: Mode) -> Arc<dyn Drive> {
    breakable(mib, mode)
}

/// The same, whose pages can be broken.
pub fn breakable(mib: u64, mode: Mode) -> Arc<Mssd> {
    let mut config = DriveConfig::bytefs_emulator().with_mode(mode);
    config.firmware.cache = Bytes::kib(256);
    config.firmware.log_region = Bytes::mib(4);
    (config.flash.geometry.channels, config.flash.geometry.ways) = (4, 1);
    config.flash = config.flash.with_capacity(Bytes::mib(mib));
    Arc::new(Mssd::new(&config).expect("a working drive"))
}

/// A drive that does no more than it promises.
pub fn strict(mib: u64) -> Arc<dyn Drive> {
    Arc::new(StrictDrive::new(mib * 256))
}

/// mkfs, without trimming so that garbage stays garbage.
pub fn format(drive: &Arc<dyn Drive>) {
    let options = MkfsOptions { discard: false, ..MkfsOptions::default() };
    mkfs(&Port::new(drive.clone()), &options).expect("mkfs");
}

pub fn open(drive: &Arc<dyn Drive>, options: &MountOptions) -> Arc<ByteFs> {
    mount(Port::new(drive.clone()), options).expect("mount")
}

pub fn assert_clean(fs: &ByteFs) {
    assert_eq!(fs.check(&Call::offline()).expect("readable"), Vec::<String>::new());
}

/// Runs in virtual time until the end.
pub fn in_world<T: 'static>(f: impl FnOnce() -> T + 'static) -> T {
    World::default().run(f).expect("no deadlock")
}

/// Runs until `at`, when the power fails. Returns whether it failed before the end.
pub fn until_power_fails(at: Nanos, f: impl FnOnce() + 'static) -> bool {
    let config = WorldConfig { power_fail_at: Some(at), ..WorldConfig::default() };
    match World::new(config).run(f) {
        Ok(()) => false,
        Err(Stop::PowerFail(_)) => true,
        Err(e) => panic!("{e}"),
    }
}

/// ByteFS as a subject of the shared suite, whose drives have no write log.
#[derive(Clone)]
pub struct Subject {
    pub mkfs: MkfsOptions,
    pub mount: MountOptions,
}

impl Default for Subject {
    fn default() -> Subject {
        let mount = MountOptions { cpus: 4, variant: Variant::Dual, ..MountOptions::default() };
        Subject { mkfs: MkfsOptions::default(), mount }
    }
}

impl suite::Subject for Subject {
    type Fs = ByteFs;
    type Recovery = RecoveryReport;

    fn limits(&self) -> Limits {
        Limits { max_file_size: i64::MAX as u64, max_links: 65_000 }
    }

    fn mkfs(&self, port: &Port) -> Result<()> {
        mkfs(port, &self.mkfs)
    }

    fn mount(&self, port: Port) -> Result<Arc<ByteFs>> {
        mount(port, &self.mount)
    }

    fn recovery(fs: &ByteFs) -> RecoveryReport {
        fs.recovery()
    }

    fn was_clean(recovery: &RecoveryReport) -> bool {
        recovery.clean
    }
}
