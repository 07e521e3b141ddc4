//! Images with a file system on them: made from a testbed, opened and mounted through the registry.
//!
//! ```text
//!   make:  testbed, size ──> drive configuration ──> Image::create ──> mkfs ──> closed cleanly
//!   open:  Image::open ──> registry: fs of the header ──> mount (recovers) ──> Vfs on the wall clock
//! ```
//!
//! The date comes from the caller: nothing here reads a clock.

mod open;
mod repair;

use crate::error::LabError;
pub use check::{Findings, ImageState, check};
use granary_bench::memory;
use granary_device::{Drive, Need, Role};
use granary_fs::{Call, Caller, CheckpointCall, Checkpoints, FileSystem, FsError, Time};
use granary_image::host::{Host as ImageHost, disk::DiskHost};
use granary_image::{Durability, Image, ImageDevices, ImageError, ImageInfo, ImageMeta, OpenOptions};
use granary_mssd::DriveConfig;
use granary_testbed::Testbed;
use granary_testbed::registry::{self};
use granary_units::{Bytes, PAGE_SIZE};
use granary_vfs::{Change, Vfs, VfsConfig};
pub use grow::{Grown, grow, grow_mounted};
pub use open::OpenImage;
use open::{DEFAULT_TESTBED, judge_header};
pub use repair::{rehearse, repair};
use std::path::Path;
use std::sync::Arc;

/// The file system of a blank drive: none. `granary export` serves such an image.
pub const BLANK: &str = "none";

/// Parameters of a new image.
#[derive(Clone, Debug)]
pub struct NewImage<'a> {
    /// Name of the file system, or [`BLANK`].
    pub fs: &'a str,
    /// Capacity of the drive.
    pub size: Bytes,
    /// Built-in testbed or path of one.
    pub testbed: &'a str,
    /// Changes of the testbed, `KEY=VALUE`.
    pub sets: &'a [String],
    /// A name for people.
    pub label: &'a str,
    /// Replaces an image that is there.
    pub force: bool,
    /// The date.
    pub date: Time,
    /// User and group to whom the root directory belongs.
    pub owner: (u32, u32),
}

/// Makes an image with an empty file system.
///
/// # Errors
/// Everything that can be wrong with what is asked for, the image's and the file system's errors.
pub fn make(path: &Path, new: &NewImage<'_>) -> Result<(), LabError> {
    let entry = if new.fs == BLANK { None } else { Some(registry::find(new.fs)?) };
    let testbed = Testbed::load(new.testbed, new.sets)?;
    if new.size == Bytes(0) {
        let smallest = testbed.with_size(entry, Bytes(1))?;
        let pages = smallest.pages_of(Role::Ssd).max(smallest.pages_of(Role::Nvm));
        let least = Bytes(pages * PAGE_SIZE as u64);
        return Err(LabError::call(
            "--size 0",
            format!("the smallest drive of testbed {} has {least}", new.testbed),
        ));
    }
    // As it is judged when it is opened.
    let whole = testbed.with_size(entry, new.size)?;
    whole.validate().map_err(|why| LabError::call(format!("a drive of {}", new.size), why))?;
    let meta = ImageMeta {
        uuid: String::new(),
        fs: new.fs.to_owned(),
        label: new.label.to_owned(),
        testbed: new.testbed.to_owned(),
        created: (new.date.0 / 1_000_000_000).max(0) as u64,
        unfinished: entry.is_some(),
        host: Some(whole.host.table(&whole.fs)?),
    };
    // Of an image that is only being made nothing can be lost.
    let unmade = |e| match e {
        ImageError::NoSpace { doing } => LabError::call(
            format!("making {}", path.display()),
            format!(
                "no space left on the host's disk while {doing}: there is no image yet; free some and say --force, or choose \
                 another place"
            ),
        ),
        e => e.into(),
    };
    let host = at(path);
    memory::image_fits(&path.display().to_string(), whole.drive.as_ref())?;
    Image::create_on(&*host, &devices_of(&whole), meta, new.force).map_err(unmade)?;
    let _ = host.remove(LISTS);
    let Some(entry) = entry else { return Ok(()) };
    let (image, devices) =
        Image::open_on(host.clone(), options(Durability::Process, false)).map_err(unmade)?;
    registry::mkfs(entry, &devices).map_err(LabError::fs(entry.name, "mkfs"))?;
    if new.owner != (0, 0) {
        // Through a mount, as a chown would: each file system has its own way to put it on media.
        let own = || {
            let config = VfsConfig { epoch: new.date, ..whole.host.vfs };
            let vfs = under_vfs(registry::mount(entry, &devices, &whole, false)?, config)?;
            give_root(&vfs, new.owner).and(vfs.unmount())
        };
        own().map_err(LabError::fs(entry.name, "mkfs"))?;
    }
    image.close().map_err(unmade)?;
    Image::finish_on(&*host).map_err(unmade)
}

/// Gives the root directory to a user and a group.
///
/// # Errors
/// The file system's.
pub fn give_root(vfs: &Arc<Vfs>, (uid, gid): (u32, u32)) -> granary_fs::Result<()> {
    if (uid, gid) == (0, 0) {
        return Ok(());
    }
    vfs.setattr(&Caller::KERNEL, &vfs.root(), &Change::owner(Some(uid), Some(gid)))
}

