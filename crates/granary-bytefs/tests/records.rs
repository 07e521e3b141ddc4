//! Records of the data journal on damaged media: each of their pages has a checksum, and none that fails it reaches a file.

mod common;

use common::{format, in_world, small_mssd};
use granary_bytefs::{DataMode, MountOptions, mount};
use granary_mssd::{Drive, Port, Structure};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, now, power_fail, sleep_until};
use granary_units::{Dest, Lpa, Nanos, PAGE_SIZE, Page, Payload};
use granary_vfs::{Cred, FsError, OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

const PAGES: usize = 5;

fn options() -> MountOptions {
    MountOptions { data: DataMode::Journal, ..MountOptions::default() }
}

/// A drive whose power failed when a file of the bytes `old` had been overwritten with `new`, by a record that waits for
/// its checkpoint.
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
                let mut whole = [Page::ZERO];
                port.read(Lpa(record[page]), &mut whole, Structure::Journal).expect("reads");
                let mut bytes = whole[0].to_bytes();
                bytes[byte] ^= 0x40;
                let whole = [Page::from_bytes(&bytes)];
                port.write(Lpa(record[page]), &whole, Structure::Journal).expect("writes");
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
