//! ByteFS with `data = "journal"`: a power failure leaves a prefix of the calls, each wholly there or not at all, data
//! included. One client works beside the reference, the
//! power fails at a random command, and the recovered tree must be the reference's after some number of calls.
//!
//! Calls that take several transactions are not atomic and are not made: fallocate, writes and removals beyond what one
//! holds.
//! Stores through mappings are no calls.

#[path = "common/targets.rs"]
mod targets;

use granary_crash::{Faulty, Target, Trip};
use granary_mssd::Drive;
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, WorldConfig, sleep_until};
use granary_units::Nanos;
use granary_vfs::model::{Generator, Mix, Op, Outcome, apply, snapshot};
use granary_vfs::reference::{Limits, RefFs, RefProcess};
use granary_vfs::{Cred, FileSystem, FsError, Process, Vfs};
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

fn process(target: &dyn Target, drive: Arc<dyn Drive>) -> Result<(Arc<dyn FileSystem>, Process), FsError> {
    let fs = target.mount(drive)?;
    let vfs = Vfs::mount(fs.clone(), target.vfs())?;
    Ok((fs, Process::new(vfs, Cred::ROOT)))
}

/// Runs one client until the power fails, recovers, looks for the prefix. Returns how many calls were lost.
fn point(target: Arc<dyn Target>, seed: u64) -> usize {
    let drive = target.drive(seed);
    let log = Arc::new(Mutex::new(Log::default()));
    let (shared, t, d) = (log.clone(), target.clone(), drive.clone());
    let stopped = World::new(WorldConfig { seed, ..WorldConfig::default() }).run(move || {
        t.mkfs(&d).expect("mkfs");
        let faulty = Arc::new(Faulty::new(d.clone()));
        let (_, mut p) = process(&*t, faulty.clone()).expect("mount");
        d.track_in_flight(true);
        let mut random = Stream::new(seed, "trip");
        let n = 50 + random.below(1500);
        faulty.arm(Some(if random.chance(0.5) { Trip::Before(n) } else { Trip::After(n) }));
        let mix = Mix { users: false, data: 9, longest: 60_000, ..Mix::default() };
        let mut generator = Generator::new(seed, mix);
        loop {
            let op = generator.next_op();
            if matches!(op, Op::Mmap { .. } | Op::Fallocate { .. }) {
                continue;
            }
            shared.lock().under_way = Some(op.clone());
            let outcome = apply(&mut p, &op);
            let mut log = shared.lock();
            let op = log.under_way.take();
            if outcome != Outcome::Failed(FsError::NotSupported) {
                // fsync promises its file only; sync everything before it.
                let synced = outcome == Outcome::Done && matches!(op, Some(Op::Sync));
                log.done.extend(op);
                if synced {
                    log.promised = log.done.len();
                }
            }
        }
    });
    let Err(Stop::PowerFail(at)) = stopped else { panic!("seed {seed}: the power failed: {stopped:?}") };
    drive.power_fail(at, &mut Stream::new(seed, "survivors"));
    let ready = drive.power_on(at + Nanos(1)).expect("power on");
    let log = std::mem::take(&mut *log.lock());
    let calls = log.done.len();
    let result = World::default().run(move || {
        sleep_until(ready);
        let (fs, mut p) = process(&*target, drive).map_err(|e| e.to_string())?;
        let bad = fs.check().map_err(|e| e.to_string())?;
        if !bad.is_empty() {
            return Err(bad.join("\n"));
        }
        let found = snapshot(&mut p).map_err(|e| e.to_string())?;
        let mut reference = RefProcess::new(Arc::new(Mutex::new(RefFs::new(LIMITS))), Cred::ROOT);
        let mut prefix = None;
        for (n, op) in log.done.iter().chain(&log.under_way).map(Some).chain([None]).enumerate() {
            if n >= log.promised && snapshot(&mut reference).map_err(|e| e.to_string())? == found {
                prefix = Some(n);
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

#[test]
fn a_power_failure_leaves_a_prefix_of_the_calls() {
    let lost: usize =
        (0..80).map(|seed| point(targets::by_name("bytefs-journal").expect("a target"), seed)).sum();
    assert!(lost > 0, "calls that nobody synced are lost now and then, otherwise this tests little");
}
