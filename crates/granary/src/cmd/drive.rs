//! `granary drive bench|replay`: raw accesses to an emulated drive, from jobs or from a trace.

mod bench;
mod nvm;
mod replay;

use crate::cli::{DriveArgs, DriveBenchArgs, DriveBenchKind, DriveCommand};
use crate::cmd::interrupt::Stop;
use crate::cmd::{moves, results};
use crate::failure::Failure;
use crate::progress::Fraction;
use crate::speed::on_cpu;
use comfy_table::Table;
use granary_bench::columns::View;
use granary_bench::drives::DRIVES;
use granary_bench::memory;
use granary_bench::record::Origin;
use granary_bench::{Precondition, Recorded};
use granary_device::Drive;
use granary_lab::LabError;
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_testbed::Testbed;
use granary_trace::drive::Phase;
use granary_trace::drive::native::Header;
use granary_units::{Bytes, Nanos};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Runs the command.
pub fn run(command: &DriveCommand) -> Result<(), Failure> {
    match command {
        DriveCommand::Bench(DriveBenchArgs { kind: Some(DriveBenchKind::Move(args)), .. }) => {
            moves::run(args)?;
        }
        DriveCommand::Bench(args) => return bench::run(args),
        DriveCommand::Space(args) => moves::space(args)?,
        DriveCommand::List => list(),
        DriveCommand::Replay(args) => return replay::run(args),
    }
    Ok(())
}

/// The firmwares that a testbed's drive can have, and where they can be used.
fn list() {
    let header = ["firmware", "commands", "options of [drive.firmware]", "images", "policies", "what it is"];
    let mut table = table(header);
    for entry in DRIVES {
        let firmware = (entry.firmware)(&DriveConfig::bytefs_emulator());
        let offers = firmware.map_or_else(|_| "?".to_owned(), |firmware| or_none(firmware.offers()));
        let policies = if entry.policies.is_some() { "its own" } else { "[drive.flash]" };
        let images = if entry.load.is_some() { "yes" } else { "no" };
        let options = or_none(entry.options);
        table.add_row([entry.name, &offers, &options, images, policies, entry.about]);
    }
    outln!("{table}");
    beside();
    crash_cases();
    outln!(
        "\nA testbed chooses a firmware by `mode` in [drive.firmware] (`--set drive.firmware.mode=NAME`). docs/ADDING_A_DRIVE.md adds one."
    );
}

/// The companions that can stand beside each of them.
fn beside() {
    let mut table = table(["beside it", "firmwares", "commands", "asked for by", "what it is"]);
    let all = DRIVES.iter().flat_map(|entry| entry.beside);
    let names: BTreeSet<&str> = all.clone().map(|companion| companion.name).collect();
    for companion in names.into_iter().filter_map(|name| all.clone().find(|one| one.name == name)) {
        let with = DRIVES.iter().filter(|entry| entry.beside.iter().any(|one| one.name == companion.name));
        let with: Vec<&str> = with.map(|entry| entry.name).collect();
        let section = format!("[drive.firmware.{}]", companion.name);
        let commands = companion.commands.join(", ");
        table.add_row([companion.name, &with.join(", "), &commands, &section, companion.about]);
    }
    outln!("\n{table}");
}

/// The kinds of drives that `granary crash` tries.
fn crash_cases() {
    let mut table = table(["crash case", "as", "does not promise", "what it is"]);
    for entry in DRIVES {
        for case in entry.crash {
            let promises: Vec<&str> = case.weakens.iter().map(|promise| promise.about()).collect();
            let name = format!("{}: {}", entry.name, case.name);
            // Built-in ones are the usual drives of the file systems.
            let target = match Mode::named(entry.name) {
                Mode::Own(own) => format!("FS@{own}@{}", case.name),
                _ => format!("FS@{}", case.name),
            };
            table.add_row([&name, &target, &or_none(&promises), case.about]);
        }
    }
    outln!("\n{table}");
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING);
    table.set_header(header);
    table
}

