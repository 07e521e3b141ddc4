//! Extents per file after aging: how contiguous files are that were made, appended to, cut and removed at
//! random for long.
//!
//! ```text
//!   fill to the wanted use ── rounds: create | append | truncate | remove, write back now and then ── until
//!   the drive has been written WRITTEN times over ── unmount, mount: extents of each file
//! ```
//!
//! Sizes and appends are log-uniform (4 KiB to 4 MiB, 4 KiB to 256 KiB): small files are many, large ones
//! have most bytes. A round that finds more in use than wanted removes, so that the use stays where it is.
//! Everything is in virtual time: the same seed gives the same table. `fresh` is the same set of files after
//! the filling, before any round.
//!
//! Source of the method: K. A. Smith and M. I. Seltzer, "File System Aging", SIGMETRICS 1997.
//! `cargo bench -p granary-bytefs --bench aging -- 80` for one use, in percent.

use granary_bytefs::{Contiguity, MkfsOptions, MountOptions, mkfs, mount};
use granary_device::{Drive, Port};
use granary_fs::{Caller, Cred};
use granary_mssd::{DriveConfig, Mssd};
use granary_sim::World;
use granary_sim::rng::Stream;
use granary_units::{Bytes, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

const DRIVE: Bytes = Bytes::gib(1);
/// How often the drive's capacity is written.
const WRITTEN: u64 = 5;
const KIB: u64 = 1 << 10;

struct Aging {
    p: Process,
    vfs: Arc<Vfs>,
    s: Stream,
    /// Names and sizes.
    files: Vec<(u64, u64)>,
    next: u64,
    written: u64,
}

impl Aging {
    fn size(&mut self, least: u64, most: u64) -> u64 {
        let doubled = least << self.s.below((most / least).ilog2() as u64);
        doubled + self.s.below(doubled)
    }

    /// Writes `len` bytes of file `n` from `at` on.
    fn write(&mut self, n: u64, at: u64, len: u64) {
        let fd = self.p.open(format!("/f{n}"), OpenFlags::RDWR | OpenFlags::CREAT, 0o644).expect("opens");
        let fill = Payload::Fill { word: n + 1, len: len as usize };
        assert_eq!(self.p.pwrite(fd, fill, at), Ok(len as usize), "there is space");
        self.p.close(fd).expect("closes");
        self.written += len;
    }

    fn create(&mut self) {
        let (n, len) = (self.next, self.size(4 * KIB, 4096 * KIB));
        self.next += 1;
        self.write(n, 0, len);
        self.files.push((n, len));
    }

    fn append(&mut self) {
        let (i, len) = (self.s.below(self.files.len() as u64) as usize, self.size(4 * KIB, 256 * KIB));
        let (n, at) = self.files[i];
        self.write(n, at, len);
        self.files[i].1 += len;
    }

    fn cut(&mut self) {
        let i = self.s.below(self.files.len() as u64) as usize;
        let (n, len) = self.files[i];
        let to = self.s.below(len + 1);
        self.p.truncate(format!("/f{n}"), to).expect("cut");
        self.files[i].1 = to;
    }

    fn remove(&mut self) {
        let i = self.s.below(self.files.len() as u64) as usize;
        let (n, _) = self.files.swap_remove(i);
        self.p.unlink(format!("/f{n}")).expect("removed");
    }

    /// Data in use, percent of all blocks.
    fn used(&self) -> f64 {
        let s = self.vfs.statfs(&Caller::KERNEL).expect("statfs");
        (s.blocks - s.free_blocks) as f64 * 100.0 / s.blocks as f64
    }
}

fn drive() -> Arc<dyn Drive> {
    let mut config = DriveConfig::bytefs_emulator();
    config.flash = config.flash.with_capacity(DRIVE);
    Arc::new(Mssd::new(&config).expect("a drive"))
}

/// A file system at `percent` use, aged or not.
fn measure(percent: f64, aged: bool) -> Vec<Contiguity> {
    let drive = drive();
    let open = || mount(Port::new(drive.clone()), &MountOptions::default()).expect("mount");
    mkfs(&Port::new(drive.clone()), &MkfsOptions::default()).expect("mkfs");
    let vfs = Vfs::mount(open(), VfsConfig { page_cache: Bytes::mib(256), ..VfsConfig::default() });
    let vfs = vfs.expect("vfs");
    let p = Process::new(vfs.clone(), Cred::ROOT);
    let mut a = Aging { p, vfs, s: Stream::new(1, "aging"), files: Vec::new(), next: 0, written: 0 };
    while a.used() < percent {
        a.create();
    }
    while aged && a.written < WRITTEN * DRIVE.0 {
        match a.s.below(100) {
            _ if a.used() > percent => a.remove(),
            0..40 => a.create(),
            40..80 => a.append(),
            80..90 => a.cut(),
            _ => a.remove(),
        }
        if a.s.chance(0.01) {
            a.p.sync().expect("synced");
        }
    }
    let Aging { p, vfs, .. } = a;
    p.exit();
    vfs.unmount().expect("unmounts");
    drop(vfs);
    open().contiguity().expect("readable")
}

fn main() {
    let wanted: Vec<f64> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let all = if wanted.is_empty() { vec![50.0, 80.0, 90.0, 95.0] } else { wanted };
    println!("use, %          files  MiB/file   extents per file: mean    p50    p99    max   KiB/extent");
    for percent in all {
        for (aged, how) in [(false, "fresh"), (true, "aged")] {
            let files = World::default().run(move || measure(percent, aged)).expect("no deadlock");
            let mut extents: Vec<u64> = files.iter().filter(|f| f.blocks > 0).map(|f| f.extents).collect();
            extents.sort_unstable();
            let (n, sum) = (extents.len(), extents.iter().sum::<u64>());
            let mib = files.iter().map(|f| f.blocks).sum::<u64>() as f64 / 256.0;
            println!(
                "{percent:>6} {how:>6} {n:>7} {:>9.2} {:>24.2} {:>6} {:>6} {:>6} {:>12.0}",
                mib / n as f64,
                sum as f64 / n as f64,
                extents[n / 2],
                extents[n * 99 / 100],
                extents[n - 1],
                mib * 1024.0 / sum as f64,
            );
        }
    }
}
