//! `granary mount`, `umount` and `stat` as a person uses them.

use crate::common::{Place, signal, umount8};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;

#[test]
fn a_mount_that_is_refused_leaves_the_image_clean() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--size", "256MiB"], 0);
    fs::write(place.path("mnt/letter"), "dear").expect("write");
    for how in [&["mount", "img", "mnt"][..], &["mount", "--daemon", "img", "mnt"]] {
        let (_, told) = place.runs(how, 2);
        assert!(told.contains("not empty"), "{told}");
    }
    assert!(place.runs(&["mount", "img", "nowhere"], 2).1.contains("does not exist"));
    assert!(place.runs(&["mount", "img", "mnt/letter"], 2).1.contains("not a directory"));
    fs::remove_file(place.path("mnt/letter")).expect("removed");
    let (_, told) = place.runs(&["mount", "--daemon", "--log", "no/such/place", "img", "mnt"], 2);
    assert!(told.contains("opening no/such/place"), "{told}");
    assert!(!place.runs(&["stat", "img"], 0).0.contains("not closed cleanly"));
}

/// Values are refused that no mount has, that are another file system's, and that the file system itself
/// refuses; an image of its own is needed by `--stack`.
#[test]
fn a_mount_with_a_value_that_is_refused_leaves_the_image_of_each_file_system_clean() {
    let Some(place) = Place::new() else { return };
    fs::create_dir(place.path("d")).expect("made");
    for fs_name in ["bytefs", "ext4", "f2fs", "nova", "pmfs", "devfs", "nilfs2", "orchfs", "spfs+ext4"] {
        let testbed = ["orchfs", "spfs"].into_iter().find(|bed| fs_name.starts_with(bed));
        let testbed = testbed.unwrap_or("bytefs-emulator");
        let of = ["--fs", fs_name, "--testbed", testbed, "--size", "256MiB"];
        place.runs(&[&["mkfs", "img", "--force"], &of[..]].concat(), 0);
        let other = if fs_name == "nilfs2" { "fs.f2fs.fsync_mode=strict" } else { "fs.nilfs2.fsync='all'" };
        for set in ["nilfs2.nonsense=0", "firmware.log_region=64MiB", "host.cores=3", other] {
            for more in [&["--daemon"][..], &["--read-only"]] {
                let args = [&["mount", "--set", set], more, &["img", "mnt"]].concat();
                place.runs(&args, 2);
                let (shown, _) = place.runs(&["stat", "img"], 0);
                assert!(!shown.contains("not closed cleanly"), "{fs_name}: {args:?}: {shown}");
            }
        }
        place.runs(&["mount", "--daemon", "--stack", "d", "img", "mnt"], 2);
        assert!(!place.runs(&["stat", "img"], 0).0.contains("not closed cleanly"), "{fs_name}: --stack");
    }
}

/// An overlay that a mount without attributes cannot hold is told what to do, on the mount's side, too.
#[test]
fn an_overlay_on_a_mount_without_attributes_is_advised() {
    let Some(place) = Place::new() else { return };
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for (how, word) in [("ram:bytefs", "--xattrs"), ("ram:pmfs", "does not keep")] {
        place.runs(&["mount", "--daemon", "--log", "log", how, "mnt"], 0);
        ["lo", "up", "wk", "over"]
            .iter()
            .for_each(|d| fs::create_dir(place.path("mnt").join(d)).expect("made"));
        let options = ["lowerdir=mnt/lo", "upperdir=mnt/up", "workdir=mnt/wk"].join(",");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "overlay", "overlay", "-o", &options, "mnt/over"])
            .current_dir(place.dir())
            .output()
            .expect("mount(8)");
        let said = String::from_utf8_lossy(&mounted.stderr).into_owned();
        assert!(!mounted.status.success(), "{how}");
        place.runs(&["umount", "mnt"], 0);
        let log = fs::read_to_string(place.path("log")).expect("a log");
        assert!(log.contains(word) || said.contains("unknown filesystem"), "{how}: {log}{said}");
        fs::remove_file(place.path("log")).expect("removed");
    }
}

