//! Random calls behave as on the reference model, across remounts, with small caches and under many
//! schedules.

use super::{Mounted, Subject, drive, port, run_jittered};
use crate::model::{Generator, Mix, Op, apply, check_history, run_concurrently, run_sequence, snapshot};
use granary_fs::RenameFlags;
use granary_sim::rng::Stream;
use granary_units::{Bytes, Nanos};
use granary_vfs::OpenFlags;
use granary_vfs::VfsConfig;
use std::ops::Range;

/// Caches so small that everything is evicted and written back all the time.
pub fn tiny_caches() -> VfsConfig {
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

/// For each seed: `count` calls, compared one by one; check; clean remount; the same tree.
pub fn calls_behave_as_the_reference<S: Subject>(
    subject: &S,
    seeds: Range<u64>,
    config: VfsConfig,
    mix: Mix,
    count: usize,
) {
    for seed in seeds {
        let subject = subject.clone();
        let result = run_jittered(seed, move || {
            let drive = drive(Bytes::mib(256));
            subject.mkfs(&port(&drive)).map_err(|e| e.to_string())?;
            let m = Mounted::with(&subject, &drive, config);
            let mut p = m.process();
            run_sequence(&mut p, subject.limits(), &mut Generator::new(seed, mix), count)?;
            let before = snapshot(&mut p).map_err(|e| e.to_string())?;
            p.exit();
            m.check();
            m.unmount();
            let m = Mounted::with(&subject, &drive, config);
            assert!(m.was_clean(), "after an unmount: {:?}", m.recovery());
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

/// Mounts a small file system under a schedule of its own and hands it to `body`; then everything must be
/// sound.
fn crowd<S: Subject>(subject: &S, seed: u64, body: impl FnOnce(&Mounted<S>) -> Result<(), String> + 'static) {
    let subject = subject.clone();
    let result = run_jittered(seed, move || {
        let drive = drive(Bytes::mib(64));
        subject.mkfs(&port(&drive)).map_err(|e| e.to_string())?;
        let m = Mounted::with(&subject, &drive, tiny_caches());
        body(&m)?;
        m.check();
        m.remounted().check();
        Ok(())
    });
    if let Err::<(), String>(why) = result {
        panic!("seed {seed}: {why}");
    }
}

/// 64 tasks at once: some serial order explains what every one of them saw.
pub fn concurrent_calls_have_a_serial_order<S: Subject>(subject: &S) {
    for seed in 600..640 {
        crowd(subject, seed, move |m| {
            let mut rng = Stream::new(seed, "names");
            let setup = ["/d", "/e"].map(|d| Op::Mkdir { path: d.to_owned(), mode: 0o755 }).to_vec();
            let (tasks, calls) = [(64, 1), (12, 3), (4, 6)][seed as usize % 3];
            let tasks = (0..tasks).map(|_| (0..calls).map(|_| name_op(&mut rng)).collect()).collect();
            let history = run_concurrently(&m.vfs, setup, tasks)?;
            check_history(&history, m.subject.limits(), 100_000)
        });
    }
}

/// Any calls of 64 tasks at the same time: no lock cycle, no leak, nothing unsound.
pub fn any_calls_of_64_tasks_end_and_leave_a_sound_file_system<S: Subject>(subject: &S) {
    for seed in 700..712 {
        crowd(subject, seed, move |m| {
            let mix = Mix { names: 6, users: false, ..Mix::default() };
            let calls = |task| {
                let mut g = Generator::new(seed * 100 + task, mix);
                (0..25).map(|_| g.next_op()).collect()
            };
            run_concurrently(&m.vfs, Vec::new(), (0..64).map(calls).collect()).map(|_| ())
        });
    }
}

/// The same code on OS threads: no world, no virtual time.
pub fn threads_on_the_wall_clock_leave_a_sound_file_system<S: Subject>(subject: &S) {
    let drive = drive(Bytes::mib(256));
    subject.mkfs(&port(&drive)).expect("mkfs");
    let m = Mounted::with(subject, &drive, tiny_caches());
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
    m.settle();
    m.check();
    let m = m.remounted();
    m.check();
    m.unmount();
}
