//! `granary crash --kernel`: the kernel's file systems on a recorded drive. Root, /dev/fuse, loop devices and
//! the programs of each file system are needed; what is missing is said and skipped.

use assert_cmd::Command;
use std::path::Path;

const KINDS: [(&str, &str); 3] = [("ext4", "mkfs.ext4"), ("xfs", "mkfs.xfs"), ("btrfs", "mkfs.btrfs")];
const PROGRAM: &str = "write(/A/foo,append) fsync rename(/A/foo,/B/bar) sync";

fn there(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|dir| dir.join(program).exists())
}

/// Whether this machine has what the file system needs.
fn can(mkfs: &str) -> bool {
    let missing = ["/dev/fuse", "/dev/loop-control"].into_iter().find(|p| !Path::new(p).exists());
    let why = match missing {
        Some(missing) => format!("{missing} is missing"),
        None if !rustix::process::geteuid().is_root() => "loop devices and mounts need root".to_owned(),
        None if !there(mkfs) => format!("{mkfs} is missing"),
        None => return true,
    };
    granary_suite::skip::skipped(why);
    false
}

fn crash(args: &[&str], code: i32) -> (String, String) {
    let mut command = Command::cargo_bin("granary").expect("the binary is built");
    let output = command.args(["crash", "--jobs", "1"]).args(args).output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "granary crash {args:?}: {out}{err}");
    (out.into_owned(), err.into_owned())
}

#[test]
fn the_kernels_file_systems_keep_their_promises_in_legal_states() {
    for (name, mkfs) in KINDS {
        if !can(mkfs) {
            continue;
        }
        let (out, _) = crash(&["--kernel", name, "--load", PROGRAM, "--points", "12", "--json"], 0);
        let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(json["states"], 12, "{json}");
        assert!(json["files"].as_u64() > Some(12), "{json}");
        assert!(json["checked"].as_u64() > Some(0), "{json}");
    }
}

/// However many try states at a time.
#[test]
fn a_small_number_of_states_is_kept_to() {
    if can("mkfs.ext4") {
        let mut command = Command::cargo_bin("granary").expect("the binary is built");
        command
            .args(["crash", "--kernel", "ext4", "--load", PROGRAM, "--points", "3", "--jobs", "3", "--json"]);
        let out = command.assert().code(0).get_output().clone();
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        assert_eq!(json["states"], 3, "{json}");
    }
}

#[test]
fn a_drive_that_lies_about_its_last_flush_is_found_out_below_each_of_them() {
    for (name, mkfs) in KINDS {
        if !can(mkfs) {
            continue;
        }
        let keep = tempfile::tempdir().expect("a directory");
        let dir = keep.path().to_str().expect("UTF-8");
        let lie = ["--kernel", name, "--load", PROGRAM, "--points", "300", "--stop", "--lie", "last-flush"];
        let (out, _) = crash(&[&lie[..], &["--keep-image", dir]].concat(), 1);
        assert!(out.contains("once more: `--kernel") && out.contains("calls before"), "{out}");
        assert_eq!(std::fs::read_dir(dir).expect("lists").count(), 2, "an image and what was asked");
    }
}

#[test]
fn what_the_kernels_file_systems_do_not_take_is_refused() {
    let (_, err) = crash(&["--kernel", "zfs"], 2);
    assert!(err.contains("no file system 'zfs' of the kernel") && err.contains("btrfs"), "{err}");
    let (_, err) = crash(&["--kernel", "ext4", "--load", "varmail"], 2);
    assert!(err.contains("no load 'varmail' for the kernel"), "{err}");
    let (_, err) = crash(&["--kernel", "ext4", "--replay", "4:l12"], 2);
    assert!(err.contains("RUN:STATE"), "{err}");
    let (_, err) = crash(&["--kernel", "ext4", "--mode", "linear"], 2);
    assert!(err.contains("cannot be used with"), "{err}");
}