/// The maker of a file system can use it.
#[test]
fn the_root_directory_belongs_to_who_made_the_file_system() {
    let Some(place) = Place::new() else { return };
    if !rustix::process::geteuid().is_root() {
        return granary_suite::skip::skipped("not root");
    }
    // A copy that others may execute, wherever the program was built.
    let granary = place.path("granary");
    fs::copy(assert_cmd::cargo::cargo_bin("granary"), &granary).expect("copied");
    for dir in place.dir().ancestors().take_while(|dir| dir.starts_with(std::env::temp_dir())) {
        if dir != std::env::temp_dir() {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).expect("opened to others");
        }
    }
    let as_user = |args: &[&str]| {
        let mut command = std::process::Command::new(&granary);
        command.args(args).current_dir(place.dir()).uid(65_534).gid(65_533);
        command.output().is_ok_and(|ended| ended.status.success())
    };
    if !as_user(&["workload", "list"]) {
        return granary_suite::skip::skipped("the program cannot be executed by other users");
    }
    for fs_name in ["bytefs", "ext4", "f2fs", "nova", "pmfs"] {
        assert!(as_user(&["mkfs", "img", "--fs", fs_name, "--size", "64MiB", "--force"]));
        place.runs(&["fsck", "img"], 0);
        place.runs(&["mount", "--daemon", "--allow-other", "img", "mnt"], 0);
        let root = fs::metadata(place.path("mnt")).expect("stat");
        assert_eq!((root.uid(), root.gid(), root.mode() & 0o7777), (65_534, 65_533, 0o755), "{fs_name}");
        place.runs(&["umount", "mnt"], 0);
        place.runs(&["mount", "--daemon", &format!("ram:{fs_name}"), "mnt"], 0);
        assert_eq!(fs::metadata(place.path("mnt")).expect("stat").uid(), 0, "who mounts it has made it");
        place.runs(&["umount", "mnt"], 0);
        fs::remove_dir_all(place.path("img")).expect("removed");
    }
    // Others than root mount through fusermount3, and only where they may open /dev/fuse (in containers often
    // not).
    let may_open = std::fs::metadata("/dev/fuse")
        .is_ok_and(|meta| std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o006 == 0o006);
    if may_open && std::process::Command::new("fusermount3").arg("-V").output().is_ok() {
        // fusermount3 mounts on directories that the user may write to.
        std::os::unix::fs::chown(place.path("mnt"), Some(65_534), Some(65_533)).expect("given away");
        assert!(as_user(&["mount", "--daemon", "ram:bytefs", "mnt"]));
        let touched =
            std::process::Command::new("touch").arg(place.path("mnt/x")).uid(65_534).gid(65_533).status();
        assert!(touched.expect("runs").success());
        assert!(as_user(&["umount", "mnt"]));
    }
}

/// An option that would be passed over in silence is refused, with what to say instead.
#[test]
fn options_that_would_say_nothing_are_refused() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--size", "256MiB"], 0);
    for (args, told) in [
        (&["mount", "--size", "5GiB", "img", "mnt"][..], "granary grow"),
        (&["mount", "--testbed", "cxl", "img", "mnt"], "mkfs IMAGE --testbed"),
        (&["mount", "--record", "r", "img", "mnt"], "mount ram:FS"),
        (&["mount", "--dilate", "5", "img", "mnt"], "--pace on"),
        (&["mount", "--durability", "machine", "ram:bytefs", "mnt"], "granary mkfs"),
        (&["mount", "--set", "nand.read_ns=1", "img", "mnt"], "the image's"),
        (&["mount", "--set", "ext4.data=journal", "img", "mnt"], "this is bytefs"),
        (&["mount", "--set", "vfs.page_cache=64MiB", "img", "mnt"], "--page-cache"),
        (&["mount", "--set", "metadata_cache=513MiB", "img", "mnt"], "--page-cache 512MiB"),
        (&["mount", "--set", "bytefs.metadata_cache=1MiB", "img", "mnt"], "host.metadata_cache"),
        (&["mount", "--set", "costs.syscall=1", "ram:ext4", "mnt"], "machine's time"),
        (&["stat", "--watch", "img"], "not mounted"),
        (&["stat", "--interval", "1", "img"], "--watch"),
        (&["stat", "--watch", "--interval", "nan", "img"], "0.05 to 3600"),
        (&["stat", "--watch", "--interval", "0", "img"], "0.05 to 3600"),
    ] {
        let (_, err) = place.runs(args, 2);
        assert!(err.contains(told), "{args:?}: {err}");
    }
}

