//! The runs of SPFS's statements, each once.

use crate::error::LabError;
use crate::experiment::Experiment;
use crate::reproduce::{MAIN, Plan, Planned};
use granary_workload::Workload;

/// All workloads: what is written, how much at a time, and whether an fsync follows each write.
pub(super) const WORKLOADS: [&str; 8] = [
    "rewrite-4k",
    "append-100",
    "append-1k",
    "append-4k",
    "append-16k",
    "large-sync",
    "small-async",
    "large-async",
];
/// Those of small synchronous writes.
pub(super) const SYNC: [&str; 5] = ["rewrite-4k", "append-100", "append-1k", "append-4k", "append-16k"];
/// File systems below, with and without SPFS.
pub(super) const PAIRS: [(&str, &str); 2] = [("spfs+ext4", "ext4"), ("spfs+f2fs", "f2fs")];

/// The runs for these figures, in a fixed order.
///
/// # Errors
/// A testbed that is not there; no such scale.
pub(super) fn runs(plan: &Plan<'_>, figures: &[String]) -> Result<Vec<Planned>, LabError> {
    let asked = |figure: &str| figures.iter().any(|f| f == figure);
    let mut all: Vec<(String, &str, &str)> = Vec::new();
    if asked("sync") {
        for workload in SYNC {
            all.extend(PAIRS.iter().flat_map(|(a, b)| [*a, *b]).map(|fs| (MAIN.to_owned(), workload, fs)));
        }
    }
    if asked("profiler") {
        for workload in ["rewrite-4k", "large-sync", "small-async", "large-async"] {
            let run = (MAIN.to_owned(), workload, PAIRS[0].0);
            if !all.contains(&run) {
                all.push(run);
            }
        }
    }
    plan.keep(&mut all);
    all.into_iter()
        .map(|(setting, w, fs)| Ok(Planned { experiment: experiment(plan, w, fs)?, setting }))
        .collect()
}

fn experiment(plan: &Plan<'_>, workload: &str, fs: &str) -> Result<Experiment, LabError> {
    let mut parsed = Workload::parse(workload, &text_of(workload, plan.scale), &[])?;
    workload.clone_into(&mut parsed.name);
    plan.experiment(parsed, fs, plan.set.to_vec(), None)
}

/// The text of a workload at a scale: of bytes and operations. The slides name none of their microbenchmarks: these are ours.
fn text_of(name: &str, scale: f64) -> String {
    let part = |n: u64| ((n as f64 * scale) as u64).max(100);
    let (what, size) = name.split_once('-').unwrap_or((name, ""));
    let (flowop, iosize, sync) = match (what, size) {
        ("append", size) => ("appendfile", size, true),
        ("rewrite", size) => ("write", size, true),
        ("small", _) => ("write", "4k", false),
        (_, "sync") => ("write", "1m", true),
        _ => ("write", "1m", false),
    };
    let random = if flowop == "write" { ",random" } else { "" };
    let fsync = if sync { "  flowop fsync name=s,fd=1\n" } else { "" };
    let count = part(if iosize == "1m" { 2_000 } else { 20_000 }) * if sync { 2 } else { 1 };
    format!(
        "define file name=f,path=/d,size=256m,prealloc=100\n\
         define process name=p,instances=1\n{{\n thread name=t,memsize=1m,instances=1\n {{\n  \
         flowop {flowop} name=w,filesetname=f,fd=1{random},iosize={iosize}\n{fsync}  \
         flowop finishoncount name=end,value={count}\n }}\n}}\ncreate files\nrun\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Study;

    #[test]
    fn every_workload_parses_and_every_figure_has_its_runs() {
        for name in WORKLOADS {
            let text = text_of(name, 0.001);
            Workload::parse(name, &text, &[]).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
        }
        let study = Study::find("spfs").expect("a study");
        let plan = Plan {
            testbed: study.testbed,
            set: &[],
            scale: 0.001,
            seed: 1,
            commit: "",
            workloads: &[],
            file_systems: &[],
        };
        let count = |figure: &str| plan.runs(study, &[figure.to_owned()]).expect("there is a plan").len();
        assert_eq!((count("sync"), count("profiler"), count("hashing")), (20, 4, 0));
    }
}
