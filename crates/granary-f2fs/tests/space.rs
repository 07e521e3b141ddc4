//! Space, size and number: full file systems, large directories, large files.

mod common;

use common::{Mounted, drive, run, run_jittered, sound};
use granary_f2fs::{InPlace, MkfsOptions, MountOptions, mkfs};
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::{FsError, OpenFlags, Posix, Process, VfsConfig};

fn fill(word: u64, len: usize) -> Payload<'static> {
    Payload::Fill { word, len }
}

fn create(p: &mut Process, path: &str) -> granary_vfs::Fd {
    p.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create")
}

/// A file takes what statfs says is free, but for the nodes that point to its blocks; what one unlink gives back can be
/// written again at once.
#[test]
fn no_space_comes_when_nothing_is_left() {
    run(|| {
        let drive = drive(Bytes::mib(64));
        let m = Mounted::fresh(&drive);
        let mut p = m.process();
        let small = create(&mut p, "/small");
        p.pwrite(small, fill(7, 10 * 4096), 0).expect("write");
        p.fsync(small).expect("fsync");
        p.close(small).expect("close");
        let fd = create(&mut p, "/all");
        let free = p.statfs().expect("statfs").free_blocks;
        let nodes = free.saturating_sub(873).div_ceil(1018) + 1;
        let mut written = 0;
        let error = loop {
            match p.pwrite(fd, fill(written + 1, 4096), written * 4096) {
                Ok(_) => written += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(error, FsError::NoSpace);
        assert!(written <= free && written + nodes >= free, "{written} blocks where {free} were free");
        assert_eq!(p.statfs().expect("statfs").free_blocks, 0);
        p.fsync(fd).expect("everything promised can be written");
        assert_eq!(p.mkdir("/no", 0o755), Err(FsError::NoSpace));
        // Full or not, files can be removed, and their space is there again.
        p.unlink("/small").expect("unlink on a full file system");
        assert_eq!(p.statfs().expect("statfs").free_blocks, 11);
        for i in 0..11 {
            p.pwrite(fd, fill(5, 4096), (written + i) * 4096).expect("write");
        }
        assert_eq!(p.pwrite(fd, fill(5, 4096), (written + 11) * 4096), Err(FsError::NoSpace));
        p.fsync(fd).expect("fsync");
        for i in [0, written / 2, written - 1] {
            let mut buf = [0; 8];
            p.pread(fd, Dest::Bytes(&mut buf), i * 4096).expect("read");
            assert_eq!(u64::from_le_bytes(buf), i + 1);
        }
        m.check();
        // A full file system can be overwritten for ever: cleaning finds room.
        for round in 0..5u64 {
            for i in (0..written).step_by(3) {
                p.pwrite(fd, fill(round + 100, 4096), i * 4096).expect("overwrite");
            }
            p.sync().expect("sync");
        }
        p.close(fd).expect("close");
        m.check();
        p.unlink("/all").expect("unlink");
        p.mkdir("/yes", 0o755).expect("mkdir");
        m.check();
    });
}

/// Small files come and go on a drive that they nearly fill, out of place: segments are cleaned, holes filled, and
/// every file keeps its content.
#[test]
fn cleaning_keeps_every_file() {
    for seed in 0..3u64 {
        run_jittered(seed, move || {
            let drive = drive(Bytes::mib(48));
            mkfs(&common::port(&drive), &MkfsOptions::default()).expect("mkfs");
            let options = MountOptions {
                in_place: InPlace::Never,
                gc_sleep: (Nanos::from_millis(1), Nanos::from_millis(2), Nanos::from_millis(3)),
                idle_interval: Nanos::from_micros(200),
                metadata_cache: Bytes::kib(300),
                ..MountOptions::default()
            };
            let m = Mounted::with(
                &drive,
                &options,
                VfsConfig { page_cache: Bytes::mib(1), ..VfsConfig::default() },
            );
            let mut p = m.process();
            let free = p.statfs().expect("statfs").free_blocks;
            let files = free / 6;
            let mut random = granary_sim::rng::Stream::new(seed, "files");
            let mut words = vec![0u64; files as usize];
            for round in 0..files * 4 {
                let i = random.below(files);
                let fd = create(&mut p, &format!("/{i}"));
                words[i as usize] = round + 1;
                p.pwrite(fd, fill(round + 1, 4 * 4096), 0).expect("write");
                if round % 3 == 0 {
                    p.fsync(fd).expect("fsync");
                }
                p.close(fd).expect("close");
                if round % 7 == 0 {
                    let n = random.below(files);
                    if words[n as usize] != 0 {
                        p.unlink(format!("/{n}")).expect("unlink");
                        words[n as usize] = 0;
                    }
                }
                if round % 500 == 0 {
                    // Time for the daemon.
                    granary_sim::sleep(Nanos::from_millis(8));
                }
            }
            let s = m.fs.stats();
            println!("{s:?}");
            assert!(s.cleaned > 0 && s.moved > 0 && s.ssr > 0 && s.trimmed > 0, "{s:?}");
            m.check();
            drop(p);
            m.unmount();
            let m = Mounted::with(&drive, &options, VfsConfig::default());
            let mut p = m.process();
            for (i, word) in words.iter().enumerate().filter(|(_, w)| **w > 0) {
                let fd = p.open(format!("/{i}"), OpenFlags::RDONLY, 0).expect("open");
                let mut content = vec![0; 4 * 4096];
                assert_eq!(p.pread(fd, Dest::Bytes(&mut content), 0).expect("read"), content.len());
                assert!(content.chunks(8).all(|c| c == word.to_le_bytes()), "/{i} of seed {seed}");
                p.close(fd).expect("close");
            }
            m.check();
        });
    }
}

/// The same seed gives the same bytes, to the last counter.
#[test]
fn runs_repeat_exactly() {
    let once = || {
        run_jittered(5, || {
            let drive = drive(Bytes::mib(48));
            let m = Mounted::fresh(&drive);
            let tasks: Vec<_> = (0..8u64)
                .map(|t| {
                    let mut p = m.process();
                    granary_sim::spawn("writer", move || {
                        for round in 0..30 {
                            let fd = create(&mut p, &format!("/{t}.{}", round % 5));
                            p.pwrite(fd, fill(round, 9000), 0).expect("write");
                            p.fsync(fd).expect("fsync");
                            p.close(fd).expect("close");
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|t| t.join());
            m.vfs.sync().expect("sync");
            (granary_sim::now(), m.drive.traffic(), m.fs.stats())
        })
    };
    assert_eq!(once(), once());
}

/// Writers and removers fight for the last blocks; nothing is lost or counted twice.
#[test]
fn a_full_file_system_survives_a_crowd() {
    for seed in 0..4 {
        run_jittered(seed, move || {
            let drive = drive(Bytes::mib(48));
            mkfs(&common::port(&drive), &MkfsOptions::default()).expect("mkfs");
            let options = MountOptions {
                checkpoint_interval: Nanos::from_millis(5),
                idle_interval: Nanos::from_millis(2),
                ..MountOptions::default()
            };
            let m = Mounted::with(&drive, &options, VfsConfig::default());
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
        });
    }
}

/// A directory far larger than one index block: every name is found, none twice; removal leaves nothing.
#[test]
fn a_large_directory_keeps_every_name() {
    const N: u32 = 100_000;
    run(|| {
        let drive = drive(Bytes::gib(2));
        mkfs(&common::port(&drive), &MkfsOptions::default()).expect("mkfs");
        let config = VfsConfig { dentries: 100, inodes: 100, ..VfsConfig::default() };
        let m = Mounted::with(&drive, &MountOptions::default(), config);
        let mut p = m.process();
        p.mkdir("/d", 0o755).expect("mkdir");
        let name = |i: u32| format!("/d/a.long.enough.name.to.fill.blocks.{i:07}");
        p.mknod("/x", granary_vfs::FileKind::File, 0o644, 0).expect("mknod");
        for i in 0..N {
            p.mknod(name(i), granary_vfs::FileKind::Socket, 0o644, 0).expect("mknod");
        }
        let mut names: Vec<_> = p.list("/d").expect("list").into_iter().map(|e| e.name).collect();
        assert_eq!(names.len(), N as usize + 2);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), N as usize + 2, "a name came twice");
        for i in (0..N).step_by(97) {
            p.lstat(name(i)).expect("every name is found");
        }
        assert!(p.stat("/d").expect("stat").attr.size > 2000 * 4096, "the table has many levels");
        m.check();
        assert_eq!(p.rmdir("/d"), Err(FsError::NotEmpty));
        for i in 0..N {
            p.unlink(name(i)).expect("unlink");
        }
        assert_eq!(p.list("/d").expect("list").len(), 2);
        p.rmdir("/d").expect("rmdir");
        m.check();
    });
}

/// Positions stay valid while entries come and go: what was there all the time is listed once.
#[test]
fn listing_survives_changes_in_between() {
    run(|| {
        let drive = drive(Bytes::mib(256));
        let m = Mounted::fresh(&drive);
        let mut p = m.process();
        p.mkdir("/d", 0o755).expect("mkdir");
        for i in 0..2000 {
            p.mknod(format!("/d/stays{i}"), granary_vfs::FileKind::Fifo, 0o644, 0).expect("mknod");
            p.mknod(format!("/d/goes{i}"), granary_vfs::FileKind::Fifo, 0o644, 0).expect("mknod");
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
                p.mknod(format!("/d/comes{n}"), granary_vfs::FileKind::Fifo, 0o644, 0).expect("mknod");
            }
            round += 1;
        }
        let listed = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!((listed, seen.len()), (2000, 2000));
        m.check();
    });
}

/// A sparse file beyond 4 GiB, with an extent tree of blocks: every piece is where it was put, in and past the cache.
#[test]
fn a_large_sparse_file_keeps_every_piece() {
    run(|| {
        let drive = drive(Bytes::gib(1));
        let m = Mounted::fresh(&drive);
        let mut p = m.process();
        let fd = create(&mut p, "/sparse");
        let direct = p.open("/sparse", OpenFlags::RDWR | OpenFlags::DIRECT, 0).expect("open");
        let at = |i: u64| (i * 7_777_777 % 2000) * 8_388_608 + i % 3 * 4096;
        for i in 0..2000u64 {
            let by = if i % 5 == 0 { direct } else { fd };
            p.pwrite(by, fill(i + 1, 4096), at(i)).expect("write");
        }
        p.fsync(fd).expect("fsync");
        let size = p.fstat(fd).expect("stat").attr.size;
        assert!(size > 15 << 30, "{size}");
        m.check();
        p.close(fd).expect("close");
        p.close(direct).expect("close");
        drop(p);
        m.unmount();
        let m = Mounted::again(&drive);
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
        // Cut in the middle, then to nothing: all blocks come back.
        let free = p.statfs().expect("statfs").free_blocks;
        p.ftruncate(fd, 8 << 30).expect("truncate");
        m.check();
        p.ftruncate(fd, 0).expect("truncate");
        m.check();
        assert!(p.statfs().expect("statfs").free_blocks >= free + 2000);
        let mut q = m.process();
        q.unlink("/sparse").expect("unlink");
        p.close(fd).expect("close");
        m.vfs.sync().expect("sync");
        sound(&*m.fs);
    });
}
