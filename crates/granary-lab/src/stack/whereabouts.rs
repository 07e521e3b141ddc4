//! Where the directory of an image is: in the file `below` beside those of the image, so that a message can
//! say it.
//!
//! A hint for people: nothing is opened by it. It is the directory's path at the last mount, which may have
//! been moved since.

use super::NAME;
use granary_fs::quoted;
use granary_image::Image;
use granary_image::host::Host;
use granary_image::host::disk::DiskHost;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The file.
const BELOW: &str = "below";
/// No path is longer: PATH_MAX of `linux/limits.h`.
const LONGEST: u64 = 4096;

/// Whether an image is persistent memory in front of a directory.
pub fn is_stacked(image: &Path) -> bool {
    Image::describe(image).is_ok_and(|info| info.meta.fs == NAME)
}

/// Writes down where the directory is. A host that has no room for it must not keep anybody from mounting.
pub(super) fn remember(image: &Path, dir: &Path) {
    let Ok(dir) = dir.canonicalize() else { return };
    if directory(image).as_ref() != Some(&dir) {
        let _ = DiskHost::new(image).replace(BELOW, dir.as_os_str().as_bytes());
    }
}

/// Where the directory of an image was at the last mount.
pub fn directory(image: &Path) -> Option<PathBuf> {
    let read = || -> io::Result<Vec<u8>> {
        let file = DiskHost::new(image).open(BELOW, true)?;
        let mut path = vec![0; file.len()?.min(LONGEST) as usize];
        file.read_at(0, &mut path)?;
        Ok(path)
    };
    read().ok().filter(|path| !path.is_empty()).map(|path| OsString::from_vec(path).into())
}

/// The same as a word of a command line; `DIR` where the image does not know it.
pub fn directory_shown(image: &Path) -> String {
    directory(image).map_or_else(|| "DIR".to_owned(), |dir| quoted(dir.as_os_str().as_bytes()).to_string())
}
