//! Pointers on media that lead anywhere: findings and errors.

use crate::common::{Subject, again, fresh};
use granary_device::{Drive, Structure};
use granary_fs::{Call, Life};
use granary_nova::layout::PAGE_NEXT;
use granary_nova::layout::inode::{HEAD, NUMBER, SIZE};
use granary_suite::suite::{Subject as _, create, drive, fill, look_around, port, run};
use granary_units::{Bytes, Lpa, PAGE_SIZE, Page};
use granary_vfs::Posix;
use std::sync::Arc;

fn change(drive: &Arc<dyn Drive>, block: u64, change: impl FnOnce(&mut [u8; PAGE_SIZE])) {
    let (port, mut page) = (port(drive), [Page::ZERO]);
    port.read(Lpa(block), &mut page, Structure::Data).expect("read");
    change(page[0].bytes_mut());
    port.write(Lpa(block), &page, Structure::Data).expect("write");
}

fn word(b: &[u8], at: u64) -> u64 {
    u64::from_le_bytes(b[at as usize..at as usize + 8].try_into().expect("eight bytes"))
}

/// A file with a log, unmounted: (block of its inode, offset there, first block of its log).
fn with_log(drive: &Arc<dyn Drive>) -> (u64, u64, u64) {
    let m = fresh(drive);
    let mut p = m.process();
    let fd = create(&mut p, "/f");
    p.pwrite(fd, fill(7, 5000), 0).expect("write");
    p.close(fd).expect("close");
    let ino = p.stat("/f").expect("stat").ino.0;
    p.exit();
    m.unmount();
    let port = port(drive);
    for block in 1..port.info().pages {
        let mut page = [Page::ZERO];
        port.read(Lpa(block), &mut page, Structure::Data).expect("read");
        let bytes = page[0].to_bytes();
        for (i, b) in bytes.chunks_exact(SIZE).enumerate() {
            if b[0] == 1 && word(b, NUMBER) == ino {
                return (block, (i * SIZE) as u64, word(b, HEAD));
            }
        }
    }
    panic!("the inode is nowhere");
}

/// The check finds something, and nothing panics, neither after an unmount nor in recovery.
fn is_noticed(drive: &Arc<dyn Drive>) {
    let m = again(drive);
    look_around(&m.vfs);
    assert!(!m.fs.check(&Call::offline()).expect("check").is_empty());
    drop(m);
    if let Ok(fs) = Subject::default().mount(port(drive)) {
        fs.check(&Call::offline()).expect("check");
    }
}

#[test]
fn a_log_that_begins_or_goes_on_anywhere_is_reported() {
    for to in [u64::MAX, 0xff << 56, 1 << 52, 1, 3, 6] {
        run(move || {
            let d = drive(Bytes::mib(32));
            let (block, at, _) = with_log(&d);
            change(&d, block, |b| {
                let at = (at + HEAD) as usize;
                b[at..at + 8].copy_from_slice(&to.to_le_bytes());
            });
            is_noticed(&d);
        });
        run(move || {
            let d = drive(Bytes::mib(32));
            let (_, _, log) = with_log(&d);
            change(&d, log, |b| b[PAGE_NEXT as usize..][..8].copy_from_slice(&to.to_le_bytes()));
            is_noticed(&d);
        });
    }
}

#[test]
fn a_log_that_comes_back_to_itself_is_reported() {
    run(|| {
        let d = drive(Bytes::mib(32));
        let (_, _, log) = with_log(&d);
        change(&d, log, |b| b[PAGE_NEXT as usize..][..8].copy_from_slice(&log.to_le_bytes()));
        is_noticed(&d);
    });
}

/// The block that holds these bytes, and where.
fn find(drive: &Arc<dyn Drive>, what: &[u8]) -> (u64, usize) {
    let port = port(drive);
    let in_block = |at| {
        let mut page = [Page::ZERO];
        port.read(Lpa(at), &mut page, Structure::Data).expect("read");
        Some((at, page[0].to_bytes().windows(what.len()).position(|w| w == what)?))
    };
    (0..port.info().pages).find_map(in_block).expect("somewhere")
}

#[test]
fn a_name_that_no_path_can_have_is_told_to_nobody_and_is_a_finding() {
    for c in [b'/', 0] {
        run(move || {
            let d = drive(Bytes::mib(32));
            let m = fresh(&d);
            let mut p = m.process();
            for path in ["/before", "/some-name", "/behind"] {
                create(&mut p, path);
            }
            p.exit();
            m.unmount();
            let (block, at) = find(&d, b"some-name");
            change(&d, block, |b| {
                b[at + 4] = c;
                // The entry's checksum, without its dead flag.
                let entry = &mut b[at - 48..at + 16];
                entry[28..32].fill(0);
                let dead = std::mem::take(&mut entry[3]);
                let sum = crc32c::crc32c(entry);
                entry[28..32].copy_from_slice(&sum.to_le_bytes());
                entry[3] = dead;
            });
            let m = again(&d);
            let mut p = m.process();
            let mut names: Vec<Vec<u8>> = p.list("/").expect("lists").into_iter().map(|e| e.name).collect();
            names.retain(|n| n != b"." && n != b"..");
            names.sort();
            assert_eq!(names, [&b"before"[..], b"behind"]);
            let bad = m.fs.check(&Call::offline()).expect("check");
            assert!(bad.iter().any(|f| f.contains("cannot be")), "{bad:?}");
        });
    }
}
