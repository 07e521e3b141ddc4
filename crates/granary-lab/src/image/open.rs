//! [`OpenImage`]: an image with its host and its file system.

use super::{BLANK, at, options, under_vfs};
use crate::error::LabError;
use granary_bench::memory;
use granary_device::Devices;
use granary_fs::{FileSystem, Time};
use granary_image::host::Host as ImageHost;
use granary_image::{Durability, Image, ImageDevices, ImageError, ImageInfo, ImageMeta};
use granary_testbed::registry::{self, FsEntry};
use granary_testbed::{Host, OtherDevices, Testbed, TestbedError};
use granary_units::Bytes;
use granary_vfs::{Vfs, VfsConfig};
use std::path::Path;
use std::sync::Arc;

/// An image that is open, with what is needed to mount it.
pub struct OpenImage {
    /// The image.
    pub image: Image,
    /// Its devices.
    pub devices: Devices,
    /// Its file system.
    pub entry: &'static FsEntry,
    /// The host of the testbed that it was made from, with its mount options, which images have since format
    /// 3; before, as that testbed is now (or the default one, where it is gone). The devices are the image's
    /// own.
    pub testbed: Testbed,
    /// Nothing of it changes.
    pub(super) read_only: bool,
    /// A note about the host: its testbed is gone.
    pub note: Option<String>,
}

/// The host of an image, and a note about it.
pub(super) fn host_of(meta: &ImageMeta) -> Result<(Testbed, Option<String>), LabError> {
    let default = || Testbed::load(DEFAULT_TESTBED, &[]);
    if let Some(own) = &meta.host {
        let base = default()?;
        let (host, fs) = Host::from_table(own, &base)?;
        return Ok((Testbed { host, fs, ..base }, None));
    }
    match Testbed::load(&meta.testbed, &[]) {
        Ok(testbed) => Ok((testbed, None)),
        Err(e) => {
            let note = format!(
                "the image is of an earlier format, without its host's values, and its testbed cannot be read ({e}): the host is that of \
                 {DEFAULT_TESTBED}; --set changes it"
            );
            Ok((default()?, Some(note)))
        }
    }
}

/// Refuses a header that mkfs would refuse to make, by the same check: a header may come from anywhere.
pub(super) fn judge_header(path: &Path, host: Testbed, devices: &ImageDevices) -> Result<Testbed, LabError> {
    let all = Testbed {
        name: "image".to_owned(),
        description: String::new(),
        drive: devices.ssd.clone(),
        device: OtherDevices { nvm: devices.nvm.clone() },
        ..host
    };
    let refused = |why| ImageError::Header { path: path.to_owned(), why };
    all.validate().map_err(refused)?;
    memory::image_fits(&path.display().to_string(), all.drive.as_ref())?;
    Ok(all)
}

/// The testbed whose host is used for images of earlier formats where their testbed is gone. Where only keys
/// are looked up any testbed would do.
pub(super) const DEFAULT_TESTBED: &str = "bytefs-emulator";

impl OpenImage {
    /// Opens the image at `path`.
    ///
    /// # Errors
    /// The image's; a file system that is not in the registry.
    pub fn open(path: &Path, durability: Durability, read_only: bool) -> Result<OpenImage, LabError> {
        OpenImage::open_on(&at(path), durability, read_only)
    }

    pub(crate) fn open_on(
        place: &Arc<dyn ImageHost>,
        durability: Durability,
        read_only: bool,
    ) -> Result<OpenImage, LabError> {
        let path = place.path();
        // A refused image is not opened: it stays as clean as it was.
        let ImageInfo { meta, devices, .. } = Image::describe_on(&**place)?;
        if meta.fs == BLANK {
            return Err(LabError::Usage(format!(
                "{0}: a blank drive, without a file system of ours: serve it with `granary export {0} DIR`",
                path.display()
            )));
        }
        if meta.fs == crate::stack::NAME {
            return Err(LabError::Usage(format!(
                "{0}: persistent memory in front of a directory, which has the rest of its files: mount both, `granary mount --stack \
                 {1} {0} MNT`, and use MNT",
                path.display(),
                crate::stack::directory_shown(path)
            )));
        }
        if meta.unfinished {
            return Err(LabError::Usage(format!(
                "{0}: its making was interrupted, and there is no file system on it: `granary mkfs --force {0}` makes it anew",
                path.display()
            )));
        }
        let entry = registry::find(&meta.fs)?;
        let (host, note) = host_of(&meta)?;
        let testbed = judge_header(path, host, &devices)?;
        let (image, devices) = Image::open_on(place.clone(), options(durability, read_only))?;
        Ok(OpenImage { image, devices, entry, testbed, read_only, note })
    }

