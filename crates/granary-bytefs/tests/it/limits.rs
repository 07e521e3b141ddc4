//! Full, large, long and far: the limits of the file system.

use crate::common::client::{Client, bytes};
use crate::common::strict::StrictDrive;
use crate::common::{assert_clean, format, in_world, open, strict, until_power_fails};
use granary_bytefs::{DataMode, MkfsOptions, MountOptions, mkfs};
use granary_device::{Drive, Port, Structure};
use granary_fs::{Allocate, Call, Caller, Cred, Data, FileKind, FsError, Life, Names, Space, Time};
use granary_sim::rng::Stream;
use granary_sim::{now, sleep_until};
use granary_suite::suite::the_end_of_the_largest_file;
use granary_units::{Bytes, Dest, Lpa, Nanos, Page, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::collections::BTreeSet;
use std::sync::Arc;

fn call() -> Call<'static> {
    Call::kernel(Time(now().0 as i64))
}

/// Every last block can be used, the call that fails changes nothing, and removing works when nothing is
/// free.
#[test]
fn a_full_file_system_is_full_to_the_last_block_and_can_be_emptied() {
    in_world(|| {
        let drive = strict(2);
        let options = MkfsOptions { discard: false, inode_ratio: 2048, ..MkfsOptions::default() };
        mkfs(&Port::new(drive.clone()), &options).expect("mkfs");
        let fs = open(&drive, &MountOptions::default());
        let c = Client::new(fs.clone());
        let root = c.root();
        let empty = fs.statfs(&Call::offline()).expect("statfs");
        for round in 0..3 {
            let mut files = Vec::new();
            let full = loop {
                let name = format!("file {}", files.len());
                match c.file(&root, name.as_bytes()) {
                    Ok(f) => files.push((name, f)),
                    Err(e) => break e,
                }
                let f = &files.last().expect("just pushed").1;
                // Some files of one extent, some of several.
                let wrote = c.write(f, 0, &[round; 4096]).and_then(|()| c.write(f, 8192, &[round; 8192]));
                if let Err(e) = wrote {
                    assert_eq!(c.read(f).expect("readable").len() % 4096, 0);
                    break e;
                }
            };
            assert_eq!(full, FsError::NoSpace);
            // The rest is too little for the write of two blocks that failed; fill it up block by block.
            let (_, last) = files.last().expect("many");
            let mut n = 100;
            while c.write(last, n * 4096, &[9; 4096]).is_ok() {
                n += 1;
            }
            assert_eq!(fs.statfs(&Call::offline()).expect("statfs").available_blocks(), 0, "round {round}");
            assert_eq!(fs.stats().reserved_blocks, 0);
            fs.sync(&Call::offline()).expect("synced");
            assert_clean(&fs);
            for (name, _) in &files {
                c.unlink(&root, name.as_bytes(), false).expect("removing needs no space");
            }
            fs.sync(&Call::offline()).expect("synced");
            assert_clean(&fs);

            let now_free = fs.statfs(&Call::offline()).expect("statfs");
            assert_eq!(now_free.free_blocks, empty.free_blocks);
            assert_eq!(now_free.free_inodes, empty.free_inodes);
        }
    });
}

#[test]
fn inodes_run_out_cleanly() {
    in_world(|| {
        let drive = strict(2);
        let options = MkfsOptions { discard: false, inode_ratio: 65536, ..MkfsOptions::default() };
        mkfs(&Port::new(drive.clone()), &options).expect("mkfs");
        let fs = open(&drive, &MountOptions::default());
        let c = Client::new(fs.clone());
        let free = fs.statfs(&Call::offline()).expect("statfs").free_inodes;
        for n in 0..free {
            c.file(&c.root(), format!("{n}").as_bytes()).expect("an inode is free");
        }
        assert_eq!(c.file(&c.root(), b"one more").err(), Some(FsError::NoSpace));
        c.unlink(&c.root(), b"0", false).expect("removed");
        c.file(&c.root(), b"one more").expect("an inode is free again");
        fs.sync(&Call::offline()).expect("synced");
        assert_clean(&fs);
    });
}

