//! The runs as tables; [`claims`] and [`sensitivity`]: the statements.

mod claims;
mod sensitivity;

use super::study::{MAIN, Results};
use comfy_table::Cell;
use granary_bench::columns::{grid, group, right};
use granary_lab::record::Record;
use granary_units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

pub use claims::{claims_table, summary};
pub use sensitivity::{choices_text, sensitivity_table};

/// Workloads by file systems: throughput, host link and flash in both directions, of the measured run.
pub fn matrix_table(results: &Results) -> String {
    let header = ["workload", "fs", "ops/s", "meta w", "meta r", "data w", "data r", "programs", "flash r"];
    let mut t = grid(header.map(str::to_owned).to_vec());
    let mut last = String::new();
    for (setting, r) in &results.runs {
        let name = if setting == MAIN { r.workload.clone() } else { format!("{} ({setting})", r.workload) };
        let h = &r.host;
        let mut cells = vec![Cell::new(if name == last { "" } else { &name }), Cell::new(&r.fs)];
        cells.push(right(group(r.ops.per_s.round() as u64)));
        let bytes = [h.metadata_written(), h.metadata_read(), h.data_written(), h.data_read()];
        cells.extend(bytes.map(|n| right(Bytes(n).to_string())));
        cells.extend([r.flash.programs(), r.flash.reads()].map(|n| right(group(n))));
        t.add_row(cells);
        last = name;
    }
    t.to_string()
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
        let of = match runs.len() {
            n if n == records.len() => "all runs".to_owned(),
            n if n > 12 => format!("{n} runs"),
            _ => runs.join(", "),
        };
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
