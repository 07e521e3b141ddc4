//! A directory of the host with persistent memory in front of it: small synchronous writes go to an image of
//! NVM DIMMs, all else to the directory.
//!
//! The image finds its files in the directory by number and date of birth, so that they may be renamed while
//! nothing is mounted; but a file that is in the image has its newest bytes there. To use the directory
//! alone, demote all files at the unmount.
//!
//! Both sides record which pairs fit together, by the upper layer (its pair.rs). Beside that this module
//! refuses combinations that would go wrong unseen:
//!
//! ```text
//!   the directory is locked (flock)           another stack over, above or below it is refused  (nested.rs)
//!   one above or below it has a pair          refused, unless that is to be given up            (nested.rs)
//!   the image lies in the directory           refused: it would be a file of itself
//!   files of the image are not found below    refused, unless they are to be given up
//! ```
//!
//! Both can be looked at without a mount, and checked (look.rs). The image remembers the place of the
//! directory, for people (whereabouts.rs).

mod look;
mod nested;
mod whereabouts;

pub use look::{Look, check, look};
pub use nested::Lock;
pub use whereabouts::{directory, directory_shown, is_stacked};

use crate::error::LabError;
use granary_device::Devices;
use granary_fs::{Call, FsError, quoted};
use granary_image::{Durability, Image, ImageDevices, ImageMeta};
use granary_pmem::DimmConfig;
use granary_testbed::registry::{self, Missing};
use granary_units::Bytes;
use granary_vfs::{Vfs, VfsConfig};
use nested::{forget_nested, lock, refuse_nested};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name in the header of such an image in place of a file system of the registry.
pub(crate) const NAME: &str = "spfs-over-directory";

/// How a directory is stacked on.
pub struct Stack<'a> {
    /// The directory.
    pub dir: &'a Path,
    /// The image; it is made where there is nothing.
    pub image: &'a Path,
    /// Size of a new image.
    pub size: Bytes,
    /// Failure that acknowledged changes survive.
    pub durability: Durability,
    /// The image gives up content that does not fit the directory: by number, run, or file.
    pub forget: bool,
    /// Of both layers.
    pub vfs: VfsConfig,
    /// Options of the upper layer.
    pub options: &'a toml::Table,
}

/// A directory that is stacked on.
pub struct Stacked {
    /// The upper layer.
    pub vfs: Arc<Vfs>,
    /// The image and its devices.
    pub image: Image,
    /// As opened.
    pub devices: Devices,
    /// It was made now.
    pub new: bool,
    /// Content that recovery took away, or that was given up, if any; for people.
    pub lost: Option<String>,
    /// Keeps other stacks off the directory; to be let go of last.
    pub lock: Lock,
}

/// Whether a path, or what it would be made in, is the directory or lies within it, also by another mount of
/// the directory.
pub fn is_within(path: &Path, dir: &Path) -> bool {
    let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    let (Ok(of), Ok(path)) = (dir.metadata(), std::path::absolute(path)) else { return false };
    let there = path.ancestors().find_map(|p| p.canonicalize().ok());
    there.is_some_and(|p| p.ancestors().any(|above| above.metadata().is_ok_and(|m| same(&m, &of))))
}

/// Opens the image and mounts both layers.
///
/// # Errors
/// The image's, the directory's, the file system's.
pub fn open(how: &Stack<'_>) -> Result<Stacked, LabError> {
    let lock = lock(how.dir)?;
    if is_within(how.image, how.dir) {
        let why =
            format!("it lies within {}, whose files it is to hold: give a path outside", how.dir.display());
        return Err(LabError::call(how.image.display().to_string(), why));
    }
    if rustix::fs::statvfs(how.dir).is_ok_and(|s| s.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY)) {
        let why = format!(
            "it is on a read-only mount, and a stack writes to it: mount that for writing, or look at both without a mount (`granary ls \
             --stack {} {}`)",
            shown(how.dir),
            shown(how.image)
        );
        return Err(LabError::call(how.dir.display().to_string(), why));
    }
    let new = !how.image.exists();
    let doing = |what| LabError::fs(NAME, what);
    let below = granary_hostdir::mount(how.dir).map_err(doing("mount"))?;
    let lower = Vfs::mount(below, how.vfs).map_err(doing("mount"))?;
    let mut others = Vec::new();
    if new {
        // Before anything is made: a typing error in the image's path is no reason to give up another image.
        let nested = refuse_nested(how, &lower).map_err(doing("mount"));
        others = nested.inspect_err(|_| drop(lower.unmount()))?;
        let dimms = DimmConfig::optane_dcpmm().with_capacity(how.size);
        let meta = ImageMeta { fs: NAME.to_owned(), ..ImageMeta::default() };
        Image::create(how.image, &ImageDevices::nvm(dimms), meta, false)?;
    }
    let opened = open_image(how, new, lower.clone(), lock, others);
    if new && opened.is_err() {
        // Made for nothing: the next try is not to find it.
        let _ = std::fs::remove_dir_all(how.image);
    }
    opened.inspect_err(|_| drop(lower.unmount()))
}

