//! Permissions, as other users meet them: programs run under another user in a mount that lets them in.

use super::rig::{Rig, each, each_third, each_with, possible};
use granary_mount::Options;
use rustix::fs::{CWD, Gid, Uid};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const USER: u32 = 65_534;

fn root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        granary_suite::skip::skipped("only root can become other users");
    }
    root
}

/// Runs a shell line in the mount as `user` and `group` without other groups; whether it succeeded.
fn runs(rig: &Rig, user: u32, group: u32, line: &str) -> bool {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).current_dir(rig.root()).uid(user).gid(group);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.status().expect("sh runs").success()
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("chmod");
}

fn chown(path: &Path, user: u32, group: u32) {
    rustix::fs::chownat(
        CWD,
        path,
        Some(Uid::from_raw(user)),
        Some(Gid::from_raw(group)),
        rustix::fs::AtFlags::empty(),
    )
    .expect("chown");
}

#[test]
fn the_mode_decides_who_reads_writes_and_enters() {
    each_third(2, |rig| {
        if !root() {
            return;
        }
        chmod(rig.root(), 0o755);
        fs::write(rig.path("f"), "secret").expect("write");
        chmod(&rig.path("f"), 0o600);
        assert!(!runs(rig, USER, USER, "cat f"));
        chmod(&rig.path("f"), 0o640);
        chown(&rig.path("f"), 0, 1234);
        assert!(!runs(rig, USER, USER, "cat f"));
        assert!(runs(rig, USER, 1234, "cat f"));
        assert!(!runs(rig, USER, 1234, "echo x >> f"));
        assert!(!runs(rig, USER, USER, "touch new"), "the root directory is not theirs");
        fs::create_dir(rig.path("d")).expect("mkdir");
        fs::write(rig.path("d/x"), "x").expect("write");
        chmod(&rig.path("d"), 0o700);
        assert!(rig.path("d/x").exists(), "root fills the kernel's caches");
        assert!(!runs(rig, USER, USER, "cat d/x"), "and still nobody passes a closed directory");
        chmod(&rig.path("d"), 0o777);
        assert!(runs(rig, USER, 77, "cat d/x && echo y > d/y && mkdir d/z"));
        let made = fs::metadata(rig.path("d/y")).expect("stat");
        assert_eq!((made.uid(), made.gid()), (USER, 77), "who makes it owns it");
        assert_eq!(fs::metadata(rig.path("d/z")).expect("stat").uid(), USER);
        assert!(!runs(rig, USER, USER, "chmod 777 f"));
        assert!(!runs(rig, USER, USER, "chown 65534 f"));
    });
}

#[test]
fn sticky_and_set_group_directories_keep_their_rules() {
    each(|rig| {
        if !root() {
            return;
        }
        fs::create_dir(rig.path("tmp")).expect("mkdir");
        chmod(&rig.path("tmp"), 0o1777);
        fs::write(rig.path("tmp/roots"), "").expect("write");
        chmod(&rig.path("tmp/roots"), 0o666);
        assert!(!runs(rig, USER, USER, "rm -f tmp/roots"));
        assert!(runs(rig, USER, USER, "touch tmp/mine && mv tmp/mine tmp/mine2 && rm tmp/mine2"));
        fs::create_dir(rig.path("team")).expect("mkdir");
        chown(&rig.path("team"), 0, 555);
        chmod(&rig.path("team"), 0o2777);
        assert!(runs(rig, USER, USER, "touch team/f && mkdir team/d"));
        assert_eq!(fs::metadata(rig.path("team/f")).expect("stat").gid(), 555);
        let dir = fs::metadata(rig.path("team/d")).expect("stat");
        assert_eq!((dir.gid(), dir.mode() & 0o2000), (555, 0o2000));
    });
}

#[test]
fn supplementary_groups_count() {
    if !possible() || !root() {
        return;
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        granary_suite::skip::skipped("setpriv (util-linux) is missing");
        return;
    }
    each(|rig| {
        fs::create_dir(rig.path("d")).expect("mkdir");
        chown(&rig.path("d"), 0, 777);
        chmod(&rig.path("d"), 0o770);
        let with = |groups: &str| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--groups", groups, "touch"]);
            command.arg(rig.path(&format!("d/{groups}"))).stderr(std::process::Stdio::null());
            command.status().expect("setpriv runs").success()
        };
        chmod(rig.root(), 0o755);
        assert!(with("777"));
        assert!(!with("778"));
    });
}

