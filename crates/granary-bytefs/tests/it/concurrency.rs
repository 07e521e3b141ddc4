//! Many tasks at once: in virtual time with random schedules, and on real threads.

use crate::common::client::{Client, bytes};
use crate::common::{assert_clean, format, open, small_cached, small_mssd, strict};
use granary_bytefs::{CommitMode, MountOptions, Variant};
use granary_device::Drive;
use granary_fs::{Call, FileKind, Life};
use granary_sim::rng::Stream;
use granary_sim::{World, WorldConfig, spawn};
use granary_units::Nanos;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Each task works in a shared and an own directory; afterwards exactly the names and contents that it left
/// are there.
fn work(drive: Arc<dyn Drive>, options: MountOptions, seed: u64, tasks: usize, rounds: usize) {
    format(&drive);
    let fs = open(&drive, &options);
    let c = Arc::new(Client::new(fs.clone()));
    let shared = c.make(&c.root(), b"shared", FileKind::Dir, &[]).expect("made");
    let handles: Vec<_> = (0..tasks)
        .map(|t| {
            let (c, shared) = (c.clone(), shared.clone());
            spawn("task", move || one_task(&c, &shared, seed, t, rounds))
        })
        .collect();
    let mut left = BTreeSet::new();
    for h in handles {
        left.extend(h.join());
    }
    fs.sync(&Call::offline()).expect("synced");
    assert_clean(&fs);
    assert_eq!(fs.stats().reserved_blocks, 0);
    fs.unmount(&Call::offline()).expect("unmounted");
    drive.check().expect("the drive is consistent");
    let fs = open(&drive, &options);
    let c = Client::new(fs.clone());
    let shared = c.lookup(&c.root(), b"shared").expect("readable").expect("there");
    let names: BTreeSet<Vec<u8>> = c.list(&shared).expect("readable").into_iter().map(|e| e.0).collect();
    assert_eq!(names, left.iter().map(|l| l.0.clone()).collect());
    for (name, content_seed, len) in left {
        let f = c.lookup(&shared, &name).expect("readable").expect("there");
        assert!(c.read(&f).expect("readable") == bytes(content_seed, len));
    }
    fs.unmount(&Call::offline()).expect("unmounted");
}

fn one_task(
    c: &Client,
    shared: &granary_fs::Inode,
    seed: u64,
    t: usize,
    rounds: usize,
) -> Vec<(Vec<u8>, u64, usize)> {
    let mut s = Stream::new(seed * 1000 + t as u64, "task");
    let own = c.make(&c.root(), format!("own {t}").as_bytes(), FileKind::Dir, &[]).expect("made");
    let mut left = Vec::new();
    for n in 0..rounds {
        let name = format!("{t}-{n}").into_bytes();
        let content_seed = s.next_u64();
        let len = 1 + s.below(20_000) as usize;
        let f = c.file(&own, &name).expect("created");
        c.write(&f, 0, &bytes(content_seed, len)).expect("written");
        if s.chance(0.5) {
            c.fs.fsync(&Call::offline(), &f, false).expect("synced");
        }
        c.rename(&own, &name, shared, &name, false).expect("renamed");
        if s.chance(0.4) {
            c.unlink(shared, &name, false).expect("removed");
        } else if s.chance(0.3) {
            c.link(&own, &name, &f).expect("linked");
            c.unlink(shared, &name, false).expect("removed");
            c.rename(&own, &name, shared, &name, false).expect("renamed");
            left.push((name, content_seed, len));
        } else {
            left.push((name, content_seed, len));
        }
        if s.chance(0.05) {
            c.fs.sync(&Call::offline()).expect("synced");
        }
    }
    left
}

#[test]
fn sixty_four_tasks_with_random_schedules_lose_nothing() {
    for seed in 0..6 {
        let config = WorldConfig { jitter: Nanos(3000), seed, ..WorldConfig::default() };
        let commit = if seed % 2 == 0 { CommitMode::Group } else { CommitMode::Sync };
        // Two lists for 64 tasks: bitmap lines are shared and conflict.
        let variant = if seed < 4 { Variant::Full } else { Variant::Dual };
        let options = MountOptions { variant, commit, cpus: 2, commit_batch: 16, ..MountOptions::default() };
        let drive = match seed {
            0 | 1 => small_mssd(128),
            2 | 3 => strict(128),
            _ => small_cached(128),
        };
        World::new(config).run(move || work(drive, options, seed, 64, 12)).expect("no deadlock");
    }
}

#[test]
fn real_threads_lose_nothing() {
    work(strict(64), MountOptions { cpus: 2, ..MountOptions::default() }, 9, 8, 60);
}

/// Time stamps that only memory knows are on their way to media when any `sync` returns, also one that began
/// while another was at work.
#[test]
fn a_sync_beside_a_sync_returns_no_earlier_than_its_work_is_done() {
    use granary_fs::Cred;
    use granary_units::Payload;
    use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
    let world = World::new(WorldConfig::default());
    world
        .run(|| {
            let drive = small_mssd(16);
            format(&drive);
            let fs = open(&drive, &MountOptions::default());
            let vfs = Vfs::mount(fs.clone(), VfsConfig::default()).expect("mounts");
            let mut p = Process::new(vfs.clone(), Cred::ROOT);
            let flags = OpenFlags::RDWR | OpenFlags::CREAT;
            let fds: Vec<_> =
                (0..100).map(|n| p.open(format!("/{n}"), flags, 0o644).expect("creates")).collect();
            for round in 0..2 {
                for &fd in &fds {
                    p.pwrite(fd, Payload::Fill { word: round, len: 100 }, 0).expect("writes");
                    if round == 0 {
                        p.fsync(fd).expect("synced");
                    } else {
                        // The page is written; the times of the write stay in memory.
                        granary_sim::sleep(Nanos::from_millis(5));
                        p.fdatasync(fd).expect("synced");
                    }
                }
            }
            let before = fs.stats().transactions;
            let first = {
                let fs = fs.clone();
                spawn("first", move || fs.sync(&Call::offline()).expect("synced"))
            };
            while fs.stats().transactions == before {
                granary_sim::sleep(Nanos(100));
            }
            fs.sync(&Call::offline()).expect("synced");
            let sealed = fs.stats().transactions;
            first.join();
            assert!(sealed >= before + 100, "{} of 100 inodes had to be written", sealed - before);
            assert_eq!(fs.stats().transactions, sealed, "nothing was left for the first one");
            p.exit();
            vfs.unmount().expect("unmounts");
        })
        .expect("no deadlock");
}
