//! One life of a file system with `data = "journal"` that ends with a power failure, and whether what comes
//! back is a prefix of the calls. Also for `cargo xtask soak --kind prefix`.

use granary_crash::{Faults, Target, Trip};
use granary_device::Devices;
use granary_fs::{Call, Cred, FileSystem, FsError};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, WorldConfig, power_fail, sleep_until};
use granary_suite::model::{Generator, Mix, Op, Outcome, Shown, Snapshot, TreeEntry, apply, snapshot};
use granary_suite::reference::{Limits, RefFs, RefProcess};
use granary_units::Nanos;
use granary_vfs::{Process, Vfs};
use parking_lot::Mutex;
use std::sync::Arc;

const LIMITS: Limits = Limits { max_file_size: 1 << 39, max_links: 65000 };

/// Calls that were made, how many of them are promised, and the one under way.
#[derive(Default)]
struct Log {
    done: Vec<Op>,
    promised: usize,
    under_way: Option<Op>,
}

pub(super) fn process(
    target: &dyn Target,
    devices: &Devices,
) -> Result<(Arc<dyn FileSystem>, Process), FsError> {
    let fs = target.mount(devices)?;
    let vfs = Vfs::mount(fs.clone(), target.vfs())?;
    Ok((fs, Process::new(vfs, Cred::ROOT)))
}

/// Whether a fallocate between these two trees, done by half, can have left `found`.
fn is_between(before: &Snapshot, found: &Snapshot, after: &Snapshot) -> bool {
    let byte = |content: &[u8], i: usize| content.get(i).copied().unwrap_or(0);
    let fits = |path: &Vec<u8>| {
        let (Some(b), Some(f), Some(a)) = (before.get(path), found.get(path), after.get(path)) else {
            return false;
        };
        let same = f.first == b.first && f.xattrs == b.xattrs && [a.shown, b.shown].contains(&f.shown);
        let len = if f.shown == a.shown { a.content.len() } else { b.content.len() };
        let bytes = || (0..len).all(|i| [byte(&b.content, i), byte(&a.content, i)].contains(&f.content[i]));
        same && f.content.len() == len && bytes()
    };
    found.len() == before.len() && found.keys().all(fits)
}

/// The power fails in the recovery, or right after it. Returns when.
fn fail_again(target: &Arc<dyn Target>, devices: &Devices, ready: Nanos, trip: Trip) -> Nanos {
    let (target, (faulty, faults)) = (target.clone(), Faults::around(devices));
    let stopped = World::default().run(move || {
        sleep_until(ready);
        faults.arm(Some(trip));
        let mounted = target.mount(&faulty);
        mounted.expect("mount");
        power_fail()
    });
    match stopped {
        Err(Stop::PowerFail(at)) => at,
        other => panic!("the power fails in the recovery: {other:?}"),
    }
}

/// Whether `found` is `before` with the first whole pages of the write that makes it `after`.
fn has_first_pages(before: &Snapshot, found: &Snapshot, after: &Snapshot) -> bool {
    let begun = |path: &Vec<u8>| {
        let (Some(b), Some(f), Some(a)) = (before.get(path), found.get(path), after.get(path)) else {
            return false;
        };
        let same = f.first == b.first && f.xattrs == b.xattrs;
        // All attributes but the size.
        let shown = |of: &TreeEntry| Shown { size: 0, ..of.shown };
        let cut = |at: usize| {
            let len = b.content.len().max(at.min(a.content.len()));
            f.content.len() == len
                && (0..len).all(|i| f.content[i] == if i < at { a.content[i] } else { b.content[i] })
        };
        same && shown(f) == shown(b) && (0..=a.content.len() / 4096 + 1).any(|pages| cut(pages * 4096))
    };
    found.len() == before.len() && found.keys().all(begun)
}

/// Calls that are promised once a call has returned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Everything, whichever it was.
    Always,
    /// Calls before a sync.
    Sync,
    /// Calls before a sync or an fsync of any file.
    Fsync,
}

/// Parts of the last call that may be there.
#[derive(Clone)]
enum Half {
    /// Any bytes.
    Bytes,
    /// The first pages of a write.
    Pages,
}

/// Which of the last calls need not be whole.
fn half(name: &str, op: Option<&Op>) -> Option<Half> {
    match (name, op?) {
        ("ext4-journal", Op::Fallocate { .. }) => Some(Half::Bytes),
        ("ext4-journal", Op::Write { .. } | Op::Pwrite { .. }) => Some(Half::Pages),
        _ => None,
    }
}

/// When the power fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// Anywhere.
    Anywhere,
    /// In a fallocate, or soon after it.
    Fallocate,
}

