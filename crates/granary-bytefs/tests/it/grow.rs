//! Growth: new space is usable at once, whenever the power fails the size is the old or the new one, and
//! nothing is lost. And the copies of the superblock, which growth must keep right.

use crate::common::client::{Client, bytes};
use crate::common::{assert_clean, in_world, open, small_cached, small_mssd, strict, until_power_fails};
use granary_bytefs::{DataMode, MkfsOptions, MountOptions, Variant, mkfs, mount, repair};
use granary_device::{Drive, Port, Structure};
use granary_fs::{Call, FileKind, FsError, Life, Space};
use granary_sim::rng::Stream;
use granary_sim::{now, sleep_until};
use granary_units::{Lpa, Nanos, Page};
use std::sync::Arc;

fn ways() -> Vec<MountOptions> {
    let of = |variant, data| MountOptions { variant, data, cpus: 4, ..MountOptions::default() };
    vec![
        of(Variant::Full, DataMode::Ordered),
        of(Variant::Full, DataMode::Journal),
        of(Variant::Log, DataMode::Ordered),
        of(Variant::Dual, DataMode::Ordered),
    ]
}

fn drive_for(options: &MountOptions, mib: u64) -> Arc<dyn Drive> {
    match options.variant {
        Variant::Dual => small_cached(mib),
        Variant::Log => small_mssd(mib),
        Variant::Full => strict(mib),
    }
}

fn format(drive: &Arc<dyn Drive>, blocks: u64) {
    let made =
        MkfsOptions { discard: false, inode_ratio: 4096, blocks: Some(blocks), ..MkfsOptions::default() };
    mkfs(&Port::new(drive.clone()), &made).expect("mkfs");
}

/// Fills with files of one page until neither blocks nor inodes are left; returns how many there are.
fn fill(c: &Client, from: u64) -> u64 {
    for n in from.. {
        let name = format!("file {n}");
        let done = c.file(&c.root(), name.as_bytes()).and_then(|f| c.write(&f, 0, &bytes(n, 4096)));
        if let Err(e) = done {
            assert_eq!(e, FsError::NoSpace);
            let _ = c.unlink(&c.root(), name.as_bytes(), false);
            return n;
        }
    }
    unreachable!("it fills some time")
}

fn assert_files(c: &Client, n: u64) {
    for n in 0..n {
        let f = c.lookup(&c.root(), format!("file {n}").as_bytes()).expect("readable").expect("there");
        assert!(c.read(&f).expect("readable") == bytes(n, 4096), "file {n}");
    }
}

#[test]
fn a_full_file_system_that_grows_takes_more_at_once_and_keeps_what_it_has() {
    for options in ways() {
        in_world(move || {
            let drive = drive_for(&options, 24);
            format(&drive, 1024);
            let fs = open(&drive, &options);
            let c = Client::new(fs.clone());
            let mut before = fs.statfs(&Call::offline()).expect("statfs");
            let (mut files, mut end) = (0, 1024);
            for more in [1, 130, 1000, 3001] {
                files = fill(&c, files);
                end += more;
                let grown = fs.grow(&Call::offline(), end);
                if more == 1 {
                    assert_eq!(grown, Err(FsError::NoSpace), "no room for its own metadata");
                    end -= more;
                    continue;
                }
                grown.expect("grown");
                let now = fs.statfs(&Call::offline()).expect("statfs");
                assert!(now.blocks > before.blocks && now.blocks <= before.blocks + more, "{now:?}");
                assert!(now.inodes > before.inodes && now.available_blocks() > 0, "{now:?}");
                before = now;
                let more_files = fill(&c, files);
                assert!(more_files > files + more / 4, "{files} {more_files}");
                files = more_files;
                fs.sync(&Call::offline()).expect("synced");
                assert_clean(&fs);
            }
            assert_eq!(fs.grow(&Call::offline(), end), Ok(()), "it has that size");
            assert_eq!(fs.grow(&Call::offline(), end - 1), Err(FsError::Invalid), "smaller");
            assert_eq!(fs.grow(&Call::offline(), 1 << 20), Err(FsError::Invalid), "beyond the drive");
            assert_files(&c, files);
            fs.unmount(&Call::offline()).expect("unmounted");
            let fs = open(&drive, &options);
            assert_clean(&fs);
            let c = Client::new(fs.clone());
            assert_files(&c, files);
            for n in 0..files {
                c.unlink(&c.root(), format!("file {n}").as_bytes(), false).expect("removed");
            }
            fs.sync(&Call::offline()).expect("synced");
            assert_clean(&fs);
            let empty = fs.statfs(&Call::offline()).expect("statfs");
            assert_eq!((empty.blocks, empty.free_inodes), (before.blocks, before.inodes - 1));
            assert_eq!(empty.free_blocks, empty.blocks - 1, "the root directory's block");
        });
    }
}

