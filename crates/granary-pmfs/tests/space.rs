//! Space, size and number: full file systems, large directories, large files, damaged media.

mod common;

use common::{Mounted, drive, port, run, run_jittered};
use granary_mssd::Structure;
use granary_pmfs::{MkfsOptions, MountOptions, mkfs, mount};
use granary_sim::rng::Stream;
use granary_units::{Bytes, Dest, Lpa, Page, Payload};
use granary_vfs::model::snapshot;
use granary_vfs::{Cred, FileKind, FsError, OpenFlags, Posix, Process, Vfs, VfsConfig};

fn fill(word: u64, len: usize) -> Payload<'static> {
    Payload::Fill { word, len }
}

fn create(p: &mut Process, path: &str) -> granary_vfs::Fd {
    p.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create")
}

/// A full file system says so, changes nothing then, and can be emptied and filled again.
#[test]
fn a_full_file_system_can_be_emptied_and_filled_again() {
    run(|| {
        let drive = drive(Bytes::mib(24));
        let m = Mounted::fresh(&drive);
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
#[test]
fn a_full_file_system_survives_a_crowd() {
    for seed in 0..4 {
        run_jittered(seed, move || {
            let drive = drive(Bytes::mib(24));
            let m = Mounted::fresh(&drive);
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
                            match p.pwrite(fd, fill(t + 1, 1_000_000), (round % 5) * 900_000) {
                                Ok(_) => {}
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
            m.unmount();
            Mounted::again(&drive).check();
        });
    }
}

/// Every name of a large directory is found, none twice, also after a remount; removal leaves nothing.
#[test]
fn a_large_directory_keeps_every_name() {
    const N: u32 = 8_000;
    run(|| {
        let drive = drive(Bytes::gib(1));
        let m = Mounted::fresh(&drive);
        let mut p = m.process();
        p.mkdir("/d", 0o755).expect("mkdir");
        let name = |i: u32| format!("/d/a.long.enough.name.to.fill.blocks.{i:07}");
        for i in 0..N {
            p.mknod(name(i), FileKind::Socket, 0o644, 0).expect("mknod");
        }
        p.exit();
        m.unmount();
        let m = Mounted::again(&drive);
        let mut p = m.process();
        let mut names: Vec<_> = p.list("/d").expect("list").into_iter().map(|e| e.name).collect();
        assert_eq!(names.len(), N as usize + 2);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), N as usize + 2);
        for i in (0..N).rev() {
            p.unlink(name(i)).expect("unlink");
        }
        p.rmdir("/d").expect("rmdir");
        m.check();
    });
}

/// Bytes far apart in a file of many gigabytes; holes read as zeros, and cutting gives everything back.
#[test]
fn a_sparse_file_of_many_gigabytes_reads_back() {
    run(|| {
        let drive = drive(Bytes::mib(64));
        let m = Mounted::fresh(&drive);
        let mut p = m.process();
        let free = p.statfs().expect("statfs").free_blocks;
        let fd = create(&mut p, "/sparse");
        let places = [0, 4095, 5 << 30, (300 << 30) + 77, 1 << 20, (4 << 30) - 3];
        for (i, at) in places.iter().enumerate() {
            p.pwrite(fd, Payload::Bytes(&[i as u8 + 1; 10]), *at).expect("write");
        }
        p.close(fd).expect("close");
        p.exit();
        m.check();
        m.unmount();
        let m = Mounted::again(&drive);
        let mut p = m.process();
        let fd = p.open("/sparse", OpenFlags::RDWR, 0).expect("open");
        for (i, at) in places.iter().enumerate() {
            let mut buf = [9; 10];
            p.pread(fd, Dest::Bytes(&mut buf), *at).expect("read");
            assert_eq!(buf, [i as u8 + 1; 10]);
            p.pread(fd, Dest::Bytes(&mut buf), *at + 100_000).expect("read");
            assert!(*at >= 300 << 30 || buf == [0; 10]);
        }
        p.ftruncate(fd, 5000).expect("truncate");
        p.ftruncate(fd, 9000).expect("truncate");
        let mut buf = [9; 4000];
        p.pread(fd, Dest::Bytes(&mut buf), 5000).expect("read");
        assert_eq!(buf, [0; 4000]);
        p.close(fd).expect("close");
        p.unlink("/sparse").expect("unlink");
        m.check();
        assert!(p.statfs().expect("statfs").free_blocks + 8 >= free);
    });
}

/// Whatever stands on media: an error, or a tree; never a panic, never an endless loop.
#[test]
fn damaged_media_give_errors() {
    let mut errors = 0;
    for seed in 0..60 {
        let failed = run(move || {
            let drive = drive(Bytes::mib(24));
            let port = port(&drive);
            mkfs(&port, &MkfsOptions::default()).expect("mkfs");
            let m = Mounted::again(&drive);
            let mut p = m.process();
            p.mkdir("/d", 0o755).expect("mkdir");
            for i in 0..40 {
                let fd = create(&mut p, &format!("/d/f{i}"));
                p.pwrite(fd, fill(i, 3000 * i as usize + 1), i * 2000).expect("write");
                p.close(fd).expect("close");
                p.symlink(format!("/d/f{i}"), format!("/d/l{i}")).expect("symlink");
            }
            p.exit();
            if seed % 2 == 0 {
                m.unmount();
            } else {
                drop(m);
            }
            let mut random = Stream::new(seed, "damage");
            let used: Vec<u64> = (0..port.info().pages)
                .filter(|lpa| {
                    let mut page = [Page::ZERO];
                    port.read(Lpa(*lpa), &mut page, Structure::Data).expect("read");
                    !page[0].is_zero()
                })
                .collect();
            for _ in 0..1 + random.below(6) {
                let lpa = Lpa(used[random.below(used.len() as u64) as usize]);
                let mut page = [Page::ZERO];
                port.read(lpa, &mut page, Structure::Data).expect("read");
                for _ in 0..1 + random.below(8) {
                    let at = random.below(4096) as usize;
                    page[0].bytes_mut()[at] = [0, 1, 0xff, random.below(256) as u8][random.below(4) as usize];
                }
                port.write(lpa, &page, Structure::Data).expect("write");
            }
            let Ok(fs) = mount(port, &MountOptions::default()) else { return true };
            let Ok(vfs) = Vfs::mount(fs.clone(), VfsConfig::default()) else { return true };
            let mut p = Process::new(vfs, Cred::ROOT);
            let mut failed = snapshot(&mut p).is_err();
            for i in 0..40 {
                failed |= p.unlink(format!("/d/f{i}")).is_err();
                failed |= p.mkdir(format!("/d/n{i}"), 0o755).is_err();
            }
            use granary_vfs::FileSystem;
            failed | fs.check().map_or(true, |bad| !bad.is_empty())
        });
        errors += u32::from(failed);
    }
    assert!(errors > 10, "only {errors} of 60 were noticed");
}
