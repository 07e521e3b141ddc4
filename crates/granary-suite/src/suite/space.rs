//! Space, size and number: full file systems, large directories, large files.

use super::{Mounted, Subject, drive, port, run, run_jittered};
use granary_fs::{FileKind, FsError};
use granary_units::{Bytes, Dest, Payload};
use granary_vfs::Process;
use granary_vfs::VfsConfig;
use granary_vfs::{Fd, OpenFlags, Posix, Whence};

/// A repeated word.
pub fn fill(word: u64, len: usize) -> Payload<'static> {
    Payload::Fill { word, len }
}

/// Opens a file for reading and writing, making it where it is not there.
pub fn create(p: &mut Process, path: &str) -> Fd {
    p.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create")
}

/// A full file system says so, changes nothing then, and can be emptied and filled again.
pub fn a_full_file_system_can_be_emptied_and_filled_again<S: Subject>(subject: &S) {
    let subject = subject.clone();
    run(move || {
        let drive = drive(Bytes::mib(24));
        let m = Mounted::fresh(&subject, &drive);
        let mut p = m.process();
        let mut sizes = Vec::new();
        for round in 0..3 {
            let fd = create(&mut p, "/all");
            let mut written = 0;
            let error = loop {
                match p.pwrite(fd, fill(written + 1, 4096), written * 4096) {
                    Ok(_) => written += 1,
                    Err(e) => break e,
                }
            };
            assert_eq!(error, FsError::NoSpace, "round {round}");
            assert_eq!(
                p.fstat(fd).expect("stat").attr.size,
                written * 4096,
                "a failed write changes nothing"
            );
            let mut made = 0;
            while p.mkdir(format!("/d{made}"), 0o755).is_ok() {
                made += 1;
            }
            m.check();
            for i in [0, written / 2, written - 1] {
                let mut buf = [0; 8];
                p.pread(fd, Dest::Bytes(&mut buf), i * 4096).expect("read");
                assert_eq!(u64::from_le_bytes(buf), i + 1);
            }
            for i in 0..made {
                p.rmdir(format!("/d{i}")).expect("rmdir on a full file system");
            }
            p.close(fd).expect("close");
            p.unlink("/all").expect("unlink on a full file system");
            m.check();
            sizes.push(written);
        }
        assert!(sizes[2] * 100 >= sizes[0] * 95 && sizes[0] > 4000, "space got lost: {sizes:?}");
    });
}

/// Writers and removers fight for the last blocks; nothing is lost or counted twice.
pub fn a_full_file_system_survives_a_crowd<S: Subject>(subject: &S) {
    for seed in 0..4 {
        let subject = subject.clone();
        run_jittered(seed, move || {
            let drive = drive(Bytes::mib(48));
            let m = Mounted::fresh(&subject, &drive);
            let tasks: Vec<_> = (0..16u64)
                .map(|t| {
                    let mut p = m.process();
                    granary_sim::spawn("writer", move || {
                        let mut full = 0;
                        for round in 0..12u64 {
                            let path = format!("/{t}.{}", round % 3);
                            let fd = match p.open(&path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644) {
                                Ok(fd) => fd,
                                Err(FsError::NoSpace) => continue,
                                Err(e) => panic!("{e}"),
                            };
                            let wrote = p.pwrite(fd, fill(t + 1, 2_000_000), (round % 5) * 900_000);
                            match wrote.and_then(|_| p.fsync(fd)) {
                                Ok(()) => {}
                                Err(FsError::NoSpace) => full += 1,
                                Err(e) => panic!("{e}"),
                            }
                            p.close(fd).expect("close");
                            if round % 2 == t % 2 {
                                p.unlink(&path).expect("unlink");
                            }
                        }
                        full
                    })
                })
                .collect();
            let full: u32 = tasks.into_iter().map(|t| t.join()).sum();
            assert!(full > 0, "it was never full");
            m.check();
            m.remounted().check();
        });
    }
}

/// A directory of `count` names that takes more than `size` bytes: every name is found, none twice, also
/// after a remount; removal leaves nothing.
pub fn a_large_directory_keeps_every_name<S: Subject>(subject: &S, count: u32, size: u64) {
    let subject = subject.clone();
    run(move || {
        let drive = drive(Bytes::gib(2));
        subject.mkfs(&port(&drive)).expect("mkfs");
        let config = VfsConfig { dentries: 100, inodes: 100, ..VfsConfig::default() };
        let m = Mounted::with(&subject, &drive, config);
        let mut p = m.process();
        p.mkdir("/d", 0o755).expect("mkdir");
        let name = |i: u32| format!("/d/a.long.enough.name.to.fill.blocks.{i:07}");
        p.mknod("/x", FileKind::File, 0o644, 0).expect("mknod");
        for i in 0..count {
            p.mknod(name(i), FileKind::Socket, 0o644, 0).expect("mknod");
        }
        p.exit();
        let m = m.remounted();
        let mut p = m.process();
        let mut names: Vec<_> = p.list("/d").expect("list").into_iter().map(|e| e.name).collect();
        assert_eq!(names.len(), count as usize + 2);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count as usize + 2, "a name came twice");
        for i in (0..count).step_by(97) {
            p.lstat(name(i)).expect("every name is found");
        }
        assert!(p.stat("/d").expect("stat").attr.size >= size, "a small directory");
        m.check();
        assert_eq!(p.rmdir("/d"), Err(FsError::NotEmpty));
        for i in 0..count {
            p.unlink(name(i)).expect("unlink");
        }
        assert_eq!(p.list("/d").expect("list").len(), 2);
        p.rmdir("/d").expect("rmdir");
        m.check();
    });
}

