//! The files of an image: none leads out of it, reading writes none, and they are their owner's alone.

use crate::common::Place;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

const READING: [&[&str]; 6] = [
    &["ls", "img", "/"],
    &["stat", "img"],
    &["cat", "img", "/file"],
    &["cp-out", "img", "/file", "out"],
    &["fsck", "img"],
    &["mount", "--daemon", "--read-only", "img", "mnt"],
];
const WRITING: [&[&str]; 3] = [
    &["cp-in", "img", "file", "/again"],
    &["grow", "img", "--size", "256MiB"],
    &["mount", "--daemon", "img", "mnt"],
];

fn made(place: &Place) {
    fs::write(place.path("file"), "content").expect("written");
    place.runs(&["mkfs", "img", "--size", "64MiB"], 0);
    place.runs(&["cp-in", "img", "file", "/file"], 0);
}

/// Everything that is there, with what would change if it were written to.
fn contents(dir: &Path) -> Vec<String> {
    let mut all: Vec<String> = fs::read_dir(dir)
        .expect("a directory")
        .map(|e| {
            let path = e.expect("an entry").path();
            let m = path.symlink_metadata().expect("there");
            format!("{path:?} {} {:o} {} {}.{}", m.ino(), m.mode(), m.len(), m.ctime(), m.ctime_nsec())
        })
        .collect();
    let m = dir.metadata().expect("there");
    all.push(format!("{}.{}", m.mtime(), m.mtime_nsec()));
    all.sort();
    all
}

/// Puts a file of another kind in a member's place.
fn put(kind: &str, at: &Path, place: &Place) {
    match kind {
        "link" => symlink(place.path("victim"), at).expect("linked"),
        "dangling" => symlink(place.path("nowhere"), at).expect("linked"),
        "pipe" => {
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
            rustix::fs::mknodat(rustix::fs::CWD, at, kind, mode, 0).expect("made");
        }
        _ => fs::create_dir(at).expect("made"),
    }
}

#[test]
fn no_command_follows_or_makes_anything_through_a_member_of_an_image_and_each_names_it() {
    let Some(place) = Place::new() else { return };
    made(&place);
    fs::write(place.path("victim"), "precious").expect("written");
    let members = [
        "lock",
        "image.toml",
        "wal",
        "dram",
        "flash",
        "counters.toml",
        "counters.toml.new",
        "image.toml.new",
    ];
    let kinds = ["link", "dangling", "pipe", "directory"];
    for (n, member) in members.iter().enumerate() {
        let (at, aside) = (place.path("img").join(member), place.path("aside"));
        let there = at.exists();
        for kind in if n < 2 { &kinds[..] } else { &kinds[n % 2 * 2..][..2] } {
            if there {
                fs::rename(&at, &aside).expect("put aside");
            }
            put(kind, &at, &place);
            let before = contents(&place.path("img"));
            for command in READING.iter().chain(&WRITING) {
                let (_, said) = place.runs(command, 2);
                assert!(said.contains(member), "{command:?} with {member} a {kind}: {said}");
            }
            assert_eq!(contents(&place.path("img")), before, "{member} a {kind}");
            if *kind == "directory" { fs::remove_dir(&at) } else { fs::remove_file(&at) }.expect("removed");
            if there {
                fs::rename(&aside, &at).expect("put back");
            }
        }
    }
    assert_eq!(fs::read_to_string(place.path("victim")).expect("read"), "precious");
    assert!(!place.path("nowhere").exists());
    // A file that has another name is read, but not written to under both.
    fs::hard_link(place.path("img/wal"), place.path("other")).expect("linked");
    place.runs(READING[0], 0);
    assert!(place.runs(WRITING[0], 2).1.contains("wal"));
    fs::remove_file(place.path("other")).expect("removed");
    place.runs(&["mount", "--daemon", "img", "mnt"], 0);
    // While it is in use, too.
    symlink(place.path("nowhere"), place.path("img/counters.toml.new")).expect("linked");
    assert!(place.runs(&["umount", "mnt"], 1).1.contains("counters.toml.new"));
    fs::remove_file(place.path("img/counters.toml.new")).expect("removed");
    place.runs(&["fsck", "img"], 0);
    assert!(!place.path("nowhere").exists());
}

