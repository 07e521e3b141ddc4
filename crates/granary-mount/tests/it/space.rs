//! Space: the answers of statfs while files come and go, and the largest files.

use super::rig::{self, Rig, eventually};
use granary_fs::Caller;
use granary_mount::Options;
use granary_units::Bytes;
use rustix::fs::{SeekFrom, StatVfs, seek};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};

const MIB: usize = 1 << 20;

/// The two that promise exact numbers and files of 16 TiB.
fn each(test: impl Fn(&Rig)) {
    rig::each(|rig| {
        if ["bytefs", "ext4"].contains(&rig.fs) {
            test(rig);
        }
    });
}

#[test]
fn free_blocks_and_inodes_follow_what_is_written_and_removed() {
    each(|rig| {
        let told = || -> StatVfs { rustix::fs::statvfs(rig.root()).expect("statvfs") };
        let before = told();
        assert!(before.f_bavail <= before.f_bfree && before.f_ffree <= before.f_files);
        fs::write(rig.path("large"), vec![3; 64 * MIB]).expect("written");
        fs::create_dir(rig.path("d")).expect("mkdir");
        (0..200).for_each(|n| drop(File::create(rig.path(&format!("d/{n}"))).expect("created")));
        // At once, whether the blocks are chosen already or only promised.
        let (now, blocks) = (told(), (64 * MIB) as u64 / before.f_frsize);
        assert_eq!(now.f_blocks, before.f_blocks);
        for (name, was, is) in
            [("bfree", before.f_bfree, now.f_bfree), ("bavail", before.f_bavail, now.f_bavail)]
        {
            assert!(
                is + blocks <= was && was - is < blocks + blocks / 20 + 512,
                "{}: f_{name} {was} {is}",
                rig.fs
            );
        }
        assert!(now.f_bavail <= now.f_bfree);
        // Where inodes are made on demand, their number is an estimate.
        assert!(now.f_ffree < before.f_ffree || before.f_ffree == 0, "{}: f_ffree", rig.fs);
        File::open(rig.path("large")).expect("open").sync_all().expect("fsync");
        let synced = told();
        assert!(synced.f_bfree + blocks <= before.f_bfree && synced.f_bavail <= synced.f_bfree);
        fs::remove_file(rig.path("large")).expect("removed");
        fs::remove_dir_all(rig.path("d")).expect("removed");
        let back = eventually(|| {
            rig.vfs.sync(&Caller::KERNEL).expect("sync");
            let now = told();
            now.f_bfree + 64 >= before.f_bfree && now.f_bavail + 64 >= before.f_bavail
        });
        assert!(back, "{}: {} of {} blocks came back", rig.fs, told().f_bfree, before.f_bfree);
    });
}

#[test]
fn a_file_of_the_largest_size_is_sparse() {
    each(|rig| {
        let largest = rig.vfs.max_file_size();
        // ext4 counts 2^32 blocks from 0 on and keeps one back.
        assert!(largest >= (1 << 44) - 4096, "{} has files of {largest} bytes", rig.fs);
        // The kernel's own limit is beyond that of all of them.
        let f = File::options().read(true).write(true).create_new(true).open(rig.path("f")).expect("opens");
        let (first, last) = (b"first".as_slice(), b"last".as_slice());
        f.write_all_at(first, 5000).expect("written");
        f.write_all_at(last, largest - 4).expect("the last bytes that can be");
        assert_eq!(f.metadata().expect("stat").len(), largest);
        f.sync_all().expect("fsync");
        assert!(f.metadata().expect("stat").blocks() < 4096, "a few blocks of 512 B");
        let mut out = [1; 4];
        f.read_exact_at(&mut out, largest - 4).expect("read");
        assert_eq!(out, last);
        f.read_exact_at(&mut out, largest / 2).expect("read a hole");
        assert_eq!(out, [0; 4]);
        let data = seek(&f, SeekFrom::Data(8192)).expect("data");
        assert!([8192, (largest - 4) / 4096 * 4096].contains(&data), "{}: {data}", rig.fs);
        let beyond = f.write_at(b"x", largest).expect_err("beyond");
        assert_eq!(beyond.raw_os_error(), Some(Errno::FBIG.raw_os_error()), "{}", rig.fs);
        f.set_len(10_000).expect("cut");
        let mut head = [0; 5];
        f.read_exact_at(&mut head, 5000).expect("read");
        assert_eq!(&head, first);
    });
}

