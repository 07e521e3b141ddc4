//! One change, one fsync that promises it, one power failure: on every file system, also where the inode left
//! memory in between.

use crate::failure::across_a_power_failure;
use granary_crash::Target;
use granary_device::Devices;
use granary_fs::{Cred, SetXattr};
use granary_units::{Dest, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};

const LEN: usize = 16 * 4096;
const ALL: &str = "bytefs bytefs-sync bytefs-log bytefs-dual bytefs-journal ext4 ext4-writeback ext4-journal f2fs nova \
                   nova-in-place pmfs";

/// Changes of `/d/f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Create,
    Overwrite,
    Mode,
    Attribute,
    Rename,
    Link,
}

impl Change {
    const EVERY: [Change; 6] =
        [Change::Create, Change::Overwrite, Change::Mode, Change::Attribute, Change::Rename, Change::Link];

    /// The path to fsync: names belong to their directory.
    fn promised_by(self) -> (&'static str, OpenFlags) {
        match self {
            Change::Rename | Change::Link => ("/d", OpenFlags::RDONLY),
            _ => ("/d/f", OpenFlags::RDWR),
        }
    }

    fn apply(self, p: &mut Process) {
        match self {
            Change::Create => write(p, 0x77, LEN),
            Change::Overwrite => write(p, 0x77, 100),
            Change::Mode => p.chmod("/d/f", 0o640).expect("chmod"),
            Change::Attribute => p.setxattr("/d/f", b"user.a", b"value", SetXattr::Any).expect("setxattr"),
            Change::Rename => p.rename("/d/f", "/d/h").expect("rename"),
            Change::Link => p.link("/d/f", "/d/h").expect("link"),
        }
    }

    /// The part of the change that is missing.
    fn missing(self, p: &mut Process) -> Option<String> {
        let path = if matches!(self, Change::Rename | Change::Link) { "/d/h" } else { "/d/f" };
        let stat = match p.stat(path) {
            Err(e) => return Some(format!("{path}: {e}")),
            Ok(stat) => stat.attr,
        };
        let fd = p.open(path, OpenFlags::RDONLY, 0).expect("opens");
        let mut found = [1; 100];
        p.pread(fd, Dest::Bytes(&mut found), 0).expect("reads");
        let byte = if matches!(self, Change::Create | Change::Overwrite) { 0x77 } else { 0x66 };
        let wrong = [
            (stat.size != LEN as u64, "size"),
            (self == Change::Mode && stat.mode & 0o777 != 0o640, "mode"),
            (self == Change::Link && stat.nlink != 2, "links"),
            (self == Change::Attribute && p.getxattr(path, b"user.a") != Ok(b"value".to_vec()), "attribute"),
            (found != [byte; 100], "content"),
        ];
        wrong.into_iter().find(|w| w.0).map(|w| w.1.to_owned())
    }
}

fn write(p: &mut Process, byte: u8, len: usize) {
    let fd = p.open("/d/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("opens");
    p.pwrite(fd, Payload::Bytes(&vec![byte; len]), 0).expect("writes");
    p.close(fd).expect("closes");
}

fn process(target: &dyn Target, devices: &Devices, config: VfsConfig) -> Process {
    let fs = target.mount(devices).expect("mounts");
    Process::new(Vfs::mount(fs, config).expect("mounts"), Cred::ROOT)
}

/// The part of the change that is missing after the power failure. `leaves`: the inodes leave memory between
/// the change and the fsync.
fn lost(name: &'static str, change: Change, leaves: bool) -> Option<String> {
    let target = crate::targets::by_name(name).expect("a target");
    let before = move |target: &dyn Target, devices: &Devices| {
        let mut p = process(target, devices, VfsConfig { inodes: 4, ..target.vfs() });
        let others: Vec<String> = (0..12).map(|n| format!("/g{n}")).collect();
        for path in &others {
            let fd = p.open(path, OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
            p.close(fd).expect("closes");
        }
        p.mkdir("/d", 0o700).expect("makes");
        if change != Change::Create {
            write(&mut p, 0x66, LEN);
        }
        p.sync().expect("sync");
        devices.track_in_flight(true);
        change.apply(&mut p);
        if leaves {
            (0..3).for_each(|_| others.iter().for_each(|path| assert!(p.stat(path).is_ok())));
        }
        let (path, flags) = change.promised_by();
        let fd = p.open(path, flags, 0).expect("opens");
        p.fsync(fd).expect("fsync");
    };
    across_a_power_failure(&target, before, move |target, devices| {
        change.missing(&mut process(target, devices, target.vfs()))
    })
}

#[test]
fn one_fsync_makes_one_change_durable() {
    for name in ALL.split_whitespace() {
        for change in Change::EVERY {
            for leaves in [false, true] {
                if change == Change::Attribute && matches!(name, "nova" | "nova-in-place" | "pmfs") {
                    continue; // they have none
                }
                assert_eq!(lost(name, change, leaves), None, "{name}, {change:?}, left memory: {leaves}");
            }
        }
    }
}

/// On a drive with a volatile cache: sync finds nothing dirty, as the flusher wrote the data and another
/// fsync committed the inode. The data is in the cache all the same.
#[test]
fn sync_makes_durable_what_was_written_back_before() {
    for name in granary_crash::target::names(granary_lab::registry::FILE_SYSTEMS)
        .iter()
        .filter(|name| name.ends_with("@volatile"))
    {
        let target = crate::targets::by_name(name).expect("a target");
        let before = |target: &dyn Target, devices: &Devices| {
            let mut p = process(target, devices, target.vfs());
            p.mkdir("/d", 0o700).expect("makes");
            write(&mut p, 0x66, LEN);
            p.sync().expect("sync");
            devices.track_in_flight(true);
            write(&mut p, 0x77, LEN);
            let other = p.open("/d/other", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
            p.fsync(other).expect("fsync");
            granary_sim::sleep(granary_units::Nanos::from_millis(50));
            p.sync().expect("sync");
        };
        let lost = across_a_power_failure(&target, before, |target, devices| {
            let mut p = process(target, devices, target.vfs());
            let fd = p.open("/d/f", OpenFlags::RDONLY, 0).expect("opens");
            let mut found = vec![0; LEN];
            p.pread(fd, Dest::Bytes(&mut found), 0).expect("reads");
            found.iter().filter(|&&byte| byte != 0x77).count()
        });
        assert_eq!(lost, 0, "{name}: bytes that sync promised");
    }
}