#[test]
fn writing_cutting_and_chown_take_set_user_id_away() {
    each(|rig| {
        if !root() {
            return;
        }
        chmod(rig.root(), 0o755);
        let mode = |n: &str| fs::metadata(rig.path(n)).expect("stat").mode() & 0o7777;
        for (name, line) in [("w", "echo more >> w"), ("t", ": > t"), ("m", "truncate -s 1 m")] {
            fs::write(rig.path(name), "program").expect("write");
            chmod(&rig.path(name), 0o6777);
            assert!(runs(rig, USER, USER, line), "{line}");
            assert_eq!(mode(name), 0o777, "{line}");
        }
        fs::write(rig.path("r"), "program").expect("write");
        chmod(&rig.path("r"), 0o6755);
        fs::write(rig.path("r"), "root may").expect("write");
        assert_eq!(mode("r"), 0o6755);
        chown(&rig.path("r"), 5, 5);
        assert_eq!(mode("r"), 0o755);
        assert!(fs::metadata(rig.path("r")).is_ok_and(|m| (m.uid(), m.gid()) == (5, 5)));
    });
}

/// As on file systems in the kernel: set-group-ID goes with any change by somebody who is not of the group,
/// also where the group may not execute the file.
#[test]
fn any_change_of_content_by_somebody_else_takes_set_ids_away() {
    each_third(0, |rig| {
        if !root() {
            return;
        }
        chmod(rig.root(), 0o755);
        let content = vec![7; 100_000];
        fs::write(rig.path("new"), "x").expect("write");
        let changes = [
            "echo more >> f",
            "echo over | dd of=f conv=notrunc",
            "dd if=/dev/zero of=f bs=4096 count=1 oflag=direct conv=notrunc",
            ": > f",
            "truncate -s 1 f",
            "cp new f",
            "fallocate -l 200000 f",
            "fallocate -n -l 300000 f",
            "fallocate -p -o 4096 -l 8192 f",
            "fallocate -z -o 4096 -l 8192 f",
        ];
        for line in changes {
            let left = |user: u32, group: u32| {
                fs::write(rig.path("f"), &content).expect("write");
                chown(&rig.path("f"), 5, 500);
                chmod(&rig.path("f"), 0o6666);
                let done = runs(rig, user, group, line);
                let mode = || fs::metadata(rig.path("f")).expect("stat").mode() & 0o7777;
                // A call that is not supported (holes on NOVA) is no change.
                if done { Some(mode()) } else { (mode() == 0o6666).then_some(()).map(|()| 0) }
            };
            for (user, group, right) in [(USER, USER, 0o666), (USER, 500, 0o2666), (0, 0, 0o6666)] {
                let mode = left(user, group).expect("refused, and yet it has taken bits away");
                assert!(mode == right || mode == 0, "{}: {line} by {user}/{group}: {mode:o}", rig.fs);
                assert!(
                    mode != 0 || line.contains("fallocate -") || line.contains("direct"),
                    "{}: {line}",
                    rig.fs
                );
            }
        }
        // A group beyond the first one counts, too.
        if Command::new("setpriv").arg("--version").output().is_ok() {
            chmod(&rig.path("f"), 0o6666);
            let mut command = Command::new("setpriv");
            command.args([
                "--reuid", "65534", "--regid", "65534", "--groups", "77,500", "truncate", "-s", "9", "f",
            ]);
            assert!(command.current_dir(rig.root()).status().expect("setpriv runs").success());
            assert_eq!(fs::metadata(rig.path("f")).expect("stat").mode() & 0o7777, 0o2666);
        }
    });
}

/// As ext4 does: set-user-ID goes from all but directories, set-group-ID where the group may execute it or
/// the caller is not of it.
#[test]
fn chown_takes_set_ids_from_everything_but_directories() {
    each(|rig| {
        if !root() || Command::new("setpriv").arg("--version").output().is_err() {
            return;
        }
        chmod(rig.root(), 0o755);
        let mode = |name: &str| fs::metadata(rig.path(name)).expect("stat").mode() & 0o7777;
        for (name, make) in [("fifo", "mkfifo fifo"), ("file", "touch file"), ("node", "mknod node c 1 3")] {
            assert!(runs(rig, 0, 0, make), "{make}");
            for (set, owner, chief) in
                [(0o6555, 0o555, 0o555), (0o6644, 0o2644, 0o2644), (0o4600, 0o600, 0o600)]
            {
                chown(&rig.path(name), USER, 65_533);
                chmod(&rig.path(name), set);
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "65534", "--regid", "65533", "--groups", "65532", "chgrp", "65532"]);
                assert!(command.arg(name).current_dir(rig.root()).status().expect("runs").success());
                assert_eq!(mode(name), owner, "{}: {name} of {set:o}, by its owner", rig.fs);
                chmod(&rig.path(name), set);
                chown(&rig.path(name), 0, 65_532);
                assert_eq!(mode(name), chief, "{}: {name} of {set:o}, by root", rig.fs);
            }
        }
        assert!(runs(rig, 0, 0, "mkdir d && chown 65534:65533 d && chmod 6755 d && chown 0:0 d"));
        assert_eq!(mode("d"), 0o6755, "{}: directories keep them", rig.fs);
    });
}

