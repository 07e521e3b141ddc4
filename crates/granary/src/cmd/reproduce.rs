//! `granary reproduce bytefs`: the paper's figures rerun; its numbers beside ours.

use crate::cli::ReproduceArgs;
use crate::cmd::interrupt::{self, Stop};
use crate::cmd::results::Outputs;
use crate::cmd::run::{all_until, ended};
use crate::failure::Failure;
use granary_lab::LabError;
use granary_lab::experiment::Experiment;
use granary_lab::report::json_line;
use granary_lab::reproduce::{
    Judged, Plan, Results, claims, claims_table, matrix_table, recovery, sensitivity, sensitivity_table,
    warnings_text,
};
use std::fmt::Write as _;

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    if args.paper != "bytefs" {
        return Err(Failure::usage(format!("no experiments of '{}': there are those of bytefs", args.paper)));
    }
    if args.sensitivity {
        return sensitive(args);
    }
    let mut outputs = Outputs::open(&args.export, args.out.as_deref())?;
    let stop = Stop::watch()?;
    stop.measuring();
    let (results, failed) = made(args, &args.set, args.seed, &stop)?;
    if results.runs.is_empty() && results.recovery.is_none() {
        return ended(&failed);
    }
    let records = results.records();
    let mut json = String::new();
    for r in &records {
        let _ = writeln!(json, "{}", json_line(r));
    }
    let judged = asked(args, &results);
    let text = format!(
        "ByteFS (ASPLOS'25) at scale {} on {}, seed {}\n\n{}\n\n{}\n{}",
        args.scale,
        args.testbed,
        args.seed,
        matrix_table(&results),
        claims_table(&judged),
        warnings_text(&records)
    );
    out!("{}", if args.json { &json } else { &text });
    outputs.write_claims(&judged, &results, &json, &text)?;
    end(&stop, &failed)
}

/// The end of the command: stopped, failed or done.
fn end(stop: &Stop, failed: &[LabError]) -> Result<(), Failure> {
    match stop.signal() {
        None => ended(failed),
        Some(signal) => {
            interrupt::end_records();
            failed.iter().for_each(|e| say!("{e}"));
            Err(Failure::stopped(signal))
        }
    }
}

/// The statements of the figures that were asked for.
fn asked(args: &ReproduceArgs, results: &Results) -> Vec<Judged> {
    let figures = |j: &Judged| match j.figure {
        // The figures for all workloads are two.
        "10" | "11" => ["10", "11"].iter().any(|f| args.figure.iter().any(|asked| asked == f)),
        "7" => args.figure.iter().any(|f| f == "6"),
        figure => args.figure.iter().any(|asked| asked == figure),
    };
    let mut judged = claims(results);
    judged.retain(figures);
    judged
}

/// Makes the runs of the figures.
fn made(
    args: &ReproduceArgs,
    set: &[String],
    seed: u64,
    stop: &Stop,
) -> Result<(Results, Vec<LabError>), Failure> {
    let plan = Plan {
        testbed: &args.testbed,
        set,
        scale: args.scale,
        seed,
        commit: env!("GRANARY_COMMIT"),
        workloads: &args.workload,
        file_systems: &args.fs,
    };
    let mut planned = plan.runs(&args.figure)?;
    if let Some(dir) = &args.record {
        let io = |source| LabError::Io { what: format!("making {}", dir.display()), source };
        std::fs::create_dir_all(dir).map_err(io)?;
        for p in &mut planned {
            let setting = p.setting.replace([' ', '/', ','], "-");
            let e = &mut p.experiment;
            e.record = Some(dir.join(format!("{setting}-{}-{}.trace", e.workload.name, e.fs)));
        }
    }
    let experiments: Vec<Experiment> = planned.iter().map(|p| p.experiment.clone()).collect();
    let (mut runs, mut failed) = (Vec::new(), Vec::new());
    if !experiments.is_empty() {
        let (records, errors) = all_until(&experiments, args.jobs, Some(stop.flag()));
        failed = errors;
        // Of those that failed there is no record; the others are in the order of the plan.
        let mut settings = planned.iter();
        for record in records {
            let of = settings.find(|p| {
                let e = &p.experiment;
                e.workload.name == record.workload && e.fs == record.fs && e.set == record.set
            });
            runs.push((of.map_or_else(String::new, |p| p.setting.clone()), record));
        }
    }
    let alone = |figure: &String| figure == "recovery" || figure == "4.3";
    let recovery = if args.figure.iter().any(alone) && stop.signal().is_none() {
        say!("recovery: a full log on the drive alone");
        Some(recovery(&plan.whole()?, seed)?)
    } else {
        None
    };
    Ok((Results { runs, recovery }, failed))
}

/// The statements under each of the choices that the testbed makes, and with three seeds.
fn sensitive(args: &ReproduceArgs) -> Result<(), Failure> {
    let mut outputs = Outputs::open(&[], args.out.as_deref())?;
    let stop = Stop::watch()?;
    stop.measuring();
    let (mut columns, mut failed, mut json) = (Vec::new(), Vec::new(), String::new());
    let seeds = [args.seed + 1, args.seed + 2].map(|seed| (format!("seed {seed}"), &[][..], seed));
    let choices = sensitivity().map(|(name, changes)| (name.to_owned(), changes, args.seed));
    for (name, changes, seed) in choices.into_iter().chain(seeds) {
        if stop.signal().is_some() {
            break;
        }
        say!("{name}");
        let set: Vec<String> =
            args.set.iter().cloned().chain(changes.iter().map(|&c| c.to_owned())).collect();
        let (results, errors) = made(args, &set, seed, &stop)?;
        results.records().iter().for_each(|r| json += &format!("{}\n", json_line(r)));
        failed.extend(errors);
        columns.push((name, asked(args, &results)));
    }
    let text = format!(
        "ByteFS (ASPLOS'25) at scale {} on {}, seed {}: what each choice moves\n\n{}",
        args.scale,
        args.testbed,
        args.seed,
        sensitivity_table(&columns)
    );
    out!("{text}");
    outputs.write(&[], &json, &text)?;
    end(&stop, &failed)
}
