//! `granary grow IMAGE|DIR --size N`: an image that nobody uses is grown here, a mounted one by the process that serves it.

use crate::cmd::control::{self, Request};
use crate::failure::Failure;
use granary_lab::LabError;
use granary_lab::image::{Grown, grow};
use granary_mount::mountinfo;
use granary_mssd::image::ImageError;
use granary_units::Bytes;
use std::path::{Path, PathBuf};

/// Runs the command.
pub fn run(path: &Path, size: Bytes) -> Result<(), Failure> {
    let image = match mounted(path)? {
        Some(source) if source.starts_with("ram:") => {
            return Err(Failure::usage(format!(
                "{}: {source} is in memory and keeps its size: mount it anew with another --size, or use an image",
                path.display()
            )));
        }
        Some(source) => PathBuf::from(source),
        None => path.to_owned(),
    };
    // The mount may be that of a process that died.
    let grown = match grow(&image, size) {
        Err(LabError::Image(ImageError::InUse { .. })) => ask(&image, size)?,
        other => other?,
    };
    let Grown { before, after } = grown;
    match after == before {
        true => say!("{}: its drive has {after} already", path.display()),
        false => say!("{}: {after} now, was {before}", path.display()),
    }
    Ok(())
}

/// What is mounted on a directory, by us.
fn mounted(path: &Path) -> Result<Option<String>, Failure> {
    // Where there is nothing, no image is what will be reported.
    let Ok(plain) = mountinfo::locate(path) else { return Ok(None) };
    let mount = mountinfo::ours(&plain).map_err(|e| Failure::io("reading /proc/self/mountinfo", e))?;
    Ok(mount.map(|m| m.source))
}

fn ask(image: &Path, size: Bytes) -> Result<Grown, Failure> {
    control::ask(image, Request::Grow(size))?.ok_or_else(|| {
        Failure::usage(format!(
            "{0}: in use by a process that takes no requests (a mount that only reads, an export, another command): end that \
             (granary umount), then grow the image (granary grow {0})",
            image.display()
        ))
    })
}
