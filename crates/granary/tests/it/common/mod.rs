//! A place for tests that mount images.

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory with a place to mount on, unmounted lazily whatever happens.
pub struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Option<Place> {
        if !Path::new("/dev/fuse").exists() {
            granary_suite::skip::skipped("/dev/fuse is missing");
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("mnt")).expect("mkdir");
        Some(Place { dir })
    }

    /// Where the commands run.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs granary; its standard output and error.
    pub fn runs(&self, args: &[&str], code: i32) -> (String, String) {
        let out =
            Command::cargo_bin("granary").expect("built").args(args).current_dir(self.dir.path()).output();
        let out = out.expect("runs");
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
        assert_eq!(out.status.code(), Some(code), "granary {args:?}: {stdout}{stderr}");
        (stdout, stderr)
    }

    /// Runs granary, however it ends: the code, and what it said on both.
    pub fn ends(&self, args: &[&str]) -> (Option<i32>, String) {
        let out =
            Command::cargo_bin("granary").expect("built").args(args).current_dir(self.dir.path()).output();
        let out = out.expect("runs");
        let said = [&out.stdout[..], &out.stderr].concat();
        (out.status.code(), String::from_utf8_lossy(&said).into_owned())
    }

    pub fn stats(&self) -> Value {
        serde_json::from_str(&self.runs(&["stat", "--json", "mnt"], 0).0).expect("JSON")
    }

    /// The process that serves the mount.
    pub fn server(&self) -> String {
        self.stats()["pid"].as_u64().expect("a number").to_string()
    }

    /// Kills that process; on return the kernel has noticed.
    pub fn kill_server(&self) {
        signal(&self.server(), "-9");
        while fs::read_dir(self.path("mnt")).is_ok() {
            std::thread::yield_now();
        }
    }
}

/// Unmounts by umount(8). A child that another test has just forked has our files open until it executes its
/// program: then the mount is busy for a moment.
#[allow(clippy::disallowed_methods)] // other processes live on the wall clock
pub fn umount8(what: impl AsRef<std::ffi::OsStr>) {
    let what = what.as_ref();
    for _ in 0..200 {
        let out = std::process::Command::new("umount").arg(what).env("LC_ALL", "C").output().expect("runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        if out.status.success() {
            return;
        }
        assert!(said.contains("busy"), "umount {}: {said}", what.display());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{} is busy for two seconds", what.display());
}

/// Sends a signal (`-9`) to a process.
pub fn signal(pid: &str, name: &str) {
    assert!(std::process::Command::new("kill").args([name, pid]).status().expect("kill").success());
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.path("mnt"), rustix::mount::UnmountFlags::DETACH);
    }
}
