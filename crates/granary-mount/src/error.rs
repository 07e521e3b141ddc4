//! [`MountError`]: why a directory could not be mounted or unmounted. Every message ends with what to do.

use granary_fs::FsError;
use std::io;
use std::path::PathBuf;

/// Why a mount did not come about, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// `/dev/fuse` is not there.
    #[error(
        "/dev/fuse does not exist: load the module (modprobe fuse), or in a container pass --device /dev/fuse"
    )]
    NoDevice,
    /// `/dev/fuse` is something else.
    #[error(
        "/dev/fuse is not the FUSE device: remove it, and make it anew (mknod -m 666 /dev/fuse c 10 229)"
    )]
    OtherDevice,
    /// `/dev/fuse` may not be opened.
    #[error("/dev/fuse cannot be opened ({0}): run as root, or ask for read and write permission on it")]
    DeviceDenied(io::Error),
    /// The system refused to mount.
    #[error(
        "mounting on {dir} was not permitted: run as root, install fusermount3 (package fuse3), or in a container add \
         --cap-add SYS_ADMIN; allowing other users needs 'user_allow_other' in /etc/fuse.conf unless root mounts"
    )]
    NotPermitted {
        /// The directory.
        dir: PathBuf,
    },
    /// The system refused to unmount.
    #[error(
        "unmounting {dir} was not permitted: run as root, or as the user who mounted it, with fusermount3 (package fuse3)"
    )]
    UnmountNotPermitted {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory does not exist.
    #[error("{0} does not exist: make it first (mkdir)")]
    NoDirectory(PathBuf),
    /// The directory of which something is to be unmounted does not exist.
    #[error("{0} does not exist, so nothing is mounted there: `grep granary /proc/mounts` lists what is")]
    NothingThere(PathBuf),
    /// The path is not a directory.
    #[error("{0} is not a directory: give an empty directory to mount on")]
    NotADirectory(PathBuf),
    /// The directory has entries, which the mount would hide.
    #[error("{0} is not empty: give an empty directory, the mount would hide what is in it")]
    NotEmpty(PathBuf),
    /// Something is mounted there.
    #[error("{dir} is busy: {what} is mounted there; unmount it first (`granary umount {dir}`)")]
    Busy {
        /// The directory.
        dir: PathBuf,
        /// The source of the mount.
        what: String,
    },
    /// Programs use the mount.
    #[error(
        "{0} is in use: end the programs that have files open or work in it (fuser -vm {0} lists them), or unmount lazily"
    )]
    InUse(PathBuf),
    /// Nothing of ours is mounted there.
    #[error("{0} is not a mounted granary file system: see `grep granary /proc/mounts`")]
    NotMounted(PathBuf),
    /// A request ended in a panic.
    #[error(
        "{0}: the mount has written nothing since; mount again, which recovers as after a power failure, and report this"
    )]
    Panicked(String),
    /// The file system below failed.
    #[error("the file system failed: {0}")]
    FileSystem(#[from] FsError),
    /// Anything else that the system says.
    #[error("{what}: {source}")]
    Io {
        /// The step that failed.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
}

impl MountError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> MountError {
        let what = what.into();
        move |source| MountError::Io { what, source }
    }
}
