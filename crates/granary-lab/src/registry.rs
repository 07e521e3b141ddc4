//! The registry of file systems: one line each, and everything else finds it here.
//!
//! This is the only place outside a file system's own crate that names it; what there is to say of one it says itself
//! ([`FsEntry`]).

use crate::error::LabError;
use crate::testbed::Testbed;
use granary_device::Devices;
use granary_vfs::entry::Mount;
use granary_vfs::{FileSystem, Result};
use std::sync::Arc;

pub use granary_vfs::FsEntry;

/// All file systems, in the order of comparisons.
pub const FILE_SYSTEMS: &[FsEntry] = &[
    granary_bytefs::BYTEFS,
    granary_bytefs::BYTEFS_LOG,
    granary_bytefs::BYTEFS_DUAL,
    granary_ext4::EXT4,
    granary_f2fs::F2FS,
    granary_f2fs::F2FS_REMAP,
    granary_f2fs::F2FS_FS_WRITE,
    granary_f2fs::F2FS_PEBBLE,
    granary_nova::NOVA,
    granary_pmfs::PMFS,
    granary_orchfs::ORCHFS,
    granary_orchfs::PHFS,
    granary_devfs::DEVFS,
    granary_devfs::DEVFS_CAP,
    granary_devfs::DEVFS_NAIVE,
    granary_nilfs2::NILFS2,
    granary_nilfs2::NILFS2_REMAP,
    granary_nilfs2::NILFS2_FSWRITE,
    granary_nilfs2::NILFS2_PEBBLE,
];

/// The file system of this name.
///
/// # Errors
/// None has it.
pub fn find(name: &str) -> std::result::Result<&'static FsEntry, LabError> {
    FILE_SYSTEMS.iter().find(|f| f.name == name).ok_or_else(|| {
        let known: Vec<&str> = FILE_SYSTEMS.iter().map(|f| f.name).collect();
        let meant = crate::meant(name, known.iter().copied());
        LabError::UnknownFs { name: name.to_owned(), meant, known: known.join(", ") }
    })
}

/// Makes a file system with the defaults of its `mkfs`.
///
/// # Errors
/// The file system's.
pub fn mkfs(fs: &FsEntry, devices: &Devices) -> Result<()> {
    (fs.mkfs)(devices, &toml::Table::new())
}

/// Mounts a file system as the testbed says.
///
/// # Errors
/// The file system's.
pub fn mount(
    fs: &FsEntry,
    devices: &Devices,
    testbed: &Testbed,
    read_only: bool,
) -> Result<Arc<dyn FileSystem>> {
    let options = testbed.fs.of(fs);
    let metadata_cache = testbed.host.metadata_cache;
    (fs.mount)(
        devices,
        &Mount { options: &options, metadata_cache, read_only, lower: None, inside: testbed.inside.clone() },
    )
}
