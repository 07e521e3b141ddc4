//! File systems whose media were changed behind their back: refused, reported or read as errors.
//!
//! ```text
//!   once for each file system:
//!           mkfs ── work ── fork: old ── work ── fork: cut (power failure) ── unmount: clean
//!   input:  which of the two │ up to 8 edits: place, kind, value, whether checksums are put right
//!   then:   mount ── walk and read all ── write, fsync, rename, remove ── check ── unmount ── mount
//!           ── check; repair
//! ```
//!
//! Edits include *older versions* of blocks: their checksums are right wherever they lie, and they contradict
//! the rest.

use crate::mutate::Numbers;
use crate::seal::{Block, broken, mend};
use granary_crash::{Target, read_page, write_page};
use granary_device::{Devices, Drive, Role};
use granary_fs::{Call, Cred, FileSystem, SetXattr};
use granary_sim::rng::Stream;
use granary_sim::{World, WorldConfig, now, sleep_until};
use granary_suite::suite::walk;
use granary_testbed::registry;
use granary_units::{Nanos, PAGE_SIZE, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Crash cases, one of each file system and stack.
pub const FILE_SYSTEMS: &[&str] =
    &["bytefs", "ext4", "f2fs", "nilfs2", "nova", "pmfs", "orchfs", "devfs", "spfs+ext4", "spfs+f2fs"];

/// Entries that a walk looks at.
const ENTRIES: usize = 200;

/// Images of one file system.
struct Base {
    /// Unmounted, and after a power failure: each with its instant and the blocks that hold something.
    images: [Image; 2],
    /// An earlier state, where old versions of blocks come from.
    old: Devices,
}

struct Image {
    devices: Devices,
    at: Nanos,
    used: Vec<(Role, u64)>,
}

/// Runs in a world that begins at `start`.
fn in_world<T: 'static>(target: &Arc<dyn Target>, start: Nanos, main: impl FnOnce() -> T + 'static) -> T {
    let config = WorldConfig { costs: target.costs(), ..WorldConfig::default() };
    let run = World::new(config).run(move || {
        sleep_until(start);
        main()
    });
    run.unwrap_or_else(|stop| panic!("the world stopped: {stop}"))
}

/// The image of a file system; made once for all inputs.
fn base(name: &'static str, target: &Arc<dyn Target>) -> Arc<Base> {
    static MADE: Mutex<BTreeMap<&str, Arc<Base>>> = Mutex::new(BTreeMap::new());
    if let Some(base) = MADE.lock().get(name) {
        return base.clone();
    }
    let base = Arc::new(make(target));
    MADE.lock().insert(name, base.clone());
    base
}

fn make(target: &Arc<dyn Target>) -> Base {
    let fs = target.clone();
    let (clean, at, cut, cut_at, old) = in_world(target, Nanos::ZERO, move || {
        let devices = fs.devices(1);
        fs.mkfs(&devices).expect("mkfs");
        let vfs = Vfs::mount(fs.mount(&devices).expect("mounts"), fs.vfs()).expect("mounts");
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        populate(&mut p, 0);
        p.sync().expect("syncs");
        let old = devices.fork().expect("devices in memory fork");
        populate(&mut p, 1);
        let (cut, cut_at) = (devices.fork().expect("devices in memory fork"), now());
        p.exit();
        vfs.unmount().expect("unmounts");
        (devices, now(), cut, cut_at, old)
    });
    cut.power_fail(cut_at, &mut Stream::new(1, "fuzz"));
    let cut_at = cut.power_on(cut_at).expect("powers on");
    let of = |devices: Devices, at| Image { used: used(&devices, at), devices, at };
    Base { images: [of(clean, at), of(cut, cut_at)], old }
}

/// Files, holes, directories, names, links and attributes; other ones the second time.
fn populate(p: &mut Process, round: u64) {
    let _ = p.mkdir("/d", 0o755);
    let _ = p.mkdir(format!("/d/sub{round}"), 0o755);
    for i in 0..24 {
        let path = format!("/d/file.with.a.name.{i}");
        let Ok(fd) = p.open(&path, OpenFlags::RDWR | OpenFlags::CREAT, 0o644) else { continue };
        let data = Payload::Fill { word: 0x0101_0101 * (i + round + 1), len: 700 * (i as usize + 1) };
        let _ = p.pwrite(fd, data, (i + round) * 3000);
        if i % 3 == round {
            let _ = p.fsync(fd);
        }
        let _ = p.close(fd);
        let _ = p.symlink(&path, format!("/d/sub{round}/link{i}"));
    }
    let _ = p.setxattr("/d/file.with.a.name.1", b"user.name", &[7; 120], SetXattr::Any);
    let _ = p.link("/d/file.with.a.name.2", format!("/second{round}"));
    if round > 0 {
        for i in 10..16 {
            let _ = p.unlink(format!("/d/file.with.a.name.{i}"));
        }
        let _ = p.rename("/d/sub0", "/moved");
    }
}

