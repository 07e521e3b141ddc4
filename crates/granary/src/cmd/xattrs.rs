//! Extended attributes between this machine and an image, for `cp-in` and `cp-out`; POSIX ACLs are among
//! them.
//!
//! An attribute that the other side does not take (another kind of file system, no privilege) is left out
//! with a message.

use super::files::{failed, host_failed};
use granary_fs::{FsError, SetXattr, quoted};
use granary_image::Image;
use granary_lab::LabError;
use granary_lab::image::note_lists;
use granary_vfs::{Posix, Process};
use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Largest list of names and largest value of Linux (XATTR_LIST_MAX, XATTR_SIZE_MAX in `linux/limits.h`).
const MOST: usize = 64 << 10;

/// How the names of access control lists begin (`linux/xattr.h`).
const LISTS: &[u8] = b"system.posix_acl_";

/// From the host's file `from`, which is no symbolic link.
pub fn into_image(image: &Image, process: &mut Process, from: &Path, to: &[u8]) -> Result<(), LabError> {
    let mut names = vec![0; MOST];
    let len = match listxattr(from, &mut names[..]) {
        Ok(len) => len,
        Err(Errno::NOTSUP) => return Ok(()),
        Err(e) => return Err(host_failed("listing the attributes of", from)(e.into())),
    };
    let mut value = vec![0; MOST];
    for name in names[..len].split(|&b| b == 0).filter(|n| !n.is_empty()) {
        let len = match getxattr(from, name, &mut value[..]) {
            Ok(len) => len,
            // Gone since, or not for us.
            Err(Errno::NODATA | Errno::PERM) => continue,
            Err(e) => return Err(host_failed("reading an attribute of", from)(e.into())),
        };
        if name.starts_with(LISTS) && !matches!(process.getxattr(to, name), Err(FsError::NotSupported)) {
            note_lists(image)?;
        }
        match process.setxattr(to, name, &value[..len], SetXattr::Any) {
            Err(FsError::NotSupported) => left_out(name, from),
            other => other.map_err(failed("giving an attribute to", to))?,
        }
    }
    Ok(())
}

/// To the host's file `to`, which is no symbolic link.
pub fn out_of_image(process: &mut Process, from: &[u8], to: &Path) -> Result<(), LabError> {
    let names = match process.listxattr(from) {
        Err(FsError::NotSupported) => return Ok(()),
        names => names.map_err(failed("listing the attributes of", from))?,
    };
    for name in names {
        let value = process.getxattr(from, &name).map_err(failed("reading an attribute of", from))?;
        match setxattr(to, &name[..], &value, XattrFlags::empty()) {
            Err(Errno::NOTSUP | Errno::PERM) => left_out(&name, to),
            other => other.map_err(|e| host_failed("giving an attribute to", to)(e.into()))?,
        }
    }
    Ok(())
}

fn left_out(name: &[u8], path: &Path) {
    say!("granary: attribute {} of {} is left out", quoted(name), quoted(path.as_os_str().as_bytes()));
}
