//! The registry of file systems: one line each, and everything else finds it here.
//!
//! This is the only place outside a file system's own crate that names it; what there is to say of one it
//! says itself ([`FsEntry`]).

use crate::error::TestbedError;
use crate::testbed::Testbed;
use granary_device::{Devices, Need};
use granary_fs::entry::{Mount, defaults};
use granary_fs::{CheckpointCall, Checkpoints, FileSystem, Result};
use granary_vfs::Layer;
use granary_vfs::Vfs;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

pub use granary_fs::FsEntry;

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
    granary_spfs::over(&granary_ext4::EXT4, "spfs+ext4", granary_spfs::cases!("spfs+ext4")),
    granary_spfs::over(&granary_f2fs::F2FS, "spfs+f2fs", granary_spfs::cases!("spfs+f2fs")),
    granary_spfs::over(&granary_nilfs2::NILFS2, "spfs+nilfs2", granary_spfs::cases!("spfs+nilfs2")),
];

/// Prefix of the name of the file system below in the name of a stack.
const STACKED: &str = "spfs+";

/// The file system of this name.
///
/// # Errors
/// None has it.
pub fn find(name: &str) -> std::result::Result<&'static FsEntry, TestbedError> {
    if let Some(known) = FILE_SYSTEMS.iter().find(|f| f.name == name) {
        return Ok(known);
    }
    if let Some(below) = name.strip_prefix(STACKED) {
        return stack(name, find(below)?);
    }
    Err({
        let known: Vec<&str> = FILE_SYSTEMS.iter().map(|f| f.name).collect();
        let meant = granary_trace::suggest::meant(name, known.iter().copied());
        TestbedError::UnknownFs { name: name.to_owned(), meant, known: known.join(", ") }
    })
}

/// The stack of this name over a registered file system that is not one itself; made once, for the life of
/// the program.
fn stack(name: &str, below: &'static FsEntry) -> std::result::Result<&'static FsEntry, TestbedError> {
    static MADE: Mutex<BTreeMap<&str, &FsEntry>> = Mutex::new(BTreeMap::new());
    if below.needs != [Need::Blocks] || below.below.is_some() {
        let why = match below.below {
            Some(_) => format!("{} is a stack already", below.name),
            None => format!(
                "it stands on a file system that needs blocks of an SSD alone; {} needs more",
                below.name
            ),
        };
        return Err(TestbedError::call(name, why));
    }
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(entry) = made.get(name) {
        return Ok(entry);
    }
    let name: &'static str = name.to_owned().leak();
    let entry: &'static FsEntry = Box::leak(Box::new(granary_spfs::over(below, name, &[])));
    made.insert(name, entry);
    Ok(entry)
}

/// Makes what a stack has on persistent memory, for a lower file system that is none of the registry's.
///
/// # Errors
/// The file system's.
pub fn make_over(devices: &Devices) -> Result<()> {
    granary_spfs::mkfs(devices.serving(Need::Nvm)?, &granary_spfs::MkfsOptions::default())
}

/// The options that a testbed has for the upper layer of every stack.
pub fn stack_options(testbed: &Testbed) -> toml::Table {
    FILE_SYSTEMS.iter().find(|fs| fs.below.is_some()).map(|fs| testbed.fs.of(fs)).unwrap_or_default()
}

/// The upper layer of every stack.
pub type Upper = granary_spfs::Spfs;

/// Forgets, in a mounted lower file system, that some persistent memory has the newest bytes of its files.
///
/// # Errors
/// The lower file system's.
pub fn forget_pair(lower: Arc<Vfs>) -> Result<()> {
    granary_spfs::forget(&granary_vfs::Lower::new(lower))
}

/// Mounts a stack over a mounted file system that is none of the registry's. `options`: those of the upper
/// one.
///
/// # Errors
/// The file system's; the lower one stays mounted then.
pub fn mount_over(lower: Arc<Vfs>, devices: &Devices, options: &toml::Table) -> Result<Arc<Upper>> {
    let given: &dyn granary_fs::Options = options;
    let options = given.read()?;
    granary_spfs::mount(devices.serving(Need::Nvm)?.clone(), lower, &options)
}

/// The same to be looked at: nothing below is changed, and what has to be recovered is on devices that keep
/// nothing.
///
/// # Errors
/// As [`mount_over`].
pub fn look_over(lower: Arc<Vfs>, devices: &Devices) -> Result<Arc<Upper>> {
    let options = granary_spfs::MountOptions::default();
    granary_spfs::mount_as(devices.serving(Need::Nvm)?.clone(), lower, &options, granary_spfs::Access::Look)
}

/// The attribute that a directory has whose files' newest bytes are, of some, in persistent memory.
pub const PAIR: &[u8] = granary_spfs::PAIR;

/// A file that the upper layer of a stack does not find below.
pub type Missing = granary_spfs::Missing;

/// Makes a file system with the defaults of its `mkfs`.
///
/// # Errors
/// The file system's.
pub fn mkfs(fs: &FsEntry, devices: &Devices) -> Result<()> {
    fs.make(devices, &defaults)
}

/// One call on the checkpoints of a file system, which is mounted for it as the testbed says; `None`: it has
/// none.
///
/// # Errors
/// The file system's.
pub fn checkpoints(
    fs: &FsEntry,
    devices: &Devices,
    testbed: &Testbed,
    call: CheckpointCall,
) -> Result<Option<Checkpoints>> {
    let Some(ask) = fs.checkpoints else { return Ok(None) };
    let options = testbed.fs.of(fs);
    let metadata_cache = testbed.host.metadata_cache;
    let read_only = call == CheckpointCall::List;
    let inside = testbed.inside.clone();
    ask(devices, &Mount { options: &options, metadata_cache, read_only, lower: None, inside }, call).map(Some)
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
    let how =
        Mount { options: &options, metadata_cache, read_only, lower: None, inside: testbed.inside.clone() };
    granary_vfs::bring_up(fs, devices, &how, &|below| {
        Ok(Layer { options: Box::new(testbed.fs.of(below)), metadata_cache, vfs: testbed.host.vfs })
    })
}
