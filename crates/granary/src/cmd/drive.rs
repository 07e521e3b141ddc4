//! `granary drive bench`: raw jobs on an emulated drive.

use crate::cli::{DriveBenchArgs, DriveBenchKind, DriveCommand};
use crate::cmd::moves;
use crate::progress::Fraction;
use granary_lab::LabError;
use granary_lab::drive::job::Pattern;
use granary_lab::drive::record::Origin;
use granary_lab::drive::{Bench, DriveRecord, Job, Precondition, fio, table};
use granary_lab::testbed::Testbed;
use granary_mssd::{Mode, Mssd};
use granary_units::Bytes;
use std::time::Instant;

/// Runs the command.
pub fn run(command: &DriveCommand) -> Result<(), LabError> {
    match command {
        DriveCommand::Bench(DriveBenchArgs { kind: Some(DriveBenchKind::Move(args)), .. }) => {
            moves::run(args)
        }
        DriveCommand::Bench(args) => bench(args),
        DriveCommand::Space(args) => moves::space(args),
    }
}

#[allow(clippy::disallowed_methods, reason = "wall_s says how long it really took")]
fn bench(args: &DriveBenchArgs) -> Result<(), LabError> {
    let testbed = Testbed::load(&args.testbed, &args.set)?;
    let mut config = testbed.drive;
    match args.firmware.as_deref() {
        None => {}
        Some("log") => config = config.with_mode(Mode::Log),
        Some("cache") => config = config.with_mode(Mode::Cache),
        Some(other) => return Err(usage("--firmware", other, "log or cache")),
    }
    let jobs = jobs(args)?;
    let precondition = match &args.precondition {
        Some(text) => {
            Precondition::parse(text).map_err(|m| LabError::Usage(format!("--precondition: {m}")))?
        }
        // A new drive answers reads without touching its flash.
        None if jobs.iter().any(|j| !j.pattern.first.writes()) => Precondition::Fill,
        None => Precondition::None,
    };
    let begun = Instant::now();
    let drive = Mssd::new(&config)
        .map_err(|e| LabError::BadTestbed { file: args.testbed.clone(), message: e.to_string() })?;
    let bar = Fraction::new();
    let bench = Bench { drive: &drive, jobs: &jobs, precondition, seed: args.seed };
    let measured = bench.run(|phase, part| bar.set(phase, part));
    bar.finish();
    let origin = Origin {
        granary: env!("CARGO_PKG_VERSION").to_owned(),
        commit: env!("GRANARY_COMMIT").to_owned(),
        testbed: testbed.name,
        set: args.set.clone(),
        seed: args.seed,
        precondition: precondition.to_string(),
    };
    let record = DriveRecord::new(origin, &config, &jobs, &measured?, begun.elapsed().as_secs_f64());
    if args.json {
        println!(
            "{}",
            serde_json::to_string(&record).expect("a record has only string keys and finite numbers")
        );
    } else {
        print!("{}", table(&record));
    }
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
            accesses: if args.runtime.is_some() {
                args.accesses
            } else {
                Some(args.accesses.unwrap_or(200_000))
            },
        });
    }
    Ok(out)
}

fn usage(flag: &str, given: &str, wanted: &str) -> LabError {
    LabError::Usage(format!("{flag} {given}: there are {wanted}"))
}

fn bytes(flag: &str, text: &str) -> Result<Bytes, LabError> {
    text.parse().map_err(|e| LabError::Usage(format!("{flag} {text}: {e}")))
}
