//! Tasks that share files and directories: every history has a serial order, whatever the schedule.

use granary_fs::{Call, Caller, Cred, Life, RenameFlags};
use granary_sim::rng::Stream;
use granary_sim::{World, WorldConfig, sleep, spawn};
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_suite::model::{
    Data, Event, Generator, History, Mix, Op, Outcome, apply, check_history, run_concurrently, snapshot,
};
use granary_suite::reference::{Limits, RefFs, RefProcess};
use granary_units::{Bytes, Nanos, Payload};
use granary_vfs::{Access, Fd, OpenFlags, Posix, Process, Vfs, VfsConfig};
use parking_lot::Mutex;
use std::sync::Arc;

const LIMITS: Limits = Limits { max_file_size: 1 << 43, max_links: 1000 };

fn config() -> VfsConfig {
    VfsConfig {
        page_cache: Bytes::kib(64),
        dirty_expire: Nanos::from_micros(100),
        writeback_interval: Nanos::from_micros(50),
        flushers: 2,
        dentries: 9,
        inodes: 4,
        ..VfsConfig::default()
    }
}

/// Runs the tasks in a schedule and checks the history and the file system.
fn check(seed: u64, setup: Vec<Op>, tasks: Vec<Vec<Op>>) {
    let world = World::new(WorldConfig { jitter: Nanos(2_000), seed, ..WorldConfig::default() });
    let result = world.run(move || {
        let latency = Nanos::from_micros(1);
        let fs = Arc::new(MemFs::new(MemFsConfig { latency, max_links: 1000, ..MemFsConfig::default() }));
        let vfs = Vfs::mount(fs.clone(), config()).map_err(|e| e.to_string())?;
        let history = run_concurrently(&vfs, setup, tasks)?;
        vfs.unmount().map_err(|e| format!("unmount: {e}"))?;
        let wrong = fs.check(&Call::offline()).map_err(|e| e.to_string())?;
        if !wrong.is_empty() {
            return Err(wrong.join("\n"));
        }
        check_history(&history, LIMITS, 200_000)
    });
    if let Err(why) = result.expect("no deadlock") {
        panic!("seed {seed}: {why}");
    }
}

/// A flusher waits while `sync` writes a removed file back, finds nothing left to write, and is the file's
/// last user: it frees it, since nobody else may ever call.
#[test]
fn a_flusher_frees_the_removed_file_that_it_was_the_last_to_use() {
    World::new(WorldConfig::default())
        .run(|| {
            let latency = Nanos::from_millis(1);
            let fs = Arc::new(MemFs::new(MemFsConfig { latency, ..MemFsConfig::default() }));
            // Old enough for the flusher between the two pieces of `sync`.
            let config = VfsConfig {
                dirty_expire: Nanos::from_micros(9_500),
                writeback_interval: Nanos::from_micros(100),
                flushers: 1,
                ..VfsConfig::default()
            };
            let vfs = Vfs::mount(fs.clone(), config).expect("mount");
            let mut p = Process::new(vfs.clone(), Cred::ROOT);
            let fd = p.open_unnamed("/", OpenFlags::RDWR, 0o600).expect("open");
            // `sync` writes it in two pieces; the flusher comes during the first.
            p.write(fd, Payload::Bytes(&vec![1; 5 << 20])).expect("write");
            let syncing = vfs.clone();
            let sync = spawn("sync", move || syncing.sync(&Caller::KERNEL).expect("sync"));
            sleep(Nanos::from_millis(1));
            p.exit();
            sync.join();
            sleep(Nanos::from_millis(10));
            let wrong = fs.check(&Call::offline()).expect("check");
            assert!(wrong.is_empty(), "{wrong:?}");
            vfs.unmount().expect("unmount");
        })
        .expect("no deadlock");
}

fn mkdir(path: &str) -> Op {
    Op::Mkdir { path: path.to_owned(), mode: 0o755 }
}

fn create(path: &str) -> Op {
    Op::Open { path: path.to_owned(), flags: OpenFlags::CREAT | OpenFlags::RDWR, mode: 0o644 }
}

fn setup() -> Vec<Op> {
    let mut setup = vec![
        mkdir("/d"),
        mkdir("/e"),
        create("/a"),
        create("/d/b"),
        create("/e/c"),
        create("/s"),
        create("/d/s"),
    ];
    for fd in 0..3 {
        setup.push(Op::Pwrite { fd: Fd(fd), pos: 0, data: Data::Bytes { seed: fd as u8, len: 9_000 } });
    }
    setup
}

/// One call on names of one or two components. Nobody changes "/s" and "/d/s", which others link and look at.
fn name_op(rng: &mut Stream, directories: bool) -> Op {
    let dirs = ["", "/d", "/e"];
    let path = |rng: &mut Stream| {
        let name = ["a", "b", "c", "x", "y"][rng.below(5) as usize];
        format!("{}/{name}", dirs[rng.below(3) as usize])
    };
    let one = path(rng);
    let stable = ["/s", "/d/s"][rng.below(2) as usize].to_owned();
    match rng.below(14) {
        0 => create(&one),
        1 => {
            Op::Open { path: one, flags: OpenFlags::CREAT | OpenFlags::EXCL | OpenFlags::WRONLY, mode: 0o600 }
        }
        2 if directories => mkdir(&one),
        3 if directories => Op::Rmdir(one),
        2..5 => Op::Unlink(one),
        5..9 => {
            let flag = rng.below(6);
            let flags = RenameFlags { no_replace: flag == 0, exchange: flag == 1 };
            Op::Rename { from: one, to: path(rng), flags }
        }
        9 | 10 => Op::Link { old: stable, new: one },
        11 => Op::Chmod { path: stable, mode: 0o600 | rng.below(64) as u16 },
        12 => Op::Lstat(stable),
        _ => Op::Access { path: one, wanted: Access::empty() },
    }
}

