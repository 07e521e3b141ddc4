//! Inodes, trees and names on media that say anything: findings and errors, soon, and nothing else is written
//! over.

use crate::common::{Mounted, Subject, again, fresh};
use granary_device::{Drive, Structure};
use granary_fs::{Allocate, Call, FsError, Life, Space};
use granary_suite::suite::{Subject as _, create, drive, fill, look_around, port, run};
use granary_units::{Bytes, Lpa, PAGE_SIZE, Page};
use granary_vfs::{OpenFlags, Posix};
use std::sync::Arc;

fn block(drive: &Arc<dyn Drive>, at: u64) -> [u8; PAGE_SIZE] {
    let mut page = [Page::ZERO];
    port(drive).read(Lpa(at), &mut page, Structure::Data).expect("read");
    page[0].to_bytes()
}

fn change(drive: &Arc<dyn Drive>, at: u64, change: impl FnOnce(&mut [u8; PAGE_SIZE])) {
    let mut bytes = block(drive, at);
    change(&mut bytes);
    let mut page = Page::ZERO;
    *page.bytes_mut() = bytes;
    port(drive).write(Lpa(at), &[page], Structure::Data).expect("write");
}

fn word(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().expect("eight bytes"))
}

/// A file `/f` of this many pages in a file system that is not mounted: (its inode's block, offset there).
fn with_file(drive: &Arc<dyn Drive>, pages: usize) -> (u64, usize) {
    let m = fresh(drive);
    let mut p = m.process();
    let fd = create(&mut p, "/f");
    p.pwrite(fd, fill(7, pages * PAGE_SIZE), 0).expect("write");
    p.close(fd).expect("close");
    let ino = p.stat("/f").expect("stat").ino.0 as usize;
    p.exit();
    m.unmount();
    let journal = u32::from_le_bytes(block(drive, 0)[12..16].try_into().expect("four bytes"));
    let piece = word(&block(drive, 1 + u64::from(journal)), 0);
    (piece + (ino * 128 / PAGE_SIZE) as u64, ino * 128 % PAGE_SIZE)
}

fn findings(drive: &Arc<dyn Drive>) -> Vec<String> {
    let fs = Subject::default().mount(port(drive)).expect("mount");
    let bad = fs.check(&Call::offline()).expect("check");
    assert!(bad.len() <= 1000, "{} findings", bad.len());
    fs.unmount(&Call::offline()).expect("unmount");
    bad
}

#[test]
fn a_root_that_leads_anywhere_is_never_followed() {
    for (pages, root) in
        [1, 3].into_iter().flat_map(|n| [1, 2, 0xff << 56, u64::MAX, 1 << 52].map(|r| (n, r)))
    {
        run(move || {
            let d = drive(Bytes::mib(32));
            let (at, offset) = with_file(&d, pages);
            change(&d, at, |b| b[offset..offset + 8].copy_from_slice(&root.to_le_bytes()));
            assert!(!findings(&d).is_empty());
            let before = block(&d, 2);
            let m = again(&d);
            let mut p = m.process();
            let opened = p.open("/f", OpenFlags::RDWR, 0);
            assert!(matches!(opened, Err(FsError::Corrupt(_))), "{opened:?}");
            assert!(p.unlink("/f").is_err() && p.truncate("/f", 0).is_err());
            look_around(&m.vfs);
            assert_eq!(block(&d, 2), before, "the journal is as it was");
        });
    }
}

#[test]
fn a_count_of_blocks_that_is_wrong_is_reported_and_ends_nothing() {
    for blocks in [0, 1, u64::MAX] {
        run(move || {
            let d = drive(Bytes::mib(32));
            let (at, offset) = with_file(&d, 3);
            change(&d, at, |b| b[offset + 40..offset + 48].copy_from_slice(&blocks.to_le_bytes()));
            assert!(!findings(&d).is_empty());
            let m = again(&d);
            let mut p = m.process();
            let fd = p.open("/f", OpenFlags::RDWR, 0).expect("open");
            p.pwrite(fd, fill(1, 9000), 40_000).expect("write");
            p.fallocate(fd, Allocate::Reserve { keep_size: false }, 80_000, 20_000).expect("reserve");
            p.ftruncate(fd, 5000).expect("truncate");
            p.close(fd).expect("close");
            p.unlink("/f").expect("unlink");
            m.check();
        });
    }
}

#[test]
fn a_tree_that_leads_back_to_itself_ends() {
    run(|| {
        let d = drive(Bytes::mib(32));
        let (at, offset) = with_file(&d, 3);
        let root = word(&block(&d, at), offset);
        change(&d, at, |b| b[offset + 51] = 3);
        change(&d, root, |b| b.chunks_exact_mut(8).for_each(|w| w.copy_from_slice(&root.to_le_bytes())));
        assert!(!findings(&d).is_empty());
        let m = again(&d);
        let mut p = m.process();
        assert!(matches!(p.truncate("/f", 0), Err(FsError::Corrupt(_))));
        let _ = p.unlink("/f");
        p.exit();
        drop(m);
        // After a failure recovery walks all trees.
        let _ = Subject::default().mount(port(&d));
    });
}

/// The block that holds these bytes, and where.
fn find(drive: &Arc<dyn Drive>, what: &[u8]) -> (u64, usize) {
    let in_block = |at| Some((at, block(drive, at).windows(what.len()).position(|w| w == what)?));
    (0..port(drive).info().pages).find_map(in_block).expect("somewhere")
}

