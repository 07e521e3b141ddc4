//! `granary drive bench`.

use super::{Bed, Plan, config, ended, nvm, parse_precondition, print, usage};
use crate::cli::DriveBenchArgs;
use crate::failure::Failure;
use crate::progress::Fraction;
use granary_bench::job::{Pattern, check_all};
use granary_bench::{Bench, DriveRecord, Job, Precondition, fio, table};
use granary_device::Role;
use granary_lab::LabError;
use granary_units::{Bytes, Nanos, PAGE_SIZE};

/// Runs the command.
pub fn run(args: &DriveBenchArgs) -> Result<(), Failure> {
    match Role::find(&args.device) {
        Some(Role::Ssd) => {}
        Some(Role::Nvm) => return nvm::run(args),
        None => return Err(usage("--device", &args.device, "ssd, nvm").into()),
    }
    let (config, testbed) = config(&args.drive)?;
    let (jobs, warnings) = jobs(args)?;
    // Before the drive is made and filled, which may take long.
    check_all(&jobs, config.pages() * PAGE_SIZE as u64)?;
    check_warm(args, &jobs)?;
    if args.warm && !jobs.iter().any(|j| j.pattern.first.is_byte()) {
        return Err(Failure::usage(
            "--warm stores the lines of byte jobs, and there is none: blocks are warmed by --precondition",
        ));
    }
    let precondition = match &args.precondition {
        Some(text) => parse_precondition(text)?,
        // A new drive answers reads without touching its flash.
        None if jobs.iter().any(|j| !j.pattern.first.writes()) => Precondition::Fill, // trims, too
        None => Precondition::None,
    };
    let bar = Fraction::new();
    let seed = args.drive.seed.unwrap_or(1);
    let set = args.drive.set.clone();
    let plan =
        Plan { config: config.clone(), testbed, set, seed, precondition, source: "drive bench".to_owned() };
    let mut bed = Bed::new(plan, &args.drive, &bar)?;
    let bench = Bench {
        drive: bed.drive(),
        jobs: &jobs,
        start: Nanos::ZERO,
        warm: args.warm,
        seed,
        mark: &|now, phase| bed.mark(now, phase),
        stop: &|| bed.stop.is_asked(),
    };
    let measured = bench.run(|phase, part| bar.set(phase, part));
    bar.finish();
    let measured = measured?;
    bed.finish()?;
    bed.report(measured.jobs.iter().map(|j| j.accesses).sum());
    bed.origin.warm = args.warm;
    let mut record = DriveRecord::new(bed.origin, &config, &jobs, &measured);
    record.warnings.splice(0..0, warnings);
    print(&record, &args.drive, table);
    ended(&bed.stop)
}

/// Refuses to warm all of a device.
pub(super) fn check_warm(args: &DriveBenchArgs, jobs: &[Job]) -> Result<(), Failure> {
    if args.warm && jobs.iter().any(|j| j.pattern.first.is_byte() && j.size.is_none()) {
        return Err(Failure::usage("--warm stores every line of byte jobs: say which with --size"));
    }
    Ok(())
}

/// The jobs, and what to warn of.
pub(super) fn jobs(args: &DriveBenchArgs) -> Result<(Vec<Job>, Vec<String>), LabError> {
    if let Some(path) = &args.job {
        let text = std::fs::read_to_string(path)
            .map_err(|source| LabError::Io { what: format!("reading {}", path.display()), source })?;
        return Ok(fio::jobs(&path.display().to_string(), &text)?);
    }
    let mut out = Vec::new();
    for name in &args.rw {
        let pattern = Pattern::named(name).ok_or_else(|| usage("--rw", name, &Pattern::NAMES.join(", ")))?;
        let byte = pattern.first.is_byte();
        let block_size = match &args.bs {
            Some(bs) => bytes("--bs", bs)?,
            None if byte => Bytes(64),
            None => Bytes::kib(4),
        };
        out.push(Job {
            name: name.clone(),
            pattern,
            depth: args.iodepth.unwrap_or(if byte { 1 } else { 32 }),
            clients: args.numjobs,
            offset: bytes("--offset", &args.offset)?.into(),
            size: args.size.as_deref().map(|s| bytes("--size", s).map(Into::into)).transpose()?,
            read_percent: args.rwmixread,
            random_map: !args.norandommap,
            runtime: args
                .runtime
                .as_deref()
                .map(|t| granary_trace::fio::time(t).map_err(|m| LabError::Usage(format!("--runtime: {m}"))))
                .transpose()?,
            time_based: args.runtime.is_some(),
            accesses: if args.runtime.is_some() {
                args.accesses
            } else {
                Some(args.accesses.unwrap_or(200_000))
            },
            ..Job::default().with_block_size(block_size)
        });
    }
    Ok((out, Vec::new()))
}

fn bytes(flag: &str, text: &str) -> Result<Bytes, LabError> {
    text.parse().map_err(|e| LabError::Usage(format!("{flag} {text}: {e}")))
}
