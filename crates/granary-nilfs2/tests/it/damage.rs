//! Damaged media: refused, reported or read as errors; a superblock that is lost keeps no file away.

use crate::common::{Mounted, Subject, promising};
use granary_device::Structure;
use granary_nilfs2::{MountOptions, mount};
use granary_suite::suite::{self, drive, port, run, write_all};
use granary_units::{Bytes, Lpa, Page};
use granary_vfs::{Call, Life, Posix};

#[test]
fn scribbled_images_are_refused_or_reported() {
    suite::scribbled_images_are_refused_or_reported(&promising(), 2048);
}

#[test]
fn damaged_media_give_errors() {
    suite::damaged_media_give_errors(&promising(), 256);
}

/// Both superblocks in turn, and both at once.
#[test]
fn a_lost_superblock_keeps_no_file_away() {
    for (lost, opens) in [(&[0u64][..], true), (&[1], true), (&[0, 1], false)] {
        run(move || {
            let d = drive(Bytes::mib(64));
            let m = Mounted::fresh(&Subject::default(), &d);
            let mut p = m.process();
            let fd = write_all(&mut p, "/f", 5, 1 << 20).expect("write");
            p.close(fd).expect("close");
            p.exit();
            m.unmount();
            let port = port(&d);
            for copy in lost {
                let at = if *copy == 0 { 0 } else { port.info().pages - 1 };
                port.write(Lpa(at), &[Page::word(7)], Structure::Superblock).expect("write");
            }
            if !opens {
                assert!(mount(port, &MountOptions::default()).is_err());
                return;
            }
            let m = Mounted::again(&Subject::default(), &d);
            let mut p = m.process();
            assert_eq!(p.stat("/f").expect("it is there").attr.size, 1 << 20);
            let bad = m.fs.check(&Call::offline()).expect("check");
            // The mount has written one of them anew.
            assert!(bad.len() <= 1 && bad.iter().all(|b| b.contains("superblocks")), "{bad:?}");
            p.exit();
            m.unmount();
        });
    }
}