fn or_none(words: &[&str]) -> String {
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

/// Parameters from which a drive is made.
struct Plan {
    config: DriveConfig,
    testbed: String,
    set: Vec<String>,
    seed: u64,
    precondition: Precondition,
    /// For the record.
    source: String,
}

/// A drive that is ready to be measured.
struct Bed {
    drive: Arc<Mssd>,
    recorded: Option<Recorded<Mssd>>,
    origin: Origin,
    clock: Clock,
    stop: Stop,
    /// Memory that was to be expected at least.
    need: Bytes,
}

/// The drive's configuration from a testbed, with the firmware that the arguments choose.
fn config(args: &DriveArgs) -> Result<(DriveConfig, String), LabError> {
    let testbed = Testbed::load(args.testbed.as_deref().unwrap_or("bytefs-emulator"), &args.set)?;
    Ok((with_firmware(testbed.ssd()?.clone(), args)?, testbed.name))
}

fn with_firmware(config: DriveConfig, args: &DriveArgs) -> Result<DriveConfig, LabError> {
    let known: Vec<&str> = DRIVES.iter().map(|entry| entry.name).collect();
    Ok(match args.firmware.as_deref() {
        None => config,
        Some(name) if known.contains(&name) => config.with_mode(Mode::named(name)),
        Some(other) => return Err(usage("--firmware", other, &known.join(", "))),
    })
}

impl Bed {
    /// Makes and preconditions the drive.
    fn new(plan: Plan, args: &DriveArgs, bar: &Fraction) -> Result<Bed, LabError> {
        let clock = Clock::new();
        args.record.as_deref().map(results::writable).transpose()?;
        let stop = Stop::watch()?;
        let how = memory::Use { precondition: plan.precondition, content: !args.no_data };
        let drive = Arc::new(memory::ssd(&plan.testbed, &plan.config, how)?);
        let need = memory::Need::of_ssd(&plan.config, how).peak();
        clock.lap("opened");
        plan.precondition
            .apply(&drive, plan.seed, |part| bar.set("precondition", part))
            .map_err(|e| LabError::call("precondition", e))?;
        clock.lap("preconditioned");
        let header = Header {
            granary: env!("CARGO_PKG_VERSION").to_owned(),
            source: plan.source,
            testbed: plan.testbed.clone(),
            set: plan.set.clone(),
            seed: plan.seed,
            precondition: plan.precondition.to_string(),
            drive: plan.config,
        };
        let recorded = match &args.record {
            Some(path) => Some(Recorded::create(path, &header, drive.clone())?),
            None => None,
        };
        let origin = Origin {
            granary: header.granary,
            commit: env!("GRANARY_COMMIT").to_owned(),
            testbed: plan.testbed,
            set: plan.set,
            seed: plan.seed,
            precondition: header.precondition,
            warm: false,
            no_data: args.no_data,
        };
        Ok(Bed { drive, recorded, origin, clock, stop, need })
    }

    /// The callee of the operations: the drive, or the recorder around it.
    fn drive(&self) -> &dyn Drive {
        match &self.recorded {
            Some(recorded) => recorded,
            None => &*self.drive,
        }
    }

    /// A phase begins: for the record, and for the wall clock.
    fn mark(&self, now: Nanos, phase: Phase) {
        if phase == Phase::Run {
            self.stop.measuring();
        }
        self.clock.lap(match phase {
            Phase::Run => "prepared",
            Phase::Drain => "ran",
            Phase::End => "drained",
        });
        if let Some(recorded) = &self.recorded {
            recorded.mark(now, phase);
        }
    }

    /// Says how long the parts took, and how much memory.
    fn report(&self, accesses: u64) {
        self.clock.report(accesses);
        if let Some(peak) = memory::peak() {
            say!("memory: {} estimated, {peak} at its peak", self.need);
        }
    }

    /// Ends the record.
    fn finish(&self) -> Result<(), LabError> {
        match &self.recorded {
            Some(recorded) => Ok(recorded.finish().map(drop)?),
            None => Ok(()),
        }
    }
}

/// The end of a command that may have been stopped: what it did is shown.
fn ended(stop: &Stop) -> Result<(), Failure> {
    stop.signal().map_or(Ok(()), |signal| Err(Failure::stopped(signal)))
}

/// How long the parts of a run really took: talk, for stderr. No result depends on it.
struct Clock {
    last: RefCell<(Instant, Option<f64>)>,
    laps: RefCell<Vec<Lap>>,
}

/// A part of a run: name, seconds of the wall clock, seconds on a processor where the system tells.
type Lap = (&'static str, f64, Option<f64>);

#[allow(clippy::disallowed_methods, reason = "says on stderr how long it really took")]
impl Clock {
    fn new() -> Clock {
        Clock { last: RefCell::new((Instant::now(), on_cpu())), laps: RefCell::default() }
    }

    fn lap(&self, name: &'static str) {
        let (now, mut last) = ((Instant::now(), on_cpu()), self.last.borrow_mut());
        let cpu = now.1.zip(last.1).map(|(now, last)| now - last);
        self.laps.borrow_mut().push((name, (now.0 - last.0).as_secs_f64(), cpu));
        *last = now;
    }

    /// `wall: opened in 0.012 s (cpu 0.012), ran in 1.2 s (cpu 0.8): 2.5 million accesses per second of cpu`
    fn report(&self, accesses: u64) {
        let laps = self.laps.borrow();
        let show = |(name, wall, cpu): &Lap| match cpu {
            Some(cpu) => format!("{name} in {wall:.3} s (cpu {cpu:.3})"),
            None => format!("{name} in {wall:.3} s"),
        };
        let parts: Vec<String> = laps.iter().map(show).collect();
        let ran = laps.iter().find(|(name, ..)| *name == "ran");
        let (wall, cpu) = ran.map_or((0.0, None), |&(_, wall, cpu)| (wall, cpu));
        let rates =
            [rate(accesses, Some(wall), "accesses per second"), rate(accesses, cpu, "per second of cpu")];
        let rates: Vec<String> = rates.into_iter().flatten().collect();
        let rates = if rates.is_empty() { String::new() } else { format!(": {}", rates.join(", ")) };
        say!("wall: {}{rates}", parts.join(", "));
    }
}

/// Shortest time that a rate is told of, seconds: a tick of the kernel's, within which it may count no time
/// on the processor.
const SHORTEST: f64 = 0.004;

fn rate(accesses: u64, seconds: Option<f64>, per: &str) -> Option<String> {
    let seconds = seconds.filter(|s| *s >= SHORTEST)?;
    Some(format!("{:.3} million {per}", accesses as f64 / seconds / 1e6))
}

/// Prints a record as JSON, or as its table.
fn print<R: Serialize>(record: &R, args: &DriveArgs, table: impl FnOnce(&R, View) -> String) {
    if args.json {
        outln!(
            "{}",
            serde_json::to_string(record).expect("a record has only string keys and finite numbers")
        );
    } else {
        out!("{}", table(record, results::view(args.latencies)));
    }
}

fn parse_precondition(text: &str) -> Result<Precondition, LabError> {
    Precondition::parse(text).map_err(|m| LabError::Usage(format!("--precondition: {m}")))
}

fn usage(flag: &str, given: &str, wanted: &str) -> LabError {
    let meant = granary_trace::suggest::meant(given, wanted.split([',', ' ']).filter(|word| word.len() > 1));
    LabError::Usage(format!("{flag} {given}: {meant}there are {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rate_is_told_of_a_time_that_is_too_short_to_be_measured() {
        assert_eq!(rate(3000, Some(0.0), "per second of cpu"), None);
        assert_eq!(rate(3000, None, "per second of cpu"), None);
        let told = rate(3_000_000, Some(1.5), "per second of cpu");
        assert_eq!(told.as_deref(), Some("2.000 million per second of cpu"));
    }
}
