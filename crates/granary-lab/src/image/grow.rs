//! An image that becomes larger, mounted or not.

use super::{BLANK, OpenImage, at, ssd_of};
use crate::error::LabError;
use granary_device::Need;
use granary_fs::{Call, FsError};
use granary_image::host::Host as ImageHost;
use granary_image::{Durability, Image};
use granary_mssd::DriveConfig;
use granary_units::{Bytes, PAGE_SIZE};
use granary_vfs::Vfs;
use std::path::Path;
use std::sync::Arc;

/// Sizes of an image before and after it has grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grown {
    /// Capacity of the drive before.
    pub before: Bytes,
    /// And now: at least what was asked for.
    pub after: Bytes,
}

/// Makes the drive of an image that nobody has open at least `size` large, and its file system as large as
/// the drive. After an interruption at any time the image has the old size or the new one. Growing it once
/// more does the rest.
///
/// # Errors
/// A file system that cannot grow, and shrinking, with the remedy; the image's and the file system's errors.
pub fn grow(path: &Path, size: Bytes) -> Result<Grown, LabError> {
    let host = at(path);
    let info = Image::describe_on(&*host)?;
    let drive = ssd_of(path, &info.devices)?;
    let before = Bytes(drive.pages() * PAGE_SIZE as u64);
    refuse_smaller(path, before, size)?;
    let blank = info.meta.fs == BLANK;
    if !blank {
        // Says whether it can, and finishes what an interrupted growth has left.
        grow_fs(&host, Some(pages_for(&drive, size)))?;
    }
    let drive = Image::grow_on(&host, size)?;
    if !blank {
        grow_fs(&host, None)?;
    }
    Ok(Grown { before, after: Bytes(drive.pages() * PAGE_SIZE as u64) })
}

/// The same for an image that is open, while its file system is in use.
///
/// # Errors
/// As [`grow`].
pub fn grow_mounted(image: &Image, vfs: &Vfs, path: &Path, size: Bytes) -> Result<Grown, LabError> {
    let (drive, fs) = (ssd_of(path, &image.devices())?, &image.meta().fs);
    let before = drive.pages();
    refuse_smaller(path, Bytes(before * PAGE_SIZE as u64), size)?;
    ask(|blocks| vfs.grow(blocks), before, pages_for(&drive, size), fs, path)?;
    let drive = image.grow_open(size)?;
    judge(vfs.grow(drive.pages()), fs, path)?;
    image.barrier()?;
    let bytes = |pages| Bytes(pages * PAGE_SIZE as u64);
    Ok(Grown { before: bytes(before), after: bytes(drive.pages()) })
}

pub(super) fn refuse_smaller(path: &Path, has: Bytes, size: Bytes) -> Result<(), LabError> {
    if size >= has {
        return Ok(());
    }
    Err(LabError::Usage(format!(
        "{}: its drive has {has}, and images do not shrink: make a smaller one (`granary mkfs IMAGE --size SIZE`) and copy the \
         files (`granary cp-out IMAGE / DIR`, `granary cp-in IMAGE DIR /`)",
        path.display()
    )))
}

/// Pages that the drive will have once it has grown to at least `size`; what cannot be is refused where it
/// grows.
pub(super) fn pages_for(drive: &DriveConfig, size: Bytes) -> u64 {
    drive.flash.grown(size).map_or(drive.pages(), |flash| flash.capacity_pages())
}

/// Grows the file system of an image to the drive's size; or asks whether it could grow to so many pages.
pub(super) fn grow_fs(host: &Arc<dyn ImageHost>, asked: Option<u64>) -> Result<(), LabError> {
    let path = host.path();
    let open = OpenImage::open_on(host, Durability::Machine, false)?;
    let name = open.entry.name;
    let fs = match open.mount() {
        Ok(fs) => fs,
        Err(e) => {
            open.close_unused();
            return Err(LabError::fs(name, "mount")(e));
        }
    };
    let has =
        open.devices.serving(Need::Blocks).map_err(|e| LabError::fs(name, "grow")(e.into()))?.info().pages;
    let answer = match asked {
        Some(wanted) => ask(|blocks| fs.grow(&Call::offline(), blocks), has, wanted, name, path),
        None => judge(fs.grow(&Call::offline(), has), name, path),
    };
    fs.unmount(&Call::offline()).map_err(LabError::fs(name, "unmount"))?;
    drop(fs);
    open.image.close()?;
    answer
}

/// Before the drive grows: makes the file system as large as the drive is, as far as it can, and asks whether
/// it would take a drive of `wanted` pages, which it cannot have yet.
pub(super) fn ask(
    grow: impl Fn(u64) -> granary_fs::Result<()>,
    has: u64,
    wanted: u64,
    name: &str,
    path: &Path,
) -> Result<(), LabError> {
    match grow(has) {
        // Pages of the drive that are too few for a growth of their own: the next one takes them along.
        Err(FsError::NoSpace) => {}
        other => judge(other, name, path)?,
    }
    match grow(wanted) {
        Err(FsError::Invalid) => Ok(()),
        // Would more be of use?
        Err(FsError::NoSpace) if matches!(grow(wanted + ROOMY), Err(FsError::Invalid)) => {
            Err(LabError::Usage(format!(
                "{}: {name} does not grow to that size: what comes is too little for its own metadata: ask for more",
                path.display()
            )))
        }
        Err(FsError::NoSpace) => Err(LabError::Usage(format!(
            "{}: {name} has grown as often as it can (31 times): {COPY}",
            path.display()
        ))),
        other => judge(other, name, path),
    }
}

/// The advice where an image cannot grow.
pub(super) const COPY: &str = "make a larger image (`granary mkfs IMAGE --size SIZE`) and copy the files (`granary cp-out IMAGE / DIR`, \
                    `granary cp-in IMAGE DIR /`)";
/// Pages with which any metadata have place.
const ROOMY: u64 = 1 << 20;

/// The result of growing, as the file system `name` gave it.
fn judge(grown: granary_fs::Result<()>, name: &str, path: &Path) -> Result<(), LabError> {
    let path = path.display();
    match grown {
        Err(FsError::NotSupported) => Err(LabError::Usage(format!("{path}: {name} cannot grow: {COPY}"))),
        Err(FsError::NoSpace) => {
            Err(LabError::Usage(format!("{path}: {name} does not grow to that size: {COPY}")))
        }
        other => other.map_err(LabError::fs(name, "grow")),
    }
}
