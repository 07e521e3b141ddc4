//! Checks of an image.

use super::{BLANK, OpenImage, at, is_finding, options, under_vfs};
use crate::error::LabError;
use granary_fs::{Call, Cred, FileKind, FsError, Time, quoted};
use granary_image::{Durability, Image};
use granary_units::{Bytes, Dest};
use granary_vfs::{OpenFlags, Posix, Process, Vfs};
use std::path::Path;
use std::sync::Arc;

/// Findings of a check of an image.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// One sentence for each fault.
    pub wrong: Vec<String>,
    /// It was not closed cleanly.
    pub unclean: bool,
    /// Groups of changes replayed from the redo log; 0 after a clean close.
    pub replayed: u64,
    /// How far one gets with it.
    pub state: ImageState,
    /// Where other users of this machine get at it: that it is so, and what to do. Nothing is wrong with the
    /// image by that.
    pub exposed: Option<String>,
    /// Something to tell beside the findings. Nothing is wrong by it.
    pub note: Option<String>,
}

impl Findings {
    /// Takes over the findings of opening the image.
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

/// Checks an image without changing it: its files, the drive, the file system after its recovery. Where the
/// drive is not in order all files are read, so that the damaged ones are named.
///
/// # Errors
/// No check can be made: no image, in use, host errors. Damage is a finding.
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
pub(super) const SCAN_CACHE: Bytes = Bytes::mib(64);

/// Reads all files: one sentence for each that cannot be read, and for each directory that cannot be listed.
pub(super) fn unreadable(vfs: &Arc<Vfs>) -> Vec<String> {
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
pub(super) fn read_whole(process: &mut Process, path: &[u8]) -> Result<(), (u64, FsError)> {
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
