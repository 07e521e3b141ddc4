//! Tests of this module.

use super::*;
use crate::reproduce::orchfs::plan::{PAGES_FREE, PARTS};
use crate::reproduce::study::MAIN;
use crate::reproduce::verdict::{Class, NoResult, Ours};
use granary_lab::record::OpType;

/// The slides make 119 statements, of which one is two rows here: its two ends. Beside them are seven rows of
/// the text's own reclaim, seven of notes of the paper, and four that no number of the slides stands beside.
#[test]
fn every_statement_has_a_row_and_without_runs_no_number_is_made_up() {
    let rows = claims(&Results::default());
    assert_eq!(rows.len(), 119 + 1 + 7 + 7 + 4);
    assert!(rows.iter().all(|j| j.ours.is_none()));
}

/// The drive's command cost was solved so that it comes out.
#[test]
fn the_worst_unaligned_write_is_calibrated_and_the_sizes_in_it_are_arithmetic() {
    let alone = [("unaligned 16 KiB", 10.7), ("host, KB", 20.0)].into();
    let rows = claims(&Results { alone, ..Results::default() });
    let class = |name: &str| rows.iter().find(|j| j.name == name).expect("a row").class();
    assert_eq!(class("3-unaligned-16k"), Class::NotAResult(NoResult::Calibrated));
    assert_eq!(class("3-host"), Class::NotAResult(NoResult::Arithmetic));
}

/// The most alone would lie in the slides' range.
#[test]
fn shares_of_a_write_are_told_with_both_ends() {
    let run = |setting: &str, w: &str, fs: &str, ns: u64| {
        let mut r = Record { workload: w.to_owned(), fs: fs.to_owned(), ..Record::default() };
        for (name, mean_ns) in [("over.write", ns), ("over.fsync", 0)] {
            let op = OpType { mean_ns, ..OpType::default() };
            r.ops.by_type.insert(name.to_owned(), op);
        }
        (setting.to_owned(), r)
    };
    let mut runs = Vec::new();
    for size in PARTS {
        for fs in ON_SSD {
            let w = format!("fsync-{size}");
            let free = if size == "4k" { 99 } else { 70 };
            runs.push(run(MAIN, &w, fs, 100));
            runs.push(run(PAGES_FREE, &w, fs, free));
        }
    }
    let rows = claims(&Results { runs, ..Results::default() });
    let j = rows.iter().find(|j| j.name == "4-page-cache").expect("a row");
    assert_eq!(j.ours, Some(Ours::Span(1.0, 30.0)));
    assert_eq!(j.class().word(), "differs");
}
