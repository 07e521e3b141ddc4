//! One life of the machine: from power-on to the next power failure, or to a clean end.
//!
//! ```text
//!   wait until the drive answers ── mount (── unmount ── mount) ── check ── verify
//!      ── load ── idle until cut
//!      (calm)  └── sync ── check ── unmount ── mount ── ...
//! ```
//!
//! The stage is kept outside the world, so that a failure, a panic or the power failure itself can say where
//! it was.

use super::film::Film;
use super::mission::{Cut, Mission, Outcome};
use super::place::Phase;
use super::report::Coverage;
use crate::deadline::Deadline;
use crate::faulty::{Faults, Observer, WriteErrors};
use crate::load::{Clients, Load};
use crate::oracle::Promises;
use crate::recorded::Tape;
use crate::target::Target;
use granary_device::Devices;
use granary_fs::{Call, Caller, Cred, FileSystem};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, WorldConfig, now, power_fail, sleep, sleep_until};
use granary_units::Nanos;
use granary_vfs::{Process, Vfs};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The parts of a machine that outlive a life.
pub(super) struct Machine {
    /// The devices themselves.
    pub(super) raw: Devices,
    /// They count and fail.
    pub(super) devices: Devices,
    pub(super) faults: Arc<Faults>,
    pub(super) promises: Promises,
    pub(super) now: Nanos,
}

impl Machine {
    /// With new devices.
    pub(super) fn new(target: &dyn Target, seed: u64) -> Machine {
        Machine::of(target.devices(seed), Machine::promises(target), Nanos::ZERO)
    }

    /// With these devices.
    pub(super) fn of(raw: Devices, promises: Promises, now: Nanos) -> Machine {
        let (devices, faults) = Faults::around(&raw);
        Machine { raw, devices, faults, promises, now }
    }

    /// The promises of an empty file system.
    pub(super) fn promises(target: &dyn Target) -> Promises {
        let promises = Promises::new()
            .with_whole_renames(target.renames_are_whole())
            .with_every_call_durable(target.every_call_is_durable())
            .with_loose_inodes(target.inodes_may_change())
            .with_whole_pages(target.pages_are_whole());
        if target.times_are_durable() { promises.with_times(&target.vfs()) } else { promises }
    }

    pub(super) fn commands(&self) -> u64 {
        self.faults.commands()
    }
}

/// How long a life waits, idle, for a power failure that the load did not reach: some periods of the daemons.
const IDLE: Nanos = Nanos::from_millis(20);

/// Stages of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    PowerOn,
    Mount,
    Recovery,
    Verify,
    Load,
    Idle,
    Unmount,
    Remount,
}

pub(super) struct Life {
    pub(super) target: Arc<dyn Target>,
    pub(super) load: Arc<dyn Load>,
    pub(super) root_seed: u64,
    pub(super) mission: Mission,
    /// Takes crash images of it.
    pub(super) film: Option<Arc<Film>>,
    /// Calls of the load are recorded on it, or left out.
    pub(super) tape: Option<Tape>,
    /// Where this has come, the next call of the load ends the life as a power failure would.
    pub(super) until: Deadline,
}

/// Notes of a life's tasks for the outside.
struct Diary {
    stage: Stage,
    seen: Coverage,
    /// Instant and commands when the load was done.
    load_end: (Nanos, u64),
}

type Told = Arc<Mutex<Diary>>;

/// Runs `main` in a world of its own that goes on where the machine's time stands. The last instant comes
/// back, too.
pub(super) fn in_world<T: 'static>(
    machine: &Machine,
    target: &Arc<dyn Target>,
    mission: &Mission,
    film: Option<&Arc<Film>>,
    main: impl FnOnce() -> T + 'static,
) -> (std::thread::Result<Result<T, Stop>>, Nanos) {
    let config = WorldConfig {
        costs: target.costs(),
        jitter: mission.jitter,
        seed: mission.seed,
        ..WorldConfig::default()
    };
    let start = machine.now;
    let end = Arc::new(Mutex::new(start));
    let told = Arc::clone(&end);
    let run = || {
        let (result, stats) = World::new(config).run_stats(move || {
            sleep_until(start);
            main()
        });
        *told.lock() = stats.end;
        result
    };
    let result = catch_unwind(AssertUnwindSafe(|| match film {
        Some(film) => granary_sim::watch(Arc::clone(film) as Arc<dyn granary_sim::Watcher>, run),
        None => run(),
    }));
    let end = *end.lock();
    (result, end)
}

