//! Cost of the vfs itself: a varmail-like mix (delete, create + append + fsync, open + read + append + fsync,
//! open + read whole file) on the memory file system in virtual time, in calls per second of one real core.

#![allow(missing_docs)] // made by criterion_group!

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use granary_fs::Cred;
use granary_sim::World;
use granary_sim::rng::Stream;
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_units::{Dest, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::hint::black_box;
use std::sync::Arc;

const FILES: u64 = 1_000;
const LOOPS: u64 = 2_000;
/// Calls of one loop: see `one_loop`.
const CALLS: u64 = 1 + 4 + 5 + 3;

fn path(n: u64) -> String {
    format!("/bigfileset/{:08}/{:08}", n % 20, n)
}

fn one_loop(p: &mut Process, rng: &mut Stream) {
    let word = Payload::Fill { word: 0x0123_4567_89ab_cdef, len: 16_384 };
    let append = OpenFlags::RDWR | OpenFlags::CREAT | OpenFlags::APPEND;
    let n = rng.below(FILES);
    let _ = black_box(p.unlink(path(n)));
    let fd = p.open(path(n), append, 0o644).expect("create");
    p.write(fd, word).expect("write");
    p.fsync(fd).expect("fsync");
    p.close(fd).expect("close");
    let fd = p.open(path(rng.below(FILES)), append, 0o644).expect("open");
    p.read(fd, Dest::Discard(1 << 20)).expect("read");
    p.write(fd, word).expect("write");
    p.fsync(fd).expect("fsync");
    p.close(fd).expect("close");
    let fd = p.open(path(rng.below(FILES)), OpenFlags::RDONLY, 0).expect("open");
    p.read(fd, Dest::Discard(1 << 20)).expect("read");
    p.close(fd).expect("close");
}

fn fileset() -> Process {
    let fs = Arc::new(MemFs::new(MemFsConfig::default()));
    let vfs = Vfs::mount(fs, VfsConfig::default()).expect("mount");
    let mut p = Process::new(vfs, Cred::ROOT);
    p.mkdir("/bigfileset", 0o755).expect("mkdir");
    for n in 0..20 {
        p.mkdir(format!("/bigfileset/{n:08}"), 0o755).expect("mkdir");
    }
    for n in 0..FILES {
        let fd = p.open(path(n), OpenFlags::CREAT | OpenFlags::WRONLY, 0o644).expect("create");
        p.write(fd, Payload::Fill { word: n, len: 16_384 }).expect("write");
        p.close(fd).expect("close");
    }
    p
}

fn varmail(c: &mut Criterion) {
    let mut group = c.benchmark_group("vfs");
    group.throughput(Throughput::Elements(LOOPS * CALLS));
    group.sample_size(20);
    group.bench_function("varmail on memfs, calls", |b| {
        b.iter(|| {
            World::default()
                .run(|| {
                    let mut p = fileset();
                    let mut rng = Stream::new(1, "varmail");
                    for _ in 0..LOOPS {
                        one_loop(&mut p, &mut rng);
                    }
                })
                .expect("no deadlock")
        });
    });
    group.throughput(Throughput::Elements(100_000));
    group.bench_function("stat of a cached path", |b| {
        b.iter(|| {
            World::default()
                .run(|| {
                    let mut p = fileset();
                    let path = path(7);
                    for _ in 0..100_000 {
                        black_box(p.stat(&path).expect("stat"));
                    }
                })
                .expect("no deadlock")
        });
    });
    group.bench_function("pread of a cached page", |b| {
        b.iter(|| {
            World::default()
                .run(|| {
                    let mut p = fileset();
                    let fd = p.open(path(7), OpenFlags::RDONLY, 0).expect("open");
                    for _ in 0..100_000 {
                        black_box(p.pread(fd, Dest::Discard(4096), 4096).expect("pread"));
                    }
                })
                .expect("no deadlock")
        });
    });
    group.finish();
}

criterion_group!(benches, varmail);
criterion_main!(benches);
