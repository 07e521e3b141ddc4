//! `granary grow IMAGE|DIR --size N`: an image that nobody uses is grown here, a mounted one by the process
//! that serves it.
//!
//! ```text
//!   IMAGE   grown here; in use: IMAGE/control
//!   DIR     its counters tell which directory the image is in, and where its server has that open; never
//!           grown here:
//!           what the mount table calls its source may be another image by now
//! ```

use crate::cmd::control::{self, Request};
use crate::cmd::files::warn;
use crate::cmd::live;
use crate::cmd::serve;
use crate::failure::Failure;
use granary_image::{Image, ImageError};
use granary_lab::LabError;
use granary_lab::image::{Grown, grow};
use granary_mount::mountinfo;
use granary_units::Bytes;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Runs the command.
pub fn run(path: &Path, size: Bytes) -> Result<(), Failure> {
    let grown = match mounted(path)? {
        Some(source) if source.starts_with("ram:") => {
            return Err(Failure::usage(format!(
                "{}: {source} is in memory and keeps its size: mount it anew with another --size, or use an image",
                path.display()
            )));
        }
        Some(source) => grow_mounted(path, Path::new(&source), size)?,
        None => match super::serve::when_free(path, || grow(path, size)) {
            Err(LabError::Image(ImageError::InUse { .. })) => {
                let dir = live::open_dir(path).map_err(|e| Failure::io(path.display(), e))?;
                ask(dir.as_fd(), path, size)?
            }
            other => {
                warn(Image::describe(path)?.exposed.as_deref());
                other?
            }
        },
    };
    let Grown { before, after } = grown;
    match after == before {
        true => say!("{}: its drive has {after} already", path.display()),
        false => say!("{}: {after} now, was {before}", path.display()),
    }
    Ok(())
}

/// The source that we have mounted on a directory.
fn mounted(path: &Path) -> Result<Option<String>, Failure> {
    // Where there is no such path, the error of the image will be reported.
    let Ok(plain) = mountinfo::locate(path) else { return Ok(None) };
    let mount = mountinfo::ours(&plain).map_err(|e| Failure::io("reading /proc/self/mountinfo", e))?;
    Ok(mount.map(|m| serve::image_of(&m.source).to_owned()))
}

/// Has the process that serves the mount on `path` grow its image.
fn grow_mounted(path: &Path, source: &Path, size: Bytes) -> Result<Grown, Failure> {
    let stats = live::look(path)?;
    let dir = stats.directory.and_then(|it| it.open(stats.pid, source)).ok_or_else(|| {
        Failure::usage(format!(
            "{0}: the image was moved while mounted: it is no longer {1}, and its process, {2}, does not tell us where it is; say \
             `granary grow IMAGE --size {3}` with its path, or unmount it first (`granary umount {0}`)",
            path.display(),
            source.display(),
            stats.pid,
            size
        ))
    })?;
    ask(dir.as_fd(), source, size)
}

fn ask(dir: BorrowedFd<'_>, image: &Path, size: Bytes) -> Result<Grown, Failure> {
    control::ask(dir, image, Request::Grow(size))?.ok_or_else(|| {
        Failure::usage(format!(
            "{0}: in use by a process that takes no requests (a mount that only reads, an export, another command): end that \
             (`granary umount DIR`), then grow the image (`granary grow {0} --size {size}`)",
            image.display()
        ))
    })
}
