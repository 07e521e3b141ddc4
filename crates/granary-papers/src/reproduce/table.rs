//! The runs and the statements as tables.

use super::study::{MAIN, Results};
use super::verdict::{Judged, Paper};
use comfy_table::{Cell, CellAlignment, ContentArrangement};
use granary_bench::columns::{grid, group, right};
use granary_lab::record::Record;
use granary_units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

fn factor(v: Option<f64>) -> String {
    v.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"))
}

fn verdict(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    }
}

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

/// Paper, ours, ours over the paper's, whether it says the same, and why not; of figures that were asked for.
pub fn claims_table(judged: &[Judged]) -> String {
    let header = ["figure", "on", "what", "paper", "ours", "ratio", "holds", "why"];
    let mut t = grid(header.map(str::to_owned).to_vec());
    t.set_content_arrangement(ContentArrangement::Dynamic).set_width(118);
    // Reasons that several rows share stand once, below.
    let mut reasons: Vec<&str> = Vec::new();
    for j in judged {
        let reason = match j.reason() {
            "" => String::new(),
            why => {
                let known = reasons.iter().position(|r| *r == why);
                let number = known.unwrap_or_else(|| {
                    reasons.push(why);
                    reasons.len() - 1
                });
                format!("({})", number + 1)
            }
        };
        t.add_row([
            Cell::new(j.figure),
            Cell::new(j.on),
            Cell::new(j.what),
            right(j.paper.text()),
            right(factor(j.ours)),
            right(factor(j.ratio())),
            Cell::new(verdict(j.holds())).set_alignment(CellAlignment::Center),
            Cell::new(reason),
        ]);
    }
    let reasons: String = reasons.iter().enumerate().map(|(i, why)| format!("({}) {why}\n", i + 1)).collect();
    let stated: Vec<&Judged> = judged.iter().filter(|j| j.paper != Paper::Silent).collect();
    let count = |of: Option<bool>| stated.iter().filter(|j| j.holds() == of).count();
    let (yes, no, none) = (count(Some(true)), count(Some(false)), count(None));
    let own = match judged.len() - stated.len() {
        0 => String::new(),
        own => format!("; {own} numbers are ours alone"),
    };
    format!(
        "{t}\n{} statements: {yes} hold, {no} do not, {none} without a number{own}\n\n{reasons}",
        stated.len()
    )
}

/// Each statement with a number under each column: what the choices of the testbed move.
pub fn sensitivity_table(columns: &[(String, Vec<Judged>)]) -> String {
    let mut header: Vec<String> = ["figure", "on", "what", "paper"].map(str::to_owned).to_vec();
    header.extend(columns.iter().map(|(name, _)| name.clone()));
    let mut t = grid(header);
    for (i, first) in columns.first().map_or(&[][..], |(_, judged)| judged).iter().enumerate() {
        if columns.iter().all(|(_, judged)| judged[i].ours.is_none()) {
            continue;
        }
        let mut cells = vec![
            Cell::new(first.figure),
            Cell::new(first.on),
            Cell::new(first.what),
            right(first.paper.text()),
        ];
        cells.extend(columns.iter().map(|(_, judged)| {
            let j = &judged[i];
            right(format!("{}{}", factor(j.ours), if j.holds() == Some(false) { " x" } else { "" }))
        }));
        t.add_row(cells);
    }
    format!("{t}\nx: does not say what the paper says\n")
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

    #[test]
    fn a_table_counts_what_holds() {
        let judged = |ours| Judged {
            figure: "6",
            on: "create",
            what: "throughput",
            paper: Paper::Number(6.0),
            factor: true,
            ours,
            why: "because",
        };
        let text = claims_table(&[judged(Some(5.9)), judged(Some(0.5)), judged(None)]);
        assert!(text.contains("3 statements: 1 hold, 1 do not, 1 without a number"), "{text}");
        assert_eq!(
            text.matches("(1)").count(),
            3,
            "near the paper's number there is nothing to explain: {text}"
        );
        assert!(text.ends_with("(1) because\n"), "{text}");
        let columns = [
            ("a".to_owned(), vec![judged(Some(5.9)), judged(None)]),
            ("b".to_owned(), vec![judged(Some(0.5)), judged(None)]),
        ];
        let text = sensitivity_table(&columns);
        assert!(text.contains("0.50 x") && text.matches("create").count() == 1, "{text}");
    }
}
