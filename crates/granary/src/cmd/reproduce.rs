//! `granary reproduce PAPER`: the paper's figures rerun; its numbers beside ours.

use crate::cli::ReproduceArgs;
use crate::cmd::interrupt::{self, Stop};
use crate::cmd::results::Outputs;
use crate::cmd::run::{all_until, ended, fit_together};
use crate::failure::Failure;
use granary_lab::LabError;
use granary_lab::experiment::Experiment;
use granary_lab::report::json_line;
use granary_papers::reproduce::{
    Plan, Results, Study, choices_text, claims_table, matrix_table, sensitivity_table, warnings_text,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;

mod why;

/// The arguments, with the study's values where they leave something out.
struct Asked<'a> {
    args: &'a ReproduceArgs,
    study: &'static Study,
    figures: Vec<String>,
    workloads: Vec<String>,
    file_systems: Vec<String>,
    testbed: &'a str,
    scale: f64,
}

impl Asked<'_> {
    fn of(args: &ReproduceArgs) -> Result<Asked<'_>, LabError> {
        let study = Study::find(&args.paper)?;
        let figures = match args.figure.is_empty() {
            true => study.figures.iter().map(|&f| f.to_owned()).collect(),
            false => args.figure.clone(),
        };
        let testbed = args.testbed.as_deref().unwrap_or(study.testbed);
        let scale = args.scale.unwrap_or(study.scale);
        let (workloads, file_systems) = (args.workload.clone(), args.fs.clone());
        Ok(Asked { args, study, figures, workloads, file_systems, testbed, scale })
    }

    fn title(&self) -> String {
        format!("{} at scale {} on {}, seed {}", self.study.title, self.scale, self.testbed, self.args.seed)
    }
}

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    let asked = Asked::of(args)?;
    if let Some(row) = &args.why {
        return why::run(&asked, row);
    }
    if args.sensitivity {
        return sensitive(&asked);
    }
    let mut outputs = Outputs::open(&args.export, args.out.as_deref())?;
    let stop = Stop::watch()?;
    stop.measuring();
    let (results, failed) = made(&asked, &args.set, args.seed, &stop)?;
    if results.runs.is_empty() && results.alone.is_empty() && !failed.is_empty() {
        return ended(&failed);
    }
    let records = results.records();
    let mut json = String::new();
    for r in &records {
        let _ = writeln!(json, "{}", json_line(r));
    }
    let judged = asked.study.judge(&results, &asked.figures);
    let text = format!(
        "{}\n\n{}\n\n{}\n{}",
        asked.title(),
        matrix_table(&results),
        claims_table(&judged),
        warnings_text(&records)
    );
    out!("{}", if args.json { &json } else { &text });
    outputs.write_claims(asked.study.title, &judged, &results, &json, &text)?;
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

/// Makes the runs of the figures.
fn made(
    asked: &Asked<'_>,
    set: &[String],
    seed: u64,
    stop: &Stop,
) -> Result<(Results, Vec<LabError>), Failure> {
    let args = asked.args;
    let plan = Plan {
        testbed: asked.testbed,
        set,
        scale: asked.scale,
        seed,
        commit: env!("GRANARY_COMMIT"),
        workloads: &asked.workloads,
        file_systems: &asked.file_systems,
    };
    let mut planned = plan.runs(asked.study, &asked.figures)?;
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
        fit_together(&experiments, args.jobs)?;
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
    let alone = match stop.signal() {
        None => (asked.study.alone)(&plan, &asked.figures)?,
        Some(_) => BTreeMap::new(),
    };
    Ok((Results { runs, alone, scale: asked.scale }, failed))
}

/// The statements as the testbed has it, under each of its choices, and with three seeds.
fn sensitive(asked: &Asked<'_>) -> Result<(), Failure> {
    let args = asked.args;
    let mut outputs = Outputs::open(&[], args.out.as_deref())?;
    let stop = Stop::watch()?;
    stop.measuring();
    let (mut columns, mut failed, mut json) = (Vec::new(), Vec::new(), String::new());
    let seeds = [args.seed + 1, args.seed + 2].map(|seed| (format!("seed {seed}"), &[][..], seed));
    let choices = asked.study.choices.iter().map(|c| (c.name.to_owned(), c.set, args.seed));
    let profile = std::iter::once(("testbed".to_owned(), &[][..], args.seed));
    for (name, changes, seed) in profile.chain(choices).chain(seeds) {
        if stop.signal().is_some() {
            break;
        }
        say!("{name}");
        let set: Vec<String> =
            args.set.iter().cloned().chain(changes.iter().map(|&c| c.to_owned())).collect();
        let (results, errors) = made(asked, &set, seed, &stop)?;
        results.records().iter().for_each(|r| json += &format!("{}\n", json_line(r)));
        failed.extend(errors);
        columns.push((name, asked.study.judge(&results, &asked.figures)));
    }
    let text = format!(
        "{}: what each choice moves\n\n{}\n{}",
        asked.title(),
        sensitivity_table(&columns),
        choices_text(asked.study.choices)
    );
    out!("{text}");
    outputs.write(&[], &json, &text)?;
    end(&stop, &failed)
}
