//! Damaged media: `check` names what was planted, `repair` mends it and hurts nobody else, nothing panics,
//! and what cannot be used is `Corrupt` with evidence.
//!
//! The places come from SPEC.md section 2, not from the code.

use crate::common::{format, in_world, open, small_mssd, strict, until_power_fails};
use granary_bytefs::{MountOptions, mount, repair};
use granary_device::{Drive, Port, Structure};
use granary_fs::{Call, Caller, Cred, FileKind, FsError, Life, SetXattr};
use granary_sim::rng::Stream;
use granary_sim::{now, sleep_until};
use granary_suite::suite::look_around;
use granary_units::{Dest, Lpa, Nanos, PAGE_SIZE, Page, Payload};
use granary_vfs::{Atime, OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An image with some files, unmounted.
struct Image {
    drive: Arc<dyn Drive>,
    port: Port,
    /// Inode numbers by path.
    inodes: BTreeMap<&'static str, u64>,
}

const FILES: [&str; 3] = ["/a", "/b", "/d/c"];

fn content(path: &str) -> Vec<u8> {
    (0..20_000u32).map(|n| (n / 3) as u8 ^ path.as_bytes()[path.len() - 1]).collect()
}

/// CRC-32C of the number of a line on the drive and some bytes.
fn sum(lba: u64, line: usize, parts: &[&[u8]]) -> [u8; 4] {
    let number = (lba * 64 + line as u64).to_le_bytes();
    parts.iter().fold(crc32c::crc32c(&number), |crc, p| crc32c::crc32c_append(crc, p)).to_le_bytes()
}

impl Image {
    fn new() -> Image {
        Image::on(small_mssd(16))
    }

    fn on(drive: Arc<dyn Drive>) -> Image {
        format(&drive);
        let fs = open(&drive, &MountOptions::default());
        let vfs = Vfs::mount(fs, VfsConfig::default()).expect("mounts");
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        p.mkdir("/d", 0o755).expect("makes");
        p.mkdir("/e", 0o755).expect("makes");
        for path in FILES {
            let fd = p.open(path, OpenFlags::RDWR | OpenFlags::CREAT, 0o644).expect("creates");
            p.write(fd, Payload::Bytes(&content(path))).expect("writes");
            p.close(fd).expect("open");
        }
        p.symlink("target", "/s").expect("links");
        p.symlink("t".repeat(100), "/l").expect("links");
        p.setxattr("/a", b"user.name", b"value", SetXattr::Any).expect("sets");
        let mut inodes = BTreeMap::new();
        for path in ["/", "/a", "/b", "/d", "/d/c", "/e", "/s", "/l"] {
            inodes.insert(path, p.lstat(path).expect("is there").ino.0);
        }
        p.exit();
        vfs.unmount().expect("unmounts");
        Image { port: Port::new(drive.clone()), drive, inodes }
    }

    fn block(&self, lba: u64) -> [u8; PAGE_SIZE] {
        let mut page = [Page::ZERO];
        self.port.read(Lpa(lba), &mut page, Structure::Data).expect("reads");
        page[0].to_bytes()
    }

    fn change(&self, lba: u64, change: impl FnOnce(&mut [u8; PAGE_SIZE])) {
        let mut bytes = self.block(lba);
        change(&mut bytes);
        self.port.write(Lpa(lba), &[Page::from_bytes(&bytes)], Structure::Data).expect("writes");
    }

    /// Changes a block of lines with checksums, and makes those right again.
    fn change_sealed(&self, lba: u64, change: impl FnOnce(&mut [u8; PAGE_SIZE])) {
        self.change(lba, |b| {
            let before = *b;
            change(b);
            for line in 0..64 {
                if b[line * 64..line * 64 + 64] == before[line * 64..line * 64 + 64] {
                    continue;
                }
                let crc = sum(lba, line, &[&b[line * 64..line * 64 + 60]]);
                b[line * 64 + 60..line * 64 + 64].copy_from_slice(&crc);
            }
        });
    }

    /// A field of the superblock: orphans @48, inode bitmap @56, block bitmap @64, inode table @72, data @80.
    fn area(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.block(0)[at..at + 8].try_into().expect("eight"))
    }

    /// Changes an inode's record.
    fn inode(&self, path: &str, change: impl FnOnce(&mut [u8])) {
        let n = self.inodes[path];
        let at = (n % 32) as usize * 128;
        self.change_sealed(self.area(72) + n / 32, |b| change(&mut b[at..at + 128]));
    }

    /// A 4 B field of an inode's record.
    fn field(&self, path: &str, at: usize) -> u32 {
        let n = self.inodes[path];
        let at = (n % 32) as usize * 128 + at;
        let b = self.block(self.area(72) + n / 32);
        u32::from_le_bytes(b[at..at + 4].try_into().expect("four"))
    }

    fn put(&self, path: &str, at: usize, value: u32) {
        self.inode(path, |b| b[at..at + 4].copy_from_slice(&value.to_le_bytes()));
    }

    fn flip_bit(&self, area: usize, bit: u64) {
        let at = bit / 480 * 64 + bit % 480 / 8;
        self.change_sealed(self.area(area), |b| b[at as usize] ^= 1 << (bit % 8));
    }

    /// Changes the entry `name` of a directory: its slots.
    fn entry(&self, dir: &str, name: &[u8], change: impl FnOnce(&mut [u8])) {
        let lba = self.field(dir, 44 + 8) as u64;
        self.change(lba, |b| {
            let slot =
                (0..64).find(|s| b[s * 64 + 12..].starts_with(name) && b[s * 64 + 6] == name.len() as u8);
            let slot = slot.expect("the name is there");
            let e = &mut b[slot * 64..slot * 64 + 64];
            change(e);
            let len = if e[..4] == [0; 4] { 0 } else { e[6].min(52) as usize };
            let crc = sum(lba, slot, &[&e[..8], &e[12..12 + len]]);
            e[8..12].copy_from_slice(&crc);
        });
    }

    /// Mends; returns what was done. Nothing may be left.
    fn repaired(&self) -> Vec<String> {
        let report = repair(&self.port).expect("can be mended");
        assert_eq!(report.left, Vec::<String>::new());
        report.done
    }

    /// The files whose content is as it was written.
    fn intact(&self) -> Vec<&'static str> {
        let fs = open(&self.drive, &MountOptions::default());
        let vfs = Vfs::mount(fs, VfsConfig::default()).expect("mounts");
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        let mut whole = |path: &str| {
            let fd = p.open(path, OpenFlags::RDONLY, 0).ok()?;
            let mut bytes = vec![0; 20_001];
            let n = p.pread(fd, Dest::Bytes(&mut bytes), 0);
            p.close(fd).expect("open");
            (bytes[..n.ok()?] == content(path)).then_some(())
        };
        let intact = FILES.into_iter().filter(|path| whole(path).is_some()).collect();
        p.exit();
        vfs.unmount().expect("unmounts");
        intact
    }

    /// Findings of `check`.
    fn found(&self) -> Vec<String> {
        let fs = mount(Port::new(self.drive.clone()), &MountOptions::default()).expect("mounts");
        let found = fs.check(&Call::offline()).expect("can be checked");
        let _ = fs.unmount(&Call::offline());
        found
    }
}

