//! Repairs of an image, and rehearsals of them on a copy in memory.

use super::{OpenImage, at};
use crate::error::LabError;
use granary_fs::Repaired;
use granary_image::host::Host as ImageHost;
use granary_image::{Durability, Image};
use std::path::Path;
use std::sync::Arc;

/// Mends the file system of an image that nobody has open, and closes the image. Where it cannot, nothing has
/// changed.
///
/// # Errors
/// A file system that has no repair; a superblock that is damaged; the image's and the drive's errors.
pub fn repair(path: &Path) -> Result<Repaired, LabError> {
    // A rehearsal first: it fails where the repair would fail.
    let place = at(path);
    if rehearse_on(&place)?.is_none() {
        let name = Image::describe_on(&*place)?.meta.fs;
        return Err(LabError::call(
            format!("repairing {}", path.display()),
            format!(
                "{name} has no repair; copy out what you need (`granary cp-out IMAGE / DIR`) and make a new image"
            ),
        ));
    }
    let open = OpenImage::open_on(&place, Durability::Process, false)?;
    let repaired = mend(&open)?.unwrap_or_default();
    // The pages written anew may be in the drive's memory only. Until they are in flash, the flash has the
    // pages that cannot be read.
    open.devices.settle(granary_sim::now()).map_err(|e| LabError::fs(open.entry.name, "repair")(e.into()))?;
    let OpenImage { image, devices, .. } = open;
    drop(devices);
    image.close()?;
    Ok(repaired)
}

/// Does the work of [`repair`] without changing the image; `None` for a file system that has none.
///
/// # Errors
/// As there.
pub fn rehearse(path: &Path) -> Result<Option<Repaired>, LabError> {
    rehearse_on(&at(path))
}

pub(super) fn rehearse_on(place: &Arc<dyn ImageHost>) -> Result<Option<Repaired>, LabError> {
    mend(&OpenImage::open_on(place, Durability::Process, true)?)
}

pub(super) fn mend(open: &OpenImage) -> Result<Option<Repaired>, LabError> {
    let mended = open.entry.repair.map(|repair| repair(&open.devices));
    mended.transpose().map_err(LabError::fs(open.entry.name, "repair"))
}
