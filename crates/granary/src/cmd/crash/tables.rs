//! The tables of `granary crash`, and the same as JSON.

use super::told::{self, Told};
use comfy_table::Table;
use granary_crash::{Coverage, Report, Tally};
use std::collections::BTreeMap;

fn per_second(tally: &Tally) -> f64 {
    tally.report.points as f64 / tally.spent.as_secs_f64().max(1e-9)
}

pub(super) fn print(tallies: &[Tally]) {
    for failure in tallies.iter().flat_map(|t| &t.report.failures) {
        outln!("{failure}\n");
    }
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING);
    table.set_header([
        "file system",
        "load",
        "runs",
        "points",
        "in recovery",
        "files compared",
        "points/s",
        "failures",
    ]);
    for tally in tallies.iter().filter(|tally| tally.runs > 0) {
        let c = &tally.report.coverage;
        table.add_row([
            tally.fs.clone(),
            tally.load.clone(),
            tally.runs.to_string(),
            tally.report.points.to_string(),
            c.in_recovery.to_string(),
            c.files.to_string(),
            format!("{:.0}", per_second(tally)),
            tally.report.failures.len().to_string(),
        ]);
    }
    outln!("{table}");
    let left_out = tallies.iter().filter(|tally| tally.report.points == 0).count();
    if left_out > 0 {
        outln!(
            "\n{left_out} of {} pairs of file system and load had no crash point in this time: give it more with --time, or \
             name some with --fs and --load",
            tallies.len()
        );
    }
    print_damages(tallies);
    print_errors(tallies);
    let steps = steps(tallies);
    if !steps.is_empty() {
        let mut table = Table::new();
        table.load_preset(comfy_table::presets::NOTHING);
        table.set_header(["rare step", "entered", "images in it"]);
        for (step, (entered, crashed)) in steps {
            table.add_row([step.to_owned(), entered.to_string(), crashed.to_string()]);
        }
        outln!("\n{table}");
    }
}

/// The outcomes of damaged media, for each file system.
fn print_damages(tallies: &[Tally]) {
    let columns = ["damaged media", "damages", "told", "nothing wrong", "content alone", "silent", "repairs"];
    print_of_each(tallies, columns, |coverage| {
        let d = coverage.damages;
        [d.all(), d.told, d.harmless, d.content, d.silent, d.repaired]
    });
}

/// The tries in which commands for metadata failed, for each file system.
fn print_errors(tallies: &[Tally]) {
    print_of_each(tallies, ["errors of metadata", "tries", "commands failed", "not compared"], |coverage| {
        let e = coverage.errors;
        [e.tries, e.commands, e.not_compared]
    });
}

/// A table of numbers of each file system that has any: the first column is its name.
fn print_of_each<const COLUMNS: usize, const NUMBERS: usize>(
    tallies: &[Tally],
    columns: [&str; COLUMNS],
    numbers: impl Fn(&Coverage) -> [u64; NUMBERS],
) {
    let mut all: BTreeMap<&str, Coverage> = BTreeMap::new();
    for tally in tallies {
        all.entry(&tally.fs).or_default().add(&tally.report.coverage);
    }
    all.retain(|_, coverage| numbers(coverage) != [0; NUMBERS]);
    if all.is_empty() {
        return;
    }
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING);
    table.set_header(columns);
    for (fs, coverage) in all {
        table.add_row([fs.to_owned()].into_iter().chain(numbers(&coverage).map(|n| n.to_string())));
    }
    outln!("\n{table}");
}

/// The rare steps of all together.
fn steps(tallies: &[Tally]) -> BTreeMap<&'static str, (u64, u64)> {
    let mut all = Report::default();
    tallies.iter().for_each(|tally| all.add_steps(&tally.report.steps));
    all.steps
}

pub(super) fn json(tallies: &[Tally], told: &[Told]) -> serde_json::Value {
    let tally = |t: &Tally| {
        let failure = |f: &granary_crash::Failure| {
            serde_json::json!({
                "stage": f.stage, "evidence": f.evidence, "replay": f.replay_line(), "needed": told::needed(told, f),
                "lost": told::lost(told, f),
            })
        };
        serde_json::json!({
            "fs": t.fs, "load": t.load, "runs": t.runs, "points": t.report.points, "seconds": t.spent.as_secs_f64(),
            "damages": {
                "told": t.report.coverage.damages.told, "harmless": t.report.coverage.damages.harmless,
                "content": t.report.coverage.damages.content, "silent": t.report.coverage.damages.silent,
                "repaired": t.report.coverage.damages.repaired,
            },
            "errors": {
                "tries": t.report.coverage.errors.tries, "commands": t.report.coverage.errors.commands,
                "not_compared": t.report.coverage.errors.not_compared,
            },
            "in_recovery": t.report.coverage.in_recovery, "files": t.report.coverage.files, "bytes": t.report.coverage.bytes,
            "failures": t.report.failures.iter().map(failure).collect::<Vec<_>>(),
        })
    };
    let step = |(step, (entered, crashed)): (&'static str, (u64, u64))| serde_json::json!({ "step": step, "entered": entered, "images": crashed });
    serde_json::json!({
        "pairs": tallies.iter().map(tally).collect::<Vec<_>>(),
        "steps": steps(tallies).into_iter().map(step).collect::<Vec<_>>(),
    })
}
