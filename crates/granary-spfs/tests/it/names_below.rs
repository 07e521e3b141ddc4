//! Names that were given up below and are taken by files in persistent memory alone, before the lower file
//! system has committed anything. After a power failure each name is the new file's. A file that was moved
//! out of a name is at its new place.

use crate::common::dimm;
use crate::power::mount_over;
use granary_device::{Devices, Role};
use granary_fs::{Cred, FileKind, FsEntry};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, now, sleep_until};
use granary_spfs::{MountOptions, over};
use granary_suite::suite::run;
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs};
use std::sync::Arc;

/// The file system in front of each lower one, which comes second.
const STACKS: [(FsEntry, FsEntry); 4] = [
    (over(&granary_ext4::EXT4, "spfs+ext4", &[]), granary_ext4::EXT4),
    (over(&granary_f2fs::F2FS, "spfs+f2fs", &[]), granary_f2fs::F2FS),
    (over(&granary_nilfs2::NILFS2, "spfs+nilfs2", &[]), granary_nilfs2::NILFS2),
    (over(&granary_bytefs::BYTEFS_DUAL, "spfs+bytefs-dual", &[]), granary_bytefs::BYTEFS_DUAL),
];
const ALONE: OpenFlags =
    OpenFlags::CREAT.union(OpenFlags::RDWR).union(OpenFlags::DIRECT).union(OpenFlags::SYNC);

fn devices() -> Devices {
    let mut config = DriveConfig::bytefs_emulator().with_mode(Mode::Cache);
    config.flash = config.flash.with_capacity(Bytes::mib(64));
    Devices::ssd(Arc::new(Mssd::new(&config).expect("a drive"))).with(Role::Nvm, dimm(Bytes::mib(8)))
}

fn options() -> MountOptions {
    MountOptions { demotion: false, ..MountOptions::default() }
}

fn write(p: &mut Process, path: &str, flags: OpenFlags, word: u64) {
    let fd = p.open(path, flags, 0o644).expect("created");
    p.pwrite(fd, Payload::Fill { word, len: 8192 }, 0).expect("written");
    if !flags.contains(OpenFlags::SYNC) {
        p.fsync(fd).expect("fsync");
    }
    p.close(fd).expect("close");
}

fn word(p: &mut Process, path: &str) -> Option<u64> {
    let fd = p.open(path, OpenFlags::RDONLY, 0).ok()?;
    let mut word = [0; 8];
    let read = p.pread(fd, Dest::Bytes(&mut word), 4096).expect("read");
    p.close(fd).expect("close");
    (read == 8).then(|| u64::from_le_bytes(word))
}

fn is_there(p: &mut Process, path: &str) -> bool {
    p.lstat(path).is_ok()
}

/// Makes the names below and makes them durable.
fn prepare(p: &mut Process) {
    p.mkdir("/d", 0o755).expect("mkdir");
    p.mkdir("/e", 0o755).expect("mkdir");
    for (n, path) in ["/d/file", "/d/moved", "/d/linked", "/d/swapped", "/e/other"].iter().enumerate() {
        write(p, path, OpenFlags::CREAT | OpenFlags::RDWR, 10 + n as u64);
    }
    p.symlink("file", "/d/symlink").expect("symlink");
    for (path, kind) in [("/d/fifo", FileKind::Fifo), ("/d/socket", FileKind::Socket)] {
        p.mknod(path, kind, 0o644, 0).expect("mknod");
    }
    p.mkdir("/d/dir", 0o755).expect("mkdir");
    write(p, "/d/dir/within", OpenFlags::CREAT | OpenFlags::RDWR, 20);
    p.sync().expect("sync");
    // The former state of these directories is durable, and they have files that are here alone.
    write(p, "/d/first", ALONE, 30);
    write(p, "/e/first", ALONE, 31);
    p.sync().expect("sync");
}