#[test]
fn an_image_is_mounted_filled_unmounted_and_clean() {
    let Some(place) = Place::new() else { return };
    for fs in ["bytefs", "ext4"] {
        place.runs(&["mkfs", fs, "--fs", fs, "--size", "256MiB"], 0);
        let (_, told) = place.runs(&["mount", "--daemon", fs, "mnt"], 0);
        assert!(told.contains("closed cleanly"), "{told}");
        fs::create_dir(place.path("mnt/d")).expect("mkdir");
        fs::write(place.path("mnt/d/f"), vec![9; 100_000]).expect("write");
        fs::File::open(place.path("mnt/d/f")).expect("open").sync_all().expect("fsync");
        let stats = place.stats();
        assert_eq!((stats["fs"].as_str(), stats["durability"].as_str()), (Some(fs), Some("process")));
        assert_eq!(stats["ops"]["fsync"], 1);
        assert_eq!(stats["app"]["write_bytes"], 100_000);
        assert_eq!(stats["host"]["block"]["write_bytes"]["data"], 25 * 4096);
        let (shown, _) = place.runs(&["stat", "mnt"], 0);
        assert!(shown.contains("host link") && shown.contains("write amplification"), "{shown}");
        let (_, again) = place.runs(&["mount", fs, "mnt"], 2);
        assert!(again.contains("in use") || again.contains("busy"), "{again}");
        place.runs(&["umount", "mnt"], 0);
        place.runs(&["fsck", fs], 0);
        let (listed, _) = place.runs(&["ls", fs, "/d"], 0);
        assert_eq!(listed.trim(), "f");
        let (_, gone) = place.runs(&["umount", "mnt"], 2);
        assert!(gone.contains("not a mounted granary file system"), "{gone}");
    }
}

