//! The matrix and the claims as tables.

use super::claims::Judged;
use super::sum;
use crate::record::Record;
use crate::report::{grid, group, right};
use comfy_table::Cell;
use granary_units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

fn factor(v: Option<f64>) -> String {
    v.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"))
}

/// Workloads by file systems: throughput, host link and flash in both directions. All but the throughput with the drain.
pub fn matrix_table(records: &[Record]) -> String {
    let header = [
        "workload",
        "fs",
        "ops/s",
        "meta written",
        "meta read",
        "data written",
        "data read",
        "flash programs",
        "flash reads",
        "W ampl. + drain",
        "R ampl. + drain",
    ];
    let mut t = grid(header.map(str::to_owned).to_vec());
    let mut last = "";
    for r in records {
        let ((mw, mr), (dw, dr), (programs, reads)) = (sum::metadata(r), sum::data(r), sum::flash(r));
        let (wa, ra) = sum::amplification(r);
        let mut cells = vec![Cell::new(if r.workload == last { "" } else { &r.workload }), Cell::new(&r.fs)];
        cells.push(right(group(r.ops.per_s.round() as u64)));
        cells.extend([mw, mr, dw, dr].map(|n| right(Bytes(n).to_string())));
        cells.extend([programs, reads].map(|n| right(group(n))));
        cells.extend([wa, ra].map(|v| right(factor(v))));
        t.add_row(cells);
        last = &r.workload;
    }
    t.to_string()
}

/// Paper, ours, ours over the paper's; of claims whose runs were made.
pub fn claims_table(judged: &[Judged]) -> String {
    let header = ["paper", "workloads", "what", "paper", "ours", "ours/paper"];
    let mut t = grid(header.map(str::to_owned).to_vec());
    let (ran, missing): (Vec<_>, Vec<_>) = judged.iter().partition(|j| j.ran);
    for j in &ran {
        let c = &j.claim;
        t.add_row([
            Cell::new(c.place),
            Cell::new(c.on()),
            Cell::new(c.metric()),
            right(format!("{:.2}", c.paper)),
            right(factor(j.ours)),
            right(factor(j.ours.map(|o| o / c.paper))),
        ]);
    }
    let mut out = if ran.is_empty() { String::new() } else { format!("{t}\n") };
    if !missing.is_empty() {
        let all = judged.len();
        out += &format!("{} of the paper's {all} numbers are about runs that were not made\n", missing.len());
    }
    out
}

/// Warnings, each once, with the runs that it concerns; those that differ in numbers only are one.
pub fn warnings_text(records: &[Record]) -> String {
    let mut by_kind: BTreeMap<String, (BTreeSet<&str>, Vec<String>)> = BTreeMap::new();
    for r in records {
        for text in &r.warnings {
            let kind = text.chars().filter(|c| !c.is_ascii_digit()).collect();
            let (texts, runs) = by_kind.entry(kind).or_default();
            texts.insert(text);
            runs.push(format!("{} {}", r.workload, r.fs));
        }
    }
    let line = |(texts, runs): (BTreeSet<&str>, Vec<String>)| {
        let of = if runs.len() == records.len() { "all runs".to_owned() } else { runs.join(", ") };
        let one_of = if texts.len() > 1 { "; the numbers are one run's" } else { "" };
        format!("warning ({of}{one_of}): {}\n", texts.first().expect("each kind has a text"))
    };
    by_kind.into_values().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_that_differ_in_numbers_only_are_one() {
        let run = |fs: &str, warnings: &[&str]| Record {
            workload: "w".to_owned(),
            fs: fs.to_owned(),
            warnings: warnings.iter().map(|w| (*w).to_owned()).collect(),
            ..Record::default()
        };
        let records = [run("a", &["lasted 0.5 s", "short"]), run("b", &["lasted 0.6 s"])];
        assert_eq!(
            warnings_text(&records),
            "warning (all runs; the numbers are one run's): lasted 0.5 s\nwarning (w a): short\n"
        );
    }
}