    /// Changes values of the host, each `KEY=VALUE`; returns the whole paths of the keys.
    ///
    /// # Errors
    /// A mistake in one; one that changes the drive, which is the image's.
    pub fn set_host(&mut self, sets: &[String]) -> Result<Vec<String>, LabError> {
        // Its drive only so that keys of drives are known: an image's may be smaller than a testbed's can.
        let (host, fs) = (self.testbed.host.clone(), self.testbed.fs.clone());
        let testbed = Testbed { host, fs, ..Testbed::load(DEFAULT_TESTBED, &[])? };
        let (testbed, paths) = testbed.with(sets)?;
        let of_mount = |path: &str| path.starts_with("host.") || path.starts_with("fs.");
        if let Some((path, set)) = paths.iter().zip(sets).find(|(path, _)| !of_mount(path)) {
            return Err(TestbedError::BadSet {
                set: set.clone(),
                message: format!(
                    "{path} is the image's, since it was made: make another image (`granary mkfs IMAGE --set {set}`)"
                ),
            }
            .into());
        }
        (self.testbed.host, self.testbed.fs) = (testbed.host, testbed.fs);
        Ok(paths)
    }

    /// Mounts the file system, which recovers where needed.
    ///
    /// # Errors
    /// The file system's. [`OpenImage::close_unused`] leaves the image as it was then.
    pub fn mount(&self) -> granary_fs::Result<Arc<dyn FileSystem>> {
        registry::mount(self.entry, &self.devices, &self.testbed, self.read_only)
    }

    /// The vfs configuration of the image's testbed for use on the wall clock, where `date` is the present
    /// date and at most `page_cache` of memory is for file pages.
    pub fn vfs_config(&self, date: Time, page_cache: Bytes) -> VfsConfig {
        let since = granary_sim::now().0.min(i64::MAX as u64) as i64;
        let page_cache = page_cache.min(self.testbed.host.vfs.page_cache);
        let epoch = Time(date.0.saturating_sub(since));
        VfsConfig { epoch, page_cache, read_only: self.read_only, ..self.testbed.host.vfs }
    }

    /// Mounts the file system under a vfs.
    ///
    /// # Errors
    /// The file system's.
    pub fn vfs(&self, date: Time, page_cache: Bytes) -> granary_fs::Result<Arc<Vfs>> {
        under_vfs(self.mount()?, self.vfs_config(date, page_cache))
    }

    pub(super) fn close_unused_or_used(self, used: bool) -> Result<(), LabError> {
        if !used {
            self.close_unused();
            return Ok(());
        }
        let OpenImage { image, devices, .. } = self;
        drop(devices);
        Ok(image.close()?)
    }

    /// Closes the image after a mount or a repair that failed: it is clean if it was. Nobody hears how that
    /// went, because there is an error to tell already; an image that is not clean recovers.
    pub fn close_unused(self) {
        let OpenImage { image, devices, .. } = self;
        drop(devices);
        let _ = image.close();
    }

    /// Unmounts a vfs made by [`OpenImage::vfs`] and closes the image.
    ///
    /// # Errors
    /// The file system's, the image's.
    pub fn close(self, vfs: &Arc<Vfs>) -> Result<(), LabError> {
        vfs.unmount().map_err(LabError::fs(self.entry.name, "unmount"))?;
        Ok(self.image.close()?)
    }
}