/// The text of a caught panic.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without a text"))
}

/// Makes the file system, in a world of its own.
pub(super) fn format(machine: &mut Machine, target: &Arc<dyn Target>) -> Result<(), Vec<String>> {
    // New ports: they know the drive's size as it is now ([`Faults::show_less`]).
    let (devices, fs) = (machine.devices.map(|_, drive| drive), Arc::clone(target));
    let (result, end) = in_world(machine, target, &Mission::calm(0, false), None, move || fs.mkfs(&devices));
    machine.now = end;
    settled(result, |made| made.map_err(|e| vec![e.to_string()]))?;
    // Only now: this mkfs is not interrupted (making.rs does that), and it trims whole drives.
    machine.devices.track_in_flight(true);
    Ok(())
}

/// Mounts what a power failure in mkfs has left. An error is no fault; a file system that mounts must be
/// empty and sound.
pub(super) fn look(machine: &mut Machine, target: &Arc<dyn Target>) -> Result<(), Vec<String>> {
    let (devices, fs) = (machine.devices.clone(), Arc::clone(target));
    let main = move || {
        let ready = devices.power_on(now()).map_err(|e| vec![format!("power on: {e}")])?;
        sleep_until(ready);
        let Ok(mounted) = fs.mount(&devices) else { return Ok(()) };
        let mut wrong = mounted.check(&Call::offline()).map_err(|e| vec![format!("check failed: {e}")])?;
        // ByteFS writes its superblock behind all else, the copy of it included. It mounts with that, and
        // says so.
        wrong.retain(|what| !what.contains("the superblock was damaged"));
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let vfs = Vfs::mount(mounted, fs.vfs()).map_err(|e| vec![format!("vfs mount: {e}")])?;
        let mut process = Process::new(Arc::clone(&vfs), Cred::ROOT);
        let verdict = Machine::promises(&*fs).verify(&mut process);
        process.exit();
        vfs.unmount().map_err(|e| vec![format!("unmount: {e}")])?;
        if verdict.violations.is_empty() { Ok(()) } else { Err(verdict.violations) }
    };
    let (result, end) = in_world(machine, target, &Mission::calm(0, true), None, main);
    machine.now = end;
    settled(result, |outcome| outcome)
}

/// The evidence of a world: its own, that it did not end, or a panic.
pub(super) fn settled<T, U>(
    result: std::thread::Result<Result<T, Stop>>,
    own: impl FnOnce(T) -> Result<U, Vec<String>>,
) -> Result<U, Vec<String>> {
    match result {
        Ok(Ok(outcome)) => own(outcome),
        Ok(Err(stop)) => Err(vec![stop.to_string()]),
        Err(panic) => Err(vec![panic_text(&*panic)]),
    }
}

impl Life {
    pub(super) fn live(self, mut machine: Machine) -> (Machine, Outcome) {
        let told: Told = Arc::new(Mutex::new(Diary {
            stage: Stage::PowerOn,
            seen: Coverage::default(),
            load_end: (Nanos::ZERO, 0),
        }));
        let target = Arc::clone(&self.target);
        let (mission, diary, film) = (self.mission, Arc::clone(&told), self.film.clone());
        machine.faults.observe(film.clone().map(|film| film as Arc<dyn Observer>));
        let (on, promises) = ((machine.devices.clone(), machine.faults.clone()), machine.promises.clone());
        let (result, end) = in_world(&machine, &target, &mission, film.as_ref(), move || {
            self.main(&on.0, &on.1, &promises, &diary)
        });
        machine.faults.arm(None);
        machine.faults.observe(None);
        machine.now = end;
        let diary = told.lock();
        let stage = format!("{:?} in round {}", diary.stage, mission.round).to_lowercase();
        let mut seen = diary.seen;
        let outcome = match result {
            Ok(Ok(Ok(()))) => Outcome::Finished { seen, load_end: diary.load_end },
            Ok(Ok(Err(evidence))) => Outcome::Wrong { stage, evidence },
            Ok(Err(Stop::PowerFail(_))) => {
                seen.failures += 1;
                match diary.stage {
                    Stage::PowerOn | Stage::Recovery | Stage::Verify => seen.in_recovery += 1,
                    Stage::Idle => seen.idle += 1,
                    _ => {}
                }
                let ran = matches!(diary.stage, Stage::Load | Stage::Idle);
                Outcome::PowerFailed { seen, ran }
            }
            Ok(Err(stop)) => Outcome::Wrong { stage, evidence: vec![stop.to_string()] },
            Err(panic) => Outcome::Wrong { stage, evidence: vec![panic_text(&*panic)] },
        };
        drop(diary);
        (machine, outcome)
    }