fn with_names(names: &[&[u8]]) -> Arc<dyn Drive> {
    let d = drive(Bytes::mib(32));
    let m: Mounted = fresh(&d);
    let mut p = m.process();
    for name in names {
        let fd = p.open([b"/", *name].concat(), OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("open");
        p.close(fd).expect("close");
    }
    p.exit();
    m.check();
    m.unmount();
    d
}

#[test]
fn names_that_are_no_text_are_sound() {
    run(|| assert_eq!(findings(&with_names(&[b"\xff", b"\xfe", b"a\x80", b"a\x81", b"\n"])), [""; 0]));
}

#[test]
fn a_name_that_is_there_twice_is_a_finding() {
    run(|| {
        let d = with_names(&[b"one-and-the-same-1", b"one-and-the-same-2"]);
        let (at, offset) = find(&d, b"one-and-the-same-2");
        change(&d, at, |b| b[offset + 17] = b'1');
        let bad = findings(&d);
        assert!(bad.len() == 1 && bad[0].contains("one-and-the-same-1\" is there twice"), "{bad:?}");
    });
}

#[test]
fn a_name_that_no_path_can_have_hides_no_other_and_is_a_finding() {
    for (at_name, value) in [(4, b'/'), (4, 0), (-1, 0xee)] {
        run(move || {
            let d = with_names(&[b"before", b"some-name", b"behind"]);
            let (at, offset) = find(&d, b"some-name");
            change(&d, at, |b| b[(offset as i64 + at_name) as usize] = value);
            let bad = findings(&d);
            assert!(bad.iter().any(|f| f.contains("no name that can be")), "{bad:?}");
            let m = again(&d);
            let mut p = m.process();
            let mut names: Vec<Vec<u8>> = p.list("/").expect("lists").into_iter().map(|e| e.name).collect();
            names.retain(|n| n != b"." && n != b"..");
            assert_eq!(names, [&b"before"[..], b"behind"]);
            p.stat("/behind").expect("there");
            assert_eq!(p.stat("/some-name").err(), Some(FsError::NoEntry));
            for path in ["/before", "/behind", "/new"] {
                create(&mut p, path);
                p.unlink(path).expect("unlinks");
            }
        });
    }
}

/// An inode that has only a damaged name is not lost with its directory.
#[test]
fn a_directory_with_a_damaged_name_is_not_empty() {
    run(|| {
        let d = with_names(&[]);
        let m = again(&d);
        let mut p = m.process();
        p.mkdir("/dir", 0o755).expect("mkdir");
        create(&mut p, "/dir/some-name");
        p.exit();
        m.unmount();
        let (at, offset) = find(&d, b"some-name");
        change(&d, at, |b| b[offset] = b'/');
        let m = again(&d);
        assert!(matches!(m.process().rmdir("/dir"), Err(FsError::Corrupt(_))));
    });
}

/// A directory whose count of links is too small is not freed while it is in use.
#[test]
fn a_directory_with_too_few_links_keeps_its_own() {
    run(|| {
        let d = with_names(&[]);
        let m = again(&d);
        let mut p = m.process();
        p.mkdir("/dir", 0o755).expect("mkdir");
        p.mkdir("/dir/below", 0o755).expect("mkdir");
        let ino = p.stat("/dir").expect("there").ino.0 as usize;
        p.exit();
        m.unmount();
        let journal = u32::from_le_bytes(block(&d, 0)[12..16].try_into().expect("four bytes"));
        let piece = word(&block(&d, 1 + u64::from(journal)), 0);
        let (at, offset) = (piece + (ino * 128 / PAGE_SIZE) as u64, ino * 128 % PAGE_SIZE);
        change(&d, at, |b| b[offset + 52] = 1);
        assert!(!findings(&d).is_empty());
        let m = again(&d);
        let mut p = m.process();
        assert!(matches!(p.rmdir("/dir/below"), Err(FsError::Corrupt(_))));
        assert!(matches!(p.rename("/dir/below", "/elsewhere"), Err(FsError::Corrupt(_))));
        p.stat("/dir/below").expect("there");
    });
}

/// 32,768 mounts bring the journal's generation back to that of entries which nobody has overwritten since.
#[test]
fn entries_of_long_ago_are_never_valid_again() {
    const ENTRY: usize = 64;
    run(|| {
        let d = with_names(&[b"some-name"]);
        let blocks = u32::from_le_bytes(block(&d, 0)[12..16].try_into().expect("four bytes")) as u64;
        let present = u16::from_le_bytes(block(&d, 1)[8..10].try_into().expect("two bytes"));
        // Undo entries of that time are left, and not what committed them.
        let mut left = 0;
        for at in 1..1 + blocks {
            change(&d, at, |b| {
                for e in b.chunks_exact_mut(ENTRY).skip(usize::from(at == 1)) {
                    match e[14] {
                        2 => e[14] = 0,
                        kind => left += u32::from(kind == 1),
                    }
                }
            });
        }
        assert!(left > 0);
        change(&d, 1, |b| {
            b[..8].fill(0);
            b[8..10].copy_from_slice(&present.wrapping_sub(2).to_le_bytes());
        });
        // It is unmounted now, and the one after the next mount finds what this one left.
        drop(Subject::default().mount(port(&d)).expect("mount"));
        let fs = Subject::default().mount(port(&d)).expect("mount");
        assert_eq!(fs.recovery().undone, 0);
        assert_eq!(fs.check(&Call::offline()).expect("check"), [""; 0]);
    });
}

#[test]
fn no_more_inodes_are_promised_than_the_table_can_hold() {
    run(|| {
        let m = fresh(&drive(Bytes::mib(512)));
        // 512 pieces of 64 KiB, 128 B each; number 0 is nobody's.
        let s = m.fs.statfs(&Call::offline()).expect("statfs");
        assert_eq!((s.inodes, s.free_inodes), (512 * 512 - 1, 512 * 512 - 2));
    });
}