/// Positions stay valid while entries come and go: what was there all the time is listed once.
pub fn listing_survives_changes_in_between<S: Subject>(subject: &S) {
    let subject = subject.clone();
    run(move || {
        let drive = drive(Bytes::mib(256));
        let m = Mounted::fresh(&subject, &drive);
        let mut p = m.process();
        p.mkdir("/d", 0o755).expect("mkdir");
        for i in 0..2000 {
            p.mknod(format!("/d/stays{i}"), FileKind::Fifo, 0o644, 0).expect("mknod");
            p.mknod(format!("/d/goes{i}"), FileKind::Fifo, 0o644, 0).expect("mknod");
        }
        let fd = p.open("/d", OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0).expect("open");
        let (mut seen, mut round) = (Vec::new(), 0);
        loop {
            let part = p.readdir(fd, 50).expect("readdir");
            if part.is_empty() {
                break;
            }
            seen.extend(part.into_iter().map(|e| e.name).filter(|n| n.starts_with(b"stays")));
            for i in 0..20 {
                let n = round * 20 + i;
                let _ = p.unlink(format!("/d/goes{n}"));
                p.mknod(format!("/d/comes{n}"), FileKind::Fifo, 0o644, 0).expect("mknod");
            }
            round += 1;
        }
        let listed = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!((listed, seen.len()), (2000, 2000));
        // Each name goes away and comes back: where new names come last, it comes behind the end.
        p.lseek(fd, 0, Whence::Set).expect("rewind");
        let mut steps = 0;
        loop {
            let part = p.readdir(fd, 1).expect("readdir");
            let Some(e) = part.first() else { break };
            steps += 1;
            assert!(steps <= 20_000, "no end");
            if e.kind != FileKind::Dir {
                let name = [b"/d/", &e.name[..]].concat();
                p.rename(&name, "/d/between").expect("rename");
                p.rename("/d/between", &name).expect("rename back");
            }
        }
        m.check();
    });
}

/// A sparse file beyond 4 GiB, and a few bytes far behind: every piece is where it was put, in and past the
/// cache.
pub fn a_large_sparse_file_keeps_every_piece<S: Subject>(subject: &S) {
    let subject = subject.clone();
    run(move || {
        let drive = drive(Bytes::gib(1));
        let m = Mounted::fresh(&subject, &drive);
        let mut p = m.process();
        let fd = create(&mut p, "/sparse");
        let direct = p.open("/sparse", OpenFlags::RDWR | OpenFlags::DIRECT, 0).expect("open");
        let at = |i: u64| (i * 7_777_777 % 2000) * 8_388_608 + i % 3 * 4096;
        for i in 0..2000u64 {
            let by = if i % 5 == 0 { direct } else { fd };
            p.pwrite(by, fill(i + 1, 4096), at(i)).expect("write");
        }
        p.fsync(fd).expect("fsync");
        let far = (300 << 30) + 77;
        p.pwrite(fd, Payload::Bytes(&[7; 10]), far).expect("write");
        p.fsync(fd).expect("fsync");
        let size = p.fstat(fd).expect("stat").attr.size;
        assert!(size > 300 << 30, "{size}");
        m.check();
        p.close(fd).expect("close");
        p.close(direct).expect("close");
        p.exit();
        let m = m.remounted();
        let mut p = m.process();
        let fd = p.open("/sparse", OpenFlags::RDWR, 0).expect("open");
        for i in 0..2000u64 {
            let mut buf = [0; 8];
            p.pread(fd, Dest::Bytes(&mut buf), at(i)).expect("read");
            assert_eq!(u64::from_le_bytes(buf), i + 1);
            buf = [0; 8];
            p.pread(fd, Dest::Bytes(&mut buf), at(i) + 4 * 4096).expect("read");
            assert_eq!(buf, [0; 8], "a hole, or the end of the file");
        }
        let mut buf = [0; 10];
        p.pread(fd, Dest::Bytes(&mut buf), far).expect("read");
        assert_eq!(buf, [7; 10]);
        // Cut in the middle, then to nothing: all blocks come back.
        let free = p.statfs().expect("statfs").free_blocks;
        p.ftruncate(fd, 8 << 30).expect("truncate");
        m.check();
        p.ftruncate(fd, 5000).expect("truncate");
        p.ftruncate(fd, 9000).expect("truncate");
        let mut buf = [9; 4000];
        p.pread(fd, Dest::Bytes(&mut buf), 5000).expect("read");
        assert_eq!(buf, [0; 4000], "what was cut off");
        p.ftruncate(fd, 0).expect("truncate");
        m.check();
        let freed = p.statfs().expect("statfs").free_blocks >= free + 1900;
        assert!(freed || !m.subject.has_its_space_alone(), "space got lost");
        let mut q = m.process();
        q.unlink("/sparse").expect("unlink");
        p.close(fd).expect("close");
        m.check();
    });
}
