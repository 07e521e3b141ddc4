//! `granary export`: the kernel's own file systems on our drive. Root, /dev/fuse, loop devices and the mkfs
//! programs are needed; what is missing is said and skipped.
//!
//! ```text
//!   granary export ─> DIR/drive ─> losetup ─> mkfs ─> mount ─> a tree ─> umount ─> mount ─> the same tree
//! ```

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// A file system of the kernel: the name, how it is made, how it is checked.
struct Kind {
    name: &'static str,
    mkfs: &'static [&'static str],
    fsck: &'static [&'static str],
}

const KINDS: [Kind; 3] = [
    Kind { name: "ext4", mkfs: &["mkfs.ext4", "-q", "-F"], fsck: &["e2fsck", "-f", "-n"] },
    Kind { name: "xfs", mkfs: &["mkfs.xfs", "-q", "-f"], fsck: &["xfs_repair", "-n"] },
    Kind { name: "btrfs", mkfs: &["mkfs.btrfs", "-q", "-f"], fsck: &["btrfs", "check", "--readonly"] },
];

/// Directories for one test, taken apart in the right order whatever happens.
struct Place {
    dir: tempfile::TempDir,
}

fn text(b: &[u8]) -> String {
    String::from_utf8_lossy(b).into_owned()
}

/// Runs a program; nobody waits for it for more than two minutes.
fn program(args: &[&str]) -> Output {
    Command::new("timeout").arg("120").args(args).output().expect("timeout runs")
}

fn good(args: &[&str]) -> String {
    let out = program(args);
    assert!(out.status.success(), "{args:?}: {}{}", text(&out.stdout), text(&out.stderr));
    text(&out.stdout)
}

fn there(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|p| p.join(program).exists())
}

impl Place {
    fn new() -> Option<Place> {
        let missing = ["/dev/fuse", "/dev/loop-control"].into_iter().find(|p| !Path::new(p).exists());
        if let Some(missing) = missing {
            granary_suite::skip::skipped(format_args!("{missing} is missing"));
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            granary_suite::skip::skipped("loop devices and mounts need root");
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        for d in ["drive", "mnt"] {
            fs::create_dir(dir.path().join(d)).expect("mkdir");
        }
        Some(Place { dir })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn at(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    /// Runs granary; its exit code, standard output and error.
    fn ends(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let granary = env!("CARGO_BIN_EXE_granary");
        let out =
            Command::new("timeout").arg("120").arg(granary).args(args).current_dir(self.dir.path()).output();
        let out = out.expect("runs");
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    }

    /// Runs granary, which must end with this code; its standard output and error.
    fn granary(&self, args: &[&str], code: i32) -> (String, String) {
        let (ended, stdout, stderr) = self.ends(args);
        assert_eq!(ended, Some(code), "granary {args:?}: {stdout}{stderr}");
        (stdout, stderr)
    }

    /// Exports in the background; the loop device.
    fn export(&self, args: &[&str]) -> String {
        let mut all = vec!["export", "--daemon", "--loop"];
        all.extend(args);
        all.push("drive");
        let (_, told) = self.granary(&all, 0);
        assert!(!told.contains("::"), "{told}");
        told.split(' ').next().expect("the device comes first").to_owned()
    }

    fn stats(&self) -> Value {
        serde_json::from_str(&self.granary(&["stat", "--json", "drive"], 0).0).expect("JSON")
    }

    fn mount(&self, device: &str) {
        good(&["mount", device, &self.at("mnt")]);
    }

    fn umount(&self) {
        good(&["umount", &self.at("mnt")]);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        use rustix::mount::{UnmountFlags, unmount};
        let _ = unmount(self.path("mnt"), UnmountFlags::DETACH);
        let out = program(&["losetup", "--noheadings", "--output", "NAME", "-j", &self.at("drive/drive")]);
        for device in text(&out.stdout).lines() {
            let _ = program(&["losetup", "--detach", device.trim()]);
        }
        let _ = unmount(self.path("drive"), UnmountFlags::DETACH);
    }
}

/// A tree: directories, small files, one of some megabytes, links, attributes.
fn grow(root: &Path, seed: u64) {
    for d in 0..5 {
        let dir = root.join(format!("dir{d}"));
        fs::create_dir_all(&dir).expect("mkdir");
        for f in 0..30u64 {
            fs::write(dir.join(format!("file{f}")), content(seed + f, f * 997)).expect("write");
        }
    }
    fs::write(root.join("large"), content(seed, 9_000_000)).expect("write");
    fs::hard_link(root.join("large"), root.join("dir1/again")).expect("link");
    std::os::unix::fs::symlink("dir0/file3", root.join("shortcut")).expect("symlink");
    fs::remove_file(root.join("dir2/file7")).expect("unlink");
}

fn content(seed: u64, len: u64) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(seed + 3) >> 3) as u8).collect()
}

