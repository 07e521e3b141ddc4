//! Space, size and number: full file systems, large directories, large files, reservations, damaged media.

use crate::common::fresh;
use granary_fs::FsError;
use granary_nova::layout::LOG_SPACE;
use granary_suite::suite::{create, drive, fill, run};
use granary_units::{Bytes, PAGE_SIZE};
use granary_vfs::Posix;

/// The log of a directory that has lost all its names says nothing any more.
#[test]
fn an_emptied_directory_gives_its_log_back() {
    run(|| {
        let m = fresh(&drive(Bytes::mib(64)));
        let mut p = m.process();
        let free = |p: &mut granary_vfs::Process| p.statfs().expect("statfs").free_blocks;
        // Inodes take blocks for good: the first round is not counted.
        let mut before = 0;
        for round in 0..4 {
            let dir = format!("/round{round}");
            p.mkdir(&dir, 0o755).expect("mkdir");
            for n in 0..2000 {
                let fd = create(&mut p, &format!("{dir}/{n}"));
                p.close(fd).expect("close");
            }
            for n in 0..2000 {
                p.unlink(format!("{dir}/{n}")).expect("unlink");
            }
            let emptied = free(&mut p);
            m.check();
            p.rmdir(&dir).expect("rmdir");
            let kept = free(&mut p) - emptied;
            // The first page, with "." and "..", that with the tail, and as many for growth.
            assert!(kept <= 4, "round {round}: an empty directory keeps {kept} pages");
            assert!(round == 0 || free(&mut p) + 4 >= before, "round {round}: some are gone for good");
            before = free(&mut p);
        }
        p.mkdir("/d", 0o755).expect("mkdir");
        create(&mut p, "/d/again");
        p.exit();
        let m = m.remounted();
        m.check();
        m.process().stat("/d/again").expect("there");
    });
}

/// Truncations that free nothing take no page of the reserve, which is for those that do.
#[test]
fn on_a_full_file_system_what_frees_space_works_whatever_was_tried_before() {
    const FILES: usize = 600;
    run(|| {
        let m = fresh(&drive(Bytes::mib(48)));
        let mut p = m.process();
        // Each log has one page, and no room in it.
        for n in 0..FILES {
            let fd = create(&mut p, &format!("/{n}"));
            for entry in 0..LOG_SPACE / 64 {
                p.pwrite(fd, fill(entry, 2 * PAGE_SIZE), 0).expect("write");
            }
            p.close(fd).expect("close");
        }
        let fd = create(&mut p, "/rest");
        for len in [1 << 20, PAGE_SIZE] {
            while p.write(fd, fill(1, len)) == Ok(len) {}
        }
        p.close(fd).expect("close");
        let refused = |p: &mut granary_vfs::Process| {
            (0..FILES).filter(|n| p.link(format!("/{n}"), "/l") == Err(FsError::NoSpace)).count()
        };
        assert_eq!(refused(&mut p), FILES, "no log has a place");
        for n in 0..FILES {
            p.truncate(format!("/{n}"), 2 * PAGE_SIZE as u64 - 10).expect("frees nothing");
        }
        assert_eq!(refused(&mut p), FILES, "no log has a place");
        for n in (0..FILES).rev() {
            p.truncate(format!("/{n}"), PAGE_SIZE as u64 / 2).expect("frees a page");
        }
        p.truncate("/rest", 0).expect("frees all");
        m.check();
    });
}

/// A rename begins the log of a file that has none, and ends for want of space in another's.
#[test]
fn a_call_that_finds_no_space_leaves_no_block_taken() {
    run(|| {
        let m = fresh(&drive(Bytes::mib(24)));
        let mut p = m.process();
        let names = ["/a", "/b", "/c", "/d"];
        for name in names {
            let fd = create(&mut p, name);
            p.close(fd).expect("close");
        }
        let fd = create(&mut p, "/ballast");
        let mut end = 0;
        for len in [1 << 20, PAGE_SIZE] {
            while let Ok(n) = p.pwrite(fd, fill(7, len), end) {
                end += n as u64;
            }
        }
        let mut refused = 0;
        for round in 0..8 {
            for (from, to) in [("/a", "/b"), ("/c", "/d"), ("/b", "/a"), ("/d", "/c")] {
                refused += u32::from(p.rename(from, to) == Err(FsError::NoSpace));
                m.check();
            }
            end -= PAGE_SIZE as u64;
            p.ftruncate(fd, end).expect("cut");
            if round % 2 == 0 {
                let fd = create(&mut p, &format!("/new{round}"));
                p.close(fd).expect("close");
            }
        }
        assert!(refused > 0);
    });
}
