//! Processor time of an operation on a directory of 1,000 to 1,000,000 entries: it must not grow (issue 5: within 2x).
//!
//! ```text
//!   for each size: fill the directory | time batches of lookup, create, unlink, readdir, drop the index and load it
//! ```
//!
//! Virtual time costs nothing here: what is measured is this program's own time, on names of 15 bytes in random order.

use granary_bytefs::{MkfsOptions, MountOptions, mkfs, mount};
use granary_mssd::{Drive, DriveConfig, Mssd, Port};
use granary_sim::World;
use granary_sim::rng::Stream;
use granary_units::Bytes;
use granary_vfs::{Cred, FileKind, NewFile, Vfs, VfsConfig};
use std::sync::Arc;
use std::time::Instant;

const BATCH: u64 = 20_000;

fn name(n: u64) -> Vec<u8> {
    format!("file-{n:010}").into_bytes()
}

#[allow(clippy::disallowed_methods)] // a benchmark
fn time(mut f: impl FnMut()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_nanos() as f64
}

fn measure(entries: u64) -> [f64; 4] {
    let mut config = DriveConfig::bytefs_emulator();
    config.flash = config.flash.with_capacity(Bytes::gib(4));
    let drive: Arc<dyn Drive> = Arc::new(Mssd::new(&config).expect("a drive"));
    let port = Port::new(drive);
    mkfs(&port, &MkfsOptions { inode_ratio: 2048, ..MkfsOptions::default() }).expect("mkfs");
    let fs = mount(port, &MountOptions::default()).expect("mount");
    let vfs =
        Vfs::mount(fs, VfsConfig { inodes: 4096, dentries: 4096, ..VfsConfig::default() }).expect("vfs");
    let (cred, root) = (Cred::ROOT, vfs.root());
    let dir = vfs.create(&cred, &root, b"dir", &NewFile::dir(0o755)).expect("mkdir");
    let make = |n: u64| drop(vfs.create(&cred, &dir, &name(n), &NewFile::file(0o644)).expect("create"));
    (0..entries).for_each(make);
    let mut s = Stream::new(1, "directory");
    let create = time(|| (entries..entries + BATCH).for_each(make));
    let lookup = time(|| {
        for _ in 0..BATCH {
            let n = s.below(entries);
            drop(vfs.lookup(&cred, &dir, &name(n)).expect("there"));
        }
    });
    let unlink = time(|| {
        for n in entries..entries + BATCH {
            vfs.unlink(&cred, &dir, &name(n)).expect("unlink");
        }
    });
    let (mut seen, mut from) = (0u64, 0);
    let list = time(|| {
        loop {
            let before = seen;
            vfs.readdir(&dir, from, &mut |e| {
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
    assert_eq!(seen, entries);
    drop(dir);
    drop(root);
    vfs.unmount().expect("unmount");
    let per = BATCH as f64;
    [create / per, lookup / per, unlink / per, list / seen as f64]
}

fn main() {
    println!(
        "{:>9} {:>9} {:>9} {:>9} {:>9}   ns of processor time",
        "entries", "create", "lookup", "unlink", "readdir"
    );
    for entries in [1_000, 10_000, 100_000, 1_000_000] {
        let row = World::default().run(move || measure(entries)).expect("no deadlock");
        println!("{entries:>9} {:>9.0} {:>9.0} {:>9.0} {:>9.0}", row[0], row[1], row[2], row[3]);
    }
}