#[test]
fn reading_an_image_changes_nothing_in_it_with_or_without_a_lock_file() {
    let Some(place) = Place::new() else { return };
    made(&place);
    for _ in 0..2 {
        let before = contents(&place.path("img"));
        for command in READING {
            place.runs(command, 0);
            if command[0] == "mount" {
                assert!(
                    place.runs(&["ls", "img", "/"], 2).1.contains(&place.server()),
                    "in use, by whom is said"
                );
                if place.path("img/lock").exists() {
                    assert!(place.runs(WRITING[0], 2).1.contains(&place.server()));
                }
                place.runs(&["umount", "mnt"], 0);
            }
            let _ = fs::remove_file(place.path("out"));
            assert_eq!(contents(&place.path("img")), before, "{command:?}");
        }
        let _ = fs::remove_file(place.path("img/lock"));
    }
    assert!(!place.path("img/lock").exists());
    place.runs(WRITING[0], 0);
    assert!(place.path("img/lock").exists());
}

#[test]
fn an_image_is_its_owners_alone_whatever_the_umask_and_an_open_one_is_warned_of() {
    let Some(place) = Place::new() else { return };
    let granary = assert_cmd::cargo::cargo_bin("granary");
    for umask in ["000", "022", "777"] {
        let command = format!("umask {umask}; exec {} mkfs img --size 64MiB --force", granary.display());
        let made = Command::new("sh").args(["-c", &command]).current_dir(place.dir()).status();
        assert!(made.expect("runs").success());
        let modes = contents(&place.path("img"));
        assert!(
            modes.iter().all(|m| m.contains(" 100600 ") || !m.starts_with('"')),
            "umask {umask}: {modes:?}"
        );
        assert_eq!(place.path("img").metadata().expect("there").mode() & 0o7777, 0o700);
    }
    let (_, said) = place.runs(&["ls", "img", "/"], 0);
    assert!(!said.contains("chmod"), "{said}");
    let open = |dir: u32, file: u32| {
        for entry in fs::read_dir(place.path("img")).expect("a directory") {
            let path = entry.expect("an entry").path();
            fs::set_permissions(path, fs::Permissions::from_mode(file)).expect("set");
        }
        fs::set_permissions(place.path("img"), fs::Permissions::from_mode(dir)).expect("set");
    };
    open(0o755, 0o644);
    for command in READING.iter().chain(&WRITING) {
        if command[0] != "cat" && command[0] != "cp-out" && command[0] != "cp-in" {
            let (_, said) = place.runs(command, 0);
            assert!(said.contains("chmod 700 ") && said.contains("chmod 600 "), "{command:?}: {said}");
        }
        if command[0] == "mount" {
            place.runs(&["umount", "mnt"], 0);
        }
    }
    // Of somebody else, who cannot take the lock of an image that was not opened to others.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for dir in place.dir().ancestors() {
        if dir.starts_with(std::env::temp_dir()) && dir != std::env::temp_dir() {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("set");
        }
    }
    for (dir, file, code) in [(0o755, 0o644, 2), (0o700, 0o600, 0), (0o755, 0o600, 0)] {
        open(dir, file);
        let lock = place.path("img/lock");
        let mut other = Command::new("sh")
            .args(["-c", "exec 9<\"$0\" && flock -n 9 && exec sleep 60"])
            .arg(&lock)
            .uid(65_534)
            .gid(65_534)
            .stderr(Stdio::null())
            .spawn()
            .expect("runs");
        // Until it has the lock, which it does not say.
        #[allow(clippy::disallowed_methods)]
        std::thread::sleep(std::time::Duration::from_millis(200));
        let (_, said) = place.runs(&["ls", "img", "/"], code);
        assert!(code == 0 || (said.contains("in use") && said.contains("chmod 700")), "{said}");
        let _ = (other.kill(), other.wait());
    }
}
