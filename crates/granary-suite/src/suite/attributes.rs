//! Extended attributes: what is set comes back, and what was fsynced survives.

use super::{Mounted, Subject, create, drive, fail_and_look, run};
use granary_fs::{FsError, SetXattr};
use granary_units::Bytes;
use granary_vfs::Process;
use granary_vfs::{OpenFlags, Posix};

fn set(p: &mut Process, path: &str, name: &str, len: usize) -> Result<(), FsError> {
    p.setxattr(path, name.as_bytes(), &vec![len as u8; len], SetXattr::Any)
}

fn expect(p: &mut Process, path: &str, name: &str, len: usize) {
    let value = p.getxattr(path, name.as_bytes());
    assert_eq!(value, Ok(vec![len as u8; len]), "{path}: {name}");
}

fn fsync(p: &mut Process, path: &str) {
    let fd = p.open(path, OpenFlags::RDONLY, 0).expect("open");
    p.fsync(fd).expect("fsync");
    p.close(fd).expect("close");
}

/// Attributes of a new and of an old file, of a directory; small ones, large ones, ones that grew and ones
/// that went again: as the last fsync had them.
pub fn attributes_survive_power_failures<S: Subject>(subject: &S) {
    let before = |m: &Mounted<S>| {
        let mut p = m.process();
        p.mkdir("/d", 0o755).expect("mkdir");
        for name in ["/d/old", "/d/less", "/d/grown"] {
            let fd = create(&mut p, name);
            p.close(fd).expect("close");
            set(&mut p, name, "user.large", 2500).expect("set");
        }
        p.sync().expect("sync");
        set(&mut p, "/d/old", "user.small", 20).expect("set");
        set(&mut p, "/d/old", "user.large", 2600).expect("set");
        fsync(&mut p, "/d/old");
        p.removexattr("/d/less", b"user.large").expect("remove");
        set(&mut p, "/d/less", "user.small", 21).expect("set");
        fsync(&mut p, "/d/less");
        set(&mut p, "/d/grown", "user.second", 900).expect("set");
        fsync(&mut p, "/d/grown");
        let fd = create(&mut p, "/d/new");
        p.close(fd).expect("close");
        set(&mut p, "/d/new", "user.large", 3000).expect("set");
        set(&mut p, "/d/new", "user.small", 22).expect("set");
        fsync(&mut p, "/d/new");
        set(&mut p, "/d", "trusted.dir", 30).expect("set");
        fsync(&mut p, "/d");
        // Nobody waits for this one.
        set(&mut p, "/d/old", "user.small", 33).expect("set");
        granary_sim::power_fail();
    };
    let after = |m: &Mounted<S>| {
        let mut p = m.process();
        expect(&mut p, "/d/old", "user.large", 2600);
        let small = p.getxattr("/d/old", b"user.small").expect("there");
        assert!(small == [20; 20] || small == [33; 33], "{small:?}");
        assert_eq!(p.getxattr("/d/less", b"user.large"), Err(FsError::NoAttribute));
        expect(&mut p, "/d/less", "user.small", 21);
        expect(&mut p, "/d/grown", "user.large", 2500);
        expect(&mut p, "/d/grown", "user.second", 900);
        expect(&mut p, "/d/new", "user.large", 3000);
        expect(&mut p, "/d/new", "user.small", 22);
        expect(&mut p, "/d", "trusted.dir", 30);
        p.unlink("/d/new").expect("unlink");
    };
    fail_and_look(subject, drive(Bytes::mib(64)), None, before, after);
}

/// As many attributes as there is room for come back after a remount; what does not fit changes nothing;
/// files that go give their space back.
pub fn attributes_up_to_the_limit_come_back<S: Subject>(subject: &S) {
    let subject = subject.clone();
    run(move || {
        let drive = drive(Bytes::mib(64));
        let m = Mounted::fresh(&subject, &drive);
        let mut p = m.process();
        p.sync().expect("sync");
        let free = p.statfs().expect("statfs").free_blocks;
        let fd = create(&mut p, "/f");
        p.close(fd).expect("close");
        let mut fit = 0;
        let error = loop {
            match set(&mut p, "/f", &format!("user.{fit}"), 90) {
                Ok(()) => fit += 1,
                Err(e) => break e,
            }
        };
        assert!(matches!(error, FsError::NoSpace | FsError::TooLong), "{error}");
        assert!(fit >= 35, "only {fit} attributes fit");
        assert!(set(&mut p, "/f", "user.0", 60_000).is_err());
        m.check();
        p.exit();
        let m = m.remounted();
        let mut p = m.process();
        (0..fit).for_each(|i| expect(&mut p, "/f", &format!("user.{i}"), 90));
        assert_eq!(p.listxattr("/f").expect("list").len(), fit);
        for i in 0..fit {
            p.removexattr("/f", format!("user.{i}").as_bytes()).expect("remove");
        }
        set(&mut p, "/f", "user.last", 2000).expect("there is room again");
        m.check();
        p.unlink("/f").expect("unlink");
        m.check();
        assert!(p.statfs().expect("statfs").free_blocks + 2 >= free, "the space of attributes got lost");
    });
}

/// An access list that a file system does not know, or that does not fit, is refused, and mode and times are
/// what they were.
pub fn a_refused_access_list_changes_nothing<S: Subject>(subject: &S) {
    const ACCESS: &[u8] = b"system.posix_acl_access";
    // Owner 6, user 5 7, owning group 1, mask 7, others 2: mode 0672.
    let entries =
        [(1u16, 6u16, u32::MAX), (2, 7, 5), (4, 1, u32::MAX), (0x10, 7, u32::MAX), (0x20, 2, u32::MAX)];
    let entries = entries
        .map(|(tag, bits, id)| [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat());
    let list = [2u32.to_le_bytes().to_vec(), entries.concat()].concat();
    let (subject, drive) = (subject.clone(), drive(Bytes::mib(64)));
    run(move || {
        let m = Mounted::fresh(&subject, &drive);
        let mut p = m.process();
        let fd = create(&mut p, "/f");
        p.close(fd).expect("close");
        // Where there are attributes, they take all the space that one file's have.
        for len in [4000, 3000, 2000, 1000, 500, 200, 100, 50, 20, 10, 5, 2, 1, 0] {
            let mut left = 0..100;
            while left.next().is_some_and(|n| set(&mut p, "/f", &format!("user.{len}.{n}"), len).is_ok()) {}
        }
        let before = p.stat("/f").expect("stat").attr;
        let refused = p.setxattr("/f", ACCESS, &list, SetXattr::Any);
        assert!(refused.is_err(), "there is no room for a list");
        let after = p.stat("/f").expect("stat").attr;
        assert_eq!((after.mode, after.ctime), (before.mode, before.ctime), "{refused:?}");
        p.exit();
        m.vfs.unmount().expect("unmount");
        let m = Mounted::again(&subject, &drive);
        let mut p = m.process();
        assert_eq!(p.stat("/f").expect("stat").attr, after);
        m.check();
    });
}