#[test]
fn a_directory_of_100_000_names_is_listed_looked_up_and_emptied() {
    in_world(|| {
        const N: usize = 100_000;
        let drive = strict(64);
        let options = MkfsOptions { discard: false, inode_ratio: 600, ..MkfsOptions::default() };
        mkfs(&Port::new(drive.clone()), &options).expect("mkfs");
        let name = |n: usize| {
            format!("name {n}{}", if n.is_multiple_of(50) { "x".repeat(100) } else { String::new() })
        };
        let fs = open(&drive, &MountOptions::default());
        {
            let c = Client::new(fs.clone());
            let root = c.root();
            for n in 0..N {
                c.file(&root, name(n).as_bytes()).expect("created");
            }
            fs.unmount(&Call::offline()).expect("unmounted");
        }
        let fs = open(&drive, &MountOptions::default());
        let c = Client::new(fs.clone());
        let root = c.root();
        for n in (0..N).step_by(997) {
            assert!(c.lookup(&root, name(n).as_bytes()).expect("readable").is_some());
        }
        assert!(c.lookup(&root, b"name 100000").expect("readable").is_none());
        // In parts of 1000, with names removed and added meanwhile: every name that stays is told exactly
        // once.
        let (mut seen, mut from, mut round) = (BTreeSet::new(), 0, 0);
        loop {
            let mut part = 0;
            let mut next = from;
            fs.readdir(&Call::offline(), &root, from, &mut |e| {
                if e.name.starts_with(b"name ") {
                    assert!(seen.insert(e.name.to_vec()), "{:?} twice", String::from_utf8_lossy(e.name));
                }
                next = e.next;
                part += 1;
                part < 1000
            })
            .expect("readable");
            if part == 0 {
                break;
            }
            from = next;
            round += 1;
            let gone = name(N - round * 3);
            c.unlink(&root, gone.as_bytes(), false).expect("removed");
            seen.insert(gone.into_bytes());
            c.file(&root, format!("new {round}").as_bytes()).expect("created");
        }
        assert_eq!(seen, (0..N).map(|n| name(n).into_bytes()).collect());
        for (name, _) in c.list(&root).expect("readable") {
            c.unlink(&root, &name, false).expect("removed");
        }
        assert!(fs.is_empty_dir(&Call::offline(), &root).expect("readable"));
        fs.sync(&Call::offline()).expect("synced");
        assert_clean(&fs);
    });
}

#[test]
fn a_sparse_file_reaches_beyond_4_gib() {
    in_world(|| {
        let drive = strict(8);
        format(&drive);
        let fs = open(&drive, &MountOptions::default());
        let c = Client::new(fs.clone());
        let f = c.file(&c.root(), b"sparse").expect("created");
        let places = [5u64 << 30, (1 << 40) + 123, (1 << 60) + 7, 4095];
        for (i, &at) in places.iter().enumerate() {
            c.write(&f, at, &bytes(i as u64, 5000)).expect("written");
        }
        c.fs.fsync(&Call::offline(), &f, false).expect("synced");
        fs.unmount(&Call::offline()).expect("unmounted");
        let fs = open(&drive, &MountOptions::default());
        let c = Client::new(fs.clone());
        let f = c.lookup(&c.root(), b"sparse").expect("readable").expect("there");
        assert_eq!(f.size(), (1 << 60) + 7 + 5000);
        // Nine of data; the fourth extent brings an extent block and an index block.
        assert_eq!(f.attr().blocks, 11 * 8, "holes take no space");
        for (i, &at) in places.iter().enumerate() {
            let mut out = vec![0; 5000];
            fs.read_direct(&Call::offline(), &f, at, Dest::Bytes(&mut out)).expect("readable");
            assert!(out == bytes(i as u64, 5000));
        }
        let mut hole = vec![1; 9000];
        fs.read_direct(&Call::offline(), &f, 3 << 30, Dest::Bytes(&mut hole)).expect("readable");
        assert!(hole.iter().all(|&b| b == 0));
        c.truncate(&f, 5 << 30).expect("truncated");
        fs.sync(&Call::offline()).expect("synced");
        assert_clean(&fs);
    });
}

