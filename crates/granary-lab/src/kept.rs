//! Images of devices as something has left them: nothing is unmounted, nothing recovered.
//!
//! ```text
//!   make, open ── work: mkfs, a run, a power failure ── closed: the devices are off ── complete
//!                   `── an error: no image is left
//! ```

use crate::error::LabError;
use granary_device::Devices;
use granary_fs::Time;
use granary_image::host::Host;
use granary_image::host::disk::DiskHost;
use granary_image::{Image, ImageDevices, ImageMeta, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use toml::Table;

/// The image to be made.
#[derive(Clone, Debug)]
pub struct Keep<'a> {
    /// Name of the file system, as in the registry.
    pub fs: &'a str,
    /// The devices.
    pub devices: ImageDevices,
    /// How the file system is mounted, where that is not as ever: its sections, and keys of the host.
    pub host: Table,
    /// A name for people.
    pub label: &'a str,
    /// The date.
    pub date: Time,
}

/// Makes an image of new devices at `path` and keeps what `work` leaves them in.
///
/// # Errors
/// `work`'s, behind which there is no image; the image's.
pub fn keep(
    path: &Path,
    keep: &Keep<'_>,
    work: impl FnOnce(&Devices) -> Result<(), String>,
) -> Result<(), LabError> {
    let host: Arc<dyn Host> = Arc::new(DiskHost::new(path));
    let there = path.exists();
    let meta = ImageMeta {
        fs: keep.fs.to_owned(),
        label: keep.label.to_owned(),
        created: (keep.date.0 / 1_000_000_000).max(0) as u64,
        unfinished: true,
        host: Some(keep.host.clone()),
        ..ImageMeta::default()
    };
    is_free(path)?;
    let made = || {
        Image::create_on(&*host, &keep.devices, meta, false)?;
        // Repeatable: nothing depends on when a thread gets on.
        let options = OpenOptions { inline_checkpoints: true, paced: true, ..OpenOptions::default() };
        let (image, devices) = Image::open_on(host.clone(), options)?;
        work(&devices).map_err(|why| LabError::call(format!("{} is not kept", path.display()), why))?;
        drop(devices);
        image.close()?;
        Ok(Image::finish_on(&*host)?)
    };
    made().inspect_err(|_| remove(path, there))
}

/// Whether an image can be made there.
///
/// # Errors
/// Something is there.
pub fn is_free(path: &Path) -> Result<(), LabError> {
    let held = std::fs::read_dir(path).map(|mut names| names.next().is_some());
    if held.unwrap_or_else(|_| path.exists()) {
        return Err(LabError::Usage(format!("{} exists already: choose another path", path.display())));
    }
    Ok(())
}

/// Removes an image that was not completed; the directory stays where it was `there` before.
fn remove(path: &Path, there: bool) {
    // There is an error to tell already; what stays says that it is no image.
    let _ = std::fs::remove_dir_all(path);
    if there {
        let _ = std::fs::create_dir(path);
    }
}
