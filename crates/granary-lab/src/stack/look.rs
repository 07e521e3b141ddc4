//! A directory and its persistent memory without a mount: their files are read, and both are checked. Neither
//! is changed.
//!
//! ```text
//!   image          opened for reading: what has to be recovered is, in this process's memory
//!   directory      every change refused (granary-hostdir), access times left
//!   both           locked, as for a mount
//! ```

use super::nested::{Lock, lock, look_around};
use super::{NAME, dropped, listed, shown};
use crate::error::LabError;
use crate::image::{Findings, ImageState, is_finding, options};
use granary_device::Devices;
use granary_fs::{Call, FsError, Life};
use granary_image::host::disk::DiskHost;
use granary_image::{Durability, Image, ImageError};
use granary_testbed::registry::{self, Upper};
use granary_vfs::{Vfs, VfsConfig};
use std::path::Path;
use std::sync::Arc;

/// A directory and its persistent memory, to be looked at.
pub struct Look {
    /// Both as one file system, that nobody may change.
    pub vfs: Arc<Vfs>,
    /// Its upper layer.
    pub fs: Arc<Upper>,
    /// The image.
    pub image: Image,
    /// Something to tell of it: files that are not found, or what the next mount drops.
    pub note: Option<String>,
    devices: Devices,
    _lock: Lock,
}

/// Opens an image for reading, and keeps mounts off the directory.
fn open(dir: &Path, image: &Path) -> Result<(Image, Devices, Lock), LabError> {
    let info = Image::describe(image)?;
    if info.meta.fs != NAME {
        return Err(LabError::Usage(format!(
            "{}: an image of {}, and not persistent memory in front of a directory: leave --stack away",
            image.display(),
            info.meta.fs
        )));
    }
    let place = Arc::new(DiskHost::new(image));
    let (image, devices) =
        Image::open_on(place, options(Durability::Process, true)).map_err(|e| match e {
            ImageError::InUse { .. } => LabError::Usage(format!(
                "{0} is mounted, or another command has it open: look at its files where it is mounted, or unmount it first (`granary \
                 umount {0}`)",
                shown(image)
            )),
            e => e.into(),
        })?;
    let lock = lock(dir)?;
    Ok((image, devices, lock))
}

/// Mounts both layers. The image's directory is looked at whole: it knows the numbers of files that were seen
/// only.
fn mount(dir: &Path, devices: &Devices, vfs: VfsConfig) -> granary_fs::Result<Arc<Upper>> {
    let lower = Vfs::mount(granary_hostdir::mount_read_only(dir)?, vfs)?;
    let fs = look_around(&lower).and_then(|_| registry::look_over(lower.clone(), devices));
    fs.inspect_err(|_| drop(lower.unmount()))
}

/// Opens both for reading. `vfs`: of both layers.
///
/// # Errors
/// A mount; another kind of image; a pair that does not fit; the image's, the directory's, the file system's.
pub fn look(dir: &Path, image: &Path, vfs: VfsConfig) -> Result<Look, LabError> {
    let vfs = VfsConfig { read_only: true, ..vfs };
    let (opened, devices, lock) = open(dir, image)?;
    let failed = LabError::fs(NAME, "look");
    let fs = mount(dir, &devices, vfs).map_err(failed)?;
    let missing = fs.not_below().map_err(LabError::fs(NAME, "look"))?;
    let note = match (missing.is_empty(), fs.dropped().is_empty()) {
        (false, _) => Some(format!(
            "{} files whose newest bytes are in {} are not in {} any more: removed there, or replaced by copies ({})",
            missing.len(),
            shown(image),
            shown(dir),
            listed(&missing)
        )),
        (true, false) => Some(dropped(fs.dropped())),
        (true, true) => None,
    };
    let vfs = Vfs::mount(fs.clone(), vfs).map_err(LabError::fs(NAME, "look"))?;
    Ok(Look { vfs, fs, image: opened, note, devices, _lock: lock })
}

impl Look {
    /// Ends it.
    ///
    /// # Errors
    /// The file system's, the image's.
    pub fn close(self) -> Result<(), LabError> {
        let Look { vfs, fs, image, devices, .. } = self;
        vfs.unmount().map_err(LabError::fs(NAME, "unmount"))?;
        drop((vfs, fs, devices));
        Ok(image.close()?)
    }
}

/// Checks an image with its directory: the devices, what is on persistent memory, and that each of its files
/// is in the directory.
///
/// # Errors
/// Reasons against a check: a mount, another kind of image, host errors. Damage is a finding, and so is a
/// pair that does not fit.
pub fn check(dir: &Path, image: &Path, vfs: VfsConfig) -> Result<Findings, LabError> {
    let mut found = Findings::default();
    let (opened, devices, _lock) = match open(dir, image) {
        Err(LabError::Image(e)) if is_finding(&e) => {
            found.wrong.push(e.to_string());
            return Ok(found);
        }
        other => other?,
    };
    found.opened(&opened);
    found.state = ImageState::Opens;
    found.wrong.extend(devices.drives().flat_map(|(_, drive)| drive.check().err().unwrap_or_default()));
    match mount(dir, &devices, VfsConfig { read_only: true, ..vfs }) {
        Err(FsError::Mismatch(why)) => found.wrong.push(why),
        Err(e) => found.wrong.push(format!("{NAME} cannot be mounted: {e}")),
        Ok(fs) => {
            found.state = ImageState::Mounts;
            match fs.check(&Call::offline()) {
                Ok(wrong) => found.wrong.extend(wrong),
                Err(e) => found.wrong.push(format!("{NAME} cannot be checked: {e}")),
            }
            if !fs.dropped().is_empty() {
                found.note = Some(dropped(fs.dropped()));
            }
            if let Err(e) = fs.unmount(&Call::offline()) {
                found.wrong.push(format!("{NAME} cannot be unmounted: {e}"));
            }
        }
    }
    Ok(found)
}