#[test]
fn a_file_system_grows_across_bitmap_blocks_and_only_so_often() {
    in_world(|| {
        // 30,720 blocks to a bitmap block.
        let drive: Arc<dyn Drive> = Arc::new(crate::common::strict::StrictDrive::new(200_000));
        format(&drive, 30_000);
        let fs = open(&drive, &MountOptions::default());
        let c = Client::new(fs.clone());
        for n in 0..31u64 {
            fs.grow(&Call::offline(), 30_000 + (n + 1) * 5_000).expect("grown");
            let d = c.make(&c.root(), format!("dir {n}").as_bytes(), FileKind::Dir, &[]).expect("made");
            let f = c.file(&d, b"f").expect("created");
            c.write(&f, 0, &bytes(n, 3 << 20)).expect("written");
        }
        assert_eq!(fs.grow(&Call::offline(), 199_000), Err(FsError::NoSpace), "too often");
        assert_eq!(fs.grow(&Call::offline(), 300_000), Err(FsError::NoSpace), "on a larger drive, too");
        fs.sync(&Call::offline()).expect("synced");
        assert_clean(&fs);
        fs.unmount(&Call::offline()).expect("unmounted");
        assert_eq!(repair(&Port::new(drive.clone())).expect("readable"), granary_fs::Repaired::default());
        assert_clean(&open(&drive, &MountOptions::default()));
    });
}

/// The default of mkfs: few inodes, so that their bitmap needs no new block where the blocks' bitmap does.
#[test]
fn a_file_system_of_the_usual_ratio_grows_where_only_one_bitmap_needs_a_block() {
    in_world(|| {
        let drive: Arc<dyn Drive> = Arc::new(crate::common::strict::StrictDrive::new(200_000));
        let made = MkfsOptions { discard: false, blocks: Some(16_384), ..MkfsOptions::default() };
        mkfs(&Port::new(drive.clone()), &made).expect("mkfs");
        for end in [32_768, 65_536, 100_000] {
            let fs = open(&drive, &MountOptions::default());
            fs.grow(&Call::offline(), end).expect("grown");
            assert_clean(&fs);
            fs.unmount(&Call::offline()).expect("unmounted");
            assert_eq!(repair(&Port::new(drive.clone())).expect("readable"), granary_fs::Repaired::default());
        }
        assert_clean(&open(&drive, &MountOptions::default()));
    });
}

/// The power fails at every step of a growth with work beside it. Mounting finds the old or the new size, a
/// clean file system, and all that was synced. Then the test grows it once more, and uses the space.
#[test]
fn a_power_failure_in_a_growth_leaves_the_old_size_or_the_new_one() {
    let (mut old, mut new) = (0, 0);
    for options in ways() {
        let probe = {
            let options = options.clone();
            in_world(move || run(&drive_for(&options, 8), &options))
        };
        let (from, to) = probe;
        let steps = 24;
        for step in 0..=steps {
            // Denser where the size has not changed yet.
            let at = from + Nanos((to - from).0 * step * step / (steps * steps));
            let drive = drive_for(&options, 8);
            drive.track_in_flight(true);
            let work = {
                let (drive, options) = (drive.clone(), options.clone());
                move || {
                    run(&drive, &options);
                }
            };
            until_power_fails(at, work);
            let options = options.clone();
            let blocks = in_world(move || {
                sleep_until(at);
                drive.power_fail(at, &mut Stream::new(step, "power"));
                drive.power_on(now()).map(sleep_until).expect("power");
                let fs = open(&drive, &options);
                assert_clean(&fs);
                let c = Client::new(fs.clone());
                assert_files(&c, 40);
                let blocks = fs.statfs(&Call::offline()).expect("statfs").blocks;
                fs.grow(&Call::offline(), 2000).expect("grown");
                let f = c.file(&c.root(), b"after").expect("created");
                c.write(&f, 0, &bytes(9, 2 << 20)).expect("the new space is there");
                fs.sync(&Call::offline()).expect("synced");
                assert_clean(&fs);
                fs.unmount(&Call::offline()).expect("unmounted");
                let fs = open(&drive, &options);
                assert_clean(&fs);
                blocks
            });
            if blocks < 1000 { old += 1 } else { new += 1 }
        }
    }
    assert!(old > 8 && new > 8, "failures before and after: {old} {new}");
}

