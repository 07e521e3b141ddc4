//! What the tests share: drives in cache mode, worlds, mounts.
#![allow(dead_code)] // each test uses a part

use granary_mssd::{Drive, DriveConfig, Mode, Mssd, Port};
use granary_pmfs::{MkfsOptions, MountOptions, Pmfs, mkfs, mount};
use granary_sim::{World, WorldConfig};
use granary_units::{Bytes, Nanos};
use granary_vfs::{Cred, FileSystem, Process, Vfs, VfsConfig};
use std::sync::Arc;

/// A drive of this size in cache mode.
pub fn drive(size: Bytes) -> Arc<dyn Drive> {
    let mut config = DriveConfig::bytefs_emulator().with_mode(Mode::Cache);
    config.flash = config.flash.with_capacity(size);
    Arc::new(Mssd::new(&config).expect("a drive of the paper's make"))
}

/// Runs `main` in virtual time.
pub fn run<T: 'static>(main: impl FnOnce() -> T + 'static) -> T {
    World::default().run(main).unwrap_or_else(|stop| panic!("{stop}"))
}

/// Runs `main` in virtual time, with random waits at locks.
pub fn run_jittered<T: 'static>(seed: u64, main: impl FnOnce() -> T + 'static) -> T {
    let world = World::new(WorldConfig { jitter: Nanos(500), seed, ..WorldConfig::default() });
    world.run(main).unwrap_or_else(|stop| panic!("seed {seed}: {stop}"))
}

/// A mounted file system with all its layers.
pub struct Mounted {
    pub drive: Arc<dyn Drive>,
    pub fs: Arc<Pmfs>,
    pub vfs: Arc<Vfs>,
}

impl Mounted {
    /// mkfs and mount with defaults.
    pub fn fresh(drive: &Arc<dyn Drive>) -> Mounted {
        mkfs(&port(drive), &MkfsOptions::default()).expect("mkfs");
        Mounted::again(drive)
    }

    /// Mounts what is there.
    pub fn again(drive: &Arc<dyn Drive>) -> Mounted {
        Mounted::with(drive, &MountOptions::default(), VfsConfig::default())
    }

    /// Mounts what is there, told how.
    pub fn with(drive: &Arc<dyn Drive>, options: &MountOptions, config: VfsConfig) -> Mounted {
        let fs = mount(port(drive), options).expect("mount");
        let vfs = Vfs::mount(fs.clone(), config).expect("vfs");
        Mounted { drive: drive.clone(), fs, vfs }
    }

    /// A process of root.
    pub fn process(&self) -> Process {
        Process::new(self.vfs.clone(), Cred::ROOT)
    }

    /// Syncs and checks.
    pub fn check(&self) {
        self.vfs.sync().expect("sync");
        sound(&*self.fs);
    }

    /// Unmounts; nobody may use it any more.
    pub fn unmount(self) {
        self.vfs.unmount().expect("unmount");
    }
}

/// A port to the drive.
pub fn port(drive: &Arc<dyn Drive>) -> Port {
    Port::new(drive.clone())
}

/// Nothing is wrong with a synced file system.
pub fn sound(fs: &dyn FileSystem) {
    let wrong = fs.check().expect("check");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