/// Runs one client until the power fails, recovers, looks for the prefix. Returns how many calls were lost.
pub fn point(name: &str, seed: u64, kept: Kept, aim: Aim) -> usize {
    let target = granary_crash::target::by_name(granary_lab::registry::FILE_SYSTEMS, name).expect("a target");
    let devices = target.devices(seed);
    let log = Arc::new(Mutex::new(Log::default()));
    let (shared, t, d) = (log.clone(), target.clone(), devices.clone());
    let stopped = World::new(WorldConfig { seed, ..WorldConfig::default() }).run(move || {
        t.mkfs(&d).expect("mkfs");
        let (faulty, faults) = Faults::around(&d);
        let (_, mut p) = process(&*t, &faulty).expect("mount");
        d.track_in_flight(true);
        let mut random = Stream::new(seed, "trip");
        let mut trip = |most: u64, from: u64| {
            let n = from + random.below(most);
            if random.chance(0.5) { Trip::Before(n) } else { Trip::After(n) }
        };
        let mut before_aim = seed % 40;
        if aim == Aim::Anywhere {
            faults.arm(Some(trip(1500, 50)));
        }
        let mix = Mix { users: false, data: 9, longest: 60_000, ..Mix::default() };
        let mut generator = Generator::new(seed, mix);
        loop {
            let op = generator.next_op();
            if matches!(op, Op::Mmap { .. }) {
                continue;
            }
            if aim == Aim::Fallocate && matches!(op, Op::Fallocate { .. }) {
                match before_aim {
                    0 => faults.arm(Some(trip(16, 1))),
                    _ => before_aim -= 1,
                }
            }
            shared.lock().under_way = Some(op.clone());
            let outcome = apply(&mut p, &op);
            if aim == Aim::Fallocate && matches!(op, Op::Fallocate { .. }) && outcome != Outcome::Done {
                faults.arm(None);
            }
            let mut log = shared.lock();
            let op = log.under_way.take();
            if outcome != Outcome::Failed(FsError::NotSupported) {
                // ByteFS's fsync promises its file only; sync everything before it.
                let done = outcome == Outcome::Done;
                let synced = done && matches!(op, Some(Op::Sync));
                let fsynced = done && matches!(op, Some(Op::Fsync { .. }));
                log.done.extend(op);
                if kept == Kept::Always || synced || kept == Kept::Fsync && fsynced {
                    log.promised = log.done.len();
                }
            }
        }
    });
    let Err(Stop::PowerFail(at)) = stopped else { panic!("seed {seed}: the power failed: {stopped:?}") };
    let mut random = Stream::new(seed, "survivors");
    devices.power_fail(at, &mut random);
    let mut ready = devices.power_on(at + Nanos(1)).expect("power on");
    while random.chance(0.3) {
        let magnitude = random.below(9);
        let at = fail_again(&target, &devices, ready, Trip::After(1 + random.below(1 << magnitude)));
        devices.power_fail(at, &mut random);
        ready = devices.power_on(at + Nanos(1)).expect("power on");
    }
    let log = std::mem::take(&mut *log.lock());
    let calls = log.done.len();
    let name = name.to_owned();
    let result = World::default().run(move || {
        sleep_until(ready);
        let (fs, mut p) = process(&*target, &devices).map_err(|e| e.to_string())?;
        fs.sync(&Call::offline()).map_err(|e| e.to_string())?;
        let bad = fs.check(&Call::offline()).map_err(|e| e.to_string())?;
        if !bad.is_empty() {
            return Err(bad.join("\n"));
        }
        let found = snapshot(&mut p).map_err(|e| e.to_string())?;
        let mut reference = RefProcess::new(Arc::new(Mutex::new(RefFs::new(LIMITS))), Cred::ROOT);
        let mut prefix = None;
        let mut before = None;
        for (n, op) in log.done.iter().chain(&log.under_way).map(Some).chain([None]).enumerate() {
            if n >= log.promised {
                let now = snapshot(&mut reference).map_err(|e| e.to_string())?;
                let half_done = before.is_some_and(|(before, half)| match half {
                    Half::Bytes => is_between(&before, &found, &now),
                    Half::Pages => has_first_pages(&before, &found, &now),
                });
                if half_done || now == found {
                    prefix = Some(n);
                }
                before = half(&name, op).map(|half| (now, half));
            }
            if let Some(op) = op {
                apply(&mut reference, op);
            }
        }
        prefix.ok_or_else(|| {
            let tail = log.done.iter().skip(log.promised.saturating_sub(3)).collect::<Vec<_>>();
            format!(
                "no prefix from {} to {calls} calls explains the tree; calls since: {tail:?}, under way: {:?}",
                log.promised, log.under_way
            )
        })
    });
    match result {
        Ok(Ok(prefix)) => calls.saturating_sub(prefix),
        Ok(Err(why)) => panic!("seed {seed}: {why}"),
        Err(stop) => panic!("seed {seed}: {stop}"),
    }
}

/// The targets, with what each keeps and where the power fails, of which [`point`] takes a seed each.
#[allow(dead_code, reason = "the soak's: tests name theirs")]
pub const ALL: [(&str, Kept, Aim); 5] = [
    ("bytefs-journal", Kept::Sync, Aim::Anywhere),
    ("bytefs-journal-sync", Kept::Always, Aim::Anywhere),
    ("ext4-journal", Kept::Fsync, Aim::Anywhere),
    ("bytefs-journal-sync", Kept::Always, Aim::Fallocate),
    ("bytefs-journal", Kept::Sync, Aim::Fallocate),
];
