//! Images with a file system on them: made from a testbed, opened and mounted through the registry.
//!
//! ```text
//!   make:  testbed, size ──> drive configuration ──> Image::create ──> mkfs ──> closed cleanly
//!   open:  Image::open ──> registry: fs of the header ──> mount (recovers) ──> Vfs on the wall clock
//! ```
//!
//! The date comes from the caller: nothing here reads a clock.

use crate::error::LabError;
use granary_bench::memory;
use granary_device::{Devices, Drive, Need, Role};
use granary_fs::{
    Call, Caller, CheckpointCall, Checkpoints, Cred, FileKind, FileSystem, FsError, Repaired, Time, quoted,
};
use granary_image::host::{Host as ImageHost, disk::DiskHost};
use granary_image::{Durability, Image, ImageDevices, ImageError, ImageInfo, ImageMeta, OpenOptions};
use granary_mssd::DriveConfig;
use granary_testbed::registry::{self, FsEntry};
use granary_testbed::{Host, OtherDevices, Testbed, TestbedError};
use granary_units::{Bytes, Dest, PAGE_SIZE};
use granary_vfs::{Change, OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::path::Path;
use std::sync::Arc;

/// The file system of a blank drive: none. `granary export` serves such an image.
pub const BLANK: &str = "none";

/// What to make.
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

/// The directory of an image. Whoever opens it several times does so through one of these: by its path it might be another one the
/// next time.
fn at(path: &Path) -> Arc<dyn ImageHost> {
    Arc::new(DiskHost::new(path))
}

/// The SSD that an image has, which is what file systems live on.
fn ssd_of(path: &Path, devices: &ImageDevices) -> Result<DriveConfig, LabError> {
    let none = || LabError::call(format!("{}", path.display()), "the image has no SSD, only NVM DIMMs");
    devices.ssd.clone().ok_or_else(none)
}

/// What an image keeps of a testbed.
/// Whether an image that cannot be opened for this is a finding of a check, and not a reason against making one.
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

/// What growing an image has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grown {
    /// Capacity of the drive before.
    pub before: Bytes,
    /// And now: at least what was asked for.
    pub after: Bytes,
}

/// Makes the drive of an image that nobody has open at least `size` large, and its file system as large as the drive. Whenever
/// that is interrupted, the image has the old size or the new one, and growing it once more does what was left.
///
/// # Errors
/// What cannot grow, and shrinking, with what to do instead; the image's and the file system's errors.
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

fn refuse_smaller(path: &Path, has: Bytes, size: Bytes) -> Result<(), LabError> {
    if size >= has {
        return Ok(());
    }
    Err(LabError::Usage(format!(
        "{}: its drive has {has}, and images do not shrink: make a smaller one (`granary mkfs IMAGE --size SIZE`) and copy the \
         files (`granary cp-out IMAGE / DIR`, `granary cp-in IMAGE DIR /`)",
        path.display()
    )))
}

/// Pages that the drive will have once it has grown to at least `size`; what cannot be is refused where it grows.
fn pages_for(drive: &DriveConfig, size: Bytes) -> u64 {
    drive.flash.grown(size).map_or(drive.pages(), |flash| flash.capacity_pages())
}