/// Plants damage; one of the findings must contain all of `words`. A repair leaves nothing to be found, and
/// the files but for the `hurt` have their content.
fn planted(
    words: &'static [&'static str],
    hurt: &'static [&'static str],
    plant: impl FnOnce(&Image) + 'static,
) {
    in_world(move || {
        let image = Image::new();
        assert_eq!(image.found(), Vec::<String>::new(), "sound before");
        assert_eq!(image.repaired(), Vec::<String>::new(), "nothing to mend before");
        plant(&image);
        let found = image.found();
        let named = found.iter().any(|f| words.iter().all(|w| f.contains(w)));
        assert!(named, "{words:?} are not among\n{}", found.join("\n"));
        let done = image.repaired();
        assert!(!done.is_empty(), "something was mended");
        assert_eq!(image.found(), Vec::<String>::new(), "after:\n{}", done.join("\n"));
        assert_eq!(image.repaired(), Vec::<String>::new(), "nothing more to mend");
        let expected: Vec<&str> = FILES.into_iter().filter(|f| !hurt.contains(f)).collect();
        let intact = image.intact();
        assert!(expected.iter().all(|f| intact.contains(f)), "{intact:?} after\n{}", done.join("\n"));
    });
}

#[test]
fn a_leaked_block_is_found_and_freed() {
    planted(&["in use in the bitmap but has no owner"], &[], |i| i.flip_bit(64, i.area(32) - 3));
}

#[test]
fn a_used_block_that_is_marked_free_is_found_and_marked() {
    planted(&["has an owner but is free in the bitmap"], &[], |i| i.flip_bit(64, i.field("/a", 52) as u64));
}

