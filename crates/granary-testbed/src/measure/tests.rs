//! Tests of this module.

use super::*;
use crate::builtin::builtins;

/// Every value that a paper states is what its testbed measures; docs/TESTBEDS.md is what is measured.
#[test]
fn testbeds_measure_what_their_papers_state() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/TESTBEDS.md");
    let doc = std::fs::read_to_string(path).expect("docs/TESTBEDS.md");
    for (name, _) in builtins() {
        let rows = measure(name).expect(name);
        println!("## {name}\n\n{}", markdown(&rows));
        for row in &rows {
            if let Some(ratio) = row.ratio() {
                let tolerance = row.what.tolerance();
                assert!((ratio - 1.0).abs() <= tolerance, "{name}: {}: {} x {ratio}", row.title, row.shown());
            }
        }
        let (_, section) = doc.split_once(&format!("## {name}\n")).expect("each testbed has its section");
        let section = section.split("\n## ").next().unwrap_or_default();
        for row in &rows {
            let start = format!("| {} |", row.title);
            let line =
                section.lines().find(|l| l.starts_with(&start)).unwrap_or_else(|| panic!("{name}: {start}"));
            let there = line.split('|').nth(3).map(str::trim).unwrap_or_default();
            assert!(
                near(there, &row.shown()),
                "{name}: {}: documented {there}, measured {}",
                row.title,
                row.shown()
            );
        }
    }
}

/// Whether two figures of the same unit differ by at most 2 %.
fn near(a: &str, b: &str) -> bool {
    let parts = |s: &str| {
        let at = s.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(s.len());
        (s[..at].parse::<f64>().unwrap_or(f64::NAN), s[at..].to_owned())
    };
    let ((a, unit_a), (b, unit_b)) = (parts(a), parts(b));
    unit_a == unit_b && (a / b - 1.0).abs() < 0.02
}
