//! Persistent memory over another file system than its own, and a mount that may change nothing.

use crate::common::{Rig, Stack};
use granary_device::Port;
use granary_fs::{Cred, FsError};
use granary_spfs::Access;
use granary_spfs::exthash::Form;
use granary_suite::suite::{Subject, run};
use granary_units::{Bytes, Dest, Lpa, PAGE_SIZE, Page, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};

const SIZE: Bytes = Bytes::mib(4);

/// Everything on a device.
fn image(port: &Port) -> Vec<Page> {
    let pages = SIZE.0 / PAGE_SIZE as u64;
    let mut all = vec![Page::ZERO; pages as usize];
    for (n, page) in all.iter_mut().enumerate() {
        let at = Lpa(n as u64).byte();
        port.load_pages(at, PAGE_SIZE, std::slice::from_mut(page), granary_device::Structure::Data)
            .expect("loads");
    }
    all
}

#[test]
fn another_file_system_below_is_refused_and_nothing_is_lost() {
    run(|| {
        let (own, other) = (Stack::busy(Form::Carved), Stack::busy(Form::Carved));
        let mut rig = Rig::new(&own, SIZE);
        let fd = rig.tiered("/f", 5_000);
        rig.put(fd, 104, 7, 50);
        // The other one was used with persistent memory of its own, and has a file of the same number.
        let mut second = Rig::new(&other, SIZE);
        second.tiered("/f", 5_000);
        let (memory, unused) = (rig.unmounted(), second.unmounted());
        let before = image(&Port::new(memory.clone()));
        let refused = other.mount(Port::new(memory.clone())).err().expect("refused");
        assert!(
            matches!(&refused, FsError::Mismatch(why) if why.contains("1 files of another")),
            "{refused}"
        );
        assert!(image(&Port::new(memory.clone())) == before, "a refused mount has changed something");
        // Over its own it is as before, and over the other that one's is.
        let mut rig = Rig::again(&own, memory);
        let fd = rig.p.open("/f", OpenFlags::RDONLY, 0).expect("open");
        assert_eq!(rig.content(fd)[104..112], 7u64.to_le_bytes());
        rig.check();
        Rig::again(&other, unused).check();
    });
}

/// After all files have left persistent memory, the next one takes no new number of the pair before what is
/// below has it: of two numbers that do not fit, every later mount would be refused.
#[test]
fn a_pair_that_has_files_again_keeps_its_number_until_what_is_below_has_it() {
    run(|| {
        let mut stack = Stack::busy(Form::Carved);
        stack.mount.demotion = false;
        let mut rig = Rig::new(&stack, SIZE);
        let flags = OpenFlags::CREAT | OpenFlags::RDWR | OpenFlags::DIRECT | OpenFlags::SYNC;
        rig.p.open("/a", flags, 0o644).expect("created");
        rig.fs.demote_all().expect("demoted");
        assert_eq!(rig.fs.stats().alone, 0);
        // No unmount: the attribute below still names this memory.
        let memory = rig.drive.clone();
        drop((rig.p, rig.vfs, rig.fs));
        let mut rig = Rig::again(&stack, memory);
        // Another file comes. The attribute below cannot be set, and the host dies.
        let fault = FsError::Host(5);
        stack.memory().set_xattr_fault(Some(fault.clone()));
        let _ = rig.p.open("/b", flags, 0o644);
        stack.memory().set_xattr_fault(None);
        let memory = rig.drive.clone();
        drop((rig.p, rig.vfs, rig.fs));
        Rig::again(&stack, memory).check();
    });
}

/// The number of the pair is nobody's business above.
#[test]
fn the_attribute_of_the_pair_is_not_shown() {
    run(|| {
        let mut rig = Rig::new(&Stack::busy(Form::Carved), SIZE);
        rig.tiered("/f", 5_000);
        assert_eq!(rig.p.listxattr("/"), Ok(Vec::new()));
        assert_eq!(rig.p.getxattr("/", b"user.granary.spfs"), Err(FsError::NoAttribute));
        let lower = rig.fs.lower();
        let call = granary_fs::Call::offline();
        assert!(lower.getxattr(&call, &lower.root(), b"user.granary.spfs").expect("below").is_some());
    });
}