/// Names and contents below `root`, sorted.
fn tree(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut out = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).expect("listed") {
            let path = entry.expect("an entry").path();
            let kind = fs::symlink_metadata(&path).expect("stat").file_type();
            let name = path.strip_prefix(root).expect("below").to_owned();
            if name == Path::new("lost+found") {
            } else if kind.is_dir() {
                todo.push(path);
                out.push((name, Vec::new()));
            } else if kind.is_symlink() {
                let to = fs::read_link(&path).expect("readlink");
                out.push((name, to.to_string_lossy().into_owned().into_bytes()));
            } else {
                out.push((name, fs::read(&path).expect("read")));
            }
        }
    }
    out.sort();
    out
}

fn make(kind: &Kind, device: &str) {
    let mut args = kind.mkfs.to_vec();
    args.push(device);
    good(&args);
}

#[test]
fn the_kernels_file_systems_keep_a_tree_on_our_drive() {
    let Some(place) = Place::new() else { return };
    for kind in &KINDS {
        if !there(kind.mkfs[0]) {
            granary_suite::skip::skipped(format_args!("{} is missing", kind.mkfs[0]));
            continue;
        }
        let device = place.export(&["--size", "512MiB", "ram:"]);
        make(kind, &device);
        place.mount(&device);
        grow(&place.path("mnt"), 1);
        let written = tree(&place.path("mnt"));
        assert!(written.len() > 150);
        let (_, busy) = place.granary(&["umount", "drive"], 2);
        assert!(busy.contains("is mounted on"), "{busy}");
        place.umount();
        let stats = place.stats();
        let to = &stats["host"]["block"]["write_bytes"];
        // The programs' side and the drive's side count the same bytes: nothing is amplified on the way.
        assert_eq!(stats["app"]["write_bytes"], to["data"], "{}", kind.name);
        assert!(to["data"].as_u64() > Some(9_000_000));
        place.mount(&device);
        assert!(tree(&place.path("mnt")) == written, "{}: not the same tree", kind.name);
        place.umount();
        let mut check = kind.fsck.to_vec();
        check.push(&device);
        good(&check);
        place.granary(&["umount", "drive"], 0);
    }
}

#[test]
fn what_was_synced_survives_the_death_of_the_export() {
    let Some(place) = Place::new() else { return };
    for kind in KINDS.iter().filter(|k| there(k.mkfs[0])) {
        place.granary(&["mkfs", kind.name, "--fs", "none", "--size", "512MiB"], 0);
        let device = place.export(&[kind.name]);
        make(kind, &device);
        place.mount(&device);
        grow(&place.path("mnt"), 2);
        let synced = tree(&place.path("mnt"));
        good(&["sync", "-f", &place.at("mnt")]);
        // Not synced: may be there or not, but must not harm the rest.
        for f in 0..200 {
            let _ = fs::write(place.path(&format!("mnt/late{f}")), content(f, 5000));
        }
        let pid = place.stats()["pid"].as_u64().expect("a number").to_string();
        good(&["kill", "-9", &pid]);
        // The kernel's file system sees a dead disk.
        let _ = program(&["umount", "-l", &place.at("mnt")]);
        good(&["losetup", "--detach", &device]);
        for _ in 0..200 {
            if program(&["umount", &place.at("drive")]).status.success() {
                break;
            }
            #[allow(clippy::disallowed_methods)] // the kernel lets go when it likes
            std::thread::sleep(Duration::from_millis(50));
        }
        let (_, told) = place.granary(&["stat", kind.name], 0);
        assert!(told.is_empty());
        let device = place.export(&[kind.name]);
        place.mount(&device); // replays the journal
        let found = tree(&place.path("mnt"));
        for (name, bytes) in &synced {
            let at = found.binary_search_by(|(n, _)| n.cmp(name));
            assert!(at.is_ok_and(|i| found[i].1 == *bytes), "{}: {} is not there", kind.name, name.display());
        }
        place.umount();
        let mut check = kind.fsck.to_vec();
        check.push(&device);
        good(&check);
        place.granary(&["umount", "drive"], 0);
        place.granary(&["fsck", kind.name], 0);
    }
}

