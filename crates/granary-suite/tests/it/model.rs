//! The vfs on the memory file system behaves as the reference, whatever the size of its caches.

use granary_fs::{Call, Cred, FsError, Life};
use granary_sim::rng::Stream;
use granary_sim::{World, WorldConfig};
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_suite::model::{Generator, Mix, Op, Outcome, apply, compare_trees, run_sequence};
use granary_suite::reference::{Limits, RefFs, RefProcess};
use granary_units::{Bytes, Nanos};
use granary_vfs::{Posix, Process, Tracking, Vfs, VfsConfig, Whence};
use std::sync::Arc;

const LIMITS: Limits = Limits { max_file_size: 1 << 43, max_links: 5 };

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

fn memfs(page_cache: bool) -> Arc<MemFs> {
    let latency = Nanos::from_micros(10);
    Arc::new(MemFs::new(MemFsConfig { latency, page_cache, max_links: 5, ..MemFsConfig::default() }))
}

/// `count` calls, comparison of the trees, unmount, check; mount again, comparison again.
fn sequence(seed: u64, config: VfsConfig, page_cache: bool, mix: Mix, count: usize) {
    let world = World::new(WorldConfig { jitter: Nanos(50), seed, ..WorldConfig::default() });
    let result = world.run(move || {
        let fs = memfs(page_cache);
        let vfs = Vfs::mount(fs.clone(), config).map_err(|e| e.to_string())?;
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        run_sequence(&mut p, LIMITS, &mut Generator::new(seed, mix), count)?;
        let before = granary_suite::model::snapshot(&mut p).map_err(|e| e.to_string())?;
        p.exit();
        vfs.unmount().map_err(|e| format!("unmount: {e}"))?;
        let wrong = fs.check(&Call::offline()).map_err(|e| e.to_string())?;
        if !wrong.is_empty() {
            return Err(wrong.join("\n"));
        }
        let vfs = Vfs::mount(fs, config).map_err(|e| e.to_string())?;
        let mut p = Process::new(vfs, Cred::ROOT);
        let after = granary_suite::model::snapshot(&mut p).map_err(|e| e.to_string())?;
        if before == after { Ok(()) } else { Err("the tree is another after a remount".to_owned()) }
    });
    if let Err(why) = result.expect("no deadlock") {
        panic!("seed {seed}: {why}");
    }
}

#[test]
fn calls_behave_as_the_reference_with_tiny_caches() {
    for seed in 0..12 {
        sequence(seed, tiny(), true, Mix::default(), 4_000);
    }
}

/// Lines found by comparing pages with their duplicates: nothing that media hold differs from memory goes
/// missing.
#[test]
fn calls_behave_as_the_reference_with_duplicates() {
    let data = Mix { names: 1, attrs: 1, data: 12, ..Mix::default() };
    for seed in 600..608 {
        let config = VfsConfig { tracking: Tracking::Xor, ..tiny() };
        sequence(seed, config, true, if seed % 2 == 0 { data } else { Mix::default() }, 4_000);
    }
}

#[test]
fn calls_behave_as_the_reference_with_large_caches() {
    for seed in 100..106 {
        sequence(seed, VfsConfig::default(), true, Mix::default(), 4_000);
    }
}

#[test]
fn calls_behave_as_the_reference_without_a_page_cache() {
    for seed in 200..206 {
        sequence(seed, tiny(), false, Mix::default(), 4_000);
    }
}

#[test]
fn long_sparse_files_behave_as_the_reference() {
    let mix = Mix { names: 1, attrs: 1, data: 20, users: false, longest: 700_000, largest: 3_000_000 };
    let config = VfsConfig { page_cache: Bytes::kib(512), ..tiny() };
    for seed in 300..303 {
        sequence(seed, config, true, mix, 600);
    }
}

#[test]
fn permissions_and_names_behave_as_the_reference() {
    let mix = Mix { names: 10, attrs: 10, data: 1, ..Mix::default() };
    for seed in 400..410 {
        sequence(seed, tiny(), true, mix, 6_000);
    }
}

/// A call that the file system refuses leaves everything as it was. All is root's: a write by somebody else
/// takes the set-ID bits away before it fails, as in Linux.
#[test]
fn a_failed_call_changes_nothing() {
    for seed in 500..506 {
        let world = World::new(WorldConfig { seed, ..WorldConfig::default() });
        let result = world.run(move || {
            let fs = memfs(true);
            let vfs = Vfs::mount(fs.clone(), tiny()).map_err(|e| e.to_string())?;
            let mut p = Process::new(vfs, Cred::ROOT);
            let reference = Arc::new(parking_lot::Mutex::new(RefFs::new(LIMITS)));
            let mut expected = RefProcess::new(reference, Cred::ROOT);
            let mut generator = Generator::new(seed, Mix { users: false, ..Mix::default() });
            fs.set_faults(Some((Stream::new(seed, "faults"), 0.05)));
            let mut failed = 0;
            for _ in 0..4_000 {
                let op = generator.next_op();
                let outcome = apply(&mut p, &op);
                if outcome == Outcome::Failed(MemFs::injected()) {
                    failed += 1;
                } else {
                    let should = apply(&mut expected, &op);
                    let cut_short = match (&outcome, &should) {
                        // A read that meets an error after some bytes returns them.
                        (Outcome::Data(got), Outcome::Data(all)) => {
                            if let Op::Read { fd, .. } = op {
                                let at = p.lseek(fd, 0, Whence::Cur).map_err(|e| e.to_string())?;
                                expected.lseek(fd, at as i64, Whence::Set).map_err(|e| e.to_string())?;
                            }
                            !got.is_empty() && all.starts_with(got)
                        }
                        _ => false,
                    };
                    if outcome != should && !cut_short {
                        return Err(format!("{op:?}: {outcome:?} and should be {should:?}"));
                    }
                }
            }
            fs.set_faults(None);
            assert!(failed > 20, "only {failed} calls failed");
            compare_trees(&mut p, &mut expected)
        });
        if let Err(why) = result.expect("no deadlock") {
            panic!("seed {seed}: {why}");
        }
    }
}

/// The random calls do make files without a name, name them, and find that they cannot.
#[test]
fn files_without_a_name_are_made_and_named() {
    let (mut made, mut named, mut refused) = (0, 0, 0);
    for seed in 600..640 {
        let reference = Arc::new(parking_lot::Mutex::new(RefFs::new(LIMITS)));
        let mut p = RefProcess::new(reference, Cred::ROOT);
        let mut generator = Generator::new(seed, Mix::default());
        for _ in 0..1_000 {
            let op = generator.next_op();
            let had_no_name = match &op {
                Op::LinkOpen { fd, .. } => p.fstat(*fd).is_ok_and(|s| s.attr.nlink == 0),
                _ => false,
            };
            match (&op, apply(&mut p, &op)) {
                (Op::OpenUnnamed { .. }, Outcome::Fd(_)) => made += 1,
                (Op::LinkOpen { .. }, Outcome::Done) => named += u32::from(had_no_name),
                (Op::LinkOpen { .. }, Outcome::Failed(FsError::NoEntry)) => refused += u32::from(had_no_name),
                _ => {}
            }
        }
    }
    assert!(made > 100 && named > 5 && refused > 10, "{made} made, {named} named, {refused} refused");
}