/// umount(8) returns before the server has closed the image: whichever command comes next waits for it.
#[test]
fn every_command_waits_for_an_image_that_is_being_closed() {
    let Some(place) = Place::new() else { return };
    if !rustix::process::geteuid().is_root() {
        return granary_suite::skip::skipped("not root");
    }
    place.runs(&["mkfs", "img", "--size", "256MiB"], 0);
    for next in [
        &["fsck", "img"][..],
        &["ls", "img"],
        &["cp-out", "img", "/f", "out"],
        &["grow", "img", "--size", "512MiB"],
    ] {
        place.runs(&["mount", "--daemon", "img", "mnt"], 0);
        let bytes: Vec<u8> =
            (0..20 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs::write(place.path("mnt/f"), bytes).expect("written");
        umount8(place.path("mnt"));
        place.runs(next, 0);
        let _ = fs::remove_file(place.path("out"));
    }
}

#[test]
fn after_a_kill_the_next_mount_says_what_it_recovered_and_has_what_was_synced() {
    let Some(place) = Place::new() else { return };
    for (fs, testbed) in [("bytefs", ""), ("ext4", ""), ("spfs+ext4", "spfs-nvdimm")] {
        let on = if testbed.is_empty() { vec![] } else { vec!["--testbed", testbed] };
        place.runs(&[&["mkfs", fs, "--fs", fs, "--size", "256MiB"], &on[..]].concat(), 0);
        place.runs(&["mount", "--daemon", fs, "mnt"], 0);
        // So often that SPFS takes the file over.
        for _ in 0..40 {
            fs::write(place.path("mnt/f"), b"promised").expect("write");
            fs::File::open(place.path("mnt/f")).expect("open").sync_all().expect("fsync");
        }
        place.kill_server();
        let (_, dead) = place.runs(&["stat", "mnt"], 2);
        assert!(dead.contains("dead"), "{dead}");
        place.runs(&["umount", "mnt"], 1);
        // As it is after recovery, which reading and checking keep to themselves.
        assert_eq!(place.runs(&["cat", fs, "/f"], 0).0, "promised");
        place.runs(&["fsck", fs], 0);
        let (_, told) = place.runs(&["mount", "--daemon", fs, "mnt"], 0);
        assert!(told.contains("recovered after an unclean stop") && told.contains(" ms"), "{told}");
        assert_eq!(fs::read(place.path("mnt/f")).expect("read"), b"promised");
        place.runs(&["umount", "mnt"], 0);
        place.runs(&["fsck", fs], 0);
    }
}

/// Only a clean close makes an image clean: a redo log that happens to hold nothing does not.
#[test]
fn an_image_whose_process_was_killed_with_an_empty_redo_log_is_not_called_clean() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "blank", "--size", "64MiB", "--fs", "none"], 0);
    let is_clean = || {
        let (_, checked) = place.runs(&["fsck", "blank"], 0);
        let (json, _) = place.runs(&["fsck", "--json", "blank"], 0);
        let (shown, _) = place.runs(&["stat", "blank"], 0);
        let said = [
            !checked.contains("not closed cleanly"),
            json.contains("\"closed_cleanly\":true"),
            shown.contains("  closed cleanly"),
        ];
        assert!(said.iter().all(|s| *s == said[0]), "{checked}{json}{shown}");
        said[0]
    };
    let export = |args: &[&str]| place.runs(&[&["export", "--daemon", "blank", "mnt"], args].concat(), 0).1;
    assert!(is_clean());
    // A read-only server may end in any way.
    for (args, clean) in [(&["--read-only"][..], true), (&[], false)] {
        let told = export(args);
        assert!(told.contains("closed cleanly"), "{told}");
        place.kill_server();
        place.runs(&["umount", "mnt"], 1);
        assert_eq!(is_clean(), clean);
    }
    let told = export(&[]);
    assert!(told.contains("recovered after an unclean stop: nothing had to be replayed"), "{told}");
    place.runs(&["umount", "mnt"], 0);
    assert!(is_clean());
}

/// The note that files may have access control lists cannot be written; the image is open then.
#[test]
fn a_mount_that_fails_after_opening_its_image_closes_it() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--size", "64MiB"], 0);
    fs::create_dir(place.path("img/acls.new")).expect("mkdir");
    let (_, told) = place.runs(&["mount", "--xattrs", "img", "mnt"], 2);
    assert!(told.contains("acls"), "{told}");
    assert!(!place.runs(&["stat", "img"], 0).0.contains("not closed"));
}

#[test]
fn what_a_mount_says_is_one_line_and_an_unmount_of_nothing_gives_no_advice_for_mounts() {
    let Some(place) = Place::new() else { return };
    fs::create_dir(place.path("mnt/two\nlines")).expect("mkdir");
    let (_, told) = place.runs(&["mount", "--daemon", "ram:bytefs", "mnt/two\nlines"], 0);
    place.runs(&["umount", "mnt/two\nlines"], 0);
    assert!(
        told.contains("mnt/two'$'\\n''lines': a new bytefs in memory") && told.lines().count() == 1,
        "{told}"
    );
    let (_, told) = place.runs(&["umount", "nowhere"], 2);
    assert!(told.contains("nothing is mounted there") && !told.contains("mkdir"), "{told}");
}

/// Names of files are bytes.
#[test]
fn an_image_whose_name_is_no_text_is_mounted_grown_and_exported() {
    use std::os::unix::ffi::OsStrExt;
    let Some(place) = Place::new() else { return };
    for (fs, serve) in [("bytefs", "mount"), ("none", "export")] {
        let image = std::ffi::OsStr::from_bytes(b"im\xffge");
        let runs = |before: &[&str], after: &[&str]| {
            let mut c = assert_cmd::Command::cargo_bin("granary").expect("built");
            c.current_dir(place.dir()).args(before).arg(image).args(after).assert().success();
        };
        runs(&["mkfs", "--force", "--fs", fs, "--size", "64MiB"], &[]);
        runs(&[serve, "--daemon"], &["mnt"]);
        if serve == "mount" {
            place.runs(&["grow", "mnt", "--size", "128MiB"], 0);
        }
        place.runs(&["umount", "mnt"], 0);
    }
}