/// Two files written in turn, every second page of each first: as many extents as pages, in extent and index
/// blocks.
#[test]
fn a_file_of_thousands_of_extents_survives_a_remount_and_is_cut_to_nothing() {
    in_world(|| {
        let drive = strict(64);
        format(&drive);
        let options = MountOptions { max_free_lines: 4, ..MountOptions::default() };
        let fs = open(&drive, &options);
        let free = fs.statfs(&Call::offline()).expect("statfs").free_blocks;
        let c = Client::new(fs.clone());
        let (a, b) = (c.file(&c.root(), b"a").expect("created"), c.file(&c.root(), b"b").expect("created"));
        for n in 0..3000u64 {
            c.write(&a, 2 * n * 4096, &n.to_le_bytes()).expect("written");
            c.write(&b, 2 * n * 4096, &n.to_be_bytes()).expect("written");
        }
        fs.sync(&Call::offline()).expect("synced");
        assert_clean(&fs);
        fs.unmount(&Call::offline()).expect("unmounted");
        let fs = open(&drive, &options);
        let c = Client::new(fs.clone());
        let find = |name: &[u8]| c.lookup(&c.root(), name).expect("readable").expect("there");
        let (a, b) = (find(b"a"), find(b"b"));
        for n in (0..3000u64).step_by(7) {
            let mut out = [0; 8];
            fs.read_direct(&Call::offline(), &a, 2 * n * 4096, Dest::Bytes(&mut out)).expect("readable");
            assert_eq!(u64::from_le_bytes(out), n);
        }
        c.truncate(&a, 1000 * 4096).expect("truncated");
        fs.sync(&Call::offline()).expect("synced");
        assert_clean(&fs);
        c.truncate(&a, 0).expect("truncated");
        drop(b);
        c.unlink(&c.root(), b"b", false).expect("removed");
        fs.sync(&Call::offline()).expect("synced");
        assert_clean(&fs);
        assert_eq!(fs.statfs(&Call::offline()).expect("statfs").free_blocks, free);
    });
}

/// A removal and a truncation in many steps: whenever the power fails, recovery finishes what was begun.
#[test]
fn removals_in_steps_are_finished_by_recovery() {
    let (mut orphans, mut truncations) = (0, 0);
    for seed in 0..24u64 {
        let drive = strict(64);
        let options = MountOptions { max_free_lines: 1, commit_batch: 1, ..MountOptions::default() };
        let at = Nanos::from_millis(40) + Nanos(seed * 40_000);
        let run = {
            let (drive, options) = (drive.clone(), options.clone());
            move || {
                format(&drive);
                let fs = open(&drive, &options);
                let c = Client::new(fs.clone());
                let f = c.file(&c.root(), b"large").expect("created");
                for n in 0..3000u64 {
                    c.write(&f, 2 * n * 4096, &[1]).expect("written");
                    if now() > Nanos::from_millis(39) {
                        break;
                    }
                }
                fs.sync(&Call::offline()).expect("synced");
                sleep_until(Nanos::from_millis(40));
                if seed % 2 == 0 {
                    c.unlink(&c.root(), b"large", false).expect("removed");
                } else {
                    c.truncate(&f, 8192).expect("truncated");
                }
                sleep_until(Nanos::from_secs(1));
            }
        };
        assert!(until_power_fails(at, run));
        let report = in_world(move || {
            sleep_until(at);
            drive.power_fail(at, &mut Stream::new(seed, "power"));
            drive.power_on(now()).map(sleep_until).expect("power");
            let fs = open(&drive, &options);
            assert_clean(&fs);
            let c = Client::new(fs.clone());
            match c.lookup(&c.root(), b"large").expect("readable") {
                None => assert_eq!(seed % 2, 0),
                Some(f) if f.size() == 8192 => assert_eq!(f.attr().blocks, 8),
                Some(f) => assert!(f.attr().blocks > 16),
            }
            fs.recovery()
        });
        orphans += report.orphans;
        truncations += report.truncations;
    }
    assert!(orphans > 0 && truncations > 0, "the failures hit the steps: {orphans} {truncations}");
}