#[test]
fn a_block_of_two_files_is_found_and_copied() {
    // /b's own first block is no longer known.
    planted(&["which has an owner already"], &["/b"], |i| i.put("/b", 52, i.field("/a", 52)));
    // A directory that claims a file's blocks.
    planted(&["which has an owner already"], &[], |i| {
        i.inode("/e", |b| b[40] = 1);
        i.put("/e", 52, i.field("/a", 52));
        i.put("/e", 56, 2);
    });
}

#[test]
fn a_long_target_whose_block_cannot_be_is_found_and_emptied() {
    planted(&["inode"], &[], |i| i.put("/l", 52, u32::MAX - 7));
}

/// A record that was written over another directory's, whose checksums so are wrong.
#[test]
fn a_directory_that_says_what_another_one_does_keeps_the_names_that_it_was_read_with() {
    planted(&["inode"], &[], |i| {
        let (table, at) = (i.area(72), |path: &str| (i.inodes[path] % 32) as usize * 128);
        let (from, to) = (at("/d"), at("/e"));
        i.change(table + i.inodes["/e"] / 32, |b| b.copy_within(from..from + 128, to));
    });
}

/// A block of a directory is free in the bitmap, and another directory gets it. Each has a copy in memory: of
/// both, one would be stored.
#[test]
fn a_rename_between_directories_that_have_one_block_is_refused() {
    in_world(|| {
        let i = Image::new();
        i.flip_bit(64, i.field("/d", 52) as u64);
        let vfs = Vfs::mount(open(&i.drive, &MountOptions::default()), VfsConfig::default()).expect("mounts");
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        let renamed = (0..50).try_for_each(|n| {
            let dir = format!("/new{n}");
            p.mkdir(&dir, 0o755)?;
            p.rename("/d/c", format!("{dir}/c"))?;
            p.rename(format!("{dir}/c"), "/d/c")
        });
        assert!(matches!(renamed, Err(FsError::Corrupt(_))), "{renamed:?}");
        assert!(p.mkdir("/more", 0o755).is_err(), "nothing is changed any more");
        p.exit();
        assert!(vfs.unmount().is_err());
    });
}

#[test]
fn a_short_target_of_an_impossible_size_is_cut_also_where_only_its_name_tells_that_it_is_one() {
    planted(&["inode"], &[], |i| i.inode("/s", |b| b[..8].copy_from_slice(&5000u64.to_le_bytes())));
    planted(&["inode"], &[], |i| {
        i.inode("/s", |b| {
            b[..8].copy_from_slice(&5000u64.to_le_bytes());
            b[36..38].fill(0);
        });
    });
}

#[test]
fn a_wrong_link_count_is_found_and_counted() {
    planted(&["has 2 links, 1 are found"], &[], |i| i.put("/a", 32, 2));
    planted(&["links"], &[], |i| i.put("/d", 32, 7));
}

#[test]
fn a_leaked_inode_is_found_and_freed() {
    planted(&["no type"], &[], |i| i.flip_bit(56, 200));
}

#[test]
fn an_inode_without_a_name_is_found_and_gets_one() {
    planted(&["0 names"], &["/b"], |i| {
        i.entry("/", b"b", |e| e[..8].copy_from_slice(&[0, 0, 0, 0, 0, 0, 1, 0]))
    });
    in_world(|| {
        let image = Image::new();
        image.entry("/", b"b", |e| e[..8].copy_from_slice(&[0, 0, 0, 0, 0, 0, 1, 0]));
        image.entry("/", b"d", |e| e[..8].copy_from_slice(&[0, 0, 0, 0, 0, 0, 1, 0]));
        image.repaired();
        let (b, d) = (image.inodes["/b"], image.inodes["/d"]);
        let fs = open(&image.drive, &MountOptions::default());
        let vfs = Vfs::mount(fs, VfsConfig::default()).expect("mounts");
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        for (path, was) in [(format!("/lost+found/#{b}"), "/b"), (format!("/lost+found/#{d}/c"), "/d/c")] {
            let fd = p.open(&path, OpenFlags::RDONLY, 0).expect(&path);
            let mut bytes = vec![0; 20_000];
            p.pread(fd, Dest::Bytes(&mut bytes), 0).expect("readable");
            assert!(bytes == content(was));
            p.close(fd).expect("open");
        }
        p.exit();
        vfs.unmount().expect("unmounts");
    });
}

