//! `granary drive bench --device nvm`.

use super::bench::{check_warm, jobs};
use super::{Clock, ended, print};
use crate::cli::DriveBenchArgs;
use crate::cmd::interrupt::Stop;
use crate::failure::Failure;
use crate::progress::Fraction;
use granary_bench::job::check_all;
use granary_bench::nvm::{check_bytes, dimm};
use granary_bench::record::Origin;
use granary_bench::{Bench, NvmRecord, nvm_table};
use granary_testbed::Testbed;
use granary_trace::drive::Phase;
use granary_units::{Nanos, PAGE_SIZE};

/// Runs the command.
pub(super) fn run(args: &DriveBenchArgs) -> Result<(), Failure> {
    let drive = &args.drive;
    let of_ssds = [
        (args.precondition.is_some(), "--precondition fills the flash of SSDs; --warm stores lines"),
        (drive.firmware.is_some(), "--firmware is of SSDs"),
        (drive.no_data, "--no-data is of flash pages"),
        (drive.record.is_some(), "--record records an SSD"),
    ];
    if let Some((_, why)) = of_ssds.iter().find(|(given, _)| *given) {
        return Err(Failure::usage(format!("{why}: leave it out with --device nvm")));
    }
    let testbed = Testbed::load(drive.testbed.as_deref().unwrap_or("bytefs-emulator"), &drive.set)?;
    let config = testbed.nvm()?;
    let (jobs, warnings) = jobs(args)?;
    check_bytes(&jobs)?;
    check_all(&jobs, config.pages() * PAGE_SIZE as u64)?;
    check_warm(args, &jobs)?;
    let (clock, stop, bar) = (Clock::new(), Stop::watch()?, Fraction::new());
    let device = dimm(&testbed.name, config)?;
    clock.lap("opened");
    let mark = |_, phase: Phase| {
        if phase == Phase::Run {
            stop.measuring();
        }
        clock.lap(match phase {
            Phase::Run => "prepared",
            Phase::Drain => "ran",
            Phase::End => "drained",
        });
    };
    let seed = drive.seed.unwrap_or(1);
    let bench = Bench {
        drive: &device,
        jobs: &jobs,
        start: Nanos::ZERO,
        warm: args.warm,
        seed,
        mark: &mark,
        stop: &|| stop.is_asked(),
    };
    let measured = bench.run(|phase, part| bar.set(phase, part));
    bar.finish();
    let measured = measured?;
    clock.report(measured.jobs.iter().map(|j| j.accesses).sum());
    let origin = Origin {
        granary: env!("CARGO_PKG_VERSION").to_owned(),
        commit: env!("GRANARY_COMMIT").to_owned(),
        testbed: testbed.name.clone(),
        set: drive.set.clone(),
        seed,
        precondition: "none".to_owned(),
        warm: args.warm,
        no_data: false,
    };
    let mut record = NvmRecord::new(origin, &jobs, &measured);
    record.warnings.splice(0..0, warnings);
    print(&record, drive, nvm_table);
    ended(&stop)
}