/// The work of the test above: when the growth began and ended.
fn run(drive: &Arc<dyn Drive>, options: &MountOptions) -> (Nanos, Nanos) {
    format(drive, 1000);
    let fs = open(drive, options);
    let c = Client::new(fs.clone());
    for n in 0..40 {
        let f = c.file(&c.root(), format!("file {n}").as_bytes()).expect("created");
        c.write(&f, 0, &bytes(n, 4096)).expect("written");
    }
    fs.sync(&Call::offline()).expect("synced");
    for n in 0..10 {
        c.file(&c.root(), format!("beside {n}").as_bytes()).expect("created");
    }
    let from = now();
    fs.grow(&Call::offline(), 2000).expect("grown");
    let to = now();
    for n in 0..300u64 {
        let f = c.file(&c.root(), format!("new {n}").as_bytes()).expect("created");
        c.write(&f, 0, &[1; 8192]).expect("the new space is there");
    }
    fs.sync(&Call::offline()).expect("synced");
    // Beyond the end some failures hit a file system that is larger and in use.
    (from, to + Nanos((to - from).0 / 2))
}

fn damage(drive: &Arc<dyn Drive>, lba: u64) {
    Port::new(drive.clone())
        .write(Lpa(lba), &[Page::word(0x5a5a_5a5a)], Structure::Superblock)
        .expect("written");
}

#[test]
fn a_damaged_superblock_is_found_its_copy_is_used_and_a_repair_restores_it() {
    for grown in [false, true] {
        for options in ways() {
            in_world(move || {
                let drive = drive_for(&options, 8);
                format(&drive, 1000);
                let fs = open(&drive, &options);
                let c = Client::new(fs.clone());
                for n in 0..40 {
                    let f = c.file(&c.root(), format!("file {n}").as_bytes()).expect("created");
                    c.write(&f, 0, &bytes(n, 4096)).expect("written");
                }
                if grown {
                    fs.grow(&Call::offline(), 2048).expect("grown");
                    let f = c.file(&c.root(), b"large").expect("created");
                    c.write(&f, 0, &bytes(1, 5 << 20)).expect("written");
                }
                fs.unmount(&Call::offline()).expect("unmounted");
                damage(&drive, 0);
                let fs = open(&drive, &options);
                let bad = fs.check(&Call::offline()).expect("readable");
                assert!(bad.len() == 1 && bad[0].contains("block 0: the superblock was damaged"), "{bad:?}");
                assert_files(&Client::new(fs.clone()), 40);
                fs.unmount(&Call::offline()).expect("unmounted");
                assert_clean(&open(&drive, &options));

                damage(&drive, 0);
                let port = Port::new(drive.clone());
                let mended = repair(&port).expect("mended");
                assert!(mended.done.iter().any(|d| d.contains("made anew from its copy")), "{mended:?}");
                assert!(mended.left.is_empty());
                let fs = open(&drive, &options);
                assert!(fs.recovery().clean);
                assert_clean(&fs);
                fs.unmount(&Call::offline()).expect("unmounted");

                // The copies: the one at the end of what mkfs made is there in any case.
                damage(&drive, 999);
                let fs = open(&drive, &options);
                let bad = fs.check(&Call::offline()).expect("readable");
                assert!(bad.len() == 1 && bad[0].contains("copy of the superblock in block 999"), "{bad:?}");
                fs.unmount(&Call::offline()).expect("unmounted");
                assert!(repair(&port).expect("mended").done[0].contains("block 999"));
                let fs = open(&drive, &options);
                assert_clean(&fs);
                fs.unmount(&Call::offline()).expect("unmounted");

                // All of them.
                for lba in [0, 999, 2047] {
                    damage(&drive, lba);
                }
                let told = mount(port.clone(), &options).map(drop).expect_err("nothing is left").to_string();
                assert!(told.contains("block 0 begins with"), "{told}");
                assert!(repair(&port).is_err());
            });
        }
    }
}