/// Nobody needs to wait for a killed mount: the next command does, until the dying process has closed the
/// image.
#[test]
fn a_command_right_after_a_kill_finds_the_image_free() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--size", "64MiB"], 0);
    for n in 0..10u8 {
        place.runs(&["mount", "--daemon", "img", "mnt"], 0);
        fs::write(place.path("mnt/f"), vec![n; 4 << 20]).expect("write");
        fs::File::open(place.path("mnt/f")).expect("open").sync_all().expect("fsync");
        let pid = place.server();
        signal(&pid, "-9");
        place.runs(&["fsck", "img"], 0);
        unmount(place.path("mnt"), UnmountFlags::DETACH).expect("unmounted");
    }
}

#[test]
fn a_file_system_in_memory_is_mounted_by_its_name() {
    let Some(place) = Place::new() else { return };
    let (_, told) = place.runs(&["mount", "--daemon", "--size", "256MiB", "ram:ext4", "mnt"], 0);
    assert!(told.contains("in memory"), "{told}");
    fs::write(place.path("mnt/f"), "x").expect("write");
    assert_eq!(place.stats()["source"], "ram:ext4");
    place.runs(&["umount", "mnt"], 0);
    assert!(!place.path("mnt/f").exists());
}

#[test]
fn what_a_mount_asks_of_its_drive_can_be_replayed() {
    let Some(place) = Place::new() else { return };
    for fs in ["bytefs", "nova"] {
        let args =
            ["mount", "--daemon", "--size", "256MiB", "--record", "trace", &format!("ram:{fs}"), "mnt"];
        place.runs(&args, 0);
        std::thread::scope(|threads| {
            for n in 0..4u8 {
                let path = place.path(&format!("mnt/{n}"));
                threads.spawn(move || {
                    fs::write(&path, vec![n; 100_000]).expect("write");
                    fs::File::open(&path).expect("open").sync_all().expect("fsync");
                });
            }
        });
        let before = place.stats();
        assert!(before["recorded"].as_u64().expect("counts") > 10);
        place.runs(&["umount", "mnt"], 0);
        let (replayed, _) = place.runs(&["drive", "replay", "--as-fast-as-possible", "--json", "trace"], 0);
        let replayed: serde_json::Value = serde_json::from_str(&replayed).expect("JSON");
        // The replay begins with mkfs, which the mount's counters leave out, and ends with the unmount:
        // neither has data.
        for interface in ["block", "byte"] {
            let data = |of: &serde_json::Value| of["host"][interface]["write_bytes"]["data"].clone();
            assert_eq!(data(&replayed), data(&before), "{fs}, {interface}");
        }
    }
    place.runs(&["mkfs", "img", "--size", "256MiB"], 0);
    assert!(place.runs(&["mount", "--record", "trace", "img", "mnt"], 2).1.contains("mount ram:FS"));
    let nowhere = ["mount", "--record", "no/such/trace", "ram:bytefs", "mnt"];
    assert!(place.runs(&nowhere, 2).1.contains("no/such/trace"));
}

#[test]
fn what_cannot_be_is_refused_with_the_reason_and_code_2() {
    let Some(place) = Place::new() else { return };
    fs::create_dir(place.path("full")).expect("mkdir");
    fs::write(place.path("full/x"), "").expect("write");
    for daemon in [&["mount"][..], &["mount", "--daemon"]] {
        let refused = |image: &str, dir: &str| place.runs(&[daemon, &[image, dir]].concat(), 2).1;
        assert!(refused("ram:bytefs", "absent").contains("mkdir"));
        assert!(refused("ram:bytefs", "full").contains("not empty"));
        assert!(refused("ram:bytefs", "full/x").contains("not a directory"));
        assert!(refused("ram:nofs", "mnt").contains("there are bytefs, "));
        assert!(refused("absent.img", "mnt").contains("granary mkfs"));
    }
}