#[test]
fn a_mount_for_reading_writes_nothing_and_one_that_must_recover_is_refused() {
    run(|| {
        let stack = Stack::busy(Form::Pointers);
        let mut rig = Rig::new(&stack, SIZE);
        let fd = rig.tiered("/f", 5_000);
        rig.put(fd, 104, 7, 50);
        let memory = rig.unmounted();
        let port = Port::new(memory.clone());
        let before = image(&port);
        let fs =
            granary_spfs::mount_as(port.clone(), stack.below(), &stack.mount, Access::Read).expect("mounts");
        let vfs = Vfs::mount(fs, VfsConfig { read_only: true, ..VfsConfig::default() }).expect("vfs");
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("open");
        let mut got = [0; 8];
        p.pread(fd, Dest::Bytes(&mut got), 104).expect("reads");
        assert_eq!(u64::from_le_bytes(got), 7);
        p.exit();
        vfs.unmount().expect("unmounts");
        assert!(image(&port) == before, "it has written");
        // One that is not unmounted.
        let rig = Rig::again(&stack, memory);
        drop((rig.p, rig.vfs, rig.fs));
        let refused =
            granary_spfs::mount_as(port, stack.below(), &stack.mount, Access::Read).err().expect("refused");
        assert!(matches!(&refused, FsError::Mismatch(why) if why.contains("for writing")), "{refused}");
    });
}

