//! Damaged media: refused, reported or read as errors; a superblock that is lost keeps no file away.

use crate::common::{Mounted, Subject};
use granary_device::Structure;
use granary_fs::{Call, FsError, Life};
use granary_nilfs2::{MountOptions, mount};
use granary_suite::suite::{drive, port, run, write_all};
use granary_units::{Bytes, Lpa, Page};
use granary_vfs::Posix;

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

/// A file system that was unmounted names its newest log. Where that is damaged a mount does not quietly show
/// an older state.
#[test]
fn a_damaged_newest_log_is_refused_unless_an_older_state_is_wanted() {
    run(|| {
        let d = drive(Bytes::mib(64));
        let write = |name: &str, seed: u64| {
            let m = if seed == 5 {
                Mounted::fresh(&Subject::default(), &d)
            } else {
                Mounted::again(&Subject::default(), &d)
            };
            let mut p = m.process();
            let fd = write_all(&mut p, name, seed, 1 << 20).expect("write");
            p.close(fd).expect("close");
            p.exit();
            m.unmount();
        };
        write("/old", 5);
        write("/new", 6);
        let port = port(&d);
        // A page of the newest file.
        let mut page = [Page::ZERO];
        let at = (0..port.info().pages).find(|at| {
            port.read(Lpa(*at), &mut page, Structure::Data).expect("read");
            page[0] == Page::word(6)
        });
        let at = Lpa(at.expect("it is on the drive"));
        port.write(at, &[Page::word(7)], Structure::Data).expect("write");
        let said = match mount(port.clone(), &MountOptions::default()) {
            Ok(_) => panic!("the newest log is damaged"),
            Err(e) => e.to_string(),
        };
        assert!(said.contains("with blocks of inodes 12") && said.contains("nilfs2.go_back"), "{said}");
        let back = MountOptions { go_back: true, ..MountOptions::default() };
        let m = Mounted::again(&Subject { mount: back, ..Subject::default() }, &d);
        let mut p = m.process();
        assert_eq!(p.stat("/old").expect("it is there").attr.size, 1 << 20);
        assert_eq!(p.stat("/new").map(|_| ()), Err(FsError::NoEntry));
        p.exit();
        m.unmount();
    });
}