/// Bytes that were changed and given a checksum of their own, as a bug or somebody might: what cannot lie on
/// the drive is damaged, too, and nothing that block 0 says ends in a panic.
#[test]
fn a_superblock_that_describes_no_drive_is_passed_over_for_its_copy() {
    in_world(|| {
        let options = MountOptions::default();
        let drive = drive_for(&options, 8);
        format(&drive, 1000);
        let fs = open(&drive, &options);
        let c = Client::new(fs.clone());
        let f = c.file(&c.root(), b"file").expect("created");
        c.write(&f, 0, &bytes(1, 9000)).expect("written");
        fs.unmount(&Call::offline()).expect("unmounted");
        let port = Port::new(drive.clone());
        let read = || {
            let mut page = [Page::ZERO];
            port.read(Lpa(0), &mut page, Structure::Superblock).expect("readable");
            page[0].to_bytes()
        };
        let good = read();
        let crc_at = (128..4092)
            .find(|at| {
                good[*at..*at + 4] == crc32c::crc32c(&good[..*at]).to_le_bytes()
                    && good[*at + 4..].iter().all(|b| *b == 0)
            })
            .expect("it has a checksum");
        let forge = |at: usize, value: &[u8]| {
            let mut block = good;
            block[at..at + value.len()].copy_from_slice(value);
            let crc = crc32c::crc32c(&block[..crc_at]);
            block[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
            port.write(Lpa(0), &[Page::from_bytes(&block)], Structure::Superblock).expect("written");
        };
        // Blocks, inodes, orphans, bitmaps, table, data; root; journal and its length.
        let mut passed_over = 0;
        for at in (32..88).step_by(8).chain([92, 112, 116]) {
            for value in [0u64, 1, 3, 1 << 31, u64::MAX / 2, u64::MAX] {
                let wide = value.to_le_bytes();
                forge(at, if at < 88 { &wide } else { &wide[..4] });
                let mended = repair(&port).unwrap_or_else(|e| panic!("{value:#x} at {at}: {e}"));
                passed_over += u32::from(mended.done.iter().any(|d| d.contains("made anew from its copy")));
                let fs = open(&drive, &options);
                assert_clean(&fs);
                fs.unmount(&Call::offline()).expect("unmounted");
            }
        }
        assert!(passed_over > 30, "{passed_over}");
        // Any other bytes: no panic.
        let mut random = Stream::new(1, "forged");
        for _ in 0..500 {
            let at = 12 + random.below(crc_at as u64 - 20) as usize;
            forge(at, &random.next_u64().to_le_bytes());
            drop(mount(port.clone(), &options).map(|fs| fs.unmount(&Call::offline())));
            drop(repair(&port));
        }
    });
}

#[test]
fn an_older_format_is_refused_with_what_to_do() {
    in_world(|| {
        let drive = strict(8);
        format(&drive, 1000);
        let port = Port::new(drive.clone());
        let mut page = [Page::ZERO];
        port.read(Lpa(0), &mut page, Structure::Superblock).expect("readable");
        let mut old = page[0].to_bytes();
        old[8] = 3;
        let crc = crc32c::crc32c(&old[..124]);
        old[124..128].copy_from_slice(&crc.to_le_bytes());
        port.write(Lpa(0), &[Page::from_bytes(&old)], Structure::Superblock).expect("written");
        let told = mount(port, &MountOptions::default()).map(drop).expect_err("old").to_string();
        assert!(told.contains("version 3") && told.contains("cp-out"), "{told}");
    });
}