/// The directory of an image. A caller that opens the image several times uses one of these: by its path it
/// might be another one the next time.
fn at(path: &Path) -> Arc<dyn ImageHost> {
    Arc::new(DiskHost::new(path))
}

/// The SSD that an image has, which is what file systems live on.
fn ssd_of(path: &Path, devices: &ImageDevices) -> Result<DriveConfig, LabError> {
    let none = || LabError::call(format!("{}", path.display()), "the image has no SSD, only NVM DIMMs");
    devices.ssd.clone().ok_or_else(none)
}

/// Whether this error of an image that cannot be opened is a finding of a check. Other errors are reasons why
/// no check can be made.
pub(crate) fn is_finding(e: &ImageError) -> bool {
    use ImageError::{Damaged, Geometry, Header, Mixed};
    matches!(e, Damaged { .. } | Mixed { .. } | Geometry { .. } | Header { .. })
}

fn devices_of(testbed: &Testbed) -> ImageDevices {
    ImageDevices { ssd: testbed.drive.clone(), nvm: testbed.device.nvm.clone() }
}

pub(crate) fn options(durability: Durability, read_only: bool) -> OpenOptions {
    OpenOptions { durability, read_only, ..OpenOptions::default() }
}

/// Puts a vfs over a file system that was just mounted; where that fails it is unmounted.
///
/// # Errors
/// The file system's: its root directory cannot be read.
pub fn under_vfs(fs: Arc<dyn FileSystem>, config: VfsConfig) -> granary_fs::Result<Arc<Vfs>> {
    Vfs::mount(fs.clone(), config).inspect_err(|_| drop(fs.unmount(&Call::offline())))
}

/// Opens the drive of an image, whatever it holds.
///
/// # Errors
/// The image's. A file system of ours in it, unless it is `forced` or nothing can be changed: who writes
/// blocks does not know of it.
pub fn open_drive(
    path: &Path,
    durability: Durability,
    read_only: bool,
    forced: bool,
) -> Result<(Image, Arc<dyn Drive>), LabError> {
    let place = at(path);
    let ImageInfo { meta: ImageMeta { fs, .. }, devices, .. } = Image::describe_on(&*place)?;
    // Its own host says nothing of a drive that is exported.
    judge_header(path, Testbed::load(DEFAULT_TESTBED, &[])?, &devices)?;
    if fs != BLANK && !read_only && !forced {
        return Err(LabError::Usage(format!(
            "{} holds a {fs} file system, which writes to its blocks may destroy: export it with --read-only, say --force, \
             or make a blank image (`granary mkfs IMAGE --fs {BLANK}`)",
            path.display()
        )));
    }
    let (image, devices) = Image::open_on(place, options(durability, read_only))?;
    let blocks = devices.serving(Need::Blocks).map_err(|e| LabError::call(path.display().to_string(), e))?;
    let drive = blocks.drive().clone();
    Ok((image, drive))
}

/// A file in the image's directory, empty: files of the image may have access control lists.
const LISTS: &str = "acls";

/// Notes that files of an image may have access control lists from now on; durable before the first one can
/// be.
///
/// # Errors
/// The host's.
pub fn note_lists(image: &Image) -> Result<(), LabError> {
    Ok(image.note(LISTS)?)
}

/// Whether files of an image may have access control lists: who does not look at them must not let anybody in
/// by the mode, whose group bits are then the mask.
pub fn may_have_lists(image: &Image) -> bool {
    image.has_note(LISTS)
}

/// One call on the checkpoints of an image that nobody uses.
///
/// # Errors
/// A file system that has none, a number that there is not, the end of a snapshot; the image's and the file
/// system's errors.
pub fn checkpoints(path: &Path, call: CheckpointCall) -> Result<Checkpoints, LabError> {
    let open = OpenImage::open(path, Durability::Process, call == CheckpointCall::List)?;
    let name = open.entry.name;
    let answer = registry::checkpoints(open.entry, &open.devices, &open.testbed, call);
    open.close_unused_or_used(answer.is_ok())?;
    let shown = path.display();
    match (answer, call) {
        (Ok(Some(all)), _) => Ok(all),
        (Ok(None), _) => Err(LabError::Usage(format!(
            "{shown}: {name} has no checkpoints; a file system that keeps its past is nilfs2 (`granary mkfs IMAGE --fs nilfs2`)"
        ))),
        (
            Err(FsError::NoEntry),
            CheckpointCall::Keep(n) | CheckpointCall::Release(n) | CheckpointCall::End(n),
        ) => Err(LabError::Usage(format!(
            "{shown}: there is no checkpoint {n}: `granary lscp {shown}` lists those that there are"
        ))),
        (Err(FsError::Busy), CheckpointCall::End(n)) => Err(LabError::Usage(format!(
            "{shown}: {n} is a snapshot, which is kept: `granary chcp cp {shown} {n}` makes it a checkpoint like others"
        ))),
        (Err(e), _) => Err(LabError::fs(name, "checkpoints")(e)),
    }
}

mod check;
mod grow;
#[cfg(test)]
mod tests;