#[test]
fn calls_on_names_have_a_serial_order() {
    for seed in 0..150 {
        let mut rng = Stream::new(seed, "names");
        let (tasks, calls) = [(64, 1), (12, 3), (4, 6)][seed as usize % 3];
        let tasks = (0..tasks).map(|_| (0..calls).map(|_| name_op(&mut rng, true)).collect()).collect();
        check(seed, setup(), tasks);
    }
}

#[test]
fn reads_and_writes_of_one_file_have_a_serial_order() {
    for seed in 0..150 {
        let mut rng = Stream::new(seed, "data");
        let flags = [
            OpenFlags::RDWR,
            OpenFlags::RDWR | OpenFlags::APPEND,
            OpenFlags::RDWR | OpenFlags::DIRECT,
            OpenFlags::RDWR | OpenFlags::SYNC,
        ];
        let tasks = (0..12)
            .map(|task| {
                let flags = flags[rng.below(4) as usize];
                let mut ops = vec![Op::Open { path: "/a".to_owned(), flags, mode: 0 }];
                for call in 0..2 {
                    let (fd, pos) = (Fd(0), rng.below(12_000));
                    let len = 1 + rng.below(6_000) as usize;
                    ops.push(match rng.below(8) {
                        0..3 => Op::Pwrite { fd, pos, data: Data::Bytes { seed: task * 2 + call, len } },
                        3..6 => Op::Pread { fd, pos, len },
                        6 => Op::Ftruncate { fd, size: pos },
                        _ => Op::Fsync { fd, data_only: false },
                    });
                }
                ops
            })
            .collect();
        check(seed, setup(), tasks);
    }
}

/// Nothing to compare, only: no lock cycle, no broken contract, no leak, whatever is called at the same time.
#[test]
fn any_calls_at_the_same_time_end_and_leave_a_sound_file_system() {
    for seed in 0..150 {
        let world = World::new(WorldConfig { jitter: Nanos(3_000), seed, ..WorldConfig::default() });
        let result = world.run(move || {
            let latency = Nanos::from_micros(1);
            let fs = Arc::new(MemFs::new(MemFsConfig { latency, ..MemFsConfig::default() }));
            let vfs = Vfs::mount(fs.clone(), config()).map_err(|e| e.to_string())?;
            let tasks = (0..8)
                .map(|task| {
                    let mix = Mix { names: 6, users: false, ..Mix::default() };
                    let mut generator = Generator::new(seed * 100 + task, mix);
                    (0..60).map(|_| generator.next_op()).collect()
                })
                .collect();
            run_concurrently(&vfs, Vec::new(), tasks)?;
            vfs.unmount().map_err(|e| format!("unmount: {e}"))?;
            let wrong = fs.check(&Call::offline()).map_err(|e| e.to_string())?;
            if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
        });
        if let Err(why) = result.expect("no deadlock") {
            panic!("seed {seed}: {why}");
        }
    }
}

/// A crowd opens a name while a rename in its directory is under way, waits for it, and reads the file that
/// came to the name. All opens have to be placed behind the rename. To try each at both sides of it would
/// take too long.
#[test]
fn opens_that_waited_for_a_rename_are_explained() {
    let open = || Op::Open { path: "/d/b".to_owned(), flags: OpenFlags::RDWR, mode: 0o600 };
    let event =
        |op, outcome, start, end, hint| Event { op, outcome, start: Nanos(start), end: Nanos(end), hint };
    let flags = RenameFlags { no_replace: false, exchange: true };
    let rename = Op::Rename { from: "/c".to_owned(), to: "/d/b".to_owned(), flags };
    let write = Op::Pwrite { fd: Fd(0), pos: 0, data: Data::Bytes { seed: 1, len: 10 } };
    let opened = || Outcome::Fd(Fd(0));
    let mut tasks = vec![
        vec![event(open(), opened(), 0, 20, None), event(write.clone(), Outcome::Count(10), 20, 40, Some(0))],
        vec![event(rename.clone(), Outcome::Done, 1, 95, Some(1))],
    ];
    tasks.resize_with(18, || {
        let read = Op::Pread { fd: Fd(0), pos: 0, len: 10 };
        vec![event(open(), opened(), 0, 100, None), event(read, Outcome::Data(Vec::new()), 100, 101, None)]
    });
    let setup = vec![mkdir("/d"), create("/d/b"), create("/c")];
    let mut p = RefProcess::new(Arc::new(Mutex::new(RefFs::new(LIMITS))), Cred::ROOT);
    for op in setup.iter().chain(&[open(), write, rename]) {
        // The third descriptor of this process is the first of the writer's.
        let op = if let Op::Pwrite { pos, data, .. } = op {
            Op::Pwrite { fd: Fd(2), pos: *pos, data: *data }
        } else {
            op.clone()
        };
        apply(&mut p, &op);
    }
    let tree = snapshot(&mut p).expect("the reference does not fail root");
    assert_eq!(check_history(&History { setup, tasks, tree }, LIMITS, 200_000), Ok(()));
}
