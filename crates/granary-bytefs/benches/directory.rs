//! Processor time of an operation on a directory of 1,000 to 1,000,000 entries: it must not grow by more than
//! twice.
//!
//! ```text
//!   for each size: fill the directory | rounds of: create 1,000, look 1,000 random names up, unlink 1,000 |
//!                  readdir
//! ```
//!
//! Virtual time costs nothing here: what is measured is this program's own time (the thread's processor time,
//! so a busy machine disturbs little), on names of 15 bytes. The vfs keeps 256 names and inodes, so that its
//! caches answer nothing. `cargo bench -p granary-bytefs --bench directory -- 1000000` measures one size.

use granary_bytefs::{MkfsOptions, MountOptions, mkfs, mount};
use granary_device::{Drive, Port};
use granary_fs::{Caller, FileKind};
use granary_mssd::{DriveConfig, Mssd};
use granary_sim::World;
use granary_sim::rng::Stream;
use granary_units::Bytes;
use granary_vfs::{DirStream, NewFile, Vfs, VfsConfig};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;

/// As the command line, whose mounts this is about.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BATCH: u64 = 1_000;
const ROUNDS: u64 = 20;

fn name(n: u64) -> Vec<u8> {
    format!("file-{n:010}").into_bytes()
}

/// Nanoseconds of this thread's processor time that `f` takes.
fn time(f: impl FnOnce()) -> f64 {
    let now = || {
        let t = clock_gettime(ClockId::ThreadCPUTime);
        t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
    };
    let start = now();
    f();
    now() - start
}

fn measure(entries: u64) -> [f64; 4] {
    let mut config = DriveConfig::bytefs_emulator();
    config.flash = config.flash.with_capacity(Bytes::gib(4));
    let drive: Arc<dyn Drive> = Arc::new(Mssd::new(&config).expect("a drive"));
    let port = Port::new(drive);
    mkfs(&port, &MkfsOptions { inode_ratio: 2048, ..MkfsOptions::default() }).expect("mkfs");
    let fs = mount(port, &MountOptions::default()).expect("mount");
    let vfs = Vfs::mount(fs, VfsConfig { inodes: 256, dentries: 256, ..VfsConfig::default() }).expect("vfs");
    let root = vfs.root();
    let dir = vfs.create(&Caller::KERNEL, &root, b"dir", &NewFile::dir(0o755)).expect("mkdir");
    let make =
        |n: u64| drop(vfs.create(&Caller::KERNEL, &dir, &name(n), &NewFile::file(0o644)).expect("create"));
    (0..entries).for_each(make);
    let mut s = Stream::new(1, "directory");
    let (mut create, mut lookup, mut unlink, mut list) = (0.0, 0.0, 0.0, 0.0);
    for _ in 0..ROUNDS {
        create += time(|| (entries..entries + BATCH).for_each(make));
        let wanted: Vec<_> = (0..BATCH).map(|_| name(s.below(entries))).collect();
        lookup += time(|| {
            for name in &wanted {
                drop(vfs.lookup(&Caller::KERNEL, &dir, name).expect("there"));
            }
        });
        unlink += time(|| {
            for n in entries..entries + BATCH {
                vfs.unlink(&Caller::KERNEL, &dir, &name(n)).expect("unlink");
            }
        });
    }
    let mut seen = 0u64;
    while seen < ROUNDS * BATCH {
        let (mut from, stream) = (0, DirStream::default());
        list += time(|| {
            loop {
                let before = seen;
                vfs.readdir(&Caller::KERNEL, &dir, &stream, from, &mut |e| {
                    seen += u64::from(e.kind == FileKind::File);
                    from = e.next;
                    seen - before < 500
                })
                .expect("readdir");
                if seen == before {
                    break;
                }
            }
        });
    }
    assert_eq!(seen % entries, 0);
    drop(dir);
    drop(root);
    vfs.unmount().expect("unmount");
    let per = (ROUNDS * BATCH) as f64;
    [create / per, lookup / per, unlink / per, list / seen as f64]
}

fn main() {
    println!(
        "{:>9} {:>9} {:>9} {:>9} {:>9}   ns of processor time",
        "entries", "create", "lookup", "unlink", "readdir"
    );
    let wanted: Vec<u64> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let sizes = if wanted.is_empty() { vec![1_000, 10_000, 100_000, 1_000_000] } else { wanted };
    for entries in sizes {
        let row = World::default().run(move || measure(entries)).expect("no deadlock");
        println!("{entries:>9} {:>9.0} {:>9.0} {:>9.0} {:>9.0}", row[0], row[1], row[2], row[3]);
    }
}