#[test]
fn a_signal_ends_the_mount_cleanly() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--size", "256MiB"], 0);
    place.runs(&["mount", "--daemon", "img", "mnt"], 0);
    fs::write(place.path("mnt/f"), "not synced by its writer").expect("write");
    let pid = place.server();
    signal(&pid, "-TERM");
    while Path::new(&format!("/proc/{pid}/exe")).exists() {
        std::thread::yield_now();
    }
    assert_eq!(place.runs(&["cat", "img", "/f"], 0).0, "not synced by its writer");
}

/// Something mounted for a test, away again whatever happens.
struct Away(std::path::PathBuf);

impl Drop for Away {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn an_unmount_says_that_not_everything_could_be_written_back() {
    let Some(place) = Place::new() else { return };
    let small = place.path("small");
    fs::create_dir(&small).expect("mkdir");
    if mount("tmpfs", &small, "tmpfs", MountFlags::empty(), c"size=60m").is_err() {
        return granary_suite::skip::skipped("not root");
    }
    let _away = Away(small);
    place.runs(&["mkfs", "small/img", "--size", "256MiB"], 0);
    place.runs(&["mount", "--daemon", "small/img", "mnt"], 0);
    // The host's disk is full before the file system writes anything back.
    fs::write(place.path("small/fill"), vec![1; 60 << 20]).expect_err("it is full now");
    let precious: Vec<u8> =
        (0..30u32 << 20).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    fs::write(place.path("mnt/precious"), precious).expect("into memory");
    let (_, told) = place.runs(&["umount", "mnt"], 1);
    assert!(told.contains("not everything may have been written back"), "{told}");
    assert!(told.contains("space"), "the reason: {told}");
}

#[test]
fn an_unmount_does_not_wait_for_a_mount_elsewhere() {
    let Some(place) = Place::new() else { return };
    let other = place.path("other");
    fs::create_dir(&other).expect("mkdir");
    place.runs(&["mount", "--daemon", "--size", "256MiB", "ram:bytefs", "mnt"], 0);
    if mount_bind(place.path("mnt"), &other).is_err() {
        return granary_suite::skip::skipped("not root");
    }
    let _away = Away(other.clone());
    let (_, told) = place.runs(&["umount", "mnt"], 1);
    assert!(told.contains(other.to_str().expect("a name of letters")), "{told}");
    fs::write(other.join("f"), "served on").expect("write");
    place.runs(&["umount", "other"], 0);
}

#[test]
fn nobody_waits_for_a_stopped_server() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--size", "64MiB"], 0);
    place.runs(&["mount", "--daemon", "img", "mnt"], 0);
    fs::write(place.path("mnt/f"), "kept").expect("write");
    let pid = place.server();
    signal(&pid, "-STOP");
    for command in [["stat", "mnt"], ["umount", "mnt"]] {
        let (_, told) = place.runs(&command, 2);
        assert!(told.contains("-CONT") && told.contains(&pid) && told.contains("--lazy"), "{told}");
    }
    signal(&pid, "-CONT");
    place.runs(&["umount", "mnt"], 0);
    assert_eq!(place.runs(&["cat", "img", "/f"], 0).0, "kept");
}

/// Between umount(8) and what the server sees of it, the server takes requests for an image without a mount.
/// Stopped, it stays there.
#[test]
fn a_server_that_has_not_yet_seen_its_unmount_is_waited_for() {
    let Some(place) = Place::new() else { return };
    if !rustix::process::geteuid().is_root() {
        return granary_suite::skip::skipped("not root");
    }
    place.runs(&["mkfs", "img", "--size", "64MiB"], 0);
    place.runs(&["mount", "--daemon", "img", "mnt"], 0);
    fs::write(place.path("mnt/f"), "kept").expect("write");
    fs::File::open(place.path("mnt/f")).and_then(|file| file.sync_all()).expect("synced");
    let pid = place.server();
    signal(&pid, "-STOP");
    rustix::mount::unmount(place.path("mnt"), rustix::mount::UnmountFlags::DETACH).expect("unmounted");
    std::thread::scope(|threads| {
        threads.spawn(|| {
            #[allow(clippy::disallowed_methods)] // another process waits on the wall clock
            std::thread::sleep(std::time::Duration::from_millis(300));
            signal(&pid, "-CONT");
        });
        assert_eq!(place.runs(&["cat", "img", "/f"], 0).0, "kept");
    });
}

