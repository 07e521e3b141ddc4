//! The tables of `granary crash`, and the same as JSON.

use super::room::Room;
use super::told::{self, Told};
use comfy_table::Table;
use granary_crash::{Coverage, Report, Tally};
use std::collections::{BTreeMap, BTreeSet};

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
    print_not_reached(tallies);
    print_depths(tallies);
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

/// Pairs that are named one by one, at most.
const NAMED: usize = 12;

/// Where nobody has looked.
fn print_not_reached(tallies: &[Tally]) {
    let reached = |tally: &&Tally| tally.report.points > 0;
    let (some, left_out): (Vec<&Tally>, Vec<&Tally>) = tallies.iter().partition(reached);
    if left_out.is_empty() {
        return;
    }
    outln!(
        "\n{} of {} pairs of file system and load had no crash point: give it more with --time or --points, or name \
         some with --fs and --load",
        left_out.len(),
        tallies.len()
    );
    if left_out.len() <= NAMED {
        left_out.iter().for_each(|tally| outln!("  {} under {}", tally.fs, tally.load));
        return;
    }
    let without = |name: fn(&Tally) -> &str, what: &str| {
        let all: BTreeSet<&str> = left_out.iter().map(|tally| name(tally)).collect();
        let none: Vec<&str> =
            all.into_iter().filter(|of| !some.iter().any(|tally| name(tally) == *of)).collect();
        if !none.is_empty() {
            outln!("  {what} without any: {}", none.join(", "));
        }
    };
    without(|tally| &tally.fs, "file systems");
    without(|tally| &tally.load, "loads");
}

/// Points behind one interrupted recovery, behind two in a row, and so on, as deep as there are some.
fn depths(coverage: &Coverage) -> &[u64] {
    let deepest = coverage.depths.iter().rposition(|points| *points > 0);
    &coverage.depths[..deepest.map_or(0, |deepest| deepest + 1)]
}

/// How many recoveries in a row were interrupted, for each file system.
fn print_depths(tallies: &[Tally]) {
    let all = of_each(tallies);
    let deepest = all.values().map(|coverage| depths(coverage).len()).max().unwrap_or(0);
    if deepest == 0 {
        return;
    }
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING);
    let depth = |n: usize| if n == 1 { "1 deep".to_owned() } else { format!("{n}") };
    table.set_header(["interrupted recoveries".to_owned()].into_iter().chain((1..=deepest).map(depth)));
    for (fs, coverage) in all.iter().filter(|(_, coverage)| !depths(coverage).is_empty()) {
        let numbers = coverage.depths[..deepest].iter().map(u64::to_string);
        table.add_row([(*fs).to_owned()].into_iter().chain(numbers));
    }
    outln!("\n{table}");
}

/// The coverage of each file system.
fn of_each(tallies: &[Tally]) -> BTreeMap<&str, Coverage> {
    let mut all: BTreeMap<&str, Coverage> = BTreeMap::new();
    for tally in tallies {
        all.entry(&tally.fs).or_default().add(&tally.report.coverage);
    }
    all
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
    let mut all = of_each(tallies);
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

/// A failure, for programs to read.
pub(super) fn finding(f: &granary_crash::Failure, told: &[Told]) -> serde_json::Value {
    serde_json::json!({
        "stage": f.stage, "evidence": f.evidence, "replay": f.replay_line(), "needed": told::needed(told, f),
        "lost": told::lost(told, f),
    })
}

pub(super) fn json(tallies: &[Tally], told: &[Told], room: &Room) -> serde_json::Value {
    let tally = |t: &Tally| {
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
            "interrupted_recoveries": depths(&t.report.coverage),
            "in_recovery": t.report.coverage.in_recovery, "files": t.report.coverage.files, "bytes": t.report.coverage.bytes,
            "failures": t.report.failures.iter().map(|f| finding(f, told)).collect::<Vec<_>>(),
        })
    };
    let step = |(step, (entered, crashed)): (&'static str, (u64, u64))| serde_json::json!({ "step": step, "entered": entered, "images": crashed });
    serde_json::json!({
        "pairs": tallies.iter().map(tally).collect::<Vec<_>>(),
        "memory": room.json(),
        "steps": steps(tallies).into_iter().map(step).collect::<Vec<_>>(),
    })
}
