//! Pages that the drive cannot read any more: whatever they held, a repair leaves a sound file system and
//! everything else, and files can be read where only bitmaps are gone.

use crate::common::{breakable, format, in_world, until_power_fails};
use granary_bytefs::{MountOptions, Variant, mount, repair};
use granary_device::{Drive, DriveError, Port, Structure};
use granary_fs::{Call, Cred, FileKind, FsError, Life, SetXattr};
use granary_mssd::{Mode, Mssd};
use granary_sim::rng::Stream;
use granary_sim::{now, sleep_until};
use granary_units::{Dest, Lpa, Nanos, PAGE_SIZE, Page, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Its inode, and its content or target.
type File = (u64, Result<Vec<u8>, FsError>);
/// By path.
type Files = BTreeMap<String, File>;

/// An image with some files, unmounted, all of it in flash.
struct Image {
    drive: Arc<Mssd>,
    port: Port,
    options: MountOptions,
    files: Files,
}

fn put(p: &mut Process, path: &str, pos: u64, bytes: &[u8]) {
    let fd = p.open(path, OpenFlags::WRONLY | OpenFlags::CREAT, 0o644).expect("creates");
    p.pwrite(fd, Payload::Bytes(bytes), pos).expect("writes");
    p.close(fd).expect("open");
}

/// Bytes that no other file has.
fn content(n: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (n.wrapping_mul(0x9e37_79b9) >> (i % 24)) as u8 ^ (i / 24) as u8).collect()
}

fn populate(p: &mut Process) {
    let dirs = ["/d", "/d/deep", "/e", "/e/deeper", "/e/deeper/down"];
    dirs.iter().for_each(|d| p.mkdir(d, 0o755).expect("makes"));
    // Many, so that a directory has two blocks and inodes are in several pages.
    for n in 0..70 {
        put(p, &format!("/d/file{n}"), 0, &content(n, 10 + n as usize * 60));
    }
    for (n, dir) in (100..).zip(["", "/d/deep", "/e", "/e/deeper", "/e/deeper/down"].repeat(4)) {
        put(p, &format!("{dir}/f{n}"), 0, &content(n, 6000));
    }
    // Extents in blocks of their own, attributes, a long target.
    for piece in 0..40 {
        put(p, "/e/pieces", piece * 3 * PAGE_SIZE as u64, &content(1000 + piece, 500));
    }
    p.setxattr("/e/pieces", b"user.name", &[7; 200], SetXattr::Any).expect("sets");
    p.symlink("x".repeat(300), "/e/link").expect("links");
}

fn vfs(drive: &Arc<Mssd>, options: &MountOptions) -> Arc<Vfs> {
    let fs = mount(Port::new(drive.clone()), options).expect("mounts");
    Vfs::mount(fs, VfsConfig::default()).expect("mounts")
}

fn read(p: &mut Process, path: &str) -> Result<Vec<u8>, FsError> {
    let fd = p.open(path, OpenFlags::RDONLY, 0)?;
    let mut bytes = vec![0; 1 << 20];
    let n = p.pread(fd, Dest::Bytes(&mut bytes), 0);
    p.close(fd).expect("open");
    bytes.truncate(n?);
    Ok(bytes)
}

fn walk(vfs: &Arc<Vfs>) -> Files {
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    let (mut files, mut todo) = (Files::new(), vec![String::new()]);
    while let Some(dir) = todo.pop() {
        for e in p.list(if dir.is_empty() { "/" } else { &dir }).expect("lists") {
            let path = format!("{dir}/{}", String::from_utf8_lossy(&e.name));
            let content = match e.kind {
                _ if e.name == b"." || e.name == b".." => continue,
                FileKind::Dir => {
                    todo.push(path);
                    continue;
                }
                FileKind::Symlink => p.readlink(&path),
                _ => read(&mut p, &path),
            };
            files.insert(path, (e.ino.0, content));
        }
    }
    p.exit();
    files
}

impl Image {
    fn new(mode: Mode) -> Image {
        Image::on(breakable(16, mode), mode)
    }