/// Only "not supported" and "no such attribute" mean that the file system below has no attributes; what else
/// fails is reported.
#[test]
fn a_failing_attribute_is_reported_and_one_that_cannot_be_is_none() {
    run(|| {
        for failure in [FsError::Host(5), FsError::NotPermitted, FsError::NoSpace] {
            let stack = Stack::busy(Form::Carved);
            let mut rig = Rig::new(&stack, SIZE);
            let fd = rig.p.open("/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("created");
            rig.put(fd, 0, 1, 100);
            rig.p.fsync(fd).expect("the first");
            stack.memory().set_xattr_fault(Some(failure.clone()));
            // A promotion that finds no room is not made, and nobody is told.
            let told = if failure == FsError::NoSpace { Ok(()) } else { Err(failure.clone()) };
            assert_eq!(rig.p.fsync(fd), told, "{failure:?}");
            assert_eq!(rig.fs.stats().tiered, 0, "{failure:?}");
            stack.memory().set_xattr_fault(None);
            rig.p.fsync(fd).expect("works again");
            assert_eq!(rig.fs.stats().tiered, 1, "{failure:?}");
            // At the mount: persistent memory with a pair is not let over a file system that cannot say which
            // it is.
            let memory = rig.unmounted();
            stack.memory().set_xattr_fault(Some(failure.clone()));
            assert_eq!(stack.mount(Port::new(memory.clone())).err(), Some(failure), "at the mount");
            stack.memory().set_xattr_fault(Some(FsError::NotSupported));
            let refused = stack.mount(Port::new(memory.clone())).err();
            assert!(matches!(refused, Some(FsError::Mismatch(_))), "{refused:?}");
            stack.memory().set_xattr_fault(None);
            Rig::again(&stack, memory).check();
        }
        for none in [FsError::NotSupported, FsError::NoAttribute] {
            let stack = Stack::busy(Form::Carved);
            let mut rig = Rig::new(&stack, SIZE);
            let fd = rig.p.open("/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("created");
            rig.put(fd, 0, 1, 100);
            stack.memory().set_xattr_fault(Some(none.clone()));
            (0..2).for_each(|_| rig.p.fsync(fd).expect("fsync"));
            assert_eq!(rig.fs.stats().tiered, 1, "{none:?}");
            Rig::again(&stack, rig.unmounted()).check();
        }
    });
}

/// Recovery leaves undone what it would do below; it reads as if that were done.
#[test]
fn a_look_recovers_and_changes_nothing_below() {
    run(|| {
        let stack = Stack::busy(Form::Carved);
        let mut rig = Rig::new(&stack, SIZE);
        let cut = rig.tiered("/cut", 5_000);
        rig.p.ftruncate(cut, 3_000).expect("cut");
        rig.p.ftruncate(cut, 5_000).expect("grown");
        rig.put(cut, 0, 7, 8);
        rig.tiered("/gone", 4_000);
        let flags = OpenFlags::CREAT | OpenFlags::RDWR | OpenFlags::DIRECT | OpenFlags::SYNC;
        let alone = rig.p.open("/alone", flags, 0o644).expect("created");
        rig.put(alone, 0, 9, 8);
        let memory = rig.drive.clone();
        drop((rig.p, rig.vfs, rig.fs));
        // Beside it: bytes behind the limit, a removal, and what a move of the last one would have begun.
        let mut p = Process::new(stack.below(), Cred::ROOT);
        let gone = p.stat("/gone").expect("stat").ino.0;
        p.unlink("/gone").expect("removed");
        let below = [("/cut", 6_000), ("/alone", 100)].map(|(name, len)| {
            let fd = p.open(name, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("open");
            p.pwrite(fd, Payload::Fill { word: 5, len }, 0).expect("written");
            p.fsync(fd).expect("fsync");
            (name, len as u64)
        });
        p.exit();
        let fs = granary_spfs::mount_as(Port::new(memory), stack.below(), &stack.mount, Access::Look);
        let fs = fs.expect("recovers");
        assert!(!fs.recovery().clean);
        assert_eq!(fs.dropped().iter().map(|m| (m.ino, m.size)).collect::<Vec<_>>(), [(gone, 4_000)]);
        let vfs = Vfs::mount(fs, VfsConfig { read_only: true, ..VfsConfig::default() }).expect("vfs");
        assert_eq!(vfs.check(), Ok(Vec::new()));
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        let mut names: Vec<Vec<u8>> = p.list("/").expect("lists").into_iter().map(|e| e.name).collect();
        names.retain(|name| !name.starts_with(b"."));
        names.sort();
        assert_eq!(names, [b"alone".to_vec(), b"cut".to_vec()]);
        let mut read = |name: &str| {
            let fd = p.open(name, OpenFlags::RDONLY, 0).expect("open");
            let mut bytes = vec![0; 8_000];
            let n = p.pread(fd, Dest::Bytes(&mut bytes), 0).expect("reads");
            bytes.truncate(n);
            bytes
        };
        assert_eq!(read("/alone"), 9u64.to_le_bytes());
        let cut = read("/cut");
        assert_eq!((cut.len(), &cut[..8]), (5_000, &7u64.to_le_bytes()[..]));
        assert!(cut[4_096..].iter().all(|b| *b == 0), "bytes behind the limit show");
        p.exit();
        vfs.unmount().expect("unmounts");
        let mut p = Process::new(stack.below(), Cred::ROOT);
        for (name, len) in below {
            assert_eq!(p.stat(name).expect("still there").attr.size, len, "{name}");
        }
    });
}

/// A file in persistent memory alone does not go with its directory, which is removed beside the mount.
#[test]
fn a_file_whose_directory_is_gone_finds_a_place_in_the_root() {
    run(|| {
        let stack = Stack::busy(Form::Carved);
        let mut rig = Rig::new(&stack, SIZE);
        rig.p.mkdir("/d", 0o755).expect("mkdir");
        let flags = OpenFlags::CREAT | OpenFlags::RDWR | OpenFlags::DIRECT | OpenFlags::SYNC;
        for name in ["/d/f", "/g"] {
            let fd = rig.p.open(name, flags, 0o644).expect("created");
            rig.put(fd, 0, 9, 8);
        }
        let memory = rig.unmounted();
        let below = stack.below();
        let mut p = Process::new(below.clone(), Cred::ROOT);
        p.rmdir("/d").expect("removed: nothing is in it below");
        p.exit();
        below.unmount().expect("unmounts");
        let rig = Rig::again(&stack, memory);
        let wrong = rig.vfs.check().expect("checks");
        assert!(wrong.len() == 1 && wrong[0].contains("the file f "), "{wrong:?}");
        let found = rig.fs.find_places().expect("found");
        assert_eq!(found.len(), 1);
        assert_eq!(rig.fs.find_places(), Ok(Vec::new()), "the other one has its place");
        let mut rig = rig.remounted();
        let fd = rig.p.open(&found[0], OpenFlags::RDONLY, 0).expect("there");
        assert_eq!(rig.content(fd), 9u64.to_le_bytes());
        rig.check();
    });
}
