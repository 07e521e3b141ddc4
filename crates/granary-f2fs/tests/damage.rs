//! Names on damaged media that no path can have: findings, told to nobody.

mod common;

use common::{again, fresh};
use granary_mssd::{Drive, Structure};
use granary_units::{Bytes, Lpa, PAGE_SIZE, Page};
use granary_vfs::suite::{create, drive, port, run};
use granary_vfs::{FileSystem, Posix};
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
            let bad = m.fs.check().expect("check");
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
            let bad = m.fs.check().expect("check");
            assert!(bad.iter().any(|f| f.contains(wanted)), "{bad:#?}");
        });
    }
}
