//! Stacked file systems: the lower one is mounted first, under a vfs of its own, which the upper one stands
//! on.

use crate::{Vfs, VfsConfig};
use granary_device::Devices;
use granary_fs::entry::{Mount, ssd_of};
use granary_fs::{FileSystem, FsEntry, FsError, Options, Result};
use granary_units::Bytes;
use std::any::Any;
use std::sync::Arc;

/// How a lower layer of a stack is mounted.
pub struct Layer {
    /// Its file system's own options.
    pub options: Box<dyn Options>,
    /// Host memory for its metadata blocks.
    pub metadata_cache: Bytes,
    /// The vfs that the upper layer stands on, with its page cache.
    pub vfs: VfsConfig,
}

/// Mounts a file system, what is below first. `below`: how those are mounted.
///
/// # Errors
/// The file systems'; nothing is mounted then.
pub fn bring_up(
    entry: &FsEntry,
    devices: &Devices,
    how: &Mount<'_>,
    below: &dyn Fn(&FsEntry) -> Result<Layer>,
) -> Result<Arc<dyn FileSystem>> {
    let Some(under) = entry.below else { return (entry.mount)(devices, how) };
    let layer = below(under)?;
    let inside = how.inside.clone();
    let own = Mount {
        options: &*layer.options,
        metadata_cache: layer.metadata_cache,
        // The upper layer may have to recover, which changes what is below. A caller that opens devices for
        // reading gives ones that keep nothing, and refuses calls that change something at the top.
        read_only: false,
        lower: None,
        inside: inside.clone(),
    };
    let fs = bring_up(under, &ssd_of(devices), &own, below)?;
    let vfs = Vfs::mount(fs, layer.vfs)?;
    let lower: Arc<dyn Any + Send + Sync> = vfs.clone();
    let mounted = (entry.mount)(devices, &Mount { lower: Some(lower), inside, ..*how });
    if mounted.is_err() {
        // The upper one's error says more.
        let _ = vfs.unmount();
    }
    mounted
}

/// The vfs that a stacked file system stands on.
///
/// # Errors
/// `Invalid`: it is mounted on nothing.
pub fn below(how: &Mount<'_>) -> Result<Arc<Vfs>> {
    let lower = how.lower.clone().and_then(|lower| lower.downcast().ok());
    lower.ok_or(FsError::Invalid)
}
