//! Damaged media: names that no path can have are findings, told to nobody; a superblock that is lost is
//! written anew.

use crate::common::{again, fresh};
use granary_device::{Command, Drive, Structure};
use granary_fs::{Call, Life};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::now;
use granary_suite::suite::{create, drive, port, run, write_all};
use granary_units::{Bytes, Lpa, PAGE_SIZE, Page};
use granary_vfs::Posix;
use std::sync::Arc;

/// Bytes of a name's slots that nothing else has.
const NAME: &[u8] = b"q~w^e%r$";

/// Changes every block that holds these bytes, where it holds them: nodes leave copies behind.
fn change_all(drive: &Arc<dyn Drive>, what: &[u8], to: &[u8]) -> usize {
    let (port, mut changed) = (port(drive), 0);
    for at in 0..port.info().pages {
        let mut page = [Page::ZERO];
        port.read(Lpa(at), &mut page, Structure::Data).expect("read");
        let mut bytes = page[0].to_bytes();
        let places: Vec<usize> =
            (0..PAGE_SIZE - what.len()).filter(|&n| bytes[n..].starts_with(what)).collect();
        for place in &places {
            bytes[*place..place + to.len()].copy_from_slice(to);
        }
        if !places.is_empty() {
            port.write(Lpa(at), &[Page::from_bytes(&bytes)], Structure::Data).expect("write");
            changed += places.len();
        }
    }
    changed
}

/// In a directory whose names are in its inode, and in one that has blocks.
#[test]
fn a_name_that_no_path_can_have_is_told_to_nobody_and_is_a_finding() {
    for (c, more) in [(b'/', 0), (0, 0), (b'/', 400), (0, 400)] {
        run(move || {
            let d = drive(Bytes::mib(64));
            let m = fresh(&d);
            let mut p = m.process();
            p.mkdir("/d", 0o755).expect("mkdir");
            for n in 0..more {
                let fd = create(&mut p, &format!("/d/{n}"));
                p.close(fd).expect("close");
            }
            let name = std::str::from_utf8(NAME).expect("text");
            let fd = create(&mut p, &format!("/d/{name}"));
            p.close(fd).expect("close");
            p.exit();
            m.unmount();
            let mut to = NAME.to_vec();
            to[3] = c;
            assert!(change_all(&d, NAME, &to) > 0);
            let m = again(&d);
            let mut p = m.process();
            assert_eq!(p.list("/d").expect("lists").len(), more + 2, "but for \".\" and \"..\"");
            let bad = m.fs.check(&Call::offline()).expect("check");
            assert!(bad.iter().any(|f| f.contains("cannot be")), "{bad:#?}");
        });
    }
}

/// "." and ".." anywhere but at the beginning, and names that are there twice.
#[test]
fn names_of_the_directory_itself_and_equal_names_are_findings() {
    for (to, wanted) in [("..", "cannot be"), ("as", "has two entries")] {
        run(move || {
            let d = drive(Bytes::mib(64));
            let m = fresh(&d);
            let mut p = m.process();
            p.mkdir("/d", 0o755).expect("mkdir");
            for name in ["/d/as", "/d/q~"] {
                let fd = create(&mut p, name);
                p.close(fd).expect("close");
            }
            p.exit();
            m.unmount();
            assert!(change_all(&d, b"q~\0\0\0\0\0\0", to.as_bytes()) > 0);
            let m = again(&d);
            let bad = m.fs.check(&Call::offline()).expect("check");
            assert!(bad.iter().any(|f| f.contains(wanted)), "{bad:#?}");
        });
    }
}

/// Both superblocks in turn, and both at once.
#[test]
fn a_lost_superblock_keeps_no_file_away() {
    for (lost, opens) in [(&[0][..], true), (&[1], true), (&[0, 1], false)] {
        run(move || {
            let mut config = DriveConfig::bytefs_emulator().with_mode(Mode::Cache);
            // So small that writes reach the flash, where they can be lost.
            config.firmware.cache = Bytes::kib(256);
            config.flash = config.flash.with_capacity(Bytes::mib(64));
            let mssd = Arc::new(Mssd::new(&config).expect("a drive"));
            let d: Arc<dyn Drive> = mssd.clone();
            let m = fresh(&d);
            let mut p = m.process();
            let fd = write_all(&mut p, "/f", 5, 1 << 20).expect("write");
            p.close(fd).expect("close");
            p.exit();
            m.unmount();
            d.submit(now(), Command::Flush).expect("flush");
            for lpa in lost {
                assert!(mssd.break_page(Lpa(*lpa)), "superblock {lpa} is not in the flash");
            }
            if !opens {
                assert!(granary_f2fs::mount(port(&d), &granary_f2fs::MountOptions::default()).is_err());
                return;
            }
            let m = again(&d);
            let mut p = m.process();
            assert_eq!(p.stat("/f").expect("it is there").attr.size, 1 << 20);
            let bad = m.fs.check(&Call::offline()).expect("check");
            // The first one has been written again by the mount; nobody needed the second.
            let told = bad.iter().filter(|b| b.contains("superblock 1")).count();
            assert_eq!((told, bad.len()), (lost.contains(&1) as usize, told), "{bad:?}");
            p.exit();
            m.unmount();
        });
    }
}
