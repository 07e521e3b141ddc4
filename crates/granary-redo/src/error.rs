//! [`ImageError`]: why an image cannot be made, opened or written, and what to do about it.

use super::host::members::Irregular;
use std::io;
use std::path::{Path, PathBuf};

/// Why an image cannot be made, opened or written. Every message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// There is nothing at this path.
    #[error("there is no image at {0}: make one with `granary mkfs {0}`", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// The path holds something else.
    #[error("{} is no Granary image ({why}): check the path, or make an image elsewhere with `granary mkfs IMAGE`", path.display())]
    Foreign {
        /// The path.
        path: PathBuf,
        /// How that was seen.
        why: String,
    },
    /// A file of the image is something else, or not its own.
    #[error(
        "{doing}: {name} is {what}: an image is a directory of regular files, and nothing is reached through another way; remove \
         {name} if you did not put it there, or copy the files themselves (cp -rL)"
    )]
    Member {
        /// Operation that failed.
        doing: String,
        /// The name in the image's directory.
        name: String,
        /// File type found in its place.
        what: &'static str,
    },
    /// Files of the image are truncated or hold what was never written.
    #[error(
        "the image is damaged: {file}: {check}; restore the image from a copy, or make it anew with `granary mkfs IMAGE --force`"
    )]
    Damaged {
        /// The file of the image directory.
        file: &'static str,
        /// The check that failed, with the evidence.
        check: String,
    },
    /// A file of the image is another image's, or of another time than the rest.
    #[error(
        "{file} does not belong to this image as it is: {why}; put back the {file} that was here, or restore all files of the image \
         from one copy"
    )]
    Mixed {
        /// The file of the image directory.
        file: &'static str,
        /// How that was seen.
        why: String,
    },
    /// Written by a later version.
    #[error("{} has image format {found}, this program reads up to {known}: use a newer granary", path.display())]
    Newer {
        /// The path.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest one known here.
        known: u32,
    },
    /// Written by an earlier version.
    #[error(
        "{} has image format {found}, this program reads format {known}: copy its files out with the granary that made it \
         (`granary cp-out IMAGE / DIR`), and into a new image", path.display()
    )]
    Older {
        /// The path.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The one known here.
        known: u32,
    },
    /// Another process has the image open.
    #[error("{} is in use{}: unmount it first, or wait for that process{}", path.display(), by(*pid), also(exposed))]
    InUse {
        /// The path.
        path: PathBuf,
        /// The process, where it could be found out.
        pid: Option<u32>,
        /// Where other users get at the image, and so at its lock: that it is so, and what to do.
        exposed: Option<String>,
    },
    /// There is an image already.
    #[error("{} exists already: choose another path, or give --force to make the image anew", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// The header describes no device.
    #[error("{why}; the image's header contradicts itself: make it anew with `granary mkfs IMAGE --force`")]
    Geometry {
        /// The contradiction.
        why: String,
    },
    /// The header has values with which no image is made.
    #[error(
        "{}: image.toml: {why}; no image is made with such a value: put back the image.toml that mkfs wrote, or that of a copy",
        path.display()
    )]
    Header {
        /// The path.
        path: PathBuf,
        /// The key, and its range.
        why: String,
    },
    /// The wanted device is impossible.
    #[error("{0}")]
    Config(String),
    /// The host's disk is full.
    #[error(
        "no space left on the host's disk while {doing}: free some and try again; the image has lost nothing"
    )]
    NoSpace {
        /// Operation that failed.
        doing: String,
    },
    /// The host forbids it.
    #[error("permission denied while {doing}: check owner and mode of the image directory and its files")]
    Permission {
        /// Operation that failed.
        doing: String,
    },
    /// The image lies on a file system of the host that is mounted for reading only.
    #[error(
        "the host's file system is read-only (while {doing}): use --read-only where the command has it, or copy the image to where \
         it can be written"
    )]
    ReadOnlyHost {
        /// Operation that failed.
        doing: String,
    },
    /// Another host error.
    #[error("{doing}: {source}; check the host's disk and its messages (dmesg), then try again")]
    Host {
        /// Operation that failed.
        doing: String,
        /// Error of the host.
        source: io::Error,
    },
    /// The image stopped taking changes earlier.
    #[error("the image takes no more changes: {reason}; unmount, put that right and open it again")]
    Stopped {
        /// Why.
        reason: String,
    },
}

fn by(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |p| format!(" by process {p}"))
}

fn also(exposed: &Option<String>) -> String {
    exposed.as_ref().map_or_else(String::new, |e| format!("; {e}"))
}

impl ImageError {
    /// The error for a host error while `doing`.
    pub fn host(doing: impl Into<String>, source: io::Error) -> ImageError {
        let doing = doing.into();
        if let Some(Irregular { name, what }) = source.get_ref().and_then(|e| e.downcast_ref()) {
            return ImageError::Member { doing, name: name.clone(), what };
        }
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                ImageError::NoSpace { doing }
            }
            io::ErrorKind::PermissionDenied => ImageError::Permission { doing },
            io::ErrorKind::ReadOnlyFilesystem => ImageError::ReadOnlyHost { doing },
            _ => ImageError::Host { doing, source },
        }
    }

    /// A check of a file has failed, with the evidence.
    pub fn damaged(file: &'static str, check: impl Into<String>) -> ImageError {
        ImageError::Damaged { file, check: check.into() }
    }

    /// Error for a path that holds no image.
    pub fn foreign(path: &Path, why: impl Into<String>) -> ImageError {
        ImageError::Foreign { path: path.to_owned(), why: why.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_file_system_of_the_host_is_not_called_a_matter_of_modes() {
        let said = |kind: io::ErrorKind| ImageError::host("opening flash", kind.into()).to_string();
        assert!(said(io::ErrorKind::ReadOnlyFilesystem).contains("--read-only"));
        assert!(said(io::ErrorKind::PermissionDenied).contains("owner and mode"));
    }
}