    fn on(drive: Arc<Mssd>, mode: Mode) -> Image {
        let variant = if mode == Mode::Log { Variant::Full } else { Variant::Dual };
        let options = MountOptions { variant, cpus: 2, ..MountOptions::default() };
        format(&(drive.clone() as Arc<dyn Drive>));
        let mounted = vfs(&drive, &options);
        let mut p = Process::new(mounted.clone(), Cred::ROOT);
        populate(&mut p);
        p.exit();
        let files = walk(&mounted);
        mounted.unmount().expect("unmounts");
        drop(mounted);
        let image = Image { port: Port::new(drive.clone()), drive, options, files };
        image.settle();
        image
    }

    /// Everything goes to flash, and nothing else holds it.
    fn settle(&self) {
        if self.options.variant == Variant::Dual {
            // More than the drive's cache has room for, and nobody's.
            let end = self.port.info().pages;
            for lba in end - 1500..end - 1000 {
                self.port.load(Lpa(lba).byte(), &mut [0; 64], Structure::Data).expect("loads");
            }
        }
        sleep_until(self.drive.settle(now()).expect("settles"));
    }

    fn block(&self, lba: u64) -> Option<[u8; PAGE_SIZE]> {
        let mut page = [Page::ZERO];
        match self.port.read(Lpa(lba), &mut page, Structure::Data) {
            Err(DriveError::Unreadable(_)) => None,
            other => other.map(|()| Some(page[0].to_bytes())).expect("reads"),
        }
    }

    /// A field of the superblock: SPEC.md section 2.
    fn area(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.block(0).expect("readable")[at..at + 8].try_into().expect("eight"))
    }

    fn mounted(&self) -> Arc<Vfs> {
        vfs(&self.drive, &self.options)
    }

    fn check(&self) -> Vec<String> {
        let fs = mount(Port::new(self.drive.clone()), &self.options).expect("mounts");
        let found = fs.check(&Call::offline()).expect("can be checked");
        fs.unmount(&Call::offline()).expect("unmounts");
        found
    }

    /// Mends, and looks at what must be so whatever was lost. Returns the report, and what was found
    /// afterwards.
    fn mended(&self, why: &str) -> (granary_fs::Repaired, Files) {
        let report = repair(&self.port).unwrap_or_else(|e| panic!("{why}: {e}"));
        assert_eq!(self.check(), Vec::<String>::new(), "{why}: {report:#?}");
        let again = repair(&self.port).expect("can be looked at again");
        assert_eq!((again.done, &again.left), (Vec::new(), &report.left), "{why}: {:#?}", report.done);
        let mounted = self.mounted();
        let files = walk(&mounted);
        let mut p = Process::new(mounted.clone(), Cred::ROOT);
        for n in 0..40 {
            put(&mut p, &format!("/new{n}"), 0, &content(5000 + n, 9000));
        }
        (0..40).step_by(3).for_each(|n| p.unlink(format!("/new{n}")).expect("removes"));
        p.exit();
        mounted.unmount().expect("unmounts");
        drop(mounted);
        self.settle();
        assert_eq!(self.check(), Vec::<String>::new(), "{why}, and written to");
        let mounted = self.mounted();
        let mut later = walk(&mounted);
        mounted.unmount().expect("unmounts");
        later.retain(|path, _| !path.starts_with("/new"));
        assert_eq!(later.keys().collect::<Vec<_>>(), files.keys().collect::<Vec<_>>(), "{why}");
        assert!(later == files, "{why}: what was written hurt others");
        (report, files)
    }

    /// Loses the flash page of a drive page, mends, and compares with what may be lost. False where there is
    /// no such page.
    fn lose(&self, lba: u64) -> bool {
        let (inode_bitmap, table, data, blocks) =
            (self.area(56), self.area(72), self.area(80), self.area(32));
        let journal =
            u32::from_le_bytes(self.block(0).expect("readable")[112..116].try_into().expect("four"));
        self.settle();
        if !self.drive.break_page(Lpa(lba)) {
            return false;
        }
        assert!(self.block(lba).is_none(), "page {lba} is lost");
        let (report, after) = self.mended(&format!("page {lba}"));
        let told = report.done.join("\n") + &report.left.join("\n");
        let gone: Vec<(&String, &File)> =
            self.files.iter().filter(|(_, file)| !after.values().any(|f| f.1 == file.1)).collect();
        let stays = self.files.iter().filter(|(path, file)| after.get(*path).is_some_and(|f| f.1 == file.1));
        let moved = self.files.len() - stays.count() - gone.len();
        match lba {
            _ if (table..journal as u64).contains(&lba) => {
                let first = (lba - table) * 32;
                let hit = |ino: &u64| (first..first + 32).contains(ino);
                assert!(gone.iter().all(|(_, (ino, _))| hit(ino)), "page {lba}: {gone:?} after\n{told}");
                assert!(told.contains("is lost"), "{told}");
            }
            _ if (data..blocks - 1).contains(&lba) => {
                assert!(gone.len() <= 1, "page {lba}: {gone:?} after\n{told}");
                assert!(moved == 0 || told.contains("directory"), "page {lba}: {moved} moved after\n{told}");
                if let Some((path, (_, was))) = gone.first() {
                    assert!(moved == 0, "{told}");
                    let data = report.left.iter().any(|l| l.starts_with(&**path));
                    assert!(data || told.contains("named is lost"), "{path}: {told}");
                    if data {
                        assert!(after[*path].1.is_err() && was.is_ok(), "no zeros for what is lost");
                        assert!(self.block(lba).is_none(), "it stays what it was");
                    }
                }
            }
            _ => {
                assert!(lba < inode_bitmap || told.contains("anew") || told.contains("journal"), "{told}");
                assert!(
                    gone.is_empty() && moved == 0 && report.left.is_empty(),
                    "page {lba}: {gone:?} after\n{told}"
                );
            }
        }
        assert!(!report.left.is_empty() || self.block(lba).is_some(), "page {lba} is readable again");
        true
    }
}

