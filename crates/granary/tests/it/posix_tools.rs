//! Two suites that others wrote, on mounts in memory, bounded to seconds: fsx compares random calls with a
//! copy in memory, pjdfstest asks what POSIX demands of each call.
//!
//! `.ci/run` installs them; where they, /dev/fuse or root are missing, that is said and the test passes. By
//! the million: `cargo xtask soak --kind fsx`; beside other programs: `scripts/programs.sh`.

use crate::common::Place;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Whether the program is installed; says so where it is not.
fn there(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&paths).any(|p| p.join(program).exists());
    if !there {
        granary_suite::skip::skipped(format_args!("{program} is not installed: cargo install {program}"));
    }
    there
}

/// Runs a program; nobody waits for it for more than three minutes.
fn program(args: &[&str], dir: &Path) -> (Output, String) {
    let out = Command::new("timeout").arg("180").args(args).current_dir(dir).output().expect("timeout runs");
    let told = [&out.stdout[..], &out.stderr].map(String::from_utf8_lossy).concat();
    (out, told)
}

/// Both file systems, each mounted in memory, are given to `check` with the place for its files.
fn on_each(place: &Place, check: impl Fn(&str, &Path)) {
    let root = rustix::process::geteuid().is_root();
    for fs in ["bytefs", "ext4"] {
        let source = format!("ram:{fs}");
        let mut args = vec!["mount", "--daemon", "--size", "2GiB"];
        // Users that are not root have a part in pjdfstest; whoever is not root may not let others in.
        args.extend(root.then_some("--allow-other"));
        args.extend([&source, "mnt"]);
        place.runs(&args, 0);
        check(fs, &place.path("mnt"));
        place.runs(&["umount", "mnt"], 0);
    }
}

#[test]
fn what_fsx_writes_and_maps_reads_back() {
    if !there("fsx") {
        return;
    }
    let Some(place) = Place::new() else { return };
    // No posix_fallocate: fsx 0.3.2 takes EINVAL for an empty range, as POSIX demands, for a file system
    // without it.
    fs::write(place.path("fsx.toml"), "[weights]\npunch_hole = 1\nposix_fallocate = 0\n").expect("written");
    let (config, kept) = (place.path("fsx.toml"), place.dir().display().to_string());
    let config = config.to_str().expect("UTF-8");
    on_each(&place, |fs, mnt| {
        for seed in ["1", "2"] {
            let args = ["fsx", "-f", config, "-P", &kept, "-N", "3000", "-S", seed, "fsx.dat"];
            let (out, told) = program(&args, mnt);
            assert!(out.status.success(), "{fs}, seed {seed}: {told}");
        }
    });
}

/// Three users and their groups, as pjdfstest wants them.
fn users() -> Option<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (users, groups) = (read("/etc/passwd"), read("/etc/group"));
    let group = |gid: &str| {
        groups.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            (fields.get(2) == Some(&gid)).then(|| fields[0].to_owned())
        })
    };
    let mut seen = vec!["0".to_owned()];
    let mut entries = Vec::new();
    for line in users.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, ..] = fields[..] else { continue };
        // No two of them may share a group: a call of one is to be refused to the other.
        if [uid, gid].iter().any(|id| seen.iter().any(|s| s == id)) {
            continue;
        }
        if let Some(group) = group(gid) {
            seen.extend([uid.to_owned(), gid.to_owned()]);
            entries.push(format!("[{name:?}, {group:?}]"));
        }
    }
    (entries.len() >= 3).then(|| entries[..3].join(", "))
}

#[test]
fn pjdfstest_finds_nothing_that_posix_forbids() {
    if !there("pjdfstest") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        granary_suite::skip::skipped("pjdfstest acts as several users, which takes root");
        return;
    }
    let Some(users) = users() else {
        granary_suite::skip::skipped("pjdfstest takes three users with groups of their own in /etc/passwd");
        return;
    };
    let Some(place) = Place::new() else { return };
    let mut config = String::from("[features]\n");
    for feature in ["posix_fallocate", "rename_ctime", "utimensat", "utime_now"] {
        let _ = writeln!(config, "{feature} = {{}}");
    }
    let _ = writeln!(config, "[settings]\nnaptime = 0.02\n[dummy_auth]\nentries = [{users}]");
    fs::write(place.path("pjd.toml"), config).expect("written");
    // The other users must come as far as the mount.
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o755)).expect("chmod");
    let config = place.path("pjd.toml");
    on_each(&place, |fs, mnt| {
        let dir = mnt.to_str().expect("UTF-8");
        let args = ["pjdfstest", "-c", config.to_str().expect("UTF-8"), "-p", dir];
        let (out, told) = program(&args, mnt);
        let failed: Vec<&str> =
            told.lines().filter(|l| !l.ends_with(" ok") && !l.contains("skipped")).collect();
        assert!(out.status.success(), "{fs}: {}", failed.join("\n"));
        // Those that are skipped ask for a second file system, a remount or a limit that is not known.
        let count = |what: &str| {
            let summary = told.lines().find_map(|l| l.strip_prefix("Summary: ")).expect("a summary");
            let part = summary.split(", ").find_map(|part| part.strip_suffix(what)).expect("its parts");
            part.trim().parse::<u32>().expect("a number")
        };
        assert!(count(" failed") == 0 && count(" passed") > 300, "{fs}: {told}");
    });
}
