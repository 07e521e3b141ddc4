//! Space, size and number: full file systems, large directories, large files.

use crate::common::{Mounted, Subject, fresh};
use granary_device::Structure;
use granary_f2fs::{InPlace, MountOptions};
use granary_fs::{Allocate, Caller, FileKind, FsError};
use granary_sim::rng::Stream;
use granary_suite::suite::{Subject as _, create, drive, fill, port, run, run_jittered};
use granary_units::{Bytes, Dest, Nanos};
use granary_vfs::{OpenFlags, Posix, VfsConfig};

/// A file takes what statfs says is free, but for the nodes that point to its blocks; what one unlink gives
/// back can be written again at once.
#[test]
fn no_space_comes_when_nothing_is_left() {
    run(|| {
        let drive = drive(Bytes::mib(64));
        let m = fresh(&drive);
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

/// Small files come and go on a drive that they nearly fill, out of place: segments are cleaned, holes
/// filled, and every file keeps its content.
#[test]
fn cleaning_keeps_every_file() {
    for seed in 0..3u64 {
        run_jittered(seed, move || {
            let drive = drive(Bytes::mib(48));
            let mount = MountOptions {
                in_place: InPlace::Never,
                gc_sleep: (Nanos::from_millis(1), Nanos::from_millis(2), Nanos::from_millis(3)),
                idle_interval: Nanos::from_micros(200),
                discard_sleep: (Nanos::from_millis(1), Nanos::from_millis(1), Nanos::from_millis(2)),
                metadata_cache: Bytes::kib(300),
                ..MountOptions::default()
            };
            let subject = Subject { mount, ..Subject::default() };
            subject.mkfs(&port(&drive)).expect("mkfs");
            let config = VfsConfig { page_cache: Bytes::mib(1), ..VfsConfig::default() };
            let m = Mounted::with(&subject, &drive, config);
            let mut p = m.process();
            let free = p.statfs().expect("statfs").free_blocks;
            // 94 % in use, inodes included: idle cleaning alone does not make room enough.
            let files = free * 3 / 16;
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
            assert!(s.discards > 0 && s.discarded > s.discards, "{s:?}");
            m.check();
            p.exit();
            let m = m.remounted();
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
            let m = fresh(&drive);
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
            m.vfs.sync(&Caller::KERNEL).expect("sync");
            (granary_sim::now(), m.drive.traffic(), m.fs.stats())
        })
    };
    assert_eq!(once(), once());
}

/// Names of one hash fill one bucket of each level, as far as a file reaches: then the directory is full for
/// them, and for no other.
#[test]
fn names_of_one_hash_fill_a_directory_and_no_more() {
    // CRC-32C is linear: the last four bytes undo what the first four did.
    let named = |n: u32| {
        let first = (n | 0x8080_8080).to_le_bytes();
        let last = !crc32c::crc32c(&first) ^ 0xc3c3_c3c3;
        [first, last.to_le_bytes()].concat()
    };
    let names: std::collections::BTreeSet<Vec<u8>> =
        (0..1 << 15).map(|n| named((n & 0x7f) | (n & 0x3f80) << 1 | (n & 0x4000) << 2)).collect();
    let names: Vec<Vec<u8>> =
        names.into_iter().filter(|n| !n.iter().any(|b| matches!(b, 0 | b'/'))).collect();
    assert!(names.len() > 13_000 && names.iter().all(|n| crc32c::crc32c(n) == crc32c::crc32c(&names[0])));
    run(move || {
        let m = fresh(&drive(Bytes::mib(64)));
        let mut p = m.process();
        p.mkdir("/d", 0o755).expect("makes");
        create(&mut p, "/d/file");
        let path = |name: &[u8]| [b"/d/", name].concat();
        let made = names.iter().position(|n| match p.link("/d/file", path(n)) {
            Ok(_) => false,
            Err(e) => {
                assert_eq!(e, FsError::NoSpace);
                true
            }
        });
        let made = made.expect("there are more names than room");
        assert!(made > 12_000, "{made}");
        create(&mut p, "/d/another");
        p.sync().expect("sync");
        m.check();
        names[..made].iter().for_each(|n| p.unlink(path(n)).expect("was there"));
        assert_eq!(p.lstat(path(&names[made])).err(), Some(FsError::NoEntry));
        p.sync().expect("sync");
        m.check();
    });
}

/// Content that fits the inode and is only in the page cache: a call that would move it to a block, and finds
/// none, leaves it where it can be written.
#[test]
fn small_content_on_a_full_drive_survives_what_finds_no_space() {
    for how in 0..4 {
        run(move || {
            let m = fresh(&drive(Bytes::mib(64)));
            let mut p = m.process();
            let (fd, ballast) = (create(&mut p, "/f"), create(&mut p, "/ballast"));
            let mut end = 0;
            for len in [1 << 20, 4096] {
                while let Ok(n) = p.pwrite(ballast, fill(7, len), end) {
                    end += n as u64;
                }
            }
            p.pwrite(fd, fill(5, 100), 0).expect("the inode has room");
            while p.mknod(format!("/{end}"), FileKind::File, 0o600, 0).is_ok() {
                end += 1;
            }
            assert_eq!(p.statfs().expect("statfs").free_blocks, 0);
            let refused = match how {
                0 => p.pwrite(fd, fill(6, 5000), 100).map(drop),
                1 => p.pwrite(fd, fill(6, 100), 1 << 20).map(drop),
                2 => p.fallocate(fd, Allocate::Reserve { keep_size: false }, 1 << 20, 5000),
                _ => p.fallocate(fd, Allocate::Reserve { keep_size: true }, 1 << 20, 5000),
            };
            assert_eq!(refused, Err(FsError::NoSpace), "case {how}");
            p.fsync(fd).unwrap_or_else(|e| panic!("case {how}: {e}"));
            m.check();
            let mut bytes = [0; 200];
            assert_eq!(p.pread(fd, Dest::Bytes(&mut bytes), 0), Ok(100));
        });
    }
}

/// Files of one page on a full drive are written over, in random order, to new places: what cleaning moves
/// makes as many nodes dirty, and the checkpoint after it finds space for them.
#[test]
fn pages_of_a_full_drive_can_be_written_over() {
    for (mib, in_place) in [(64, InPlace::Never), (300, InPlace::Never), (300, InPlace::Fsync)] {
        run(move || {
            let mount = MountOptions { in_place, ..MountOptions::default() };
            let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &drive(Bytes::mib(mib)));
            let (mut p, mut files) = (m.process(), 0);
            let mut write = |n: u64, word| -> Result<usize, FsError> {
                let fd = p.open(format!("/{n}"), OpenFlags::CREAT | OpenFlags::RDWR, 0o644)?;
                let wrote = p.pwrite(fd, fill(word, 4096), 0);
                if word % 100 == 0 {
                    p.fsync(fd)?;
                }
                p.close(fd)?;
                wrote
            };
            while write(files, 1).is_ok() {
                files += 1;
            }
            let (mut s, before) = (Stream::new(mib, "pages"), m.drive.traffic());
            for n in 0..6 * files {
                write(s.below(files), n + 2)
                    .unwrap_or_else(|e| panic!("{mib} MiB, {in_place:?}, write {n}: {e}"));
            }
            // Summaries that cleaning and the filling of holes need are those that were written.
            let traffic = m.drive.traffic().since(&before);
            let [read, wrote] =
                [traffic.block_read, traffic.block_write].map(|t| t[Structure::Bitmap as usize]);
            assert!(
                wrote > 0 && read * 20 < wrote,
                "{mib} MiB, {in_place:?}: {read} B of {wrote} B read back"
            );
            m.check();
        });
    }
}

/// The used inodes of `df -i` are the inodes that there are, however many blocks and nodes they take.
#[test]
fn statfs_counts_the_inodes_that_there_are() {
    run(|| {
        let m = crate::common::fresh(&drive(Bytes::mib(64)));
        let mut p = m.process();
        for n in 0..100u64 {
            let fd = create(&mut p, &format!("/{n}"));
            p.pwrite(fd, fill(n + 1, 40_000), 0).expect("write");
            p.close(fd).expect("close");
        }
        let s = p.statfs().expect("statfs");
        assert_eq!(s.inodes - s.free_inodes, 101, "{s:?}");
    });
}
