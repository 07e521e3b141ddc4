//! [`LoopDevice`]: the exported file as a block device, through the program `losetup`.
//!
//! Direct (no page cache between the loop device and the file), with sectors of 4 KiB: every request is of
//! whole pages.

use crate::failure::Failure;
use granary_mount::mountinfo;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device of ours; dropped, it is detached (when its last user lets go of it).
pub struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// Over the file at `path`.
    ///
    /// # Errors
    /// The kernel's module, `losetup` or root is missing; the message names it.
    pub fn over(path: &Path, read_only: bool) -> Result<LoopDevice, Failure> {
        check()?;
        let mut command = Command::new("losetup");
        command.args(["--find", "--show", "--direct-io=on", "--sector-size", "4096"]);
        if read_only {
            command.arg("--read-only");
        }
        let out = command.arg(path).output().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                Failure::usage("losetup was not found: install util-linux (package util-linux or mount)")
            }
            _ => Failure::io("losetup", e),
        })?;
        let told = |b: &[u8]| String::from_utf8_lossy(b).trim().to_owned();
        if !out.status.success() {
            return Err(Failure::usage(format!(
                "no loop device over {}: {}; run as root, in a container with --privileged",
                path.display(),
                told(&out.stderr)
            )));
        }
        Ok(LoopDevice { path: PathBuf::from(told(&out.stdout)) })
    }

    /// `/dev/loopN`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

/// Detaches all loop devices over the file at `path`.
///
/// # Errors
/// One of them is mounted.
pub fn detach_all(path: &Path) -> Result<(), Failure> {
    let Ok(out) = Command::new("losetup").args(["--noheadings", "--output", "NAME", "-j"]).arg(path).output()
    else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let devices: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    for device in &devices {
        let mount =
            mountinfo::of_source(device).map_err(|e| Failure::io("reading /proc/self/mountinfo", e))?;
        if let Some(m) = mount {
            let dir = m.mount_point.display();
            return Err(Failure::usage(format!(
                "{device}, which is {}, is mounted on {dir}: unmount that first (umount {dir})",
                path.display()
            )));
        }
    }
    for device in devices {
        let _ = Command::new("losetup").args(["--detach", device]).status();
    }
    Ok(())
}

/// Whether there are loop devices, for a caller who wants to know before much is done.
///
/// # Errors
/// They are missing, or not for us.
pub fn check() -> Result<(), Failure> {
    match std::fs::OpenOptions::new().read(true).write(true).open("/dev/loop-control") {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            Err(Failure::usage("/dev/loop-control cannot be opened: loop devices need root"))
        }
        Err(e) => Err(Failure::usage(format!(
            "/dev/loop-control: {e}: load the module (modprobe loop), or run the container with --privileged"
        ))),
    }
}