/// Names that are given up: how, and what else must be there afterwards.
type Case = (&'static str, fn(&mut Process), &'static [(&'static str, u64)]);

const CASES: [Case; 8] = [
    ("/d/file", |p| p.unlink("/d/file").expect("unlink"), &[]),
    ("/d/symlink", |p| p.unlink("/d/symlink").expect("unlink"), &[]),
    ("/d/fifo", |p| p.unlink("/d/fifo").expect("unlink"), &[]),
    ("/d/socket", |p| p.unlink("/d/socket").expect("unlink"), &[]),
    ("/d/moved", |p| p.rename("/d/moved", "/e/moved").expect("rename"), &[("/e/moved", 11)]),
    (
        "/d/linked",
        |p| {
            p.link("/d/linked", "/e/linked").expect("link");
            p.unlink("/d/linked").expect("unlink");
        },
        &[("/e/linked", 12)],
    ),
    (
        "/e/other",
        |p| {
            p.rename("/d/swapped", "/d/again").expect("rename");
            p.rename("/e/other", "/d/swapped").expect("rename");
        },
        &[("/d/again", 13), ("/d/swapped", 14)],
    ),
    (
        "/d/dir",
        |p| {
            p.unlink("/d/dir/within").expect("unlink");
            p.rmdir("/d/dir").expect("rmdir");
        },
        &[],
    ),
];

/// Names of cases whose old owner is gone for good: taking them asks the lower file system for nothing.
const FREE: usize = 4;

/// Action of a name's new owner before the power fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Stays,
    Removed,
    /// Renamed to a name in the other directory.
    Renamed,
    /// Stays; the file system is unmounted, and the power fails when persistent memory says so.
    Unmounted,
}

impl Then {
    fn stays(self) -> bool {
        matches!(self, Then::Stays | Then::Unmounted)
    }
}

fn fail(stack: &'static (FsEntry, FsEntry), cases: &'static [Case], then: Then, seed: u64) {
    let devices = devices();
    let theirs = devices.clone();
    let stopped = World::default().run(move || {
        stack.0.make(&theirs, &granary_fs::entry::defaults).expect("mkfs");
        let (_fs, vfs) = mount_over(&stack.1, &theirs, &options());
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        prepare(&mut p);
        theirs.track_in_flight(true);
        cases.iter().for_each(|(_, give_up, _)| give_up(&mut p));
        let drive = theirs.serving(granary_device::Need::Blocks).expect("a drive");
        let before = drive.drive().traffic();
        for (n, (path, ..)) in cases.iter().enumerate() {
            write(&mut p, path, ALONE, 100 + n as u64);
            match then {
                Then::Stays | Then::Unmounted => {}
                Then::Removed => p.unlink(*path).expect("unlink"),
                Then::Renamed => p.rename(*path, format!("/e/new{n}")).expect("rename"),
            }
        }
        if cases.len() == FREE && then == Then::Stays {
            let written = drive.drive().traffic().since(&before).written();
            assert_eq!(written, 0, "{}: bytes that the drive was given", stack.0.name);
        }
        if then == Then::Unmounted {
            let (nvm, pause) =
                (theirs.serving(granary_device::Need::Nvm).expect("DIMMs").clone(), Nanos(200));
            granary_sim::spawn("looks at persistent memory", move || {
                while !granary_spfs::is_clean(&nvm).expect("read") {
                    granary_sim::sleep(pause);
                }
                granary_sim::power_fail();
            });
            p.exit();
            vfs.unmount().expect("unmounts");
        }
        granary_sim::power_fail();
    });
    let t = match stopped {
        Err(Stop::PowerFail(t)) => t,
        other => panic!("{}: {other:?}", stack.0.name),
    };
    devices.power_fail(t, &mut Stream::new(seed, "power"));
    run(move || {
        sleep_until(t);
        sleep_until(devices.power_on(now()).expect("on"));
        let (fs, vfs) = mount_over(&stack.1, &devices, &options());
        assert_eq!(fs.recovery().found, 0, "{}: files found without a name", stack.0.name);
        drop(fs);
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        for (n, (path, _, others)) in cases.iter().enumerate() {
            let own = Some(100 + n as u64);
            let expected = then.stays().then_some(own).flatten();
            assert_eq!(word(&mut p, path), expected, "{}: {path}", stack.0.name);
            assert!(then.stays() || !is_there(&mut p, path), "{}: {path} is back", stack.0.name);
            if then == Then::Renamed {
                assert_eq!(word(&mut p, &format!("/e/new{n}")), own, "{}: {path}, renamed", stack.0.name);
            }
            for (other, is) in *others {
                assert_eq!(word(&mut p, other), Some(*is), "{}: {other}", stack.0.name);
            }
        }
        assert_eq!((word(&mut p, "/d/first"), word(&mut p, "/e/first")), (Some(30), Some(31)));
        p.exit();
        vfs.sync(&granary_fs::Caller::KERNEL).expect("sync");
        let wrong = vfs.check().expect("checks");
        assert!(wrong.is_empty(), "{}: {}", stack.0.name, wrong.join("\n"));
        vfs.unmount().expect("unmounts");
    });
}

#[test]
fn a_name_that_was_given_up_below_is_the_new_files_after_a_power_failure() {
    for stack in &STACKS {
        for (n, case) in CASES.iter().enumerate() {
            fail(stack, std::slice::from_ref(case), Then::Stays, n as u64);
        }
        fail(stack, &CASES, Then::Stays, 50);
    }
}

/// A name whose old owner is gone for good needs no fsync below.
#[test]
fn names_of_what_is_gone_are_taken_without_a_word_to_the_lower_file_system() {
    STACKS.iter().for_each(|stack| fail(stack, &CASES[..FREE], Then::Stays, 60));
}

/// The removal of the old owner is durable before the new one gives the name up.
#[test]
fn a_name_that_its_new_owner_gives_up_too_does_not_bring_the_old_owner_back() {
    for stack in &STACKS {
        for (n, case) in CASES.iter().enumerate() {
            fail(stack, std::slice::from_ref(case), Then::Removed, 70 + n as u64);
            fail(stack, std::slice::from_ref(case), Then::Renamed, 90 + n as u64);
        }
    }
}

/// The lower file system is durable before persistent memory says that it was unmounted.
#[test]
fn an_unmount_that_is_cut_short_brings_no_name_back() {
    for stack in &STACKS {
        for (n, case) in CASES.iter().enumerate() {
            fail(stack, std::slice::from_ref(case), Then::Unmounted, 110 + n as u64);
        }
    }
}

/// Does something on each stack, newly made.
fn on_each(what: fn(&str, &mut Process, &Arc<Vfs>)) {
    for (front, lower) in STACKS {
        run(move || {
            let devices = devices();
            front.make(&devices, &granary_fs::entry::defaults).expect("mkfs");
            let (_fs, vfs) = mount_over(&lower, &devices, &options());
            let mut p = Process::new(vfs.clone(), Cred::ROOT);
            what(front.name, &mut p, &vfs);
            p.exit();
        });
    }
}

/// The vfs asks for an access list before it changes a mode. The answer is the same whether the file is below
/// or not.
#[test]
fn a_file_alone_has_extended_attributes_where_the_lower_file_system_has_them() {
    on_each(|stack, p, _| {
        write(p, "/below", OpenFlags::CREAT | OpenFlags::RDWR, 1);
        write(p, "/alone", ALONE, 2);
        let names: [&[u8]; 2] = [b"user.a", b"system.posix_acl_access"];
        for name in names {
            let [below, alone] = ["/below", "/alone"].map(|path| p.getxattr(path, name));
            assert_eq!(alone, below, "{stack}: {}", String::from_utf8_lossy(name));
        }
        assert_eq!(p.listxattr("/alone"), p.listxattr("/below"), "{stack}");
    });
}

/// The lower file system may have something that is not home yet: that is no fault.
#[test]
fn a_check_needs_no_sync_before_it() {
    on_each(|stack, p, vfs| {
        write(p, "/alone", ALONE, 2);
        // The file goes below: the lower file system has something to commit.
        p.link("/alone", "/second").expect("linked");
        assert_eq!(vfs.check().expect("checks"), [] as [String; 0], "{stack}");
    });
}