fn used(devices: &Devices, at: Nanos) -> Vec<(Role, u64)> {
    let mut all = Vec::new();
    for (role, drive) in devices.drives() {
        let held = |lpa: &u64| read(&**drive, at, *lpa).iter().any(|b| *b != 0);
        all.extend((0..drive.info().pages).filter(held).map(|lpa| (role, lpa)));
    }
    all
}

fn read(drive: &dyn Drive, at: Nanos, lpa: u64) -> Block {
    read_page(drive, at, lpa).expect("reads")
}

/// Changes blocks of a copy of an image, looks at it and works with it.
pub(super) fn run(name: &'static str, target: &Arc<dyn Target>, bytes: &[u8]) {
    let base = base(name, target);
    let mut n = Numbers::new(bytes);
    let image = &base.images[usize::from(n.byte() % 2)];
    let devices = image.devices.fork().expect("devices in memory fork");
    let mut at = image.at;
    for _ in 0..8 {
        if n.is_empty() {
            break;
        }
        at = edit(&base, image, &devices, at, &mut n);
    }
    let fs = target.clone();
    let mended = devices.fork().expect("devices in memory fork");
    in_world(target, at, move || {
        for again in [false, true] {
            let Ok(mounted) = fs.mount(&devices) else { return };
            look_and_work(&*fs, mounted, again);
        }
    });
    let bare = name.split('-').next().unwrap_or(name);
    if let Some(repair) = registry::find(bare).ok().and_then(|entry| entry.repair) {
        in_world(target, at, move || drop(repair(&mended)));
    }
}

/// One edit; returns when it is done.
fn edit(base: &Base, image: &Image, devices: &Devices, at: Nanos, n: &mut Numbers<'_>) -> Nanos {
    let (role, lpa) = match n.byte() % 8 {
        // Superblocks and what lies behind them.
        0 | 1 => {
            let (role, _) = image.used[n.below(image.used.len())];
            (role, n.below(64) as u64)
        }
        _ => image.used[n.below(image.used.len())],
    };
    let Some(port) = devices.get(role) else { return at };
    let drive = &**port.drive();
    let before = read(drive, at, lpa);
    let mut after = before;
    let how = n.byte();
    let place = n.below(PAGE_SIZE);
    match how % 8 {
        0 => after[place] ^= 1 << (n.byte() % 8),
        1 => after[place] = [0, 1, 0x7f, 0xff][usize::from(n.byte() % 4)],
        2 | 3 => {
            // Fields are aligned.
            let (width, value) = ([2, 4, 8][usize::from(n.byte() % 3)], n.wild(20_000).to_le_bytes());
            let from = place / width * width;
            after[from..from + width].copy_from_slice(&value[..width]);
        }
        4 => after[place..].fill(0),
        5 => {
            let (other, from) = image.used[n.below(image.used.len())];
            if let Some(port) = devices.get(other) {
                after = read(&**port.drive(), at, from);
            }
        }
        6 => {
            if let Some(port) = base.old.get(role) {
                after = read(&**port.drive(), at, lpa);
            }
        }
        _ => {
            let (from, to) = (place / 64 * 64, n.below(64) * 64);
            after.copy_within(from..from + 64, to);
        }
    }
    if how & 0x80 == 0 {
        let seals = broken(lpa, &before, &after);
        mend(lpa, &mut after, &seals);
    }
    write_page(drive, at, lpa, &after).expect("writes")
}

/// Everything that reads, and some calls that change.
fn look_and_work(target: &dyn Target, fs: Arc<dyn FileSystem>, again: bool) {
    let _ = fs.check(&Call::offline());
    let Ok(vfs) = Vfs::mount(fs.clone(), target.vfs()) else { return };
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    walk(&mut p, ENTRIES);
    let _ = p.statfs();
    let flags = OpenFlags::RDWR | OpenFlags::CREAT;
    for (i, path) in ["/new", "/d/file.with.a.name.3", "/d/new", "/d/file.with.a.name.20"].iter().enumerate()
    {
        let Ok(fd) = p.open(*path, flags, 0o644) else { continue };
        let _ = p.pwrite(fd, Payload::Fill { word: 9, len: 9000 }, i as u64 * 5000 + 17);
        let _ = p.ftruncate(fd, 3000 * i as u64);
        let _ = p.fsync(fd);
        let _ = p.close(fd);
    }
    let _ = p.mkdir(format!("/made{again}"), 0o755);
    let _ = p.rename("/d/file.with.a.name.4", "/moved.file");
    let _ = p.rename("/d/file.with.a.name.5", "/d/file.with.a.name.6");
    let _ = p.unlink("/d/file.with.a.name.7");
    let _ = p.rmdir("/d/sub1");
    let _ = p.setxattr("/d", b"user.x", &[1; 60], SetXattr::Any);
    let _ = p.sync();
    p.exit();
    let _ = fs.check(&Call::offline());
    let _ = vfs.unmount();
}