/// Grows the file system of an image to the drive's size; or asks whether it could grow to so many pages.
fn grow_fs(host: &Arc<dyn ImageHost>, asked: Option<u64>) -> Result<(), LabError> {
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

/// Before the drive grows: makes the file system as large as the drive is, as far as it can, and asks whether it would
/// take a drive of `wanted` pages, which it cannot have yet.
fn ask(
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

/// What to do instead of growing.
const COPY: &str = "make a larger image (`granary mkfs IMAGE --size SIZE`) and copy the files (`granary cp-out IMAGE / DIR`, \
                    `granary cp-in IMAGE DIR /`)";
/// Pages with which any metadata have place.
const ROOMY: u64 = 1 << 20;

/// What the file system `name` said to growing.
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

/// An image that is open, with what is needed to mount it.
pub struct OpenImage {
    /// The image.
    pub image: Image,
    /// Its devices.
    pub devices: Devices,
    /// Its file system.
    pub entry: &'static FsEntry,
    /// The host of the testbed that it was made from, with its mount options, which images have since format 3; before, as that
    /// testbed is now (or the default one, where it is gone). The devices are the image's own.
    pub testbed: Testbed,
    /// Nothing of it changes.
    read_only: bool,
    /// What to tell of the host: that its testbed is gone.
    pub note: Option<String>,
}

/// The host of an image, and what to tell of it.
fn host_of(meta: &ImageMeta) -> Result<(Testbed, Option<String>), LabError> {
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

/// What mkfs would refuse to make is refused when it is opened, by the same check: a header may come from anywhere.
fn judge_header(path: &Path, host: Testbed, devices: &ImageDevices) -> Result<Testbed, LabError> {
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

/// Whose host images of earlier formats have where their testbed is gone; where only keys are looked up any would do.
const DEFAULT_TESTBED: &str = "bytefs-emulator";

impl OpenImage {
    /// Opens the image at `path`.
    ///
    /// # Errors
    /// The image's; a file system that is not in the registry.
    pub fn open(path: &Path, durability: Durability, read_only: bool) -> Result<OpenImage, LabError> {
        OpenImage::open_on(&at(path), durability, read_only)
    }

    fn open_on(
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
    /// What is wrong with one; one that changes the drive, which is the image's.
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

    /// The vfs configuration of the image's testbed for use on the wall clock, where `date` is the present date and at
    /// most `page_cache` of memory is for file pages.
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

    fn close_unused_or_used(self, used: bool) -> Result<(), LabError> {
        if !used {
            self.close_unused();
            return Ok(());
        }
        let OpenImage { image, devices, .. } = self;
        drop(devices);
        Ok(image.close()?)
    }

    /// Closes the image after a mount or a repair that failed: it is clean if it was. Nobody hears how that went, because there
    /// is an error to tell already; an image that is not clean recovers.
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
/// The image's. A file system of ours in it, unless it is `forced` or nothing can be changed: who writes blocks does not
/// know of it.
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

/// What a check of an image found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// One sentence for each thing that is wrong.
    pub wrong: Vec<String>,
    /// It was not closed cleanly.
    pub unclean: bool,
    /// Groups of changes replayed from the redo log; 0 after a clean close.
    pub replayed: u64,
    /// How far one gets with it.
    pub state: ImageState,
    /// Where other users of this machine get at it: that it is so, and what to do. Nothing is wrong with the image by that.
    pub exposed: Option<String>,
    /// Something to tell beside the findings. Nothing is wrong by it.
    pub note: Option<String>,
}

impl Findings {
    /// What opening the image told.
    pub(crate) fn opened(&mut self, image: &Image) {
        self.unclean = image.replayed().is_some();
        self.replayed = image.replayed().map_or(0, |r| r.groups);
        self.exposed = image.exposed();
    }
}

/// How far one gets with an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageState {
    /// Not even its drive can be used.
    #[default]
    Unusable,
    /// Its drive can be used, its file system (if it has one) not.
    Opens,
    /// Its files can be reached.
    Mounts,
}

/// Checks an image without changing it: its files, the drive, the file system after its recovery. Where the drive is not in
/// order all files are read, so that those which lost something are named.
///
/// # Errors
/// What keeps the check from being made: no image, in use, host errors. Damage is a finding.
pub fn check(path: &Path) -> Result<Findings, LabError> {
    let mut found = Findings::default();
    let place = at(path);
    // Persistent memory in front of a directory is checked with that: stack::check.
    let alone = |fs: &str| fs == BLANK || fs == crate::stack::NAME;
    if Image::describe_on(&*place).is_ok_and(|info| alone(&info.meta.fs)) {
        let (image, devices) = Image::open_on(place, options(Durability::Process, true))?;
        found.opened(&image);
        found.state = ImageState::Opens;
        let wrong = devices.drives().flat_map(|(_, drive)| drive.check().err().unwrap_or_default());
        found.wrong = wrong.collect();
        return Ok(found);
    }
    let open = match OpenImage::open_on(&place, Durability::Process, true) {
        Err(LabError::Image(e)) if is_finding(&e) => {
            found.wrong.push(e.to_string());
            return Ok(found);
        }
        other => other?,
    };
    found.opened(&open.image);
    let drive = |stage: &str, found: &mut Findings| {
        let wrong = open.devices.check().err().unwrap_or_default();
        found.wrong.extend(wrong.into_iter().map(|w| format!("{w}, {stage}")));
    };
    found.state = ImageState::Opens;
    drive("as it was left", &mut found);
    let damaged = !found.wrong.is_empty();
    let name = open.entry.name;
    match open.mount() {
        Err(e) => found.wrong.push(format!("{name} cannot be mounted: {e}")),
        Ok(fs) => {
            // Recovery may have changed things, which only memory has yet.
            match fs.sync(&Call::offline()).and_then(|()| fs.check(&Call::offline())) {
                Ok(wrong) => found.wrong.extend(wrong.into_iter().map(|w| format!("{name}: {w}"))),
                Err(e) => found.wrong.push(format!("{name} cannot be checked: {e}")),
            }
            drive("after recovery", &mut found);
            // No date: nothing is changed.
            match under_vfs(fs, open.vfs_config(Time(0), SCAN_CACHE)) {
                Err(e) => found.wrong.push(format!("{name}: its root directory cannot be reached: {e}")),
                Ok(vfs) => {
                    found.state = ImageState::Mounts;
                    if damaged {
                        found.wrong.extend(unreadable(&vfs));
                    }
                    // Ends its daemons; what it still writes is forgotten with everything else.
                    if let Err(e) = vfs.unmount() {
                        found.wrong.push(format!("{name} cannot be unmounted: {e}"));
                    }
                }
            }
        }
    }
    Ok(found)
}

/// Memory for pages while all files are read once.
const SCAN_CACHE: Bytes = Bytes::mib(64);

/// Reads all files: one sentence for each that cannot be read, and for each directory that cannot be listed.
fn unreadable(vfs: &Arc<Vfs>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut process = Process::new(vfs.clone(), Cred::ROOT);
    let mut dirs = vec![Vec::new()];
    while let Some(dir) = dirs.pop() {
        let at = if dir.is_empty() { b"/" } else { &dir[..] };
        let entries = process.list(at).unwrap_or_else(|e| {
            wrong.push(format!("{}: cannot be listed: {e}", quoted(at)));
            Vec::new()
        });
        for entry in entries.iter().filter(|e| e.name != b"." && e.name != b"..") {
            let path = [&dir[..], b"/", &entry.name].concat();
            match entry.kind {
                FileKind::Dir => dirs.push(path),
                FileKind::File => {
                    if let Err((pos, e)) = read_whole(&mut process, &path) {
                        wrong.push(format!("{}: cannot be read from byte {pos} on: {e}", quoted(&path)));
                    }
                }
                _ => {}
            }
        }
    }
    process.exit();
    wrong
}

/// The error has the place.
fn read_whole(process: &mut Process, path: &[u8]) -> Result<(), (u64, FsError)> {
    /// Read at once: the place of an error is exact to that.
    const PIECE: usize = 4096;
    let fd = process.open(path, OpenFlags::RDONLY | OpenFlags::NOATIME, 0).map_err(|e| (0, e))?;
    let mut pos = 0;
    let result = loop {
        match process.read(fd, Dest::Discard(PIECE)) {
            Ok(0) => break Ok(()),
            Ok(n) => pos += n as u64,
            Err(e) => break Err((pos, e)),
        }
    };
    process.close(fd).map_err(|e| (pos, e)).and(result)
}

/// A file in the image's directory, empty: files of the image may have access control lists.
const LISTS: &str = "acls";

/// Notes that files of an image may have access control lists from now on; durable before the first one can be.
///
/// # Errors
/// The host's.
pub fn note_lists(image: &Image) -> Result<(), LabError> {
    Ok(image.note(LISTS)?)
}

/// Whether files of an image may have access control lists: who does not look at them must not let anybody in by the mode,
/// whose group bits are then the mask.
pub fn may_have_lists(image: &Image) -> bool {
    image.has_note(LISTS)
}

/// Mends the file system of an image that nobody has open, and closes the image. Where it cannot, nothing has changed.
///
/// # Errors
/// A file system that has no repair; a superblock that is damaged; the image's and the drive's errors.
pub fn repair(path: &Path) -> Result<Repaired, LabError> {
    // Whatever it would fail at it fails at here.
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
    // What was written anew may be in the drive's memory only: until it is in flash, there is the page that cannot be read.
    open.devices.settle(granary_sim::now()).map_err(|e| LabError::fs(open.entry.name, "repair")(e.into()))?;
    let OpenImage { image, devices, .. } = open;
    drop(devices);
    image.close()?;
    Ok(repaired)
}

/// One call on the checkpoints of an image that nobody uses.
///
/// # Errors
/// A file system that has none, a number that there is not, the end of a snapshot; the image's and the file system's errors.
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

/// What [`repair`] would do, without doing it; `None` for a file system that has none.
///
/// # Errors
/// As there.
pub fn rehearse(path: &Path) -> Result<Option<Repaired>, LabError> {
    rehearse_on(&at(path))
}

fn rehearse_on(place: &Arc<dyn ImageHost>) -> Result<Option<Repaired>, LabError> {
    mend(&OpenImage::open_on(place, Durability::Process, true)?)
}

fn mend(open: &OpenImage) -> Result<Option<Repaired>, LabError> {
    let mended = open.entry.repair.map(|repair| repair(&open.devices));
    mended.transpose().map_err(LabError::fs(open.entry.name, "repair"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_image_whose_testbed_is_gone_says_whose_host_it_has() {
        let meta =
            |testbed: &str, host| ImageMeta { testbed: testbed.to_owned(), host, ..ImageMeta::default() };
        let (host, note) = host_of(&meta("no-such.toml", None)).expect("a host");
        let default = Testbed::load(DEFAULT_TESTBED, &[]).expect("built in");
        assert_eq!(host, default);
        let note = note.expect("told");
        assert!(note.contains("no-such.toml") && note.contains(DEFAULT_TESTBED), "{note}");
        assert_eq!(host_of(&meta("cxl", None)).expect("built in").1, None);
        let own = Some(default.host.table(&default.fs).expect("plain"));
        assert_eq!(host_of(&meta("no-such.toml", own)).expect("its own"), (default, None));
    }
}
