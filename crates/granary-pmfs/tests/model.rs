//! Random calls behave as on the reference model, across remounts, with small caches and under many schedules.

mod common;

use common::{Mounted, drive, run_jittered, sound};
use granary_pmfs::{MAX_FILE_SIZE, MkfsOptions, MountOptions, mkfs};
use granary_sim::rng::Stream;
use granary_units::{Bytes, Nanos};
use granary_vfs::model::{
    Generator, Mix, Op, apply, check_history, run_concurrently, run_sequence, snapshot,
};
use granary_vfs::reference::Limits;
use granary_vfs::{OpenFlags, RenameFlags, VfsConfig};

const LIMITS: Limits = Limits { max_file_size: MAX_FILE_SIZE, max_links: 65000 };

/// Caches so small that everything is evicted and written back all the time.
fn tiny() -> VfsConfig {
    VfsConfig {
        page_cache: Bytes::kib(64),
        dirty_expire: Nanos::from_micros(300),
        writeback_interval: Nanos::from_micros(100),
        flushers: 3,
        dentries: 7,
        inodes: 3,
        ..VfsConfig::default()
    }
}

fn small(_seed: u64) -> MkfsOptions {
    MkfsOptions { journal: Some(Bytes::kib(64)), ..MkfsOptions::default() }
}

/// `count` calls, compared one by one; check; clean remount; the same tree.
fn sequence(seed: u64, config: VfsConfig, options: MountOptions, mix: Mix, count: usize) {
    let result = run_jittered(seed, move || {
        let drive = drive(Bytes::mib(256));
        mkfs(&common::port(&drive), &small(seed)).map_err(|e| e.to_string())?;
        let m = Mounted::with(&drive, &options, config);
        let mut p = m.process();
        run_sequence(&mut p, LIMITS, &mut Generator::new(seed, mix), count)?;
        let before = snapshot(&mut p).map_err(|e| e.to_string())?;
        p.exit();
        m.check();
        m.unmount();
        let m = Mounted::with(&drive, &options, config);
        assert!(m.fs.recovery().clean, "the lists were saved at unmount");
        let mut p = m.process();
        let after = snapshot(&mut p).map_err(|e| e.to_string())?;
        p.exit();
        m.check();
        if before == after { Ok(()) } else { Err("the tree is another after a remount".to_owned()) }
    });
    if let Err(why) = result {
        panic!("seed {seed}: {why}");
    }
}

#[test]
fn calls_behave_as_the_reference_with_tiny_caches() {
    for seed in 0..6 {
        sequence(seed, tiny(), MountOptions::default(), Mix::default(), 3_000);
    }
}

#[test]
fn calls_behave_as_the_reference_with_large_caches() {
    for seed in 100..104 {
        sequence(seed, VfsConfig::default(), MountOptions::default(), Mix::default(), 4_000);
    }
}

#[test]
fn long_sparse_files_behave_as_the_reference() {
    let mix = Mix { names: 1, attrs: 1, data: 20, users: false, longest: 700_000, largest: 3_000_000 };
    let config = VfsConfig { page_cache: Bytes::kib(512), ..tiny() };
    for seed in 300..302 {
        sequence(seed, config, MountOptions::default(), mix, 600);
    }
}

#[test]
fn names_behave_as_the_reference() {
    let mix = Mix { names: 10, attrs: 2, data: 1, ..Mix::default() };
    for seed in 400..404 {
        sequence(seed, tiny(), MountOptions::default(), mix, 4_000);
    }
}

/// One call on names of two components of which only the last changes: atomic, so that a serial order exists.
fn name_op(rng: &mut Stream) -> Op {
    let path = |rng: &mut Stream| {
        let name = ["a", "b", "c", "x", "y"][rng.below(5) as usize];
        format!("{}/{name}", ["", "/d", "/e"][rng.below(3) as usize])
    };
    let (one, two) = (path(rng), path(rng));
    match rng.below(9) {
        0 | 1 => Op::Open { path: one, flags: OpenFlags::CREAT | OpenFlags::RDWR, mode: 0o644 },
        2 => Op::Mkdir { path: one, mode: 0o755 },
        3 => Op::Rmdir(one),
        4 => Op::Unlink(one),
        _ => {
            let flag = rng.below(4);
            let flags = RenameFlags { no_replace: flag == 0, exchange: flag == 1 };
            Op::Rename { from: one, to: two, flags }
        }
    }
}

/// Mounts a small file system under a schedule of its own and hands it to `body`; then everything must be sound.
fn crowd(seed: u64, body: impl FnOnce(&Mounted) -> Result<(), String> + 'static) {
    let result = run_jittered(seed, move || {
        let drive = drive(Bytes::mib(64));
        mkfs(&common::port(&drive), &small(seed)).map_err(|e| e.to_string())?;
        let m = Mounted::with(&drive, &MountOptions::default(), tiny());
        body(&m)?;
        m.check();
        m.unmount();
        sound(&*Mounted::again(&drive).fs);
        Ok(())
    });
    if let Err::<(), String>(why) = result {
        panic!("seed {seed}: {why}");
    }
}

/// 64 tasks at once: some serial order explains what every one of them saw.
#[test]
fn concurrent_calls_have_a_serial_order() {
    for seed in 600..640 {
        crowd(seed, move |m| {
            let mut rng = Stream::new(seed, "names");
            let setup = ["/d", "/e"].map(|d| Op::Mkdir { path: d.to_owned(), mode: 0o755 }).to_vec();
            let (tasks, calls) = [(64, 1), (12, 3), (4, 6)][seed as usize % 3];
            let tasks = (0..tasks).map(|_| (0..calls).map(|_| name_op(&mut rng)).collect()).collect();
            let history = run_concurrently(&m.vfs, setup, tasks)?;
            check_history(&history, LIMITS, 100_000)
        });
    }
}

/// Any calls of 64 tasks at the same time: no lock cycle, no leak, nothing unsound.
#[test]
fn any_calls_of_64_tasks_end_and_leave_a_sound_file_system() {
    for seed in 700..712 {
        crowd(seed, move |m| {
            let tasks = (0..64)
                .map(|task| {
                    let mut g =
                        Generator::new(seed * 100 + task, Mix { names: 6, users: false, ..Mix::default() });
                    (0..25).map(|_| g.next_op()).collect()
                })
                .collect();
            run_concurrently(&m.vfs, Vec::new(), tasks).map(|_| ())
        });
    }
}

/// The same code on OS threads: no world, no virtual time.
#[test]
fn threads_on_the_wall_clock_leave_a_sound_file_system() {
    let drive = drive(Bytes::mib(256));
    mkfs(&common::port(&drive), &small(1)).expect("mkfs");
    let m = Mounted::with(&drive, &MountOptions::default(), tiny());
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let mut p = m.process();
            granary_sim::spawn("thread", move || {
                let mut g = Generator::new(task, Mix { users: false, ..Mix::default() });
                for _ in 0..600 {
                    apply(&mut p, &g.next_op());
                }
                p.exit();
            })
        })
        .collect();
    tasks.into_iter().for_each(|t| t.join());
    m.check();
    m.unmount();
    let again = Mounted::again(&drive);
    assert!(again.fs.recovery().clean);
    sound(&*again.fs);
    again.unmount();
}
