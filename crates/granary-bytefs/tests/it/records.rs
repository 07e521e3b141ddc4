//! Records of the data journal on damaged media: each of their pages has a checksum, and none that fails it
//! reaches a file.

use crate::common::{format, in_world, small_mssd, strict, until_power_fails};
use granary_bytefs::{DataMode, MountOptions, mount, repair};
use granary_device::vendor::transactions::Transactions;
use granary_device::{Drive, Port, Structure};
use granary_fs::{Call, Cred, FsError, Life};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, now, power_fail, sleep_until};
use granary_units::{Dest, Lpa, Nanos, PAGE_SIZE, Page, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

const PAGES: usize = 5;

fn options() -> MountOptions {
    MountOptions { data: DataMode::Journal, ..MountOptions::default() }
}

/// A drive whose power failed when a file of the bytes `old` had been overwritten with `new`, by a record
/// that waits for its checkpoint.
fn interrupted(old: u8, new: u8) -> (Arc<dyn Drive>, Nanos) {
    let drive = small_mssd(16);
    let d = drive.clone();
    let stopped = World::default().run(move || {
        format(&d);
        let fs = mount(Port::new(d.clone()), &options()).expect("mounts");
        let mut p = Process::new(Vfs::mount(fs, VfsConfig::default()).expect("mounts"), Cred::ROOT);
        let fd = p.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
        p.pwrite(fd, Payload::Bytes(&[old; PAGES * PAGE_SIZE]), 0).expect("writes");
        p.sync().expect("syncs");
        p.pwrite(fd, Payload::Bytes(&[new; PAGES * PAGE_SIZE]), 0).expect("writes");
        p.fsync(fd).expect("fsync");
        power_fail();
    });
    let Err(Stop::PowerFail(t)) = stopped else { panic!("{stopped:?}") };
    drive.power_fail(t, &mut Stream::new(1, "power"));
    (drive, t)
}

/// A drive after a power failure, with a file of eight pages of `1`. Four records have written over it and
/// wait for their checkpoint: 2 on pages 0-1, 3 on pages 1-2, 4 on pages 2-3, 5 on pages 5-7.
fn four_records(drive: Arc<dyn Drive>) -> (Arc<dyn Drive>, Nanos) {
    let d = drive.clone();
    let stopped = World::default().run(move || {
        format(&d);
        let fs = mount(Port::new(d.clone()), &options()).expect("mounts");
        let mut p = Process::new(Vfs::mount(fs, VfsConfig::default()).expect("mounts"), Cred::ROOT);
        let fd = p.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
        p.pwrite(fd, Payload::Bytes(&[1; 8 * PAGE_SIZE]), 0).expect("writes");
        p.sync().expect("syncs");
        for (byte, first, n) in [(2, 0, 2), (3, 1, 2), (4, 2, 2), (5, 5, 3)] {
            p.pwrite(fd, Payload::Bytes(&vec![byte; n * PAGE_SIZE]), first * PAGE_SIZE as u64)
                .expect("writes");
            p.fsync(fd).expect("fsync");
        }
        power_fail();
    });
    let Err(Stop::PowerFail(t)) = stopped else { panic!("{stopped:?}") };
    drive.power_fail(t, &mut Stream::new(1, "power"));
    (drive, t)
}

/// Changes a byte of a block.
fn damage(port: &Port, lba: u64, at: usize) {
    let mut whole = [Page::ZERO];
    port.read(Lpa(lba), &mut whole, Structure::Journal).expect("reads");
    let mut bytes = whole[0].to_bytes();
    bytes[at] ^= 0x40;
    port.write(Lpa(lba), &[Page::from_bytes(&bytes)], Structure::Journal).expect("writes");
}

/// A repair drops damaged records and those made on them, tells which pages of which file are older for that
/// reason, and keeps the rest. The cases have the first bytes of the file's pages, by the place of the damage
/// in the second record or in its entry.
#[test]
fn a_repair_drops_damaged_records_and_what_was_made_on_them() {
    // Damage to the record's second page, of 3; to its descriptor; to the magic, the number and the first
    // block of its entry.
    let cases: [(&str, [u8; 8]); 5] = [
        ("page", [2, 2, 1, 1, 1, 5, 5, 5]),
        ("descriptor", [2, 2, 1, 1, 1, 1, 1, 1]),
        ("magic", [2, 2, 1, 1, 1, 5, 5, 5]),
        ("number", [1; 8]),
        ("place", [1; 8]),
    ];
    for (what, expected) in cases {
        let (drive, t) = four_records(small_mssd(16));
        in_world(move || {
            sleep_until(t);
            sleep_until(drive.power_on(now()).expect("power on"));
            let port = Port::new(drive);
            port.require::<Transactions>().and_then(|log| log.recover()).expect("the drive's log");
            let pages = full_of(&port, 3);
            assert_eq!(pages.len(), 2, "the record waits for its checkpoint");
            // The journal area begins with the table: the line of an entry whose record begins before these
            // pages.
            let mut block = [Page::ZERO];
            port.read(Lpa(0), &mut block, Structure::Superblock).expect("reads");
            let journal = word(&block[0].to_bytes(), 112) as u64;
            port.read(Lpa(journal), &mut block, Structure::Journal).expect("reads");
            let table = block[0].to_bytes();
            let line =
                (0..64).map(|n| n * 64).find(|&at| word(&table, at + 8) == 2).expect("the second record");
            match what {
                "page" => damage(&port, pages[1], 77),
                "descriptor" => damage(&port, pages[0] - 1, 40),
                "magic" => damage(&port, journal, line),
                "number" => damage(&port, journal, line + 9),
                _ => damage(&port, journal, line + 17),
            }
            let refused = mount(port.clone(), &options()).map(drop);
            assert!(
                matches!(&refused, Err(FsError::Corrupt(w)) if w.contains("damaged")),
                "{what}: {refused:?}"
            );
            let report = repair(&port).expect("mends");
            assert_eq!(report.left, Vec::<String>::new());
            let done = report.done.join("\n");
            assert!(done.contains("dropped"), "{what}: {done}");
            if what == "page" {
                assert!(done.contains("its 2 pages stay as they were"), "{done}");
                assert!(done.contains("named \"f\": pages 1-3 are from before"), "{done}");
            }
            assert!(repair(&port).expect("mends").done.is_empty(), "{what}: nothing more to mend");
            assert_eq!(pages_of_f(&port), expected, "{what}");
        });
    }
}

/// The bytes with which the pages of /f begin; the file system is sound.
fn pages_of_f(port: &Port) -> Vec<u8> {
    let fs = mount(port.clone(), &options()).expect("mounts");
    assert_eq!(fs.check(&Call::offline()).expect("check"), Vec::<String>::new());
    let vfs = Vfs::mount(fs, VfsConfig::default()).expect("mounts");
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("opens");
    let mut found = vec![0; 8 * PAGE_SIZE];
    p.pread(fd, Dest::Bytes(&mut found), 0).expect("reads");
    assert!(found.chunks_exact(PAGE_SIZE).all(|page| page.iter().all(|&b| b == page[0])), "torn pages");
    p.close(fd).expect("open");
    p.exit();
    found.into_iter().step_by(PAGE_SIZE).collect()
}

/// Power fails while a damaged data journal is mended: what was to be dropped is not taken for sound by
/// whoever comes next.
#[test]
fn a_power_failure_while_a_data_journal_is_mended_changes_nothing_of_what_is_dropped() {
    let begin = Nanos::from_secs(100);
    let damaged = move |drive: Arc<dyn Drive>, t: Nanos| {
        sleep_until(t);
        sleep_until(drive.power_on(now()).expect("power on"));
        let port = Port::new(drive);
        port.require::<Transactions>().and_then(|log| log.recover()).expect("the drive's log");
        damage(&port, full_of(&port, 3)[1], 77);
        sleep_until(begin);
        port
    };
    let lasts = {
        let (drive, t) = four_records(strict(16));
        in_world(move || {
            let port = damaged(drive, t);
            repair(&port).expect("mends");
            now() - begin
        })
    };
    // Whether a mount takes the file system when the power failed at this instant; either way it becomes the
    // same.
    let mended = |at: Nanos| {
        let (drive, t) = four_records(strict(16));
        let d = drive.clone();
        let run = move || {
            let port = damaged(d, t);
            repair(&port).expect("mends");
            sleep_until(begin + Nanos::from_secs(1));
        };
        assert!(until_power_fails(at, run));
        in_world(move || {
            sleep_until(at);
            drive.power_fail(at, &mut Stream::new(at.0, "power"));
            drive.power_on(now()).map(sleep_until).expect("power");
            let port = Port::new(drive);
            let mended = mount(port.clone(), &options()).is_ok();
            if !mended {
                repair(&port).expect("mends");
            }
            assert_eq!(pages_of_f(&port), [2, 2, 1, 1, 1, 5, 5, 5], "at {at}, mended {mended}");
            mended
        })
    };
    // The instants around the one from which on mounts take it again, where what is left must be right.
    let (mut no, mut yes) = (begin, begin + lasts);
    assert!(!mended(no) && mended(yes));
    while yes.0 - no.0 > 100 {
        let middle = Nanos((no.0 + yes.0) / 2);
        *(if mended(middle) { &mut yes } else { &mut no }) = middle;
    }
}

fn word(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().expect("four"))
}

