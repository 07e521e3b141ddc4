//! Schedules: tasks that call at the same time, under random interleavings, against the reference file
//! system.
//!
//! ```text
//!   seed ── calls of some tasks on a few names ── virtual world with lock jitter ── history
//!        ── a serial order of it?
//! ```
//!
//! A task has a file open, through the page cache or past it, and perhaps mapped.
//!
//! Paths have one or two components of which only the last changes: a walk through a directory that others
//! rename is not one atomic call (see `granary_suite::model`).

use super::Job;
use super::power::choose;
use granary_crash::Target;
use granary_crash::target::{by_name, names};
use granary_fs::{Call, Caller, RenameFlags};
use granary_sim::rng::Stream;
use granary_sim::{World, WorldConfig};
use granary_suite::model::{Data, Op, check_history, run_concurrently};
use granary_suite::reference::Limits;
use granary_testbed::registry::FILE_SYSTEMS;
use granary_units::Nanos;
use granary_vfs::{Fd, MapHow, MapId, OpenFlags, Vfs};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

struct Schedules {
    name: String,
    fs: String,
    target: Arc<dyn Target>,
    done: AtomicU64,
}

/// One job for each file system.
pub(super) fn jobs(fs: &[String]) -> Result<Vec<Box<dyn Job>>, String> {
    let mut jobs: Vec<Box<dyn Job>> = Vec::new();
    for fs in choose("file system", fs, &names(FILE_SYSTEMS))? {
        let target = by_name(FILE_SYSTEMS, &fs).ok_or_else(|| format!("no file system '{fs}'"))?;
        let name = format!("schedules-{fs}");
        jobs.push(Box::new(Schedules { name, fs, target, done: AtomicU64::new(0) }));
    }
    Ok(jobs)
}

impl Job for Schedules {
    fn name(&self) -> &str {
        &self.name
    }

    fn explore(&self, seeds: Range<u64>) -> Vec<String> {
        let replay =
            |seed| format!("cargo xtask soak --kind schedules --fs {} --from {seed} --points 1", self.fs);
        seeds
            .filter_map(|seed| {
                self.done.fetch_add(1, Relaxed);
                let what = schedule(&self.target, seed).err()?;
                Some(format!("seed {seed}, {}: {what}\n  replay: {}", self.fs, replay(seed)))
            })
            .collect()
    }

    fn summary(&self) -> String {
        format!("{} schedules", self.done.load(Relaxed))
    }
}

fn pick<T: Copy>(random: &mut Stream, from: &[T]) -> T {
    from[random.below(from.len() as u64) as usize]
}

fn path(random: &mut Stream) -> String {
    format!("{}/{}", pick(random, &["", "/d", "/e"]), pick(random, &["a", "b", "c", "x"]))
}

fn open(path: String, flags: OpenFlags) -> Op {
    Op::Open { path, flags: OpenFlags::RDWR | flags, mode: 0o644 }
}

fn call(random: &mut Stream) -> Op {
    let (fd, pos, at) = (Fd(0), random.below(12_000), path(random));
    let len = 1 + random.below(6_000) as usize;
    let map = MapId(0);
    match random.below(26) {
        23 | 24 => Op::LinkOpen { fd: Fd(random.below(2) as u32), new: at },
        25 => Op::OpenUnnamed { dir: "/d".to_owned(), flags: OpenFlags::RDWR, mode: 0o644 },
        0 | 1 => open(at, pick(random, &[OpenFlags::CREAT, OpenFlags::CREAT | OpenFlags::EXCL])),
        2 | 3 => Op::Unlink(at),
        4..7 => {
            let flag = random.below(6);
            let flags = RenameFlags { no_replace: flag == 0, exchange: flag == 1 };
            Op::Rename { from: at, to: path(random), flags }
        }
        7 | 8 => Op::Link { old: "/keep".to_owned(), new: at },
        9 => Op::Symlink { target: "nowhere".to_owned(), path: at },
        10 | 11 => Op::Fsync { fd, data_only: random.chance(0.5) },
        12 => Op::Ftruncate { fd, size: pos },
        13..16 => Op::Pwrite { fd, pos, data: Data::Bytes { seed: random.next_u64() as u8, len } },
        16 | 17 => Op::Pread { fd, pos, len },
        // Where the task has a mapping; else they are faults.
        18..21 => Op::MapStore { map, at: pos, data: Data::Bytes { seed: random.next_u64() as u8, len } },
        21 => Op::MapLoad { map, at: pos, len },
        _ => Op::Msync { map, at: 4096, len: 8192, wait: true },
    }
}