#[test]
fn direct_writes_and_reads_of_any_size_agree_with_a_buffer() {
    in_world(|| {
        let drive = strict(16);
        format(&drive);
        let fs = open(&drive, &MountOptions::default());
        let c = Client::new(fs.clone());
        let f = c.file(&c.root(), b"direct").expect("created");
        let mut model: Vec<u8> = Vec::new();
        let mut s = Stream::new(1, "direct");
        for n in 0..400 {
            let pos = s.below(model.len() as u64 + 1) as usize;
            let most = [64, 512, 513, 20_000][s.below(4) as usize];
            let len = 1 + s.below(most) as usize;
            let data = bytes(n, len);
            fs.write_direct(&call(), &f, pos as u64, Payload::Bytes(&data)).expect("written");
            model.resize(model.len().max(pos + len), 0);
            model[pos..pos + len].copy_from_slice(&data);
            assert_eq!(f.size(), model.len() as u64);
            let from = s.below(model.len() as u64) as usize;
            let mut out = vec![0; 1 + s.below((model.len() - from) as u64) as usize];
            fs.read_direct(&Call::offline(), &f, from as u64, Dest::Bytes(&mut out)).expect("readable");
            assert!(out == model[from..from + out.len()]);
        }
        let before = drive.traffic();
        fs.write_direct(&call(), &f, 100, Payload::Bytes(&[1; 100])).expect("written");
        let small = drive.traffic().since(&before);
        assert_eq!((small.byte_write[7], small.block_write[7], small.block_read[7]), (192, 0, 0));
        fs.sync(&Call::offline()).expect("synced");
        assert_clean(&fs);
    });
}

#[test]
fn special_files_and_long_targets_survive_a_remount() {
    in_world(|| {
        let drive = strict(8);
        format(&drive);
        let fs = open(&drive, &MountOptions::default());
        let c = Client::new(fs.clone());
        for len in [1, 48, 49, 4095] {
            c.make(&c.root(), format!("link {len}").as_bytes(), FileKind::Symlink, &vec![b'x'; len])
                .expect("made");
        }
        for kind in [FileKind::Fifo, FileKind::Socket, FileKind::CharDev, FileKind::BlockDev] {
            c.make(&c.root(), format!("{kind:?}").as_bytes(), kind, &[]).expect("made");
        }
        fs.sync(&Call::offline()).expect("synced");
        assert_clean(&fs);
        fs.unmount(&Call::offline()).expect("unmounted");
        let fs = open(&drive, &MountOptions::default());
        let c = Client::new(fs.clone());
        for len in [1, 48, 49, 4095] {
            let link =
                c.lookup(&c.root(), format!("link {len}").as_bytes()).expect("readable").expect("there");
            assert_eq!(fs.readlink(&Call::offline(), &link).expect("readable"), vec![b'x'; len]);
            c.unlink(&c.root(), format!("link {len}").as_bytes(), false).expect("removed");
        }
        for (name, kind) in c.list(&c.root()).expect("readable") {
            assert_eq!(name, format!("{kind:?}").as_bytes());
        }
        fs.sync(&Call::offline()).expect("synced");
        assert_clean(&fs);
    });
}

/// Removals of large files while all places of the orphan table are taken: they work, if in one transaction.
#[test]
fn a_full_orphan_table_stops_neither_truncations_nor_removals() {
    in_world(|| {
        let drive = strict(4096);
        let options = MkfsOptions { discard: false, ..MkfsOptions::default() };
        mkfs(&Port::new(drive.clone()), &options).expect("mkfs");
        let fs = open(&drive, &MountOptions { max_free_lines: 1, ..MountOptions::default() });
        let c = Client::new(fs.clone());
        let root = c.root();
        let free = fs.statfs(&Call::offline()).expect("statfs").free_blocks;
        let sized = |name: &[u8], blocks: u64| {
            let f = c.file(&root, name).expect("created");
            let how = granary_fs::Allocate::Reserve { keep_size: false };
            fs.fallocate(&call(), &f, how, 0, blocks * 4096).expect("allocated");
            f
        };
        let mut held = Vec::new();
        for n in 0..970 {
            let name = format!("{n}");
            let f = sized(name.as_bytes(), 600);
            fs.unlink(&call(), &root, name.as_bytes(), &f).expect("removed");
            held.push(f);
        }
        let huge = sized(b"huge", 100_000);
        c.truncate(&huge, 4096).expect("truncated");
        assert_eq!(huge.attr().blocks, 8);
        sized(b"another", 100_000);
        c.unlink(&root, b"another", false).expect("removed");
        fs.sync(&Call::offline()).expect("synced");
        assert_clean(&fs);
        for f in held {
            fs.evict(&Call::offline(), &f).expect("freed");
        }
        c.unlink(&root, b"huge", false).expect("removed");
        fs.sync(&Call::offline()).expect("synced");
        assert_clean(&fs);
        let now_free = fs.statfs(&Call::offline()).expect("statfs").free_blocks;
        assert_eq!(free, now_free);
    });
}

