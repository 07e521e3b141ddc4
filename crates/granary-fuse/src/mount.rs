//! Mounting: mount(2) where that is permitted, else the set-user-ID program `fusermount3`.
//!
//! ```text
//!   open /dev/fuse ── mount(source, dir, "fuse", "fd=N,rootmode=..,user_id=..,group_id=..,subtype=..")
//!                      └─ EPERM ── helper.rs
//! ```
//!
//! The kernel checks permissions (`default_permissions`) always.
//!
//! Source: mount(2); `fuse_fs_parameters` of the kernel's `fs/fuse/inode.c`.

use crate::abi::InitFlags;
use crate::device::Device;
use crate::helper;
use rustix::fd::AsRawFd;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount as mount_call, unmount as unmount_call};
use rustix::process::{getgid, getuid};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How to mount, and what to ask of the kernel.
#[derive(Clone, Debug, Default)]
pub struct MountConfig {
    /// The source that the mount table shows.
    pub source: String,
    /// The type that it shows, after `fuse.`.
    pub subtype: String,
    /// The kernel refuses changes.
    pub read_only: bool,
    /// Devices can be opened.
    pub dev: bool,
    /// Set-user-ID programs run as such.
    pub suid: bool,
    /// Others than the user who mounts may enter.
    pub allow_other: bool,
    /// Flags to ask of the kernel, beyond those that are always asked for.
    pub wanted: InitFlags,
    /// Bytes of the largest write.
    pub max_write: u32,
    /// Requests that the kernel may have under way without a caller waiting.
    pub max_background: u16,
}

impl MountConfig {
    /// Options that the kernel and the helper both understand.
    pub(crate) fn options(&self) -> String {
        let mut options = format!("subtype={},default_permissions", self.subtype);
        if self.allow_other {
            options += ",allow_other";
        }
        options
    }

    fn flags(&self) -> MountFlags {
        let mut flags = MountFlags::empty();
        flags.set(MountFlags::NODEV, !self.dev);
        flags.set(MountFlags::NOSUID, !self.suid);
        flags.set(MountFlags::RDONLY, self.read_only);
        flags
    }
}

/// Mounts on a directory.
///
/// # Errors
/// `PermissionDenied` and `NotFound` where neither root mounts nor a helper; anything else that the system
/// says.
pub(crate) fn mount(dir: &Path, config: &MountConfig) -> io::Result<Device> {
    let device = Device::open()?;
    let data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},{}",
        device.fd().as_raw_fd(),
        fs::metadata(dir)?.mode(),
        getuid().as_raw(),
        getgid().as_raw(),
        config.options()
    );
    let data = CString::new(data)?;
    match mount_call(config.source.as_str(), dir, "fuse", config.flags(), &*data) {
        Ok(()) => Ok(device),
        Err(Errno::PERM) => helper::mount(dir, config),
        Err(e) => Err(io::Error::other(io::Error::from(e))),
    }
}

/// Takes the mount out of sight.
pub(crate) fn unmount(dir: &Path) {
    // A mount that cannot be taken away ends with this process.
    if unmount_call(dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) == Err(Errno::PERM) {
        helper::unmount(dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_set_user_id_programs_are_to_be_asked_for() {
        let config = MountConfig { subtype: "x".to_owned(), ..MountConfig::default() };
        assert_eq!(config.flags(), MountFlags::NODEV | MountFlags::NOSUID);
        assert_eq!(config.options(), "subtype=x,default_permissions");
        let config = MountConfig { dev: true, suid: true, read_only: true, allow_other: true, ..config };
        assert_eq!(config.flags(), MountFlags::RDONLY);
        assert_eq!(config.options(), "subtype=x,default_permissions,allow_other");
    }
}