#[test]
fn a_name_of_a_free_inode_is_found_and_removed() {
    planted(&["entries name inode 201, which is free"], &["/b"], |i| i.entry("/", b"b", |e| e[0] = 201));
    planted(&["names inode"], &["/b"], |i| i.entry("/", b"b", |e| e[..4].copy_from_slice(&[255; 4])));
}

#[test]
fn a_name_of_another_kind_is_found_and_set_right() {
    planted(&["calls inode"], &[], |i| i.entry("/", b"b", |e| e[4] = FileKind::Fifo.code()));
}

#[test]
fn a_name_that_is_there_twice_is_found_and_one_goes() {
    planted(&["two entries"], &["/b"], |i| i.entry("/", b"b", |e| e[12] = b'a'));
}

#[test]
fn a_name_that_no_path_can_have_is_found_and_its_file_gets_another() {
    planted(&["\"/\"", "cannot be"], &["/b"], |i| i.entry("/", b"b", |e| e[12] = b'/'));
    planted(&["\"\\x00\"", "cannot be"], &["/b"], |i| i.entry("/", b"b", |e| e[12] = 0));
    planted(&["\".\"", "cannot be"], &["/b"], |i| i.entry("/", b"b", |e| e[12] = b'.'));
    planted(&["\"..\"", "cannot be"], &["/d/c"], |i| {
        i.entry("/d", b"c", |e| (e[6], e[12], e[13]) = (2, b'.', b'.'));
    });
    in_world(|| {
        let image = Image::new();
        image.entry("/", b"b", |e| e[12] = b'/');
        let done = image.repaired();
        assert!(done.iter().any(|d| d.contains("\"/\" removed") && d.contains("no path")), "{done:?}");
        let fs = open(&image.drive, &MountOptions::default());
        let vfs = Vfs::mount(fs, VfsConfig::default()).expect("mounts");
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        let path = format!("/lost+found/#{}", image.inodes["/b"]);
        let fd = p.open(&path, OpenFlags::RDONLY, 0).expect("it has a name again");
        let mut bytes = vec![0; 20_000];
        p.pread(fd, Dest::Bytes(&mut bytes), 0).expect("readable");
        assert!(bytes == content("/b"));
        p.close(fd).expect("open");
        p.exit();
        vfs.unmount().expect("unmounts");
    });
}

#[test]
fn broken_slots_of_a_directory_are_found_and_jumped_over() {
    planted(&["slot", "holds"], &["/b"], |i| i.entry("/", b"b", |e| e[6..8].copy_from_slice(&[0, 0])));
}

#[test]
fn a_directory_of_a_wrong_size_is_found_and_written_anew() {
    planted(&["no block"], &[], |i| i.inode("/d", |b| b[1] = 200));
    planted(&["bytes"], &["/d/c"], |i| i.inode("/d", |b| b[0] = 3));
}

#[test]
fn a_wrong_parent_is_found_and_set_right() {
    planted(&["its parent is"], &[], |i| i.put("/d", 112, i.inodes["/e"] as u32));
}

#[test]
fn directories_in_a_circle_are_found_and_hung_up() {
    planted(&["does not lead to the root"], &["/d/c"], |i| {
        // /d names itself instead of /d/c, and the root forgets it.
        let d = i.inodes["/d"] as u8;
        i.entry("/d", b"c", |e| (e[0], e[4]) = (d, FileKind::Dir.code()));
        i.entry("/", b"d", |e| e[..8].copy_from_slice(&[0, 0, 0, 0, 0, 0, 1, 0]));
    });
}

#[test]
fn an_orphan_that_is_none_is_found_and_forgotten() {
    in_world(|| {
        let image = Image::new();
        image.change_sealed(image.area(48), |b| b[0] = 99);
        let fs = mount(Port::new(image.drive.clone()), &MountOptions::default());
        assert!(matches!(fs.err(), Some(FsError::Corrupt(what)) if what.contains("inode 99")));
        assert!(!image.repaired().is_empty());
        assert_eq!((image.found(), image.intact()), (Vec::new(), FILES.to_vec()));
    });
}

#[test]
fn orphans_are_freed_and_truncations_finished_by_a_repair() {
    in_world(|| {
        let image = Image::new();
        let (a, b) = (image.inodes["/a"] as u8, image.inodes["/b"] as u8);
        image.change_sealed(image.area(48), |t| (t[0], t[4]) = (a, b));
        image.entry("/", b"a", |e| e[..8].copy_from_slice(&[0, 0, 0, 0, 0, 0, 1, 0]));
        image.put("/a", 32, 0);
        image.inode("/b", |r| r[..8].copy_from_slice(&5000u64.to_le_bytes()));
        let done = image.repaired().join("\n");
        assert!(done.contains("without links: freed") && done.contains("truncation to 5000 bytes"), "{done}");
        assert_eq!((image.found(), image.intact()), (Vec::new(), vec!["/d/c"]));
    });
}

