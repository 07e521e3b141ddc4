//! `granary drive bench`.

use super::{Bed, Plan, config, parse_precondition, print, usage};
use crate::cli::DriveBenchArgs;
use crate::progress::Fraction;
use granary_lab::LabError;
use granary_lab::drive::job::Pattern;
use granary_lab::drive::{Bench, DriveRecord, Job, Precondition, fio, table};
use granary_units::{Bytes, Nanos};

/// Runs the command.
pub fn run(args: &DriveBenchArgs) -> Result<(), LabError> {
    let (config, testbed) = config(&args.drive)?;
    let jobs = jobs(args)?;
    if args.warm && jobs.iter().any(|j| j.pattern.first.is_byte() && j.size.is_none()) {
        return Err(LabError::Usage(
            "--warm stores every line of byte jobs: say which with --size".to_owned(),
        ));
    }
    if args.warm && !jobs.iter().any(|j| j.pattern.first.is_byte()) {
        return Err(LabError::Usage(
            "--warm stores the lines of byte jobs, and there is none: blocks are warmed by --precondition"
                .to_owned(),
        ));
    }
    let precondition = match &args.precondition {
        Some(text) => parse_precondition(text)?,
        // A new drive answers reads without touching its flash.
        None if jobs.iter().any(|j| !j.pattern.first.writes()) => Precondition::Fill,
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
    };
    let measured = bench.run(|phase, part| bar.set(phase, part));
    bar.finish();
    let measured = measured?;
    bed.finish()?;
    bed.clock.report(measured.jobs.iter().map(|j| j.accesses).sum());
    bed.origin.warm = args.warm;
    let record = DriveRecord::new(bed.origin, &config, &jobs, &measured);
    print(&record, args.drive.json, table);
    Ok(())
}

fn jobs(args: &DriveBenchArgs) -> Result<Vec<Job>, LabError> {
    if let Some(path) = &args.job {
        let text = std::fs::read_to_string(path)
            .map_err(|source| LabError::Io { what: format!("reading {}", path.display()), source })?;
        return fio::parse(&path.display().to_string(), &text);
    }
    let mut out = Vec::new();
    for name in &args.rw {
        let pattern = Pattern::named(name).ok_or_else(|| usage("--rw", name, &Pattern::NAMES.join(", ")))?;
        let byte = pattern.first.is_byte();
        out.push(Job {
            name: name.clone(),
            pattern,
            block_size: match &args.bs {
                Some(bs) => bytes("--bs", bs)?,
                None if byte => Bytes(64),
                None => Bytes::kib(4),
            },
            depth: args.iodepth.unwrap_or(if byte { 1 } else { 32 }),
            clients: args.numjobs,
            offset: bytes("--offset", &args.offset)?,
            size: args.size.as_deref().map(|s| bytes("--size", s)).transpose()?,
            read_percent: args.rwmixread,
            random_map: !args.norandommap,
            runtime: args
                .runtime
                .as_deref()
                .map(|t| fio::time(t).map_err(|m| LabError::Usage(format!("--runtime: {m}"))))
                .transpose()?,
            time_based: args.runtime.is_some(),
            lines: None,
            accesses: if args.runtime.is_some() {
                args.accesses
            } else {
                Some(args.accesses.unwrap_or(200_000))
            },
        });
    }
    Ok(out)
}

fn bytes(flag: &str, text: &str) -> Result<Bytes, LabError> {
    text.parse().map_err(|e| LabError::Usage(format!("{flag} {text}: {e}")))
}