fn full_of(port: &Port, byte: u8) -> Vec<u64> {
    let mut page = [Page::ZERO];
    let is = |lpa: &u64| {
        port.read(Lpa(*lpa), &mut page, Structure::Data).expect("reads");
        page[0].to_bytes().iter().filter(|&&b| b == byte).count() >= PAGE_SIZE - 1
    };
    (0..port.info().pages).filter(is).collect()
}

#[test]
fn a_damaged_page_of_a_record_is_refused_and_reaches_no_file() {
    let (old, new) = (0x11, 0x77);
    for damaged in [None, Some((0, 0)), Some((2, 1234)), Some((PAGES - 1, PAGE_SIZE - 1))] {
        let (drive, t) = interrupted(old, new);
        in_world(move || {
            sleep_until(t);
            sleep_until(drive.power_on(now()).expect("power on"));
            let port = Port::new(drive);
            let (home, record) = (full_of(&port, old), full_of(&port, new));
            assert_eq!((home.len(), record.len()), (PAGES, PAGES), "the record waits for its checkpoint");
            if let Some((page, byte)) = damaged {
                damage(&port, record[page], byte);
            }
            let mounted = mount(port.clone(), &options());
            if damaged.is_some() {
                let Err(FsError::Corrupt(what)) = mounted else { panic!("it was mounted") };
                assert!(what.contains("record") && what.contains("damaged"), "{what}");
                assert_eq!(full_of(&port, old), home, "the file's blocks are as they were");
                return;
            }
            let vfs = Vfs::mount(mounted.expect("mounts"), VfsConfig::default()).expect("mounts");
            let mut p = Process::new(vfs, Cred::ROOT);
            let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("opens");
            let mut found = vec![0; PAGES * PAGE_SIZE];
            p.pread(fd, Dest::Bytes(&mut found), 0).expect("reads");
            assert!(found.iter().all(|&b| b == new));
        });
    }
}
