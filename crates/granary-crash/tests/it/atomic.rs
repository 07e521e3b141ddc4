//! NOVA, PMFS and OrchFS promise more than the oracle asks for: every operation is durable and atomic when it
//! returns. One client works beside the reference, the power fails at a random command, and the recovered
//! tree must be the reference's before or after the operation that was under way. (PMFS promises it for
//! metadata only, OrchFS too unless `data_atomicity` says otherwise.) `GRANARY_POINTS` is for more points
//! than the sample.

use granary_crash::{Faults, Target, Trip};
use granary_device::Devices;
use granary_fs::{Call, Cred, FsError};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, WorldConfig, sleep_until};
use granary_suite::model::{Generator, Mix, Op, apply, compare_trees, snapshot};
use granary_suite::reference::{Limits, RefFs, RefProcess};
use granary_units::Nanos;
use granary_vfs::{Process, Vfs};
use parking_lot::Mutex;
use std::sync::Arc;

const LIMITS: Limits = Limits { max_file_size: 1 << 39, max_links: 65000 };

/// The operations that have returned, and the one under way.
#[derive(Default)]
struct Log {
    done: Vec<Op>,
    under_way: Option<Op>,
}

fn process(
    target: &dyn Target,
    devices: &Devices,
) -> Result<(Arc<dyn granary_fs::FileSystem>, Process), FsError> {
    let fs = target.mount(devices)?;
    let vfs = Vfs::mount(fs.clone(), target.vfs())?;
    Ok((fs, Process::new(vfs, Cred::ROOT)))
}

fn reference(ops: &[Op]) -> RefProcess {
    let mut p = RefProcess::new(Arc::new(Mutex::new(RefFs::new(LIMITS))), Cred::ROOT);
    for op in ops {
        apply(&mut p, op);
    }
    p
}

/// Runs one client until the power fails, recovers, compares.
fn point(target: Arc<dyn Target>, mix: Mix, seed: u64) {
    if let Err(why) = try_point(target, mix, seed) {
        panic!("seed {seed}: {why}");
    }
}

/// The same; what is wrong.
fn try_point(target: Arc<dyn Target>, mix: Mix, seed: u64) -> Result<(), String> {
    let in_steps = target.name().starts_with("orchfs");
    let devices = target.devices(seed);
    let log = Arc::new(Mutex::new(Log::default()));
    let (shared, t, d) = (log.clone(), target.clone(), devices.clone());
    let stopped = World::new(WorldConfig { seed, ..WorldConfig::default() }).run(move || {
        t.mkfs(&d).expect("mkfs");
        let (faulty, faults) = Faults::around(&d);
        let (_, mut p) = process(&*t, &faulty).expect("mount");
        d.track_in_flight(true);
        let mut random = Stream::new(seed, "trip");
        let n = 50 + random.below(1500);
        faults.arm(Some(if random.chance(0.5) { Trip::Before(n) } else { Trip::After(n) }));
        let mut generator = Generator::new(seed, mix);
        loop {
            let op = generator.next_op();
            shared.lock().under_way = Some(op.clone());
            let outcome = apply(&mut p, &op);
            let mut log = shared.lock();
            let unsupported = outcome == granary_suite::model::Outcome::Failed(FsError::NotSupported);
            let op = log.under_way.take().filter(|_| !unsupported);
            log.done.extend(op);
        }
    });
    let Err(Stop::PowerFail(at)) = stopped else { panic!("seed {seed}: the power failed: {stopped:?}") };
    devices.power_fail(at, &mut Stream::new(seed, "survivors"));
    let ready = devices.power_on(at + Nanos(1)).expect("power on");
    let log = std::mem::take(&mut *log.lock());
    let result = World::default().run(move || {
        sleep_until(ready);
        let (fs, mut p) = process(&*target, &devices).map_err(|e| e.to_string())?;
        let bad = fs.check(&Call::offline()).map_err(|e| e.to_string())?;
        if !bad.is_empty() {
            return Err(bad.join("\n"));
        }
        let before = compare_trees(&mut p, &mut reference(&log.done));
        let Err(why) = before else { return Ok(()) };
        let Some(op) = log.under_way else { return Err(why) };
        // On OrchFS the edges of a hole are zeroed as writes of their own, before what lies between.
        if in_steps && matches!(op, Op::Fallocate { .. }) {
            return Ok(());
        }
        let mut ops = log.done;
        ops.push(op.clone());
        let found = snapshot(&mut p).map_err(|e| e.to_string())?.len();
        compare_trees(&mut p, &mut reference(&ops)).map_err(|after| {
            format!("{op:?} is there in part ({found} names)\nbefore: {why}\nafter: {after}")
        })
    });
    result.unwrap_or_else(|stop| Err(stop.to_string()))
}

fn points(fs: &str, mix: Mix, count: u64) {
    let count = std::env::var("GRANARY_POINTS").ok().and_then(|n| n.parse().ok()).unwrap_or(count);
    for seed in 0..count {
        point(crate::targets::by_name(fs).expect("a target"), mix, seed);
    }
}

#[test]
fn every_operation_of_nova_is_durable_and_atomic() {
    points("nova", Mix { users: false, ..Mix::default() }, 150);
}

#[test]
fn every_metadata_operation_of_nova_with_data_in_place_is_durable_and_atomic() {
    points("nova-in-place", Mix { users: false, data: 0, ..Mix::default() }, 100);
}

#[test]
fn every_metadata_operation_of_pmfs_is_durable_and_atomic() {
    points("pmfs", Mix { users: false, data: 0, ..Mix::default() }, 150);
}

/// Where words are torn: a log's first tail must not be there before its head.
#[test]
fn every_operation_of_nova_on_a_dimm_is_durable_and_atomic() {
    points("nova@nvm", Mix { users: false, ..Mix::default() }, 150);
}

#[test]
fn every_metadata_operation_of_pmfs_on_a_dimm_is_durable_and_atomic() {
    points("pmfs@nvm", Mix { users: false, data: 0, ..Mix::default() }, 100);
}

/// Writes within files whose blocks are on the SSD, in pages and in parts of pages.
const OVERWRITES: Mix =
    Mix { names: 1, attrs: 1, data: 20, users: false, longest: 150_000, largest: 400_000 };

#[test]
fn every_metadata_operation_of_orchfs_is_durable_and_atomic() {
    points("orchfs", Mix { users: false, data: 0, ..Mix::default() }, 30);
}

#[test]
fn every_operation_of_orchfs_with_undo_is_durable_and_atomic() {
    points("orchfs-undo", OVERWRITES, 30);
}

#[test]
fn every_operation_of_orchfs_with_redo_is_durable_and_atomic() {
    points("orchfs-redo", OVERWRITES, 30);
}

/// The reason for the two variants: without them a power failure leaves some overwrites in part.
#[test]
fn overwrites_of_orchfs_can_be_torn_by_default() {
    let torn = |seed: &u64| {
        try_point(crate::targets::by_name("orchfs").expect("a target"), OVERWRITES, *seed)
            .is_err_and(|why| why.contains("is there in part"))
    };
    assert!((0..200).any(|seed| torn(&seed)), "no overwrite was torn");
}
