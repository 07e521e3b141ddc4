//! Images in memory that a test mounts, kills or copies, and opens again.

use granary_device::{Devices, Need};
use granary_image::host::memory::MemoryHost;
use granary_image::{Durability, Image, ImageDevices, ImageMeta, OpenOptions};
use granary_mount::host_config;
use granary_pmem::DimmConfig;
use granary_testbed::Testbed;
use granary_testbed::registry::{self, FsEntry};
use granary_units::Bytes;
use granary_vfs::{Vfs, VfsConfig};
use std::sync::Arc;

/// An image of 64 MiB for this file system, with so much log or cache, or the testbed's.
pub fn create(entry: &FsEntry, log: Option<Bytes>) -> MemoryHost {
    let testbed = Testbed::load("bytefs-emulator", &[]).expect("built in");
    let mut config = testbed.ssd_for(Some(entry)).expect("an SSD");
    // Few planes: each brings blocks of its own for gc, and every copy copies them all.
    (config.flash.geometry.channels, config.flash.geometry.ways) = (2, 2);
    config.flash = config.flash.with_capacity(Bytes::mib(64));
    if let Some(log) = log {
        (config.firmware.log_region, config.firmware.cache) = (log, log);
    }
    let host = MemoryHost::new();
    let nvm = entry.needs.contains(&Need::Nvm);
    let nvm = nvm.then(|| DimmConfig::optane_dcpmm().with_capacity(Bytes::mib(16)));
    let devices = ImageDevices { ssd: Some(config), nvm };
    Image::create_on(&host, &devices, ImageMeta::default(), false).expect("an image");
    host
}

/// Opens it.
pub fn open(host: &MemoryHost, durability: Durability) -> (Image, Devices) {
    let options = OpenOptions { durability, wal_half: Some(1 << 20), ..OpenOptions::default() };
    Image::open_on(Arc::new(host.clone()), options).expect("opens")
}

/// The file system on its devices, made first where `new`.
pub fn vfs_on(devices: Devices, entry: &FsEntry, new: bool) -> Arc<Vfs> {
    if new {
        registry::mkfs(entry, &devices).expect("mkfs");
    }
    let testbed = Testbed::load("bytefs-emulator", &[]).expect("built in");
    let fs = registry::mount(entry, &devices, &testbed, false).expect("mounts");
    Vfs::mount(fs, host_config(VfsConfig::default(), Bytes::mib(64), false)).expect("vfs")
}