#[test]
fn extents_that_overlap_or_lie_outside_are_found_and_dropped() {
    planted(&["overlap"], &[], |i| {
        i.put("/a", 40, 2);
        i.inode("/a", |b| b.copy_within(44..60, 64));
    });
    planted(&["outside the data area"], &["/a"], |i| i.put("/a", 52, 1));
    planted(&["extent blocks are not all"], &[], |i| i.put("/a", 40, 1000));
}

#[test]
fn damaged_attributes_are_found_and_dropped() {
    planted(&["extended attributes", "checksum"], &[], |i| {
        i.change(i.field("/a", 120) as u64, |b| b[140] ^= 1);
    });
    planted(&["extended attributes"], &[], |i| i.change(i.field("/a", 120) as u64, |b| b[6] ^= 1));
}

#[test]
fn an_unknown_type_is_found_and_told_by_the_name() {
    planted(&["which is no type"], &[], |i| i.inode("/a", |b| b[37] = 0));
}

/// A flipped bit in any structure is found by its checksum, and mended where something else tells what was
/// there.
#[test]
fn wrong_checksums_are_found_and_mended() {
    let words = &["wrong checksum"];
    // An inode: bits of its times, so that it is plausible.
    planted(words, &[], |i| {
        let n = i.inodes["/a"];
        i.change(i.area(72) + n / 32, |b| b[(n % 32) as usize * 128 + 12] ^= 1);
    });
    // The cold half.
    planted(words, &[], |i| {
        let n = i.inodes["/a"];
        i.change(i.area(72) + n / 32, |b| b[(n % 32) as usize * 128 + 96] ^= 1);
    });
    planted(words, &["/b"], |i| {
        i.change(i.field("/", 52) as u64, |b| {
            let slot = (0..64).find(|s| b[s * 64 + 12] == b'b' && b[s * 64 + 6] == 1).expect("there");
            b[slot * 64 + 12] = b'x';
        })
    });
}

#[test]
fn damaged_bitmaps_and_orphan_tables_are_refused_and_made_anew() {
    in_world(|| {
        for (area, at) in [(56, 0), (56, 61), (64, 3), (64, 300), (48, 100)] {
            let image = Image::new();
            image.change(image.area(area), |b| b[at] ^= 4);
            let fs = mount(Port::new(image.drive.clone()), &MountOptions::default());
            assert!(matches!(fs.err(), Some(FsError::Corrupt(what)) if what.contains("wrong checksum")));
            assert!(!image.repaired().is_empty());
            assert_eq!((image.found(), image.intact()), (Vec::new(), FILES.to_vec()));
        }
    });
}

/// One that has a copy is the matter of `grow.rs`.
#[test]
fn a_damaged_superblock_is_refused_with_evidence() {
    in_world(|| {
        for at in [0, 9, 33, 70, 120] {
            let image = Image::new();
            image.change(0, |b| b[at] ^= 1);
            image.change(image.port.info().pages - 1, |b| b[at] ^= 1);
            let fs = mount(Port::new(image.drive.clone()), &MountOptions::default());
            assert!(matches!(fs.err(), Some(FsError::Corrupt(what)) if !what.is_empty()), "byte {at}");
            assert!(matches!(repair(&image.port), Err(FsError::Corrupt(what)) if !what.is_empty()));
        }
    });
}

