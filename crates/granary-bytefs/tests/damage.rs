//! Damaged media: `check` names what was planted, nothing panics, and what cannot be used is `Corrupt` with evidence.
//!
//! The places come from SPEC.md section 2, not from the code.

mod common;

use common::{format, in_world, open, small_mssd};
use granary_bytefs::{MountOptions, mount};
use granary_mssd::{Drive, Port, Structure};
use granary_sim::rng::Stream;
use granary_units::{Dest, Lpa, PAGE_SIZE, Page, Payload};
use granary_vfs::{
    Atime, Cred, FileKind, FileSystem, FsError, OpenFlags, Posix, Process, SetXattr, Vfs, VfsConfig,
};
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

impl Image {
    fn new() -> Image {
        let drive = small_mssd(16);
        format(&drive);
        let fs = open(&drive, &MountOptions::default());
        let vfs = Vfs::mount(fs, VfsConfig::default()).expect("mounts");
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        p.mkdir("/d", 0o755).expect("makes");
        p.mkdir("/e", 0o755).expect("makes");
        for path in FILES {
            let fd = p.open(path, OpenFlags::RDWR | OpenFlags::CREAT, 0o644).expect("creates");
            p.write(fd, Payload::Fill { word: 0x1234, len: 20_000 }).expect("writes");
            p.close(fd).expect("open");
        }
        p.symlink("target", "/s").expect("links");
        p.setxattr("/a", b"user.name", b"value", SetXattr::Any).expect("sets");
        let mut inodes = BTreeMap::new();
        for path in ["/", "/a", "/b", "/d", "/d/c", "/e", "/s"] {
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

    /// A field of the superblock: orphans @48, inode bitmap @56, block bitmap @64, inode table @72, data @80.
    fn area(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.block(0)[at..at + 8].try_into().expect("eight"))
    }

    /// Changes an inode's record.
    fn inode(&self, path: &str, change: impl FnOnce(&mut [u8])) {
        let n = self.inodes[path];
        let at = (n % 32) as usize * 128;
        self.change(self.area(72) + n / 32, |b| change(&mut b[at..at + 128]));
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
        self.change(self.area(area), |b| b[(bit / 8) as usize] ^= 1 << (bit % 8));
    }

    /// Changes the entry `name` of a directory: its slots.
    fn entry(&self, dir: &str, name: &[u8], change: impl FnOnce(&mut [u8])) {
        let lba = self.field(dir, 48 + 8) as u64;
        self.change(lba, |b| {
            let slot =
                (0..64).find(|s| b[s * 64 + 8..].starts_with(name) && b[s * 64 + 6] == name.len() as u8);
            let at = slot.expect("the name is there") * 64;
            change(&mut b[at..at + 64]);
        });
    }

    /// What `check` says.
    fn found(&self) -> Vec<String> {
        let fs = mount(Port::new(self.drive.clone()), &MountOptions::default()).expect("mounts");
        let found = fs.check().expect("can be checked");
        let _ = fs.unmount();
        found
    }
}

/// Plants damage; one of the findings must contain all of `words`.
fn planted(words: &'static [&'static str], plant: impl FnOnce(&Image) + 'static) {
    in_world(move || {
        let image = Image::new();
        assert_eq!(image.found(), Vec::<String>::new(), "sound before");
        plant(&image);
        let found = image.found();
        let named = found.iter().any(|f| words.iter().all(|w| f.contains(w)));
        assert!(named, "{words:?} are not among\n{}", found.join("\n"));
    });
}

#[test]
fn a_leaked_block_is_found() {
    planted(&["in use in the bitmap but has no owner"], |i| i.flip_bit(64, i.area(32) - 3));
}

#[test]
fn a_used_block_that_is_marked_free_is_found() {
    planted(&["has an owner but is free in the bitmap"], |i| i.flip_bit(64, i.field("/a", 56) as u64));
}

#[test]
fn a_block_of_two_files_is_found() {
    planted(&["which has an owner already"], |i| i.put("/b", 56, i.field("/a", 56)));
}

#[test]
fn a_wrong_link_count_is_found() {
    planted(&["has 2 links, 1 are found"], |i| i.put("/a", 32, 2));
    planted(&["links"], |i| i.put("/d", 32, 7));
}

#[test]
fn a_leaked_inode_is_found() {
    planted(&["no type"], |i| i.flip_bit(56, 200));
}

#[test]
fn an_inode_without_a_name_is_found() {
    planted(&["0 names"], |i| i.entry("/", b"b", |e| e[..8].copy_from_slice(&[0, 0, 0, 0, 0, 0, 1, 0])));
}

#[test]
fn a_name_of_a_free_inode_is_found() {
    planted(&["entries name inode 201, which is free"], |i| i.entry("/", b"b", |e| e[0] = 201));
    planted(&["names inode"], |i| i.entry("/", b"b", |e| e[..4].copy_from_slice(&[255; 4])));
}

#[test]
fn a_name_of_another_kind_is_found() {
    planted(&["calls inode"], |i| i.entry("/", b"b", |e| e[4] = FileKind::Fifo.code()));
}

#[test]
fn a_name_that_is_there_twice_is_found() {
    planted(&["two entries"], |i| i.entry("/", b"b", |e| e[8] = b'a'));
}

