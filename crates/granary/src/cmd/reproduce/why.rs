//! `granary reproduce PAPER --why ROW`: the experiment that shows why a row is another than the paper's.

use super::{Asked, end, made};
use crate::cmd::interrupt::Stop;
use crate::cmd::results::Outputs;
use crate::failure::Failure;
use granary_lab::LabError;
use granary_lab::report::json_line;
use granary_papers::reproduce::{Judged, Why};
use std::fmt::Write as _;

/// Makes the runs of the row without the experiment's change and with it; prints what that shows.
///
/// # Errors
/// No such row, no experiment of it; those of the runs.
pub(super) fn run(asked: &Asked<'_>, name: &str) -> Result<(), Failure> {
    let row = asked.study.row(name)?;
    let Why::Experiment(experiment) = row.why else {
        return Err(Failure::usage(format!(
            "no experiment shows why {} is another than the paper's: it is not explained",
            row.name
        )));
    };
    let owned = |words: &[&str]| words.iter().map(|&w| w.to_owned()).collect::<Vec<String>>();
    let few = Asked {
        figures: owned(experiment.figures),
        workloads: owned(experiment.workloads),
        file_systems: owned(experiment.file_systems),
        ..*asked
    };
    let mut outputs = Outputs::open(&[], asked.args.out.as_deref())?;
    let stop = Stop::watch()?;
    stop.measuring();
    let changed = [asked.args.set.clone(), owned(experiment.set)].concat();
    let (mut failed, mut json): (Vec<LabError>, String) = (Vec::new(), String::new());
    let mut judged = |set: &[String]| -> Result<Judged, Failure> {
        let (results, errors) = made(&few, set, asked.args.seed, &stop)?;
        results.records().iter().for_each(|r| {
            let _ = writeln!(json, "{}", json_line(r));
        });
        failed.extend(errors);
        let rows = few.study.judge(&results, &few.figures);
        let found = rows.into_iter().find(|j| j.name == row.name);
        found.ok_or_else(|| Failure::usage(format!("{}: its figures do not give it", row.name)))
    };
    let without = judged(&asked.args.set)?;
    let with = judged(&changed)?;
    let shown = experiment.shown(&without, &with);
    let text = format!("{}\n\n{}", asked.title(), shown.text(&row, experiment));
    out!("{text}");
    outputs.write(&[], &json, &text)?;
    end(&stop, &failed)
}