/// Several damages at once, and the power fails while they are mended: another repair finishes.
#[test]
fn a_repair_that_a_power_failure_ends_is_finished_by_another() {
    let plant = |i: &Image| {
        i.put("/b", 52, i.field("/a", 52));
        i.inode("/d", |b| b[1] = 200);
        i.entry("/", b"e", |e| e[..8].copy_from_slice(&[0, 0, 0, 0, 0, 0, 1, 0]));
        i.flip_bit(64, i.area(32) - 3);
    };
    let begin = Nanos::from_secs(100);
    let lasts = in_world(move || {
        let image = Image::on(strict(16));
        plant(&image);
        sleep_until(begin);
        image.repaired();
        now() - begin
    });
    let mut unfinished = 0;
    for step in 0..160u64 {
        let drive = strict(16);
        let at = begin + Nanos(lasts.0 * step / 160 + 1);
        let run = {
            let drive = drive.clone();
            move || {
                let image = Image::on(drive);
                plant(&image);
                sleep_until(begin);
                image.repaired();
                sleep_until(begin + Nanos::from_secs(1));
            }
        };
        assert!(until_power_fails(at, run));
        unfinished += in_world(move || {
            sleep_until(at);
            drive.power_fail(at, &mut Stream::new(step, "power"));
            drive.power_on(now()).map(sleep_until).expect("power");
            let image = Image { port: Port::new(drive.clone()), drive, inodes: BTreeMap::new() };
            let kept_away = mount(Port::new(image.drive.clone()), &MountOptions::default())
                .is_err_and(|e| e.to_string().contains("interrupted"));
            image.repaired();
            assert_eq!((image.found(), image.intact()), (Vec::new(), vec!["/a", "/d/c"]), "step {step}");
            u32::from(kept_away)
        });
    }
    assert!(unfinished > 5, "{unfinished} of the failures met the writes, {lasts} long");
}

/// Changes things; errors are welcome, panics are not.
fn meddle(vfs: &Arc<Vfs>) {
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    for n in 0..6 {
        if let Ok(fd) = p.open(format!("/new{n}"), OpenFlags::RDWR | OpenFlags::CREAT, 0o644) {
            let _ = p.write(fd, Payload::Fill { word: n, len: 9000 });
            let _ = p.fsync(fd);
            let _ = p.close(fd);
        }
    }
    let _ = p.rename("/a", "/d/moved");
    let _ = p.truncate("/b", 100);
    let _ = p.setxattr("/b", b"user.more", &[7; 300], SetXattr::Any);
    for path in ["/new1", "/b", "/d/c", "/a", "/s"] {
        let _ = p.unlink(path);
    }
    let _ = p.rmdir("/e");
    let _ = vfs.sync(&Caller::KERNEL);
    p.exit();
}

#[test]
fn no_damage_makes_a_mount_a_walk_a_write_a_check_or_a_repair_panic_and_repairs_leave_a_sound_file_system() {
    let (mut refused, mut found) = (0, 0);
    for seed in 0..600 {
        let said = in_world(move || {
            let mut s = Stream::new(seed, "damage");
            let image = Image::new();
            // Mostly metadata in use: the first inodes, the first data blocks, bitmaps, the orphan table.
            let blocks = [1, image.area(56), image.area(64), image.area(72), image.area(80)];
            for _ in 0..1 + s.below(4) {
                let area = blocks[s.below(5) as usize];
                let lba = if area == image.area(80) { area + s.below(40) } else { area };
                let at = if s.chance(0.7) { s.below(1200) } else { s.below(4096) } as usize;
                let value = [0, 1, 0x40, 0x7f, 0xff, s.below(256) as u8][s.below(6) as usize];
                let len = [1, 1, 2, 4, 8][s.below(5) as usize].min(PAGE_SIZE - at);
                let change = |b: &mut [u8; PAGE_SIZE]| b[at..at + len].fill(value);
                // With right checksums everything behind them is met, too.
                if lba < image.area(80) && s.chance(0.6) {
                    image.change_sealed(lba, change);
                } else {
                    image.change(lba, change);
                }
            }
            let config = VfsConfig { atime: Atime::Noatime, ..VfsConfig::default() };
            let found = match mount(Port::new(image.drive.clone()), &MountOptions::default()) {
                Ok(fs) => {
                    let found = match fs.check(&Call::offline()) {
                        Ok(found) => found.len(),
                        Err(FsError::Corrupt(what)) if !what.is_empty() => 1,
                        Err(other) => panic!("seed {seed}: {other}"),
                    };
                    if let Ok(vfs) = Vfs::mount(fs, config) {
                        look_around(&vfs);
                        if s.chance(0.5) {
                            meddle(&vfs);
                        }
                    }
                    Some(found)
                }
                Err(FsError::Corrupt(what)) if !what.is_empty() => None,
                Err(other) => panic!("seed {seed}: {other}"),
            };
            let report = repair(&image.port).expect("the superblock is sound");
            if report.left.is_empty() {
                let after = image.found();
                assert!(after.is_empty(), "seed {seed}: {after:#?} after {:#?}", report.done);
            }
            found
        });
        refused += i32::from(said.is_none());
        found += i32::from(said.is_some_and(|n| n > 0));
    }
    assert!(refused > 50 && found > 100, "{refused} refused, in {found} something was found");
}