/// A call that only changes names: in a crowd of 64 tasks the search for a serial order stays short with
/// these.
fn name_call(random: &mut Stream) -> Op {
    let at = path(random);
    match random.below(6) {
        0 | 1 => open(at, pick(random, &[OpenFlags::CREAT, OpenFlags::CREAT | OpenFlags::EXCL])),
        2 => Op::Mkdir { path: at, mode: 0o755 },
        3 => Op::Rmdir(at),
        4 => Op::Unlink(at),
        _ => Op::Rename { from: at, to: path(random), flags: RenameFlags::default() },
    }
}

/// Runs and checks one schedule.
fn schedule(target: &Arc<dyn Target>, seed: u64) -> Result<(), String> {
    let mut random = Stream::new(seed, "schedules");
    let mkdir = |path: &str| Op::Mkdir { path: path.to_owned(), mode: 0o755 };
    let mut setup = vec![mkdir("/d"), mkdir("/e")];
    setup.extend(["/a", "/d/b", "/e/c", "/keep"].map(|p| open(p.to_owned(), OpenFlags::CREAT)));
    setup.push(Op::Pwrite { fd: Fd(0), pos: 0, data: Data::Bytes { seed: 1, len: 9_000 } });
    let (tasks, calls) = pick(&mut random, &[(64, 1), (12, 1), (6, 3), (3, 5)]);
    let tasks: Vec<Vec<Op>> = (0..tasks)
        .map(|_| {
            if tasks == 64 {
                return vec![name_call(&mut random)];
            }
            let flags = pick(&mut random, &[OpenFlags::empty(), OpenFlags::empty(), OpenFlags::DIRECT]);
            let first = open(pick(&mut random, &["/a", "/d/b"]).to_owned(), flags);
            let how = MapHow { shared: true, write: true };
            let map = Op::Mmap { fd: Fd(0), pos: 0, len: 20_480, how };
            let map = random.chance(0.5).then_some(map);
            std::iter::once(first).chain(map).chain((0..calls).map(|_| call(&mut random))).collect()
        })
        .collect();
    let config = WorldConfig { jitter: Nanos(3_000), seed, costs: target.costs(), ..WorldConfig::default() };
    let target = Arc::clone(target);
    let main = move || {
        let devices = target.devices(seed);
        target.mkfs(&devices).map_err(|e| format!("mkfs: {e}"))?;
        let fs = target.mount(&devices).map_err(|e| format!("mount: {e}"))?;
        let features = fs.features();
        let vfs = Vfs::mount(Arc::clone(&fs), target.vfs()).map_err(|e| format!("vfs: {e}"))?;
        let history = run_concurrently(&vfs, setup, tasks)?;
        vfs.sync(&Caller::KERNEL).map_err(|e| format!("sync: {e}"))?;
        let wrong = fs.check(&Call::offline()).map_err(|e| format!("check: {e}"))?;
        if !wrong.is_empty() {
            return Err(wrong.join("\n"));
        }
        vfs.unmount().map_err(|e| format!("unmount: {e}"))?;
        let limits = Limits { max_file_size: features.max_file_size, max_links: features.max_links };
        check_history(&history, limits, 200_000)
    };
    match catch_unwind(AssertUnwindSafe(|| World::new(config).run(main))) {
        Ok(Ok(result)) => result,
        Ok(Err(stop)) => Err(stop.to_string()),
        Err(panic) => Err(granary_crash::panic_text(&*panic)),
    }
}
