//! PebbleSSD's tables on an image.

use super::rig::with_ssd;
use granary_device::vendor::pebble::{BamRead, BamReset, FsWrite, Remap};
use granary_device::{BamEntry, Command, Drive, FileEnd, Structure};
use granary_image::{Durability, Image, ImageDevices, ImageMeta};
use granary_mssd::{BamConfig, DriveConfig, Mode};
use granary_units::{Lpa, Nanos, Page};

const WHAT: Structure = Structure::Data;

fn config(mode: Mode) -> DriveConfig {
    let mut c = DriveConfig::tiny(mode).with_bam();
    c.flash.over_provisioning_permille = 350;
    c.firmware.bam = Some(BamConfig { entries: 300, files: 6, ..BamConfig::default() });
    c
}

/// An image keeps the tables: after a clean close BAM_READ gives the same entries in the same order, and
/// lists go on growing.
#[test]
fn an_image_keeps_the_lists_in_their_order() {
    for mode in [Mode::Log, Mode::Cache] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("image");
        Image::create(&path, &ImageDevices::ssd(config(mode)), ImageMeta::default(), false).expect("made");
        let read = |d: &dyn Drive, ino| BamRead::ask(d, Nanos::ZERO, ino).expect("read").0;
        let write = |d: &dyn Drive, lpa: u64, ino, offset| {
            let pages = [Page::word(lpa), Page::word(lpa + 1)];
            let command = Command::Vendor(&mut FsWrite {
                lpa: Lpa(lpa),
                pages: pages.to_vec(),
                ino,
                offset,
                end: FileEnd::WHOLE,
                what: WHAT,
            });
            d.submit(Nanos::ZERO, command).expect("written");
        };
        let mut expected = Vec::new();
        for round in 0..4u64 {
            let (image, drive) = Image::open(&path, Durability::Process, false).map(with_ssd).expect("opens");
            assert_eq!(read(&*drive, None), expected, "{mode:?}, round {round}");
            write(&*drive, 10 * round, 7 + round % 2, 5);
            write(&*drive, 10 * round + 4, 3, round as u32);
            let remap =
                Command::Vendor(&mut Remap { src: Lpa(10 * round), dst: Lpa(100 + 10 * round), count: 2 });
            drive.submit(Nanos::ZERO, remap).expect("moved");
            // The first page that moved loses its content: its entry is dead.
            drive
                .submit(Nanos::ZERO, Command::Trim { lpa: Lpa(100 + 10 * round), count: 1 })
                .expect("trimmed");
            let moved =
                BamEntry { ino: 7 + round % 2, offset: 6, lpa: Lpa(101 + 10 * round), end: FileEnd::WHOLE };
            expected = read(&*drive, None);
            assert_eq!(expected.len() as u64, 3 * (round + 1));
            assert_eq!(expected[3 * round as usize], moved);
            let of_three: Vec<_> = expected.iter().copied().filter(|e| e.ino == 3).collect();
            assert_eq!(read(&*drive, Some(3)), of_three);
            assert_eq!(of_three.len() as u64, 2 * (round + 1));
            drive.check().expect("consistent");
            image.close().expect("closed");
        }
        let (image, drive) = Image::open(&path, Durability::Process, false).map(with_ssd).expect("opens");
        drive.submit(Nanos::ZERO, Command::Vendor(&mut BamReset)).expect("reset");
        // The process dies.
        drop((image, drive));
        let (_image, drive) = Image::open(&path, Durability::Process, false).map(with_ssd).expect("opens");
        assert_eq!(read(&*drive, None), []);
        drive.check().expect("consistent");
    }
}