    fn main(
        self,
        devices: &Devices,
        faults: &Arc<Faults>,
        promises: &Promises,
        told: &Told,
    ) -> Result<(), Vec<String>> {
        let enter = |stage| told.lock().stage = stage;
        let Mission { round, powered_off, shut_unseen, brief, unsynced, in_recovery, in_load, .. } =
            self.mission;
        let phase = |phase| self.film.iter().for_each(|film| film.phase(phase, faults));
        if powered_off {
            let ready = devices.power_on(now()).map_err(|e| vec![format!("power on: {e}")])?;
            sleep_until(ready);
        }
        // The first mount recovers nothing; its crash points belong to the load.
        enter(if powered_off { Stage::Recovery } else { Stage::Mount });
        arm(faults, if powered_off { in_recovery } else { in_load });
        phase(if powered_off { Phase::Recovery } else { Phase::Load });
        let mut fs = self.mount(devices)?;
        if shut_unseen {
            fs.unmount(&Call::offline()).map_err(|e| vec![format!("unmount after recovery: {e}")])?;
            fs = self.mount(devices)?;
        }
        if powered_off {
            self.check(&fs, "after recovery")?;
        }
        let takes_snapshots = self.load.takes_snapshots();
        let mut vfs = self.attach(fs)?;
        if powered_off {
            enter(Stage::Verify);
            self.verify(&vfs, promises, told)?;
            if takes_snapshots {
                vfs = self.look_at_snapshots(vfs, devices, promises)?;
            }
            if brief {
                return self.look_beyond(&vfs, promises);
            }
            arm(faults, in_load);
            phase(Phase::Load);
            told.lock().seen.went_on += 1;
        }
        self.film.iter().for_each(|film| film.runs());
        enter(Stage::Load);
        self.tape.iter().for_each(|tape| tape.counts(faults));
        let clients = |vfs: &Arc<Vfs>| {
            let clients = Clients::new(Arc::clone(vfs), promises.clone());
            clients.with_room(devices).on_tape(self.tape.clone()).until(&self.until)
        };
        if let Some(one_in) = self.mission.errors {
            let random = Stream::new(self.mission.seed, "errors of writes");
            faults.fail_writes(Some(WriteErrors { one_in, random }));
        }
        let load = self.load.of_run(self.root_seed).unwrap_or_else(|| Arc::clone(&self.load));
        for round in round..round + self.mission.rounds {
            let mut random = Stream::new(self.root_seed.wrapping_add(round as u64), self.load.name());
            if takes_snapshots && self.mission.errors.is_none() {
                let first = load.run(&clients(&vfs), 2 * round, &mut random);
                first.map_err(|e| vec![e])?;
                vfs = self.take_snapshot(vfs, devices, promises)?;
            }
            let round = if takes_snapshots { 2 * round + 1 } else { round };
            let done = load.run(&clients(&vfs), round, &mut random);
            if self.mission.errors.is_some() && done.is_err() {
                break;
            }
            done.map_err(|e| vec![e])?;
        }
        told.lock().load_end = (now(), faults.commands());
        if in_load.is_some() || in_recovery.is_some() || self.mission.errors.is_some() {
            enter(Stage::Idle);
            sleep(IDLE);
            power_fail();
        }
        enter(Stage::Unmount);
        if !unsynced {
            vfs.sync(&Caller::KERNEL).map_err(|e| vec![format!("sync: {e}")])?;
            self.check(vfs.fs(), "after sync")?;
        }
        vfs.unmount().map_err(|e| vec![format!("unmount: {e}")])?;
        drop(vfs);
        promises.keep_everything();
        enter(Stage::Remount);
        phase(Phase::Remount);
        let fs = self.mount(devices)?;
        self.check(&fs, "after a clean mount")?;
        let vfs = self.attach(fs)?;
        self.verify(&vfs, promises, told)?;
        self.film.iter().for_each(|film| film.ends());
        if self.mission.exercised {
            // The power stays on; what it could take need not be remembered.
            devices.track_in_flight(false);
            // Files that get another inode when they go below are alone in persistent memory before.
            let wrong = crate::oracle::exercise(&vfs, !self.target.inodes_may_change());
            if !wrong.is_empty() {
                return Err(wrong);
            }
            told.lock().seen.exercised += 1;
        }
        let vfs = if takes_snapshots { self.look_at_snapshots(vfs, devices, promises)? } else { vfs };
        vfs.unmount().map_err(|e| vec![format!("second unmount: {e}")])?;
        devices.check()
    }