fn open_image(
    how: &Stack<'_>,
    new: bool,
    lower: Arc<Vfs>,
    lock: Lock,
    others: Vec<PathBuf>,
) -> Result<Stacked, LabError> {
    let doing = |what| LabError::fs(NAME, what);
    // A refused image is not opened: it stays as clean as it was.
    let fs = Image::describe(how.image)?.meta.fs;
    if fs != NAME {
        let why = format!("the image is one of {fs}, not of persistent memory over a directory");
        return Err(LabError::call(how.image.display().to_string(), why));
    }
    let (image, devices) = Image::open(how.image, how.durability, false)?;
    let mounted = mount_both(how, new, lower, &devices, others);
    let (fs, lost) = match mounted {
        Ok(mounted) => mounted,
        Err(e) => {
            // As clean as it was found.
            drop(devices);
            let _ = image.close();
            return Err(doing("mount")(e));
        }
    };
    let vfs = Vfs::mount(fs, how.vfs).map_err(doing("mount"))?;
    whereabouts::remember(how.image, how.dir);
    Ok(Stacked { vfs, image, devices, new, lost, lock })
}

fn mount_both(
    how: &Stack<'_>,
    new: bool,
    lower: Arc<Vfs>,
    devices: &Devices,
    mut others: Vec<PathBuf>,
) -> granary_fs::Result<(Arc<registry::Upper>, Option<String>)> {
    if new {
        registry::make_over(devices)?;
    } else {
        // A directory of the host knows the numbers of files that were seen only, and this sees all.
        others = refuse_nested(how, &lower)?;
    }
    let mut lost = Vec::from_iter(forget_nested(&others)?);
    let mount = || registry::mount_over(lower.clone(), devices, how.options);
    let fs = match mount() {
        Err(FsError::Mismatch(why)) if how.forget => {
            registry::forget_pair(lower.clone())?;
            registry::make_over(devices)?;
            lost.push(format!("given up as asked, what did not fit: {why}"));
            mount()?
        }
        fs => fs?,
    };
    if fs.recovery().clean {
        let missing = fs.not_below()?;
        if !missing.is_empty() && !how.forget {
            // The lower layer goes with it. Nothing is demoted.
            fs.leave(&Call::kernel(lower.time()))?;
            return Err(FsError::Mismatch(format!(
                "{} files whose newest bytes are in {image} are not in {dir} any more: removed there, or replaced by copies ({}). Put \
                 them back, or give up what the image has of them (`granary mount --stack {dir} --forget {image} MNT`)",
                missing.len(),
                listed(&missing),
                image = shown(how.image),
                dir = shown(how.dir),
            )));
        }
        if !missing.is_empty() {
            fs.give_up_missing()?;
            lost.push(format!(
                "{} files that are not in the directory any more were given up as asked",
                missing.len()
            ));
        }
        let found = fs.find_places()?;
        if !found.is_empty() {
            let names: Vec<String> = found.iter().map(|name| quoted(name).to_string()).collect();
            lost.push(format!(
                "the directories of {} files of the image are gone: they are in the root now, as {}",
                found.len(),
                names.join(", ")
            ));
        }
    } else if !fs.dropped().is_empty() {
        lost.push(dropped(fs.dropped()));
    }
    Ok((fs, (!lost.is_empty()).then(|| lost.join("; "))))
}

/// The words of recovery for files that it did not find.
fn dropped(missing: &[Missing]) -> String {
    format!(
        "{} files of the image were gone from the directory, removed before the stop or beside the mount: what the image had of them was \
         dropped ({})",
        missing.len(),
        listed(missing)
    )
}

/// A path for a command line.
fn shown(path: &Path) -> impl std::fmt::Display {
    quoted(path.as_os_str().as_bytes()).to_string()
}

/// Files that have no name any more.
fn listed(missing: &[Missing]) -> String {
    /// Beyond it nobody reads.
    const MOST: usize = 5;
    let mut all: Vec<String> =
        missing.iter().take(MOST).map(|m| format!("number {} of {} bytes", m.ino, m.size)).collect();
    if missing.len() > MOST {
        all.push("...".to_owned());
    }
    all.join(", ")
}

#[cfg(test)]
mod tests;
