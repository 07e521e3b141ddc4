//! Where a mount and its programs meet for direct access.
//!
//! ```text
//!   granary mount --direct:   a socket in a directory of this user, or of the system      its path is in the mount's counters
//!   granary exec DIR:         asks the mount on DIR for its counters ──> the path          so nobody else can pose as it
//! ```

use crate::failure::Failure;
use rustix::process::{geteuid, getpid};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

/// The path for this mount's socket; one that an earlier process of this number has left is removed. `others`: other users must
/// be able to reach it.
///
/// # Errors
/// Something else is there.
pub fn socket(others: bool) -> Result<PathBuf, Failure> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = if geteuid().is_root() { Some(PathBuf::from("/run")) } else { runtime.filter(|_| !others) };
    let dir = own.filter(|dir| dir.is_dir()).unwrap_or_else(std::env::temp_dir);
    let path = dir.join(format!("granary-{}.sock", getpid().as_raw_nonzero()));
    match fs::symlink_metadata(&path) {
        Ok(there) if there.file_type().is_socket() => {
            fs::remove_file(&path).map_err(|e| Failure::io(format!("removing {}", path.display()), e))?;
        }
        Ok(_) => return Err(Failure::usage(format!("{} is in the way: remove it", path.display()))),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(Failure::io(path.display(), e)),
    }
    Ok(path)
}