#[test]
fn an_unmount_tells_of_a_server_that_was_dead() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--size", "64MiB"], 0);
    place.runs(&["mount", "--daemon", "img", "mnt"], 0);
    fs::write(place.path("mnt/f"), "not synced").expect("write");
    let pid = place.server();
    signal(&pid, "-KILL");
    // This file is never cached: the kernel answers for the server once it is gone.
    while fs::read(place.path("mnt/.granary-stats")).is_ok() {
        std::thread::yield_now();
    }
    let (_, told) = place.runs(&["umount", "mnt"], 1);
    assert!(told.contains("had died") && told.contains("recovers"), "{told}");
    place.runs(&["mount", "--daemon", "img", "mnt"], 0);
    place.runs(&["umount", "mnt"], 0);
}

/// A mount of an image whose files may have access control lists checks them, asked for or not. The mode
/// alone would give the group the rights that the list gives one user.
#[test]
fn lists_are_heeded_once_there_can_be_some() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--size", "64MiB"], 0);
    let mounts = |args: &[&str]| place.runs(&[&["mount", "--daemon"], args, &["img", "mnt"]].concat(), 0).1;
    assert!(!mounts(&[]).contains("access control"));
    place.runs(&["umount", "mnt"], 0);
    mounts(&["--xattrs"]);
    fs::write(place.path("mnt/f"), "x").expect("write");
    // Version 2; owner rw-, user 1000 rw-, group ---, mask rw-, others --- (linux/posix_acl_xattr.h).
    let none = u32::MAX;
    let entries = [(1u16, 6u16, none), (2, 6, 1000), (4, 0, none), (16, 6, none), (32, 0, none)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend([&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    let name = "system.posix_acl_access";
    rustix::fs::setxattr(place.path("mnt/f"), name, &list, rustix::fs::XattrFlags::empty()).expect("set");
    place.runs(&["umount", "mnt"], 0);
    for how in [&[][..], &["--read-only"]] {
        assert!(mounts(how).contains("access control lists"));
        let mut read = [0; 100];
        let n = rustix::fs::getxattr(place.path("mnt/f"), name, &mut read[..]).expect("there");
        assert_eq!(read[..n], list);
        place.runs(&["umount", "mnt"], 0);
    }
}

/// NOVA keeps no attributes: neither an option nor an image that was once mounted with it may keep everybody
/// out.
#[test]
fn lists_are_not_asked_of_a_file_system_without_them() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--fs", "nova", "--size", "64MiB"], 0);
    let (_, told) = place.runs(&["mount", "--daemon", "--xattrs", "img", "mnt"], 0);
    assert!(told.contains("which nova does not keep"), "{told}");
    place.runs(&["umount", "mnt"], 0);
    let (_, told) = place.runs(&["mount", "--daemon", "img", "mnt"], 0);
    assert!(!told.contains("attributes") && !told.contains("lists"), "{told}");
    place.runs(&["umount", "mnt"], 0);
}

/// A watching command gets an error when the server dies.
#[test]
fn watching_ends_with_an_error_when_the_server_dies() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--size", "64MiB"], 0);
    place.runs(&["mount", "--daemon", "img", "mnt"], 0);
    let pid = place.stats()["pid"].to_string();
    let mut watching = std::process::Command::new(assert_cmd::cargo::cargo_bin("granary"));
    watching.args(["stat", "--watch", "--json", "--interval", "0.05", "mnt"]).current_dir(place.dir());
    watching.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = watching.spawn().expect("runs");
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(child.stdout.as_mut().expect("piped")),
        &mut line,
    )
    .expect("a first line");
    signal(&pid, "-9");
    let out = child.wait_with_output().expect("ends");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{told}");
    assert!(told.contains("is dead"), "{told}");
}