#[test]
fn broken_slots_of_a_directory_are_found() {
    planted(&["slot", "holds"], |i| i.entry("/", b"b", |e| e[6..8].copy_from_slice(&[0, 0])));
}

#[test]
fn a_directory_of_a_wrong_size_is_found() {
    planted(&["no block"], |i| i.inode("/d", |b| b[1] = 200));
    planted(&["bytes"], |i| i.inode("/d", |b| b[0] = 3));
}

#[test]
fn a_wrong_parent_is_found() {
    planted(&["its parent is"], |i| i.put("/d", 112, i.inodes["/e"] as u32));
}

#[test]
fn directories_in_a_circle_are_found() {
    planted(&["does not lead to the root"], |i| {
        // /d names itself instead of /d/c, and the root forgets it.
        let d = i.inodes["/d"] as u8;
        i.entry("/d", b"c", |e| (e[0], e[4]) = (d, FileKind::Dir.code()));
        i.entry("/", b"d", |e| e[..8].copy_from_slice(&[0, 0, 0, 0, 0, 0, 1, 0]));
    });
}

#[test]
fn an_orphan_that_is_none_is_found() {
    in_world(|| {
        let image = Image::new();
        image.change(image.area(48), |b| b[0] = 99);
        let fs = mount(Port::new(image.drive.clone()), &MountOptions::default());
        assert!(matches!(fs.err(), Some(FsError::Corrupt(what)) if what.contains("inode 99")));
    });
}

#[test]
fn extents_that_overlap_or_lie_outside_are_found() {
    planted(&["overlap"], |i| {
        i.put("/a", 44, 2);
        i.inode("/a", |b| b.copy_within(48..64, 64));
    });
    planted(&["outside the data area"], |i| i.put("/a", 56, 1));
    planted(&["extent blocks are not all"], |i| i.put("/a", 44, 1000));
}

#[test]
fn a_wrong_number_of_blocks_is_found() {
    planted(&["its record says 77"], |i| i.put("/a", 40, 77));
}

#[test]
fn damaged_attributes_are_found() {
    planted(&["extended attributes", "checksum"], |i| i.change(i.field("/a", 120) as u64, |b| b[140] ^= 1));
    planted(&["extended attributes"], |i| i.put("/a", 124, 1000));
}

#[test]
fn an_unknown_type_is_found() {
    planted(&["which is no type"], |i| i.inode("/a", |b| b[37] = 0));
}

#[test]
fn a_damaged_superblock_is_refused_with_evidence() {
    in_world(|| {
        for at in [0, 9, 33, 70, 120] {
            let image = Image::new();
            image.change(0, |b| b[at] ^= 1);
            let fs = mount(Port::new(image.drive.clone()), &MountOptions::default());
            assert!(matches!(fs.err(), Some(FsError::Corrupt(what)) if !what.is_empty()), "byte {at}");
        }
    });
}

/// Looks at everything; errors are welcome, panics are not.
fn look_around(vfs: &Arc<Vfs>) {
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    let mut todo = vec!["".to_owned()];
    for _ in 0..50 {
        let Some(path) = todo.pop() else { break };
        let here = if path.is_empty() { "/" } else { &path };
        let Ok(stat) = p.lstat(here) else { continue };
        let _ = p.listxattr(here).map(|names| names.iter().for_each(|n| drop(p.getxattr(here, n))));
        match stat.attr.kind {
            FileKind::Dir => {
                for e in p.list(here).unwrap_or_default() {
                    if e.name != b"." && e.name != b".." {
                        todo.push(format!("{path}/{}", String::from_utf8_lossy(&e.name)));
                    }
                }
            }
            FileKind::Symlink => drop(p.readlink(here)),
            FileKind::File => {
                if let Ok(fd) = p.open(here, OpenFlags::RDONLY | OpenFlags::NOATIME, 0) {
                    let mut buffer = vec![0; 8192];
                    for pos in [0, 4096, 16_384, stat.attr.size.saturating_sub(100)] {
                        let _ = p.pread(fd, Dest::Bytes(&mut buffer), pos);
                    }
                    let _ = p.lseek(fd, 0, granary_vfs::Whence::Hole);
                    let _ = p.close(fd);
                }
            }
            _ => {}
        }
    }
}

#[test]
fn no_damage_makes_a_mount_a_walk_or_a_check_panic() {
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
                image.change(lba, |b| b[at..at + len].fill(value));
            }
            let config = VfsConfig { atime: Atime::Noatime, ..VfsConfig::default() };
            let fs = match mount(Port::new(image.drive.clone()), &MountOptions::default()) {
                Ok(fs) => fs,
                Err(FsError::Corrupt(what)) if !what.is_empty() => return None,
                Err(other) => panic!("seed {seed}: {other}"),
            };
            let found = match fs.check() {
                Ok(found) => found.len(),
                Err(FsError::Corrupt(what)) if !what.is_empty() => 1,
                Err(other) => panic!("seed {seed}: {other}"),
            };
            if let Ok(vfs) = Vfs::mount(fs, config) {
                look_around(&vfs);
            }
            Some(found)
        });
        refused += i32::from(said.is_none());
        found += i32::from(said.is_some_and(|n| n > 0));
    }
    assert!(refused + found > 200, "{refused} refused, in {found} something was found");
}
