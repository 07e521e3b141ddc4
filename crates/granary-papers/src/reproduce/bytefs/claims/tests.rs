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
    claims(&results).into_iter().find(|j| j.on == on && j.what == what).expect("a row").ours
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
fn every_row_without_a_number_says_why_and_no_two_rows_are_one() {
    let all = claims(&Results::default());
    assert!(all.len() >= 84, "{} rows", all.len());
    assert!(all.iter().all(|j| j.ours.is_none()));
    let mut named: Vec<_> = all.iter().map(|j| (j.figure, j.on, j.what)).collect();
    named.sort_unstable();
    named.dedup();
    assert_eq!(named.len(), all.len());
    let known = |f: &&Judged| f.figure != "7" && !super::super::plan::FIGURES.contains(&f.figure);
    assert!(all.iter().find(known).is_none());
}

#[test]
fn shares_are_of_what_went_in_that_direction() {
    let runs: Vec<_> =
        WORKLOADS.iter().flat_map(|w| ["ext4", "f2fs"].map(|fs| record(w, fs, 1.0, 100))).collect();
    assert_eq!(ours(runs.clone(), "all", "inode share of writes, ext4, %"), Some(50.0));
    assert_eq!(ours(runs, "all", "dentry share of reads, %"), None, "nothing was read");
}
