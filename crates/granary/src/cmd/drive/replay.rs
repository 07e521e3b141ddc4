//! `granary drive replay`.

use super::{Bed, Plan, config, ended, parse_precondition, print, usage, with_firmware};
use crate::cli::DriveReplayArgs;
use crate::failure::Failure;
use crate::progress::Fraction;
use granary_bench::replay::Replayed;
use granary_bench::{Pace, Precondition, Replay, ReplayRecord, replay_table};
use granary_lab::LabError;
use granary_trace::TraceError;
use granary_trace::drive::{self as trace, Choice, Format, blkparse::Action};

/// Runs the command.
pub fn run(args: &DriveReplayArgs) -> Result<(), Failure> {
    let format = args
        .format
        .as_deref()
        .map(|name| Format::named(name).ok_or_else(|| usage("--format", name, &Format::names())));
    let event = match &args.event {
        Some(name) => Action::named(name).ok_or_else(|| usage("--event", name, "D and Q"))?,
        None => Action::default(),
    };
    let pace = match args.as_fast_as_possible {
        true if args.depth == 0 => return Err(usage("--depth", "0", "1 and more").into()),
        true => Pace::Fast(args.depth),
        false if !(args.scale > 0.0 && args.scale <= 1e6) => {
            return Err(usage(
                "--scale",
                &args.scale.to_string(),
                "factors above 0, up to 1000000; --as-fast-as-possible leaves the intervals out",
            )
            .into());
        }
        false => Pace::Stamped(args.scale),
    };
    let name = args.trace.display().to_string();
    let choice = Choice { format: format.transpose()?, event, device: args.device.clone(), cut: args.cut };
    let mut opened = trace::open(&args.trace, &choice)?;
    without_effect(args, &name, opened.format)?;
    let plan = plan(args, &name, opened.header.as_ref())?;
    let config = plan.config.clone();
    let bar = Fraction::new();
    let bed = Bed::new(plan, &args.drive, &bar)?;
    let replay = Replay {
        drive: bed.drive(),
        name: &name,
        pace,
        wrap: args.wrap,
        mark: &|now, phase| bed.mark(now, phase),
        stop: &|| bed.stop.is_asked(),
    };
    let total = opened.bytes.max(1) as f64;
    let replayed = replay.run(&mut *opened.source, |at| bar.set("replay", at as f64 / total));
    bar.finish();
    let replayed = replayed?;
    bed.finish()?;
    bed.report(replayed.ops.values().map(|o| o.accesses).sum());
    let mut record = ReplayRecord::new(bed.origin, &config, &name, opened.format.name(), pace, &replayed);
    record.warnings.extend(part_of_a_run(opened.header.as_ref(), &replayed));
    print(&record, &args.drive, replay_table);
    ended(&bed.stop)
}

/// The message about a record whose run did not come to its end.
fn part_of_a_run(header: Option<&trace::native::Header>, replayed: &Replayed) -> Option<String> {
    if let Some(count) = replayed.seen.cut {
        return Some(format!(
            "the record is cut off: these are the {count} operations that it has whole, and no checksum vouches for them"
        ));
    }
    // A record of a mount or an export has no measured part.
    let measured = |h: &trace::native::Header| h.source.starts_with("run ") || h.source == "drive bench";
    (header.is_some_and(measured) && !replayed.whole).then(|| {
        "the recorded run was stopped before its end: the figures are of what it had done".to_owned()
    })
}

/// Refuses options that say nothing of a trace of this format.
fn without_effect(args: &DriveReplayArgs, name: &str, format: Format) -> Result<(), LabError> {
    let refused = |option: &str, of: &str| {
        let format = format.name();
        Err(LabError::Usage(format!(
            "{option} chooses {of}, and {name} is a trace of the format {format}: leave it out"
        )))
    };
    if args.event.is_some() && format != Format::Blkparse {
        return refused("--event", "among the events of blkparse");
    }
    if args.cut && format != Format::Granary {
        return refused("--cut", "what there is of a Granary record");
    }
    if args.device.is_some() && format == Format::Granary {
        return refused("--device", "one of the devices of a block trace");
    }
    Ok(())
}

/// The drive: of the testbed that was asked for, else that of the record.
fn plan(
    args: &DriveReplayArgs,
    name: &str,
    header: Option<&trace::native::Header>,
) -> Result<Plan, LabError> {
    let given = args.precondition.as_deref().map(parse_precondition).transpose()?;
    let source = format!("drive replay {name}");
    let own = args.drive.testbed.is_some() || !args.drive.set.is_empty();
    if let (Some(h), false) = (header, own) {
        let recorded = Precondition::parse(&h.precondition)
            .map_err(|message| TraceError::BadRecord { file: name.to_owned(), message })?;
        return Ok(Plan {
            config: with_firmware(h.drive.clone(), &args.drive)?,
            testbed: h.testbed.clone(),
            set: h.set.clone(),
            seed: args.drive.seed.unwrap_or(h.seed),
            precondition: given.unwrap_or(recorded),
            source,
        });
    }
    let (config, testbed) = config(&args.drive)?;
    // Of a record, everything that its drive held is among its calls but the precondition.
    let usual = match header {
        Some(h) => Precondition::parse(&h.precondition).unwrap_or(Precondition::None),
        None => Precondition::Fill,
    };
    let (seed, set) = (args.drive.seed.or(header.map(|h| h.seed)).unwrap_or(1), args.drive.set.clone());
    Ok(Plan { config, testbed, set, seed, precondition: given.unwrap_or(usual), source })
}
