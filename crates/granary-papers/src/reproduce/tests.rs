//! Rules for the rows, reasons and choices of every study.

use super::*;
use std::collections::BTreeSet;

fn plan<'a>(study: &Study, set: &'a [String]) -> Plan<'a> {
    Plan {
        testbed: study.testbed,
        set,
        scale: 0.0005,
        seed: 1,
        commit: "",
        workloads: &[],
        file_systems: &[],
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&w| w.to_owned()).collect()
}

#[test]
fn rows_have_short_names_that_are_their_own() {
    for study in STUDIES {
        let rows = (study.claims)(&Results::default());
        let names: BTreeSet<&str> = rows.iter().map(|j| j.name.as_str()).collect();
        assert_eq!(names.len(), rows.len(), "{}", study.name);
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._+".contains(c);
        for j in &rows {
            assert!(j.name.len() <= 32 && j.name.chars().all(plain), "{}", j.name);
            assert_eq!(study.row(&format!("{}/{}", study.name, j.name)).expect("a row").name, j.name);
        }
        let said = study.row("nothing").expect_err("no row").to_string();
        assert!(said.contains("has no row `nothing`"), "{said}");
    }
}

/// A statement in words ("up to", "mean") and the number that is taken of the set are the same.
#[test]
fn up_to_is_the_most_of_a_set_and_a_range_has_both_ends() {
    for study in STUDIES {
        for j in (study.claims)(&Results::default()) {
            let result = matches!(j.kind, Kind::Result(_)) && j.needs.is_empty();
            if result && matches!(j.paper, Paper::Range(..)) {
                assert_eq!(j.stat, Stat::Ends, "{}/{}", study.name, j.name);
            }
            // A gain over the better of two others is the less of two.
            let over = j.what.contains(" over ") || j.set.is_empty();
            if result && j.what.contains("up to") && !over {
                assert_eq!(j.stat, Stat::Most, "{}/{}", study.name, j.name);
            }
            if result && j.what.ends_with(", mean") {
                assert_eq!(j.stat, Stat::Mean, "{}/{}", study.name, j.name);
            }
            if j.stat == Stat::Most {
                assert!(!j.set.is_empty(), "{}/{}: the most of what?", study.name, j.name);
            }
        }
    }
}

#[test]
fn every_experiment_plans_runs_of_its_row_s_figure() {
    let mut experiments = 0;
    for study in STUDIES {
        for j in (study.claims)(&Results::default()) {
            let Why::Experiment(e) = j.why else { continue };
            experiments += 1;
            let name = format!("{}/{}", study.name, j.name);
            assert!((study.belongs)(j.figure, &owned(e.figures)), "{name}");
            assert!(matches!(j.kind, Kind::Result(_)) && !e.set.is_empty(), "{name}");
            let (set, workloads, file_systems) = (owned(e.set), owned(e.workloads), owned(e.file_systems));
            let plan = Plan { workloads: &workloads, file_systems: &file_systems, ..plan(study, &set) };
            let runs = plan.runs(study, &owned(e.figures)).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(!runs.is_empty(), "{name}");
        }
    }
    assert!(experiments >= 12, "{experiments}");
}

/// Of each study so many workloads that every setting is among their runs.
fn some(study: &Study) -> Vec<String> {
    owned(match study.name {
        "bytefs" => &["varmail"],
        "pebblessd" => &["sync-4k", "varmail", "oltp", "scattered"],
        "devfs" => &["write-1k", "append-1", "file-create", "snappy-4k"],
        "orchfs" => &["nosync-1m", "fsync-4k", "direct-4k", "over-1m", "grow"],
        _ => &["rewrite-4k", "nvlog-mixed-0", "moodle", "stacking-0"],
    })
}

#[test]
fn every_paper_has_choices_and_each_can_be_made_in_all_settings() {
    for study in STUDIES {
        assert!(study.choices.len() >= 2, "{}", study.name);
        let workloads = some(study);
        for choice in study.choices {
            let name = format!("{}: {}", study.name, choice.name);
            assert!(!choice.reason.is_empty() && !choice.set.is_empty(), "{name}");
            let (set, figures) = (owned(choice.set), owned(study.figures));
            let plan = Plan { workloads: &workloads, ..plan(study, &set) };
            plan.runs(study, &figures).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}