#[test]
fn without_allow_other_nobody_else_enters() {
    if !possible() || !root() {
        return;
    }
    let rig = Rig::new(super::rig::any(), &Options::default());
    chmod(rig.root(), 0o755);
    let dir = rig.root().to_owned();
    let mut command = Command::new("ls");
    let status = command.arg(&dir).uid(USER).gid(USER).stderr(std::process::Stdio::null()).status();
    assert!(!status.expect("ls runs").success());
    rig.finish();
}

/// The stdout of `program`.
fn says(program: &str, args: &[&str], dir: &Path) -> String {
    let out = Command::new(program).args(args).current_dir(dir).output().expect("runs");
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// A file system without attributes has no lists: the mode decides, whether lists were asked for or not.
#[test]
fn without_lists_the_mode_decides_for_everybody() {
    if !root() {
        return granary_suite::skip::skipped("needs root");
    }
    let options = Options { xattrs: true, allow_other: true, ..Options::default() };
    each_with(&options, |rig| {
        chmod(rig.root(), 0o755);
        fs::write(rig.path("f"), "for all").expect("write");
        chmod(&rig.path("f"), 0o644);
        assert!(runs(rig, USER, USER, "cat f"), "{}", rig.fs);
        assert!(!runs(rig, USER, USER, "echo x >> f"), "{}", rig.fs);
    });
}

#[test]
fn access_control_lists_decide_follow_the_mode_and_are_handed_on() {
    let there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !root() || !there("getfacl") || !there("setpriv") {
        return granary_suite::skip::skipped("needs root, setpriv, setfacl and getfacl (Debian package acl)");
    }
    let options = Options { xattrs: true, allow_other: true, ..Options::default() };
    each_with(&options, |rig| {
        chmod(rig.root(), 0o755);
        fs::write(rig.path("f"), "secret").expect("write");
        chmod(&rig.path("f"), 0o600);
        let (set, get) = (
            |args: &[&str]| says("setfacl", args, rig.root()),
            |name: &str| says("getfacl", &["-cn", name], rig.root()),
        );
        let probe = Command::new("setfacl").args(["-m", "u:65534:r", "f"]).current_dir(rig.root()).output();
        let said = String::from_utf8_lossy(&probe.expect("runs").stderr).into_owned();
        if said.contains("not supported") {
            return eprintln!("{} has no lists", rig.fs);
        }
        assert_eq!(said, "");
        assert!(runs(rig, USER, USER, "cat f") && !runs(rig, USER - 1, USER, "cat f"));
        assert!(!runs(rig, USER, USER, "echo x >> f"));
        assert_eq!(get("f"), "user::rw-\nuser:65534:r--\ngroup::---\nmask::r--\nother::---\n\n");
        chmod(&rig.path("f"), 0o600);
        assert!(!runs(rig, USER, USER, "cat f"), "the mask went with the mode");
        set(&["-b", "f"]);
        assert_eq!(get("f"), "user::rw-\ngroup::---\nother::---\n\n");

        // Set-group-ID stays only where the caller is in the file's group.
        chown(&rig.path("f"), USER, 2000);
        let left = |group: &str| {
            chmod(&rig.path("f"), 0o2775);
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--groups", group]);
            // Another list each time: setfacl leaves alone what is so already.
            command.args(["setfacl", "-m", &format!("u:{group}:rwx"), "f"]).current_dir(rig.root());
            assert!(command.status().expect("setpriv runs").success());
            fs::metadata(rig.path("f")).expect("stat").mode() & 0o2000 != 0
        };
        assert!(left("2000") && !left("2001"), "{}", rig.fs);
        chmod(&rig.path("f"), 0o2775);
        set(&["-m", "u:2002:rwx", "f"]);
        assert_ne!(fs::metadata(rig.path("f")).expect("stat").mode() & 0o2000, 0, "root may");

        fs::create_dir(rig.path("d")).expect("mkdir");
        set(&["-d", "-m", "u::rwx,u:65534:rwx,g::r-x,o::---", "d"]);
        fs::create_dir(rig.path("d/sub")).expect("mkdir");
        fs::write(rig.path("d/sub/g"), "shared").expect("write");
        assert!(get("d/sub").contains("default:user:65534:rwx"), "{}", get("d/sub"));
        assert!(get("d/sub/g").contains("user:65534:rwx") && get("d/sub/g").contains("mask::rw-"));
        chmod(&rig.path("d"), 0o755);
        assert!(runs(rig, USER, USER, "echo more >> d/sub/g && touch d/sub/new"));
        assert!(!runs(rig, USER - 1, USER - 1, "cat d/sub/g"));
    });
}