/// Writes until there is no space.
fn fill(file: &mut File) -> usize {
    let piece = vec![7; 64 << 10];
    let mut written = 0;
    loop {
        match file.write(&piece) {
            Ok(n) => written += n,
            Err(e) => {
                assert_eq!(e.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
                return written;
            }
        }
    }
}

/// The kernel tells that a file is forgotten after unlink(2) has returned.
#[test]
fn what_a_removed_file_had_is_there_for_the_next_one() {
    if !rig::possible() {
        return;
    }
    for fs in rig::systems() {
        for threads in [1, 4] {
            let rig = Rig::of(fs, Bytes::mib(64), &Options { threads, ..Options::default() });
            let (mut sizes, mut free) = (Vec::new(), Vec::new());
            for round in 0..5 {
                let path = rig.path(&format!("fill{round}"));
                sizes.push(fill(&mut File::create(&path).expect("created")) >> 10);
                fs::remove_file(&path).expect("removed");
                free.push(rustix::fs::statvfs(rig.root()).expect("statvfs").f_bavail);
            }
            let near = |all: &[u64], few: u64| {
                all.iter().max().zip(all.iter().min()).is_some_and(|(a, b)| a - b <= few)
            };
            let sizes: Vec<u64> = sizes.iter().map(|&s| s as u64).collect();
            assert!(near(&sizes[1..], 256), "{}, {threads} threads: {sizes:?} KiB written", rig.fs);
            // NILFS2's file of checkpoints keeps the blocks of those that are gone.
            let few = if rig.fs == "nilfs2" { 128 } else { 64 };
            assert!(near(&free, few), "{}, {threads} threads: {free:?} blocks free", rig.fs);
            rig.finish();
        }
    }
}

/// It is waited for a moment only, and what it has comes when it is closed.
#[test]
fn a_removed_file_that_is_open_keeps_its_space() {
    if !rig::possible() {
        return;
    }
    for fs in rig::systems() {
        let rig = Rig::of(fs, Bytes::mib(64), &Options::default());
        let path = rig.path("held");
        let mut held = File::options().read(true).write(true).create_new(true).open(&path).expect("created");
        let all = fill(&mut held);
        fs::remove_file(&path).expect("removed");
        for round in 0..5 {
            let path = rig.path(&format!("f{round}"));
            // Names may find no place, either.
            let written = File::create(&path).map_or(0, |mut f| fill(&mut f));
            assert!(written < all / 2, "{}: {written} of {all}", rig.fs);
            let _ = fs::remove_file(&path);
        }
        held.read_exact_at(&mut [0], all as u64 - 1).expect("there");
        drop(held);
        let back = eventually(|| {
            // Until then names may find no place.
            let written = File::create(rig.path("next")).map_or(0, |mut f| fill(&mut f));
            let _ = fs::remove_file(rig.path("next"));
            written > all / 10 * 9
        });
        assert!(back, "{}: it is free again", rig.fs);
        rig.finish();
    }
}

/// However long it was open: its space is there for a write right after its close.
#[test]
fn a_removed_file_that_was_open_for_long_gives_its_space_when_it_is_closed() {
    if !rig::possible() {
        return;
    }
    for fs in rig::some_systems(1) {
        let rig = Rig::of(fs, Bytes::mib(64), &Options { threads: 4, ..Options::default() });
        let path = rig.path("held");
        let mut held = File::create(&path).expect("created");
        let all = fill(&mut held);
        fs::remove_file(&path).expect("removed");
        // Nobody has patience with it any more.
        for _ in 0..3 {
            let _ = File::create(rig.path("other")).map(|mut f| fill(&mut f));
            let _ = fs::remove_file(rig.path("other"));
        }
        (0..410).for_each(|_| rig::pause());
        drop(held);
        let written = File::create(rig.path("next")).map_or(0, |mut f| fill(&mut f));
        assert!(written > all / 10 * 9, "{}: {written} of {all}", rig.fs);
        rig.finish();
    }
}

/// Appends are placed by the program that asks, not by the thread that serves them.
#[test]
fn the_appends_of_one_program_lie_together() {
    if !rig::possible() {
        return;
    }
    for fs in rig::systems().filter(|fs| fs.name == "ext4") {
        let pages = |threads| {
            let rig = Rig::new(fs, &Options { threads, ..Options::default() });
            let mut f = File::create(rig.path("log")).expect("created");
            let before = rig.written();
            for _ in 0..20 {
                f.write_all(&[5; 4120]).expect("appended");
                f.sync_data().expect("fdatasync");
            }
            let pages = rig.written() - before;
            drop(f);
            rig.finish();
            pages
        };
        let (one, four) = (pages(1), pages(4));
        // A commit that time asks for may come between.
        assert!(four <= one + 4, "{one} pages written by one thread, {four} by four");
    }
}
