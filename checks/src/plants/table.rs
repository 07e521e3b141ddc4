//! The outcome of all hunts, as lines and as Markdown.

use super::hunt::{Found, Hunt};
use super::patches::{By, Plant};
use std::fmt::Write;

/// An entry of the list.
pub(super) fn entry(plant: &Plant) -> String {
    let by = match &plant.by {
        By::Crash => format!("on {}", plant.targets.join(", ")),
        By::Test { args, reason } => format!("by `cargo test {}`: {reason}", args.join(" ")),
    };
    format!("{:40} {:16} {}\n{:57} {by}", plant.name, plant.class, plant.bug, "")
}

/// The outcome of a run.
pub(super) fn outcome(hunt: &Hunt) -> String {
    let (points, seconds) = (hunt.points, hunt.seconds);
    match (&hunt.found, &hunt.ended) {
        (Some(Found { target, load, report }), _) => {
            format!("found in {points} points, {seconds:.1} s: {target} {load}: {report}")
        }
        (None, Some(why)) => format!("ended ({why}) after {points} points, {seconds:.1} s"),
        (None, None) => format!("nothing in {points} points, {seconds:.1} s"),
    }
}

/// The same of a bug.
pub(super) fn line(plant: &Plant, hunt: &Hunt) -> String {
    let ran = if hunt.ran { "" } else { " (its code never ran)" };
    format!("{}{ran}: {}", plant.name, outcome(hunt))
}

/// In a cell of a table nothing may end it.
fn cell(text: &str) -> String {
    const MOST: usize = 160;
    let text = text.replace('|', "/");
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn yes(plant: &Plant, hunt: &Hunt) -> &'static str {
    match (&hunt.found, &plant.by) {
        (Some(_), By::Crash) => "yes",
        (Some(_), By::Test { .. }) => "by a test",
        (None, _) if hunt.ended.is_some() => "no: ended",
        (None, _) if !hunt.ran => "no: never ran",
        (None, _) => "**no**",
    }
}

/// The table of all bugs, with how many were found.
pub(super) fn markdown(plants: &[Plant], rows: &[Hunt], alarms: &[Found], budget: f64) -> String {
    let mut text = String::new();
    text += "| plant | found | target | load | points | processor seconds | report |\n|---|---|---|---|---|---|---|\n";
    for (plant, hunt) in plants.iter().zip(rows) {
        let found = hunt.found.clone().unwrap_or_default();
        let target = if hunt.found.is_some() { found.target } else { plant.targets.join(", ") };
        let points = if plant.by == By::Crash { hunt.points.to_string() } else { String::new() };
        let (load, report) = (cell(&found.load), cell(&found.report));
        let (name, yes, seconds) = (&plant.name, yes(plant, hunt), hunt.seconds);
        let _ = writeln!(text, "| {name} | {yes} | {target} | {load} | {points} | {seconds:.1} | {report} |");
    }
    let crash: Vec<&Hunt> =
        plants.iter().zip(rows).filter(|(p, _)| p.by == By::Crash).map(|(_, h)| h).collect();
    let by_explorer = crash.iter().filter(|hunt| hunt.found.is_some()).count();
    let tests = rows.len() - crash.len();
    let by_tests = rows.iter().filter(|hunt| hunt.found.is_some()).count() - by_explorer;
    let _ = write!(
        text,
        "\nThe explorer finds {by_explorer} of {} within {budget} s of processor time each, tests {by_tests} of {tests}. \
         Without a bug ",
        crash.len()
    );
    match alarms {
        [] => text += "it finds nothing.",
        alarms => {
            let _ = write!(text, "it finds {}:", alarms.len());
            for Found { target, load, report } in alarms {
                let _ = write!(text, "\n- {target}, {load}: {}", cell(report));
            }
        }
    }
    text
}