/// One page of the drive after the other, all of the metadata and a sample of the rest.
fn sweep(mode: Mode, seed: u64) {
    let areas = in_world(move || {
        let image = Image::new(mode);
        [image.area(72), image.area(80), image.area(32)]
    });
    let mut s = Stream::new(seed, "unreadable");
    let mut pages: Vec<u64> = (0..areas[0] + 8).chain([areas[1] - 1, areas[2] - 1]).collect();
    pages.extend((0..12).map(|n| areas[1] + n));
    let blocks = areas[2];
    let used = in_world(move || {
        let image = Image::new(mode);
        (areas[1]..blocks).filter(|&lba| image.drive.break_page(Lpa(lba))).collect::<Vec<u64>>()
    });
    pages.extend((0..25).map(|_| used[s.below(used.len() as u64) as usize]));
    let mut lost = 0;
    for lba in pages {
        lost += u32::from(in_world(move || Image::new(mode).lose(lba)));
    }
    assert!(lost > 35, "{lost} pages were in flash");
}

#[test]
fn whatever_page_is_lost_everything_else_is_there_after_a_repair() {
    sweep(Mode::Log, 1);
}

#[test]
fn with_the_redo_log_of_the_host_too() {
    sweep(Mode::Cache, 2);
}

/// All of the bitmaps and the orphan table at once, and the superblock.
#[test]
fn several_pages_that_others_tell_of_cost_nothing() {
    in_world(|| {
        let image = Image::new(Mode::Log);
        let (from, to) = (image.area(48), image.area(72));
        let lost = (from..to).chain([0]).filter(|&lba| image.drive.break_page(Lpa(lba))).count();
        assert!(lost > 2, "{lost}");
        let (report, files) = image.mended("bitmaps and superblock");
        assert!(report.left.is_empty() && files == image.files, "{report:#?}");
    });
}

