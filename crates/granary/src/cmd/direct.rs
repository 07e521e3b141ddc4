//! Where a mount and its programs meet for direct access.
//!
//! ```text
//!   granary mount --direct:   a socket in a directory of this user,      its path is in the mount's counters
//!                             or of the system
//!   granary exec DIR:         asks the mount on DIR for its counters     so nobody else can pose as it
//!                             ──> the path
//! ```

use crate::failure::Failure;
use rustix::io::Errno;
use rustix::process::{Pid, geteuid, getpid, test_kill_process};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Removes sockets that killed mounts of this user have left: those whose process is gone. A socket that
/// cannot be removed stays.
fn sweep(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|n| n.strip_prefix("granary-")?.strip_suffix(".sock"));
        let Some(pid) = number.and_then(|n| n.parse().ok()).and_then(Pid::from_raw) else { continue };
        let gone = test_kill_process(pid) == Err(Errno::SRCH);
        let ours = |m: &fs::Metadata| m.file_type().is_socket() && m.uid() == geteuid().as_raw();
        if gone && entry.metadata().is_ok_and(|m| ours(&m)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The path for this mount's socket; one that an earlier process of this number has left is removed.
/// `others`: other users must be able to reach it.
///
/// # Errors
/// Something else is there.
pub fn socket(others: bool) -> Result<PathBuf, Failure> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = if geteuid().is_root() { Some(PathBuf::from("/run")) } else { runtime.filter(|_| !others) };
    let dir = own.filter(|dir| dir.is_dir()).unwrap_or_else(std::env::temp_dir);
    sweep(&dir);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_processes_that_are_gone_are_removed_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        // The largest number of a process is 2^22 (PID_MAX_LIMIT).
        let (gone, alive) =
            (format!("granary-{}.sock", 1 << 23), format!("granary-{}.sock", std::process::id()));
        for name in [&gone, &alive, "other.sock"] {
            std::os::unix::net::UnixListener::bind(at(name)).expect("bound");
        }
        fs::write(at("granary-8388609.sock"), "no socket").expect("written");
        sweep(dir.path());
        assert!(!at(&gone).exists());
        assert!([&alive, "other.sock", "granary-8388609.sock"].iter().all(|name| at(name).exists()));
    }
}