#[test]
fn what_cannot_be_exported_is_said() {
    let Some(place) = Place::new() else { return };
    place.granary(&["mkfs", "ours", "--fs", "ext4", "--size", "256MiB"], 0);
    assert!(place.granary(&["export", "ours", "drive"], 2).1.contains("holds a ext4 file system"));
    assert!(place.granary(&["export", "ram:ext4", "drive"], 2).1.contains("say ram: alone"));
    assert!(place.granary(&["export", "nothing", "drive"], 2).1.contains("nothing"));
    place.granary(&["mkfs", "blank", "--fs", "none", "--size", "256MiB"], 0);
    assert!(place.granary(&["mount", "blank", "mnt"], 2).1.contains("granary export"));
    assert!(place.granary(&["export", "--record", "r", "blank", "drive"], 2).1.contains("export ram:"));
    fs::write(place.path("mnt/file"), "x").expect("write");
    assert!(place.granary(&["export", "blank", "mnt"], 2).1.contains("not empty"));
    fs::remove_file(place.path("mnt/file")).expect("unlink");
    assert!(!place.granary(&["stat", "blank"], 0).0.contains("not closed"));
}

/// The last thing that can fail is the loop device; the image is open then.
#[test]
fn an_export_that_fails_closes_its_image() {
    let Some(place) = Place::new() else { return };
    place.granary(&["mkfs", "blank", "--fs", "none", "--size", "256MiB"], 0);
    fs::create_dir(place.path("bin")).expect("makes");
    fs::write(place.path("bin/losetup"), "#!/bin/sh\necho all in use >&2; exit 1\n").expect("writes");
    good(&["chmod", "+x", &place.at("bin/losetup")]);
    let path = format!("{}:{}", place.at("bin"), std::env::var("PATH").unwrap_or_default());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_granary"));
    command.current_dir(place.path("")).env("PATH", path).args(["export", "--loop", "blank", "drive"]);
    let out = command.output().expect("runs");
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("all in use"), "{}", text(&out.stderr));
    assert!(!place.granary(&["stat", "blank"], 0).0.contains("not closed"));
}

#[test]
fn a_record_of_the_kernels_requests_can_be_replayed() {
    let Some(place) = Place::new() else { return };
    let device = place.export(&["--size", "256MiB", "--record", "trace", "ram:"]);
    make(&KINDS[0], &device);
    let counted = place.stats()["recorded"].as_u64().expect("counts");
    assert!(counted > 10);
    let wrote = place.stats()["host"]["block"]["write_bytes"]["data"].as_u64();
    place.granary(&["umount", "drive"], 0);
    let (replayed, _) = place.granary(&["drive", "replay", "--as-fast-as-possible", "--json", "trace"], 0);
    let record: Value = serde_json::from_str(&replayed).expect("JSON");
    assert_eq!(record["host"]["block"]["write_bytes"]["data"].as_u64(), wrote);
}

#[test]
fn ext4_moves_what_the_kernels_moves() {
    let Some(place) = Place::new() else { return };
    if !there("mkfs.ext4") {
        granary_suite::skip::skipped("mkfs.ext4 is missing");
        return;
    }
    let (code, told, err) =
        place.ends(&["calibrate", "ext4", "--scale", "0.004", "--size", "1GiB", "--json"]);
    assert!(matches!(code, Some(0 | 1)), "{told}{err}");
    let loads: Vec<Value> = told.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(loads.len(), 5);
    for load in loads {
        assert_eq!(load["kernel"]["unknown"], 0);
        // A load without fsync is one commit, in its last sync, or two where the kernel's write-back is a
        // little later than that: more than the fifth that a category may differ by.
        let few = load["kernel"]["flushes"].as_u64().expect("a number") < 20;
        let mut missed = load["missed"].as_array().expect("a list").iter().map(|m| m.as_str().expect("text"));
        assert!(missed.all(|m| few && m.starts_with("journal")), "{load}");
        // Nothing is invented: file data is what the application wrote, block for block.
        assert_eq!(
            load["kernel"]["write_bytes"]["data"], load["ours"]["write_bytes"]["data"],
            "{}",
            load["load"]
        );
    }
}
