//! [`Mount`], and a mount table of our own ([`private_mounts`]): no mount is left behind.
//!
//! Mounts are made where nobody else sees them, and they are gone with the process, however it ends.

use super::kind::Kind;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Set in the process that has a mount table of its own.
const PRIVATE: &str = "GRANARY_CRASH_PRIVATE";
/// How often an unmount is tried that finds the file system in use, for a millisecond each.
const TRIES: u32 = 2000;

/// A mounted file system of the kernel; dropped, it is unmounted.
pub struct Mount {
    dir: Option<PathBuf>,
}

/// Waits.
#[allow(clippy::disallowed_methods, reason = "the kernel tells nobody when it lets go")]
pub fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

impl Mount {
    /// Mounts `device` on `dir`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(kind: &Kind, device: &Path, dir: &Path) -> Result<Mount, Errno> {
        let options = CString::new(kind.options).map_err(|_| Errno::INVAL)?;
        mount(device, dir, kind.name, MountFlags::empty(), options.as_c_str())?;
        Ok(Mount { dir: Some(dir.to_owned()) })
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn end(mut self) -> Result<(), Errno> {
        let Some(dir) = self.dir.take() else { return Ok(()) };
        for _ in 0..TRIES {
            match unmount(&dir, UnmountFlags::NOFOLLOW) {
                Err(Errno::BUSY) => pause(),
                other => return other,
            }
        }
        unmount(&dir, UnmountFlags::DETACH)?;
        Err(Errno::BUSY)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(dir) = self.dir.take() {
            let _ = unmount(&dir, UnmountFlags::DETACH);
        }
    }
}

/// Begins this program again with a mount table of its own, unless that is done; without `unshare` nothing
/// happens.
pub fn private_mounts() {
    if std::env::var_os(PRIVATE).is_some() {
        // The copy of the table would keep other people's mounts of ours alive behind their unmount.
        for point in granary_mount::mountinfo::all_ours() {
            let _ = unmount(&point, UnmountFlags::DETACH);
        }
        return;
    }
    let Ok(me) = std::env::current_exe() else { return };
    let mut again = Command::new("unshare");
    again.args(["--mount", "--propagation", "private", "--"]).arg(me);
    // Comes back only where it failed.
    let _ = again.args(std::env::args_os().skip(1)).env(PRIVATE, "1").exec();
}