/// Files need no bitmap: they are read without, nothing is written, and who would change something is
/// refused.
#[test]
fn files_are_read_where_bitmaps_cannot_be() {
    for damage in 0..5 {
        in_world(move || {
            let image = Image::new(Mode::Log);
            let (orphans, inodes, blocks) = (image.area(48), image.area(56), image.area(64));
            let flip = |lba: u64| {
                let mut bytes = image.block(lba).expect("readable");
                bytes[5] ^= 1;
                image.port.write(Lpa(lba), &[Page::from_bytes(&bytes)], Structure::Bitmap).expect("writes");
            };
            match damage {
                0 => assert!(image.drive.break_page(Lpa(inodes))),
                1 => assert!(image.drive.break_page(Lpa(blocks))),
                2 => flip(inodes),
                3 => flip(blocks),
                _ => flip(orphans),
            }
            let refused = mount(Port::new(image.drive.clone()), &image.options);
            assert!(matches!(refused.err(), Some(FsError::Corrupt(what)) if what.contains("--read-only")));
            let before: Vec<_> = (0..image.area(32)).map(|lba| image.block(lba)).collect();
            let reading = vfs(&image.drive, &MountOptions { read_only: true, ..image.options.clone() });
            assert!(walk(&reading) == image.files, "damage {damage}");
            let mut p = Process::new(reading.clone(), Cred::ROOT);
            assert!(p.mkdir("/more", 0o755).is_err() && p.unlink("/d/file3").is_err());
            p.exit();
            reading.unmount().expect("unmounts");
            let after: Vec<_> = (0..image.area(32)).map(|lba| image.block(lba)).collect();
            assert!(before == after, "nothing was written");
            assert!(image.mended("then mended").1 == image.files);
        });
    }
}

/// A check goes on behind what it cannot read.
#[test]
fn a_check_names_what_cannot_be_read() {
    in_world(|| {
        let image = Image::new(Mode::Log);
        let page = image.area(72) + 1;
        assert!(image.drive.break_page(Lpa(page)));
        let found = image.check();
        assert!(found.iter().any(|f| f.contains(&format!("block {page} cannot be read"))), "{found:?}");
    });
}

/// The power fails while lost pages are written anew: another repair finishes, and finds what the first would
/// have.
#[test]
fn a_repair_of_lost_pages_that_a_power_failure_ends_is_finished_by_another() {
    let begin = Nanos::from_secs(100);
    let plant = |image: &Image| {
        let (inodes, table) = (image.area(56), image.area(72));
        for lba in [inodes, table] {
            assert!(image.drive.break_page(Lpa(lba)));
        }
    };
    let prepared = move |drive: Arc<Mssd>| {
        let image = Image::on(drive, Mode::Log);
        plant(&image);
        sleep_until(begin);
        image
    };
    let (lasts, wanted) = in_world(move || {
        let image = prepared(breakable(16, Mode::Log));
        repair(&image.port).expect("mends");
        (now() - begin, image.mended("whole").1)
    });
    let contents = |files: &Files| -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = files.values().map(|f| f.1.clone().expect("readable")).collect();
        all.sort();
        all
    };
    let wanted = contents(&wanted);
    let mut unfinished = 0;
    for step in 0..24u64 {
        let drive = breakable(16, Mode::Log);
        // The writes are at the end.
        let at = begin + Nanos(lasts.0 - lasts.0 * step / 24 / 4);
        let its = drive.clone();
        until_power_fails(at, move || {
            its.track_in_flight(true);
            let image = prepared(its);
            repair(&image.port).expect("mends");
            sleep_until(begin + Nanos::from_secs(1));
        });
        let files = in_world(move || {
            sleep_until(at);
            drive.power_fail(at, &mut Stream::new(step, "power"));
            drive.power_on(now()).map(sleep_until).expect("power");
            let options = MountOptions { cpus: 2, ..MountOptions::default() };
            let away = mount(Port::new(drive.clone()), &options).is_err();
            let image = Image { port: Port::new(drive.clone()), drive, options, files: Files::new() };
            (away, image.mended("after the power failure").1)
        });
        unfinished += u32::from(files.0);
        assert!(contents(&files.1) == wanted, "step {step}");
    }
    assert!(unfinished > 3, "{unfinished}");
}