/// Pages up to the last one that has a number are pages like all others, in both ways of writing data.
#[test]
fn the_largest_file_is_whole_to_its_last_byte_on_a_write_log() {
    for data in [DataMode::Ordered, DataMode::Journal] {
        for (seed, page_cache) in [(1, Bytes::mib(64)), (2, Bytes::kib(64))] {
            in_world(move || {
                let drive = strict(64);
                format(&drive);
                let options = MountOptions { data, ..MountOptions::default() };
                let fs = open(&drive, &options);
                let config = VfsConfig { page_cache, ..VfsConfig::default() };
                let vfs = Vfs::mount(fs.clone(), config).expect("mounts");
                the_end_of_the_largest_file(&vfs, seed, 300);
                vfs.sync(&Caller::KERNEL).expect("synced");
                assert_clean(&fs);
            });
        }
    }
}

/// stat never shows fewer blocks than pages were written, whether they have blocks yet or not (programs take
/// a file without blocks for one without data), and not many more; what it shows is as much after a remount.
#[test]
fn stat_counts_pages_that_have_no_block_yet() {
    /// Extent and index blocks that a file of so few extents may have besides.
    const BESIDES: u64 = 2;
    for seed in 0..8 {
        in_world(move || {
            let drive = strict(64);
            format(&drive);
            let data = if seed % 2 == 0 { DataMode::Ordered } else { DataMode::Journal };
            let options = MountOptions { data, ..MountOptions::default() };
            let vfs = Vfs::mount(open(&drive, &options), VfsConfig::default()).expect("mounts");
            let mut p = Process::new(vfs.clone(), Cred::ROOT);
            let fd = p.open("/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o600).expect("creates");
            let mut s = Stream::new(seed, "blocks");
            let mut pages = BTreeSet::new();
            for _ in 0..300 {
                let (first, count) = (s.below(200), 1 + s.below(8));
                let (pos, len) = (first * 4096, count * 4096);
                match s.below(8) {
                    0..4 => {
                        let data = Payload::Fill { word: 7, len: len as usize };
                        p.pwrite(fd, data, pos).expect("there is room");
                        pages.extend(first..first + count);
                    }
                    4 => {
                        p.ftruncate(fd, pos).expect("truncates");
                        pages.split_off(&first);
                    }
                    5 => {
                        p.fallocate(fd, Allocate::PunchHole, pos, len).expect("punches");
                        pages.retain(|page| !(first..first + count).contains(page));
                    }
                    6 => p.fsync(fd).expect("syncs"),
                    _ => {
                        let keep = Allocate::Reserve { keep_size: true };
                        p.fallocate(fd, keep, pos, len).expect("there is room");
                        pages.extend(first..first + count);
                    }
                }
                let shown = p.fstat(fd).expect("stat").attr.blocks;
                let real = pages.len() as u64;
                assert!(
                    shown >= real * 8 && shown <= (real + BESIDES) * 8,
                    "seed {seed}: {shown}, {real} pages"
                );
            }
            p.fsync(fd).expect("syncs");
            let shown = p.fstat(fd).expect("stat").attr.blocks;
            p.exit();
            vfs.unmount().expect("unmounts");
            let vfs = Vfs::mount(open(&drive, &options), VfsConfig::default()).expect("mounts");
            let mut p = Process::new(vfs, Cred::ROOT);
            assert_eq!(p.stat("/f").expect("stat").attr.blocks, shown);
        });
    }
}

/// A removal that fails before its transaction leaves its place in the orphan table to others: there are 960.
#[test]
fn removals_that_fail_keep_no_place_in_the_orphan_table() {
    in_world(|| {
        let strict = Arc::new(StrictDrive::new(16 * 256));
        let drive: Arc<dyn Drive> = strict.clone();
        format(&drive);
        let fs = open(&drive, &MountOptions { max_free_lines: 1, cpus: 1, ..MountOptions::default() });
        let (c, port) = (Client::new(fs.clone()), Port::new(drive));
        let field = |at: usize| {
            let mut page = [Page::ZERO];
            port.read(Lpa(0), &mut page, Structure::Superblock).expect("reads");
            u64::from_le_bytes(page[0].to_bytes()[at..at + 8].try_into().expect("eight bytes"))
        };
        let root = c.root();
        // Its inode lies in another block than the root's, its blocks in several groups of the bitmap.
        (0..64).for_each(|n| drop(c.file(&root, format!("{n}").as_bytes()).expect("creates")));
        let large = c.file(&root, b"large").expect("creates");
        c.write(&large, 0, &bytes(1, 1500 * 4096)).expect("writes");
        fs.sync(&Call::offline()).expect("synced");
        fs.drop_caches(&Call::offline());
        strict.refuse(Some(field(72) + large.ino().0 / 32));
        for n in 0..1000 {
            assert!(c.unlink(&root, b"large", true).is_err(), "removal {n} needs no place any more");
        }
        strict.refuse(None);
        c.unlink(&root, b"large", true).expect("unlinks");
        fs.sync(&Call::offline()).expect("synced");
        let mut table = [Page::ZERO];
        port.read(Lpa(field(48)), &mut table, Structure::Superblock).expect("reads");
        assert_eq!(table[0].to_bytes()[..4], (large.ino().0 as u32).to_le_bytes(), "it has the first place");
        c.close(&large).expect("freed");
        fs.sync(&Call::offline()).expect("synced");
        assert_clean(&fs);
    });
}

/// Delayed allocation promises room for an extent to each page. A full file system does not miss that room.
/// The space that statfs offers can be written without an fsync in between, by calls of any size, but for the
/// extent blocks that are really needed. A call that asks for more writes as much as there is.
#[test]
fn all_that_statfs_offers_can_be_written_before_anything_is_synced() {
    /// An extent block and one that names it: so much may be left where the next page needs both.
    const BESIDES: u64 = 2;
    for (seed, step) in [4096, 3 * 4096, 1 << 20, 16 << 20].into_iter().enumerate() {
        in_world(move || {
            let drive = strict(32);
            format(&drive);
            let vfs =
                Vfs::mount(open(&drive, &MountOptions::default()), VfsConfig::default()).expect("mounts");
            let mut p = Process::new(vfs, Cred::ROOT);
            let mut s = Stream::new(seed as u64, "offer");
            let fd = p.open("/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o600).expect("creates");
            let fill = |p: &mut Process, mut at: u64| {
                while let Ok(n) = p.pwrite(fd, Payload::Fill { word: 2, len: step }, at) {
                    at += n as u64;
                }
            };
            // Blocks in use: pages, extent blocks.
            let used = |p: &mut Process| {
                let attr = p.fstat(fd).expect("stat").attr;
                (attr.size / 4096, attr.blocks / 8 - attr.size / 4096)
            };
            fill(&mut p, 0);
            assert_eq!(p.statfs().expect("statfs").available_blocks(), 0);
            let mut rounds_with_rest = 0;
            for round in 0..20 {
                p.fsync(fd).expect("syncs");
                let size = (used(&mut p).0 - 1 - s.below(40)) * 4096;
                p.ftruncate(fd, size).expect("truncates");
                let (offered, before) = (p.statfs().expect("statfs").available_blocks(), used(&mut p));
                fill(&mut p, size);
                let (rest, after) = (p.statfs().expect("statfs").available_blocks(), used(&mut p));
                let all = after.0 - before.0 + after.1 - before.1 + rest;
                assert_eq!(all, offered, "steps of {step}, round {round}");
                assert!(rest <= BESIDES, "steps of {step}, round {round}: {rest}");
                rounds_with_rest += u32::from(rest > 0);
            }
            assert!(rounds_with_rest <= 5, "steps of {step}: {rounds_with_rest}");
            p.fsync(fd).expect("syncs");
        });
    }
}
