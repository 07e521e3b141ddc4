//! Files that programs change through mappings, which a server in another process is told of late.
#![allow(unsafe_code, reason = "memory mapping")]

use crate::common::Place;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{self, File, OpenOptions};
use std::process::Command;

const MIB: u64 = 1 << 20;

/// A mapped file, unmapped at the end.
struct Map {
    start: *mut u8,
    len: usize,
}

impl Map {
    fn new(file: &File, len: u64) -> Map {
        let len = len as usize;
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address that the kernel chooses; no existing memory is touched.
        let start =
            unsafe { mmap(std::ptr::null_mut(), len, both, MapFlags::SHARED, file, 0) }.expect("mmap");
        Map { start: start.cast(), len }
    }

    fn store(&self, at: u64, byte: u8) {
        assert!((at as usize) < self.len);
        // SAFETY: within the mapping, to which there are no references.
        unsafe { self.start.add(at as usize).write_volatile(byte) };
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`.
        unsafe { munmap(self.start.cast(), self.len) }.expect("munmap");
    }
}

/// Data and holes are where they are, pages that only a mapping has changed included; so `cp`, which asks,
/// copies them. With one serving thread, too: it has to take the page while the question is open.
#[test]
fn seeking_sees_what_mappings_changed() {
    let Some(place) = Place::new() else { return };
    for (fs, threads) in [("bytefs", "1"), ("bytefs", "2"), ("ext4", "1"), ("nova", "2")] {
        let (size, ram) = (["--size", "256MiB"], format!("ram:{fs}"));
        place.runs(&[&["mount", "--daemon", "--threads", threads][..], &size, &[&ram, "mnt"]].concat(), 0);
        let path = place.path("mnt/f");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(&path).expect("create");
        file.set_len(MIB).expect("truncate");
        let map = Map::new(&file, MIB);
        let data = |from: u64| seek(&file, SeekFrom::Data(from));
        let hole = |from: u64| seek(&file, SeekFrom::Hole(from));
        assert_eq!((data(0), hole(0)), (Err(Errno::NXIO), Ok(0)), "{fs}: nothing is there");
        map.store(512 << 10, 7);
        assert_eq!((data(0), data((512 << 10) + 4096)), (Ok(512 << 10), Err(Errno::NXIO)), "{fs}");
        map.store(520 << 10, 8);
        assert_eq!((hole(512 << 10), hole(0)), (Ok(516 << 10), Ok(0)), "{fs}");
        map.store(516 << 10, 9);
        assert_eq!(hole(512 << 10), Ok(524 << 10), "{fs}: both pages behind are data by now");
        map.store(MIB - 1, 1);
        assert_eq!(data(600 << 10), Ok(MIB - 4096), "{fs}");
        map.store(0, 2);
        let copied = Command::new("cp").arg("--sparse=auto").arg(&path).arg(place.path("copy")).status();
        assert!(copied.expect("cp").success());
        let mut expected = vec![0; MIB as usize];
        for (at, byte) in [(0, 2), (512, 7), (516, 9), (520, 8)] {
            expected[at << 10] = byte;
        }
        expected[MIB as usize - 1] = 1;
        assert!(fs::read(place.path("copy")).expect("read") == expected, "{fs}: the copy is another");
        drop((map, file));
        place.runs(&["umount", "mnt"], 0);
    }
}
