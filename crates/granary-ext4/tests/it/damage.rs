//! Damaged media: `check` names what was planted, nothing panics, and what cannot be used is `Corrupt` with
//! evidence.

use crate::common::fresh;
use granary_device::{Drive, Port, Structure};
use granary_ext4::layout::group::GroupDesc;
use granary_ext4::layout::inode::RawInode;
use granary_ext4::layout::superblock::Superblock;
use granary_ext4::layout::{BLOCK_SIZE, BlockBytes, extent, xattr};
use granary_ext4::{MountOptions, mount};
use granary_fs::{Call, Cred, FileKind, FsError, Life, SetXattr};
use granary_sim::rng::Stream;
use granary_suite::suite::{drive, look_around, port, run};
use granary_units::{Bytes, Lpa, Page, Payload};
use granary_vfs::{Atime, OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An image with some files, unmounted.
struct Image {
    drive: Arc<dyn Drive>,
    port: Port,
    inodes: BTreeMap<&'static str, u32>,
}

impl Image {
    fn new() -> Image {
        let drive = drive(Bytes::mib(64));
        let m = fresh(&drive);
        let mut p = m.process();
        p.mkdir("/d", 0o755).expect("makes");
        p.mkdir("/e", 0o755).expect("makes");
        for path in ["/a", "/b", "/d/c"] {
            let fd = p.open(path, OpenFlags::RDWR | OpenFlags::CREAT, 0o644).expect("creates");
            p.write(fd, Payload::Fill { word: 0x1234, len: 20_000 }).expect("writes");
            p.close(fd).expect("open");
        }
        p.symlink("target", "/s").expect("links");
        p.setxattr("/a", b"user.name", &[7; 300], SetXattr::Any).expect("sets");
        let mut inodes = BTreeMap::new();
        for path in ["/", "/a", "/b", "/d", "/d/c", "/e", "/s"] {
            inodes.insert(path, p.lstat(path).expect("is there").ino.0 as u32);
        }
        p.exit();
        m.unmount();
        Image { port: port(&drive), drive, inodes }
    }

    fn block(&self, lba: u64) -> BlockBytes {
        let mut page = [Page::ZERO];
        self.port.read(Lpa(lba), &mut page, Structure::Data).expect("reads");
        page[0].to_bytes()
    }

    fn change(&self, lba: u64, change: impl FnOnce(&mut BlockBytes)) {
        let mut bytes = self.block(lba);
        change(&mut bytes);
        self.port.write(Lpa(lba), &[Page::from_bytes(&bytes)], Structure::Data).expect("writes");
    }

    fn group(&self, g: u32) -> GroupDesc {
        GroupDesc::parse(&self.block(1 + g as u64 / 64), g).expect("sound")
    }

    fn place(&self, path: &str) -> (u32, u64, usize) {
        let sb = Superblock::parse(&self.block(0)).expect("sound");
        let (ino, per) = (self.inodes[path], sb.inodes_per_group.get());
        let index = (ino - 1) % per;
        let table = self.group((ino - 1) / per).inode_table.get();
        (ino, table + (index / 16) as u64, (index % 16) as usize)
    }

    /// Changes an inode and puts its checksum right.
    fn inode(&self, path: &str, change: impl FnOnce(&mut RawInode)) {
        let (ino, lba, slot) = self.place(path);
        self.change(lba, |b| {
            let raw = RawInode::at_mut(b, slot);
            change(raw);
            raw.seal(ino);
        });
    }

    fn raw(&self, path: &str) -> RawInode {
        let (_, lba, slot) = self.place(path);
        *RawInode::at(&self.block(lba), slot)
    }

    /// First block of a file or directory.
    fn first(&self, path: &str) -> u64 {
        extent::entry(&self.raw(path).root, 0).start
    }

    /// Changes the entry `name` of a directory: from its inode number on.
    fn entry(&self, dir: &str, name: &[u8], change: impl FnOnce(&mut [u8])) {
        self.change(self.first(dir), |b| {
            let at = (24..BLOCK_SIZE - 12 - name.len())
                .step_by(4)
                .find(|&at| b[at + 8..].starts_with(name) && b[at + 6] as usize == name.len());
            change(&mut b[at.expect("the name is there")..]);
        });
    }

    fn found(&self) -> Vec<String> {
        let fs = mount(port(&self.drive), &MountOptions::default()).expect("mounts");
        let found = fs.check(&Call::offline()).expect("can be checked");
        let _ = fs.unmount(&Call::offline());
        found
    }
}

/// Plants damage; one of the findings must contain all of `words`.
fn planted(words: &'static [&'static str], plant: impl FnOnce(&Image) + 'static) {
    run(move || {
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
    planted(&["free and marked in use"], |i| {
        let last = Superblock::parse(&i.block(0)).expect("sound").blocks.get() - 2;
        i.change(i.group(0).block_bitmap.get(), |b| b[(last / 8) as usize] |= 1 << (last % 8));
    });
}

#[test]
fn a_used_block_that_is_marked_free_is_found() {
    planted(&["in use and marked free"], |i| {
        let lba = i.first("/a");
        i.change(i.group(0).block_bitmap.get(), |b| b[(lba / 8) as usize] &= !(1 << (lba % 8)));
    });
}

#[test]
fn a_block_of_two_files_is_found() {
    planted(&["used twice"], |i| {
        let root = i.raw("/a").root;
        i.inode("/b", |raw| raw.root = root);
    });
}

#[test]
fn a_wrong_link_count_is_found() {
    planted(&["1 names and 3 links"], |i| i.inode("/a", |raw| raw.links = 3.into()));
    planted(&["1 names and 9 links"], |i| i.inode("/d", |raw| raw.links = 9.into()));
}

#[test]
fn an_inode_without_a_name_is_found() {
    planted(&["has 0 names"], |i| i.entry("/", b"b", |e| e[..4].fill(0)));
}

#[test]
fn an_inode_without_links_that_is_no_orphan_is_found() {
    planted(&["not on the orphan list"], |i| i.inode("/b", |raw| raw.links = 0.into()));
}

#[test]
fn a_leaked_inode_is_found() {
    planted(&["inode", "is in use"], |i| {
        i.change(i.group(0).inode_bitmap.get(), |b| b[12] |= 1);
    });
}

#[test]
fn a_name_of_a_free_inode_is_found() {
    planted(&["b is inode 900, which is not in use"], |i| {
        i.entry("/", b"b", |e| e[..4].copy_from_slice(&900u32.to_le_bytes()));
    });
}

#[test]
fn a_name_of_another_kind_is_found() {
    planted(&["b is a"], |i| i.entry("/", b"b", |e| e[7] = FileKind::Fifo.code()));
}

#[test]
fn broken_entries_of_a_directory_are_found() {
    planted(&["directory"], |i| i.entry("/", b"b", |e| e[4] = 3));
}

#[test]
fn a_wrong_parent_is_found() {
    let parent = |i: &Image| i.inodes["/e"].to_le_bytes();
    planted(&["has parent"], move |i| {
        let to = parent(i);
        i.change(i.first("/d"), |b| b[12..16].copy_from_slice(&to));
    });
}

#[test]
fn extents_that_overlap_or_lie_outside_are_found() {
    let put = |start: u64, key: u32| {
        move |raw: &mut RawInode| {
            let e = extent::entry(&raw.root, 0);
            let start = if start == 0 { e.start } else { start };
            let n = extent::count(&raw.root);
            extent::insert(&mut raw.root, n, extent::ExtentEntry { key, len: 1, start, unwritten: false });
        }
    };
    planted(&["behind what ends at block"], move |i| i.inode("/a", put(0, 1)));
    planted(&["outside the file system"], move |i| i.inode("/a", put(1 << 40, 9)));
}

#[test]
fn a_wrong_number_of_blocks_is_found() {
    planted(&["says 77 blocks"], |i| i.inode("/a", |raw| raw.blocks = 77.into()));
}

#[test]
fn data_beyond_the_end_is_found() {
    planted(&["has data beyond its end"], |i| i.inode("/a", |raw| raw.size = 5.into()));
}

#[test]
fn a_damaged_inode_is_found() {
    planted(&["is in use", "checksum"], |i| {
        let (_, lba, slot) = i.place("/a");
        i.change(lba, |b| b[slot * 256 + 60] ^= 1);
    });
}

#[test]
fn damaged_attributes_are_found() {
    planted(&["extended attributes"], |i| {
        let lba = i.raw("/a").xattr_block.get();
        assert_ne!(lba, 0, "300 bytes are too many for the inode");
        i.change(lba, |b| b[50] ^= 1);
    });
}

#[test]
fn a_wrong_number_of_users_of_attributes_is_found() {
    planted(&["counts 3 inodes with its attributes, 1 have them"], |i| {
        let lba = i.raw("/a").xattr_block.get();
        let says = xattr::read(&i.block(lba), lba, i.inodes["/a"]).expect("sound");
        i.change(lba, |b| xattr::write(b, lba, 3, &says.string));
    });
}

/// Attributes that cannot be read keep no file from being removed.
#[test]
fn a_file_with_damaged_attributes_can_be_removed() {
    run(|| {
        let image = Image::new();
        let lba = image.raw("/a").xattr_block.get();
        image.change(lba, |b| b[50] ^= 1);
        let m = crate::common::again(&image.drive);
        let mut p = m.process();
        assert!(matches!(p.getxattr("/a", b"user.name"), Err(FsError::Corrupt(_))));
        p.unlink("/a").expect("unlinks");
        p.exit();
        m.unmount();
        let found = image.found();
        assert!(
            found.iter().any(|f| f.contains(&format!("block {lba} is free and marked in use"))),
            "{found:?}"
        );
    });
}

#[test]
fn wrong_counters_are_found() {
    planted(&["its descriptor says"], |i| {
        let mut d = i.group(0);
        d.free_blocks = (d.free_blocks.get() - 5).into();
        i.change(1, |b| d.store(b, 0));
    });
}

#[test]
fn an_orphan_list_in_a_circle_is_refused() {
    run(|| {
        let image = Image::new();
        let ino = image.inodes["/a"];
        image.inode("/a", |raw| raw.next_orphan = ino.into());
        image.change(0, |b| {
            let mut sb = Superblock::parse(b).expect("sound");
            sb.last_orphan = ino.into();
            sb.store(b);
        });
        let fs = mount(port(&image.drive), &MountOptions::default());
        assert!(matches!(fs.err(), Some(FsError::Corrupt(what)) if what.contains("circle")));
    });
}

#[test]
fn a_damaged_superblock_is_refused_with_evidence() {
    run(|| {
        for at in [0, 9, 33, 70, 100] {
            let image = Image::new();
            image.change(0, |b| b[at] ^= 1);
            let fs = mount(port(&image.drive), &MountOptions::default());
            assert!(matches!(fs.err(), Some(FsError::Corrupt(what)) if !what.is_empty()), "byte {at}");
        }
    });
}

const PATHS: [&str; 6] = ["/", "/a", "/b", "/d", "/d/c", "/s"];

#[test]
fn no_damage_makes_a_mount_a_walk_or_a_check_panic() {
    let (mut refused, mut found) = (0, 0);
    for seed in 0..600 {
        let said = run(move || {
            let mut s = Stream::new(seed, "damage");
            let image = Image::new();
            let (d, root, sub) = (image.group(0), image.first("/"), image.first("/d"));
            let places: Vec<_> = PATHS.iter().map(|path| image.place(path)).collect();
            for _ in 0..1 + s.below(4) {
                let value = [0, 1, 0x40, 0x7f, 0xff, s.below(256) as u8][s.below(6) as usize];
                let (ino, lba, slot) = places[s.below(6) as usize];
                let at = s.below(252) as usize;
                let len = [1, 1, 2, 4, 8][s.below(5) as usize];
                match s.below(6) {
                    // With the checksum put right, so that the damage gets further.
                    0..3 => {
                        image.change(lba, |b| {
                            b[slot * 256 + at..][..len.min(252 - at)].fill(value);
                            RawInode::at_mut(b, slot).seal(ino);
                        });
                    }
                    3 => image.change(root, |b| b[at..at + len].fill(value)),
                    4 => image.change(sub, |b| b[at..at + len].fill(value)),
                    _ => {
                        let lba = [d.block_bitmap.get(), d.inode_bitmap.get(), 0, 1, d.inode_table.get()];
                        image.change(lba[s.below(5) as usize], |b| b[at..at + len].fill(value));
                    }
                }
            }
            let config = VfsConfig { atime: Atime::Noatime, ..VfsConfig::default() };
            let fs = match mount(port(&image.drive), &MountOptions::default()) {
                Ok(fs) => fs,
                Err(FsError::Corrupt(what)) if !what.is_empty() => return None,
                Err(FsError::Stale) => return None,
                Err(other) => panic!("seed {seed}: {other}"),
            };
            let found = match fs.check(&Call::offline()) {
                Ok(found) => found.len(),
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

#[test]
fn a_name_that_no_path_can_have_is_told_to_nobody_and_is_a_finding() {
    for c in [b'/', 0] {
        run(move || {
            let image = Image::new();
            image.entry("/", b"a", |e| e[8] = c);
            let found = image.found();
            assert!(found.iter().any(|f| f.contains("a byte that no name has")), "{found:?}");
            let fs = mount(port(&image.drive), &MountOptions::default()).expect("mounts");
            let mut p = Process::new(Vfs::mount(fs, VfsConfig::default()).expect("mounts"), Cred::ROOT);
            let names: Vec<Vec<u8>> = p.list("/").expect("lists").into_iter().map(|e| e.name).collect();
            assert!(names.contains(&b"b".to_vec()) && !names.iter().any(|n| n.contains(&c)), "{names:?}");
        });
    }
}
