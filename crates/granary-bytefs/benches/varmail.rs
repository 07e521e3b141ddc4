//! Simulated vfs operations per second of wall time, over vfs, file system and drive: the varmail mix
//! (Table 5).
#![allow(clippy::disallowed_methods)] // measures the wall clock

use granary_bytefs::{MkfsOptions, MountOptions, mkfs, mount};
use granary_device::{Drive, Port};
use granary_fs::{Call, Caller, Cred, Life};
use granary_mssd::{DriveConfig, Mssd};
use granary_sim::rng::Stream;
use granary_sim::{World, WorldConfig, now, spawn};
use granary_units::{Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;
use std::time::Instant;

const TASKS: u64 = 12;
const FILES: u64 = 2_000;
const LOOPS: u64 = 3_000;

fn write(p: &mut Process, name: &str, flags: OpenFlags, len: usize) -> u64 {
    let fd = p.open(name, flags | OpenFlags::WRONLY | OpenFlags::APPEND, 0o644).expect("open");
    p.write(fd, Payload::Fill { word: 0x6162_6364, len }).expect("write");
    p.fsync(fd).expect("fsync");
    p.close(fd).expect("close");
    4
}

fn read(p: &mut Process, name: &str) -> u64 {
    let fd = p.open(name, OpenFlags::RDONLY, 0).expect("open");
    p.read(fd, Dest::Discard(1 << 20)).expect("read");
    p.close(fd).expect("close");
    3
}

fn task(vfs: Arc<Vfs>, t: u64) -> u64 {
    let mut p = Process::new(vfs, Cred::ROOT);
    let mut s = Stream::new(t, "varmail");
    let name = |n: u64| format!("/mail/{t}-{n}");
    let size = |s: &mut Stream| 1 + s.below(16 << 10) as usize;
    let mut ops = 0;
    let per_task = FILES / TASKS;
    for n in 0..per_task {
        ops += write(&mut p, &name(n), OpenFlags::CREAT, size(&mut s));
    }
    for _ in 0..LOOPS {
        let victim = name(s.below(per_task));
        p.unlink(&victim).expect("unlink");
        ops += 1 + write(&mut p, &victim, OpenFlags::CREAT, size(&mut s));
        let other = name(s.below(per_task));
        ops += read(&mut p, &other);
        ops += write(&mut p, &other, OpenFlags::empty(), size(&mut s));
        ops += read(&mut p, &name(s.below(per_task)));
    }
    ops
}

fn main() {
    let config = WorldConfig { stack: 512 << 10, ..WorldConfig::default() };
    let (result, stats) = World::new(config).run_stats(|| {
        let drive: Arc<dyn Drive> = Arc::new(Mssd::new(&DriveConfig::bytefs_emulator()).expect("a drive"));
        let port = Port::new(drive.clone());
        let begin = Instant::now();
        mkfs(&port, &MkfsOptions::default()).expect("mkfs");
        let made = begin.elapsed();
        let fs = mount(port, &MountOptions::default()).expect("mount");
        println!("mkfs {made:?}, mount {:?}", begin.elapsed() - made);
        let vfs = Vfs::mount(fs.clone(), VfsConfig::default()).expect("vfs");
        Process::new(vfs.clone(), Cred::ROOT).mkdir("/mail", 0o755).expect("mkdir");
        let (begin, start) = (Instant::now(), now());
        let tasks: Vec<_> = (0..TASKS)
            .map(|t| {
                let vfs = vfs.clone();
                spawn("mail", move || task(vfs, t))
            })
            .collect();
        let ops: u64 = tasks.into_iter().map(|t| t.join()).sum();
        let (wall, virtual_time) = (begin.elapsed(), now() - start);
        let rate = ops as f64 / wall.as_secs_f64();
        println!("{ops} operations in {wall:?}: {rate:.0}/s; virtual {virtual_time}, {:?}", fs.stats());
        assert!(virtual_time > Nanos::ZERO);
        let traffic = drive.traffic();
        println!("{traffic:?}");
        let begin = Instant::now();
        vfs.sync(&Caller::KERNEL).expect("sync");
        let bad = fs.check(&Call::offline()).expect("readable");
        println!("check {:?}: {bad:?}", begin.elapsed());
    });
    result.expect("no deadlock");
    println!("{stats:?}");
}
