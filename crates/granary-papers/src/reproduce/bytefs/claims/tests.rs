//! Tests of this module.

use super::*;
use crate::reproduce::study::MAIN;
use granary_bench::traffic::Interface;
use granary_lab::record::{Bytes2, Ops};
use std::collections::BTreeMap;

fn record(workload: &str, fs: &str, per_s: f64, written: u64) -> (String, Record) {
    let link = |n: u64| Interface {
        read_bytes: BTreeMap::new(),
        write_bytes: BTreeMap::from([("data".to_owned(), n), ("inode".to_owned(), n)]),
    };
    let record = Record {
        workload: workload.to_owned(),
        fs: fs.to_owned(),
        ops: Ops { total: 1, per_s, by_type: BTreeMap::new() },
        app: Bytes2 { read_bytes: 0, write_bytes: 1000 },
        host: Host { block: link(written), ..Host::default() },
        amplification: granary_lab::record::Amplification { read: None, write: Some(written as f64 / 500.0) },
        ..Record::default()
    };
    (MAIN.to_owned(), record)
}

fn ours(runs: Vec<(String, Record)>, on: &str, what: &str) -> Option<f64> {
    let results = Results { runs, ..Results::default() };
    claims(&results)
        .into_iter()
        .find(|j| j.on == on && j.what == what)
        .expect("a row")
        .ours
        .map(|n| n.ends().0)
}

#[test]
fn a_number_needs_all_its_runs() {
    let mut runs = vec![record("varmail", "bytefs", 300.0, 0), record("varmail", "f2fs", 200.0, 1500)];
    assert_eq!(ours(runs.clone(), "varmail", "throughput ByteFS/F2FS"), Some(1.5));
    assert_eq!(ours(runs.clone(), "varmail", "write amplification F2FS"), Some(3.0));
    assert_eq!(ours(runs.clone(), "varmail", "read amplification F2FS"), None);
    assert_eq!(ours(runs.clone(), "micro", "throughput ByteFS/F2FS, mean"), None);
    for w in MICRO {
        runs.extend([record(w, "bytefs", 300.0, 0), record(w, "f2fs", 100.0, 0)]);
    }
    assert_eq!(ours(runs, "micro", "throughput ByteFS/F2FS, mean"), Some(3.0));
}

#[test]
fn every_statement_has_a_row_and_without_runs_no_number_is_made_up() {
    let all = claims(&Results::default());
    assert!(all.len() >= 83, "{} rows", all.len());
    assert!(all.iter().all(|j| j.ours.is_none()));
    let known = |f: &&Judged| f.figure != "7" && !super::super::plan::FIGURES.contains(&f.figure);
    assert!(all.iter().find(known).is_none());
}

/// 5.1 would be twice the paper's 1.2 to 1.5, and the mean of both nearer.
#[test]
fn of_mkdir_and_rmdir_both_ends_are_told() {
    let runs = ["mkdir", "rmdir"]
        .into_iter()
        .zip([1.3, 5.1])
        .flat_map(|(w, gain)| [record(w, "bytefs", 100.0 * gain, 0), record(w, "f2fs", 100.0, 0)]);
    let results = Results { runs: runs.collect(), ..Results::default() };
    let all = claims(&results);
    let j = all.iter().find(|j| j.name == "6-directories-f2fs").expect("a row");
    assert_eq!(j.class().word(), "same direction", "{j:?}");
    assert!(j.ratio().is_some_and(|r| (r - 5.1 / 1.5).abs() < 1e-9), "{:?}", j.ratio());
}

#[test]
fn shares_are_of_what_went_in_that_direction() {
    let runs: Vec<_> =
        WORKLOADS.iter().flat_map(|w| ["ext4", "f2fs"].map(|fs| record(w, fs, 1.0, 100))).collect();
    assert_eq!(ours(runs.clone(), "all", "inode share of writes, ext4, %"), Some(50.0));
    assert_eq!(ours(runs, "all", "dentry share of reads, %"), None, "nothing was read");
}