    pub(super) fn mount(&self, devices: &Devices) -> Result<Arc<dyn FileSystem>, Vec<String>> {
        self.target.mount(devices).map_err(|e| vec![format!("mount: {e}")])
    }

    pub(super) fn attach(&self, fs: Arc<dyn FileSystem>) -> Result<Arc<Vfs>, Vec<String>> {
        Vfs::mount(fs, self.target.vfs()).map_err(|e| vec![format!("vfs mount: {e}")])
    }

    fn check(&self, fs: &Arc<dyn FileSystem>, when: &str) -> Result<(), Vec<String>> {
        fs.sync(&Call::offline()).map_err(|e| vec![format!("sync before check {when}: {e}")])?;
        match fs.check(&Call::offline()) {
            Ok(violations) if violations.is_empty() => Ok(()),
            Ok(violations) => Err(violations.into_iter().map(|v| format!("check {when}: {v}")).collect()),
            Err(e) => Err(vec![format!("check {when} failed: {e}")]),
        }
    }

    fn verify(&self, vfs: &Arc<Vfs>, promises: &Promises, told: &Told) -> Result<(), Vec<String>> {
        let mut process = Process::new(Arc::clone(vfs), Cred::ROOT);
        let verdict = promises.verify(&mut process);
        process.exit();
        let mut diary = told.lock();
        diary.seen.verified += 1;
        diary.seen.files += verdict.files;
        diary.seen.bytes += verdict.bytes;
        drop(diary);
        if !verdict.violations.is_empty() {
            return Err(verdict.violations);
        }
        promises.go_on_from(verdict);
        Ok(())
    }
}

impl Life {
    /// Looks for blocks beyond the ends of files; a life ends with it.
    fn look_beyond(&self, vfs: &Arc<Vfs>, promises: &Promises) -> Result<(), Vec<String>> {
        // It takes a sixth of the time of a look: half of the lives have one.
        if !self.target.cuts_are_finished() || !self.mission.seed.is_multiple_of(2) {
            return Ok(());
        }
        // It changes files behind the model's back: no image may be taken of that.
        self.film.iter().for_each(|film| film.ends());
        let mut process = Process::new(Arc::clone(vfs), Cred::ROOT);
        let wrong = promises.blocks_beyond(&mut process);
        process.exit();
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}

/// Arms the devices, or starts a task that cuts the power at an instant.
fn arm(faults: &Arc<Faults>, cut: Option<Cut>) {
    match cut {
        None => faults.arm(None),
        Some(Cut::Command(trip)) => faults.arm(Some(trip)),
        Some(Cut::Instant(after)) => {
            faults.arm(None);
            let at = now() + after;
            granary_sim::spawn("power cut", move || {
                sleep_until(at);
                power_fail()
            });
        }
    }
}
