//! Under the vfs: calls behave as the reference, histories of concurrent calls have a serial order, and a
//! remount shows the same tree.

use crate::common::{assert_clean, format, open, small_mssd, strict};
use granary_bytefs::{ByteFs, CommitMode, DataMode, MountOptions, Policy};
use granary_device::Drive;
use granary_fs::{Caller, Cred, RenameFlags};
use granary_sim::rng::Stream;
use granary_sim::{World, WorldConfig};
use granary_suite::model::{Generator, Mix, Op, check_history, run_concurrently, run_sequence, snapshot};
use granary_suite::reference::Limits;
use granary_units::{Bytes, Nanos};
use granary_vfs::{OpenFlags, Process, Tracking, Vfs, VfsConfig};
use std::sync::Arc;

const LIMITS: Limits = Limits { max_file_size: 1 << 44, max_links: u32::MAX - 1 };

/// Caches so small that everything is evicted and written back all the time.
fn tiny() -> VfsConfig {
    VfsConfig {
        page_cache: Bytes::kib(256),
        dirty_expire: Nanos::from_micros(300),
        writeback_interval: Nanos::from_micros(100),
        flushers: 3,
        dentries: 7,
        inodes: 3,
        ..VfsConfig::default()
    }
}

fn options(seed: u64) -> MountOptions {
    let commit = if seed.is_multiple_of(3) { CommitMode::Sync } else { CommitMode::Group };
    let data = if seed % 4 == 1 { DataMode::Journal } else { DataMode::Ordered };
    let policy = if seed % 5 == 2 { Policy::Cost } else { Policy::Ratio };
    MountOptions {
        commit,
        data,
        policy,
        metadata_cache: Bytes::kib(64),
        max_free_lines: 2,
        commit_batch: 9,
        ..MountOptions::default()
    }
}

fn unmount(vfs: &Arc<Vfs>, fs: &ByteFs) {
    vfs.sync(&Caller::KERNEL).expect("synced");
    assert_clean(fs);
    vfs.unmount().expect("unmounted");
}

/// `count` calls, comparison of the trees, check, unmount; mount again, comparison again.
fn sequence(drive: Arc<dyn Drive>, seed: u64, config: VfsConfig, mix: Mix, count: usize) {
    let world = World::new(WorldConfig { jitter: Nanos(50), seed, ..WorldConfig::default() });
    let result = world.run(move || {
        format(&drive);
        let fs = open(&drive, &options(seed));
        let vfs = Vfs::mount(fs.clone(), config).map_err(|e| e.to_string())?;
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        run_sequence(&mut p, LIMITS, &mut Generator::new(seed, mix), count)?;
        let before = snapshot(&mut p).map_err(|e| e.to_string())?;
        p.exit();
        unmount(&vfs, &fs);
        let fs = open(&drive, &options(seed));
        let vfs = Vfs::mount(fs.clone(), config).map_err(|e| e.to_string())?;
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        let after = snapshot(&mut p).map_err(|e| e.to_string())?;
        p.exit();
        unmount(&vfs, &fs);
        if before == after { Ok(()) } else { Err("the tree is another after a remount".to_owned()) }
    });
    if let Err(why) = result.expect("no deadlock") {
        panic!("seed {seed}: {why}");
    }
}

#[test]
fn calls_behave_as_the_reference() {
    for seed in 0..6 {
        sequence(strict(64), seed, tiny(), Mix::default(), 2_500);
    }
    for seed in 100..103 {
        sequence(small_mssd(64), seed, tiny(), Mix::default(), 2_500);
    }
    for seed in 200..203 {
        sequence(small_mssd(64), seed, VfsConfig::default(), Mix::default(), 2_500);
    }
    for seed in 300..303 {
        let config = VfsConfig { tracking: Tracking::Xor, ..tiny() };
        sequence(small_mssd(64), seed, config, Mix { data: 20, ..Mix::default() }, 2_500);
    }
}

#[test]
fn long_sparse_files_behave_as_the_reference() {
    let mix = Mix { names: 1, attrs: 1, data: 20, users: false, longest: 700_000, largest: 3_000_000 };
    let config = VfsConfig { page_cache: Bytes::mib(1), ..tiny() };
    for seed in 300..303 {
        sequence(small_mssd(256), seed, config, mix, 400);
    }
}

/// Runs the tasks in a schedule and checks the history and the file system.
fn history(seed: u64, setup: Vec<Op>, tasks: Vec<Vec<Op>>, limit: Option<u64>) {
    let world = World::new(WorldConfig { jitter: Nanos(2_000), seed, ..WorldConfig::default() });
    let result = world.run(move || {
        let drive = if seed.is_multiple_of(2) { strict(32) } else { small_mssd(32) };
        format(&drive);
        let fs = open(&drive, &options(seed));
        let vfs = Vfs::mount(fs.clone(), tiny()).map_err(|e| e.to_string())?;
        let history = run_concurrently(&vfs, setup, tasks)?;
        unmount(&vfs, &fs);
        drive.check().map_err(|e| e.join("; "))?;
        limit.map_or(Ok(()), |limit| check_history(&history, LIMITS, limit as usize))
    });
    if let Err(why) = result.expect("no deadlock") {
        panic!("seed {seed}: {why}");
    }
}

#[test]
fn calls_on_names_have_a_serial_order() {
    for seed in 0..40 {
        let mut rng = Stream::new(seed, "names");
        let dir = |path: &str| Op::Mkdir { path: path.to_owned(), mode: 0o755 };
        let create = |path: String| Op::Open { path, flags: OpenFlags::CREAT | OpenFlags::RDWR, mode: 0o644 };
        let setup = vec![dir("/d"), dir("/e"), create("/a".to_owned()), create("/d/b".to_owned())];
        let path = |rng: &mut Stream| {
            let name = ["a", "b", "c", "x"][rng.below(4) as usize];
            format!("{}/{name}", ["", "/d", "/e"][rng.below(3) as usize])
        };
        let op = |rng: &mut Stream| {
            let one = path(rng);
            match rng.below(10) {
                0 | 1 => create(one),
                2 => dir(&one),
                3 => Op::Rmdir(one),
                4 => Op::Unlink(one),
                5..8 => {
                    let flags = RenameFlags { no_replace: false, exchange: rng.chance(0.3) };
                    Op::Rename { from: one, to: path(rng), flags }
                }
                // No lstat and no link: as in Linux they find an inode and then use it, which another call
                // may come between; no serial order explains that.
                _ => Op::Symlink { target: "nowhere".to_owned(), path: one },
            }
        };
        let (tasks, calls) = [(20, 1), (8, 3), (4, 6)][seed as usize % 3];
        let tasks = (0..tasks).map(|_| (0..calls).map(|_| op(&mut rng)).collect()).collect();
        history(seed, setup, tasks, Some(100_000));
    }
}

/// Nothing to compare, only: no lock cycle, no leak, whatever is called at the same time.
#[test]
fn any_calls_at_the_same_time_end_and_leave_a_sound_file_system() {
    for seed in 0..30 {
        let tasks = (0..16)
            .map(|task| {
                let mix = Mix { names: 6, users: false, ..Mix::default() };
                let mut generator = Generator::new(seed * 100 + task, mix);
                (0..50).map(|_| generator.next_op()).collect()
            })
            .collect();
        history(seed, Vec::new(), tasks, None);
    }
}
