//! An image whose flash has come to its end of life: what was synced can still be read, in that mount and in
//! later ones.

use granary_fs::{Cred, FsError, Time};
use granary_image::Durability;
use granary_lab::image::{self, NewImage, OpenImage};
use granary_units::{Bytes, Dest, Payload};
use granary_vfs::{OpenFlags, Posix, Process};
use std::path::Path;

const KEPT: &[u8] = b"written and synced while the drive was young";
const CACHE: Bytes = Bytes::mib(16);

fn process(open: &OpenImage) -> granary_fs::Result<Process> {
    Ok(Process::new(open.vfs(Time(0), CACHE)?, Cred::ROOT))
}

/// Writes one file over and over until the drive takes no more.
fn wear_out(image: &Path) -> FsError {
    let open = OpenImage::open(image, Durability::Process, false).expect("opens");
    let mut p = process(&open).expect("mounts");
    let fd = p.open("/kept", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
    p.pwrite(fd, Payload::Bytes(KEPT), 0).expect("writes");
    p.fsync(fd).expect("fsync");
    p.sync().expect("sync");
    let fd = p.open("/worn", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
    for round in 0..2_000u64 {
        let written = (0..24).try_for_each(|mib| {
            let word = Payload::Fill { word: round << 8 | mib | 1, len: 1 << 20 };
            p.pwrite(fd, word, mib << 20).map(drop)
        });
        if let Err(e) = written.and_then(|()| p.fsync(fd)) {
            // Neither has been read before: their access times cannot be noted.
            assert_eq!(kept(&mut p), KEPT, "read in the same mount");
            assert!(p.list("/").expect("lists").iter().any(|e| e.name == b"kept"));
            return e;
        }
    }
    panic!("the drive wears out");
}

fn kept(p: &mut Process) -> Vec<u8> {
    let fd = p.open("/kept", OpenFlags::RDONLY, 0).expect("there");
    let mut found = vec![0; KEPT.len()];
    assert_eq!(p.pread(fd, Dest::Bytes(&mut found), 0).expect("reads"), KEPT.len());
    found
}

#[test]
fn what_was_synced_can_be_read_from_an_image_whose_flash_is_worn_out() {
    let dir = tempfile::tempdir().expect("a directory");
    for fs in ["bytefs", "bytefs-dual", "ext4", "f2fs", "nova", "pmfs"] {
        let path = dir.path().join(fs);
        let sets = ["drive.flash.errors.endurance=2", "firmware.cache=4MiB", "firmware.log_region=4MiB"]
            .map(str::to_owned);
        let (testbed, date) = ("bytefs-emulator", Time(0));
        let new = NewImage {
            fs,
            size: Bytes::mib(64),
            testbed,
            sets: &sets,
            label: "",
            force: false,
            date,
            owner: (0, 0),
        };
        image::make(&path, &new).expect("makes");
        let refused = wear_out(&path);
        assert_eq!(refused.errno(), FsError::ReadOnly.errno(), "{fs}: {refused}");

        let open = OpenImage::open(&path, Durability::Process, true).expect("opens");
        let mut p = process(&open).unwrap_or_else(|e| panic!("{fs} mounts read-only: {e}"));
        assert_eq!(kept(&mut p), KEPT, "{fs}");
    }
}