/// An image is mounted as its own testbed says, wherever that is, and whatever has its name elsewhere.
#[test]
fn an_image_carries_the_settings_of_its_host() {
    let Some(place) = Place::new() else { return };
    let mine = "base = \"bytefs-emulator\"\nname = \"mine\"\n[host.ext4]\ndata = \"journal\"\n";
    fs::write(place.path("my.toml"), mine).expect("written");
    place.runs(&["mkfs", "img", "--fs", "ext4", "--size", "64MiB", "--testbed", "my.toml"], 0);
    let args = ["mkfs", "set", "--fs", "ext4", "--size", "64MiB", "--set", "ext4.data=journal"];
    place.runs(&args, 0);
    place.runs(&["mkfs", "plain", "--fs", "ext4", "--size", "64MiB"], 0);
    fs::remove_file(place.path("my.toml")).expect("removed");
    // Blocks of data that go into the journal go to the drive twice.
    let journal = |image: &str, set: &[&str]| {
        let args = [&["mount", "--daemon", image, "mnt"][..], set].concat();
        place.runs(&args, 0);
        let f = fs::File::create(place.path("mnt/f")).expect("created");
        std::os::unix::fs::FileExt::write_all_at(&f, &[7; 100 << 12], 0).expect("written");
        f.sync_all().expect("fsync");
        let written = place.stats()["host"]["block"]["write_bytes"]["journal"].as_u64().expect("a number");
        drop(f);
        place.runs(&["umount", "mnt"], 0);
        written >= 100 << 12
    };
    assert!(!journal("plain", &[]));
    assert!(journal("img", &[]));
    assert!(journal("set", &[]));
    assert!(!journal("img", &["--set", "ext4.data=ordered"]));
    place.runs(&["fsck", "img"], 0);
}

#[test]
fn set_user_id_programs_and_devices_are_as_asked() {
    let Some(place) = Place::new() else { return };
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for (more, suid, dev) in
        [(&[][..], false, false), (&["--suid"], true, false), (&["--suid", "--dev"], true, true)]
    {
        place.runs(&[&["mount", "--daemon", "ram:bytefs", "mnt"][..], more].concat(), 0);
        let table = fs::read_to_string("/proc/self/mounts").expect("readable");
        let path = place.path("mnt").canonicalize().expect("there");
        let line = table.lines().find(|l| l.contains(path.to_str().expect("UTF-8"))).expect("mounted");
        assert_eq!((line.contains("nosuid"), line.contains("nodev")), (!suid, !dev), "{line}");
        place.runs(&["umount", "mnt"], 0);
    }
}

/// umount(8) does not wait until the image is closed. The next mount does.
#[test]
fn an_image_is_unmounted_by_its_name_and_mounted_again_at_once() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--size", "64MiB"], 0);
    let source = format!("granary:{}", place.path("img").display());
    for round in 0..4 {
        place.runs(&["mount", "--daemon", "img", "mnt"], 0);
        let table = fs::read_to_string("/proc/self/mountinfo").expect("read");
        assert!(table.contains(&format!("fuse.granary {source} ")), "{table}");
        assert!(!std::path::Path::new(&source).exists(), "umount(8) would take it for a directory");
        fs::write(place.path("mnt/f"), vec![round; 4 << 20]).expect("written");
        if rustix::process::geteuid().is_root() {
            umount8(&source);
        } else {
            place.runs(&["umount", "img"], 0);
        }
    }
    place.runs(&["mount", "--daemon", "img", "mnt"], 0);
    assert_eq!(fs::read(place.path("mnt/f")).expect("read"), vec![3; 4 << 20]);
    place.runs(&["umount", "img"], 0);
    let (_, told) = place.runs(&["umount", "img"], 2);
    assert!(told.contains("is not"), "{told}");
}
