//! The runs that the asked-for figures need, each once.

use super::{FILE_SYSTEMS, MACRO, MICRO, WORKLOADS};
use crate::reproduce::plan::{Plan, Planned};
use crate::reproduce::study::{Choice, MAIN};
use granary_lab::LabError;
use granary_lab::experiment::Experiment;
use granary_workload::{Workload, builtin};

/// Figures, tables and sections that `--figure` takes. Those of YCSB are not among them: it is not there yet.
pub(super) const FIGURES: [&str; 13] =
    ["1", "6", "8", "9", "10", "11", "12", "13", "14", "recovery", "table2", "4.3", "4.6"];

/// Flash read and program times in us of Figure 13, beside the main setting's 40/60; the last one over CXL
/// (section 5.6: 175 ns a line). The paper prints the pairs as labels of its figure only; 3/80 is in its
/// text, 25/200 is the stale constant of the artifact's NOVA (`timing_model.h`) with a read to match.
const FLASH: [(&str, &[&str]); 3] = [
    ("flash 3/80", &["nand.read_ns=3000", "nand.program_ns=80000"]),
    ("flash 25/200", &["nand.read_ns=25000", "nand.program_ns=200000"]),
    (
        "flash 3/80, CXL",
        &["nand.read_ns=3000", "nand.program_ns=80000", "link.line_read=175", "link.verify_read=175"],
    ),
];
/// The log of Figure 14 beside the main setting's 256 MiB.
const LOGS: [u64; 3] = [64, 128, 512];
/// Workloads of Figure 12.
const ABLATION: [&str; 4] = ["varmail", "fileserver", "webproxy", "oltp"];

/// The runs for these figures, in a fixed order.
///
/// # Errors
/// A testbed that is not there; no such scale.
pub(super) fn runs(plan: &Plan<'_>, figures: &[String]) -> Result<Vec<Planned>, LabError> {
    let asked = |figure: &str| figures.iter().any(|f| f == figure);
    let mut all: Vec<(String, &str, &str)> = Vec::new();
    let mut add = |setting: &str, workloads: &[&'static str], file_systems: &[&'static str]| {
        for &workload in workloads {
            for &fs in file_systems {
                let run = (setting.to_owned(), workload, fs);
                if !all.contains(&run) {
                    all.push(run);
                }
            }
        }
    };
    if ["6", "10", "11"].iter().any(|f| asked(f)) {
        add(MAIN, &WORKLOADS, &FILE_SYSTEMS);
    }
    if asked("8") {
        add(MAIN, &MICRO, &FILE_SYSTEMS);
    }
    if asked("9") {
        add(MAIN, &["webproxy", "webserver", "oltp"], &FILE_SYSTEMS);
    }
    if asked("1") {
        add(MAIN, &WORKLOADS, &["ext4", "f2fs"]);
    }
    if asked("table2") {
        add(MAIN, &MACRO, &["ext4", "f2fs"]);
    }
    if asked("4.6") {
        add(MAIN, &MACRO, &["bytefs"]);
    }
    if asked("12") {
        add(MAIN, &ABLATION, &["bytefs-dual", "bytefs-log", "bytefs"]);
    }
    if asked("13") {
        for setting in [MAIN].into_iter().chain(FLASH.map(|(setting, _)| setting)) {
            add(setting, &ABLATION, &["bytefs", "f2fs", "nova"]);
        }
    }
    if asked("14") {
        add(MAIN, &MACRO, &["bytefs"]);
        for mib in LOGS {
            add(&format!("log {mib} MiB"), &MACRO, &["bytefs"]);
        }
    }
    plan.keep(&mut all);
    all.into_iter()
        .map(|(setting, w, fs)| Ok(Planned { experiment: experiment(plan, &setting, w, fs)?, setting }))
        .collect()
}

fn experiment(plan: &Plan<'_>, setting: &str, workload: &str, fs: &str) -> Result<Experiment, LabError> {
    let whole = plan.whole()?;
    // oltp is as large as in the paper at any scale, and so is what it runs in.
    let memory = if workload == "oltp" { 1.0 } else { plan.scale };
    let mut set: Vec<String> = plan.set.to_vec();
    if let Some((_, changes)) = FLASH.iter().find(|(name, _)| *name == setting) {
        set.extend(changes.iter().map(|&c| c.to_owned()));
    }
    if let Some(mib) = LOGS.iter().find(|mib| setting == format!("log {mib} MiB")) {
        let kib = ((*mib as f64 * 1024.0 * memory) as u64 / 8 * 8).max(64);
        set.push(format!("firmware.log_region={kib}KiB"));
    }
    let set = [whole.memory_sets(memory, &set), set].concat();
    let (scaled, note) = workload_of(workload, plan.scale)?;
    plan.experiment(scaled, fs, set, note)
}

/// A workload of the paper as its experiment has it, and what to say of it.
fn workload_of(name: &str, scale: f64) -> Result<(Workload, Option<&'static str>), LabError> {
    match name {
        "oltp" => {
            let mut oltp = Workload::from_builtin(name, &[])?;
            oltp.scale_time(scale)?;
            Ok((oltp, Some("all of the paper's files and memories, a part of its time")))
        }
        "delete" | "rmdir" => {
            let text = builtin(name).expect("a workload of the paper");
            let cold = "\ncreate files\nsystem \"sync\"\nsystem \"echo 3 > /proc/sys/vm/drop_caches\"\nrun\n";
            let (before, after) = text.split_once("\nrun\n").expect("a test sees to it");
            let mut workload = Workload::parse(name, &[before, cold, after].concat(), &[])?;
            name.clone_into(&mut workload.name);
            workload.scale(scale)?;
            Ok((workload, Some("caches are dropped before the run")))
        }
        _ => {
            let mut workload = Workload::from_builtin(name, &[])?;
            workload.scale(scale)?;
            Ok((workload, None))
        }
    }
}

/// Values that the profile chose, and others that they could have (docs/BENCHMARKS.md, "What the choices
/// move").
pub(super) const CHOICES: [Choice; 5] = [
    Choice {
        name: "16x1",
        set: &["geometry.channels=16", "geometry.blocks_per_plane=4384"],
        reason: "the paper states eight channels, of which one way each is the artifact's: twice the channels",
    },
    Choice {
        name: "8x8",
        set: &["geometry.ways=8", "geometry.blocks_per_plane=1096"],
        reason: "likewise: eight ways",
    },
    Choice {
        name: "mask",
        set: &["vfs.tracking=mask"],
        reason: "the paper finds changed lines by XOR; stores could mark them as well",
    },
    Choice {
        name: "all: buffer",
        set: &["firmware.cache_write_ack=buffer"],
        reason: "no source says when a block is acknowledged: from the buffer, for all file systems",
    },
    Choice {
        name: "all: program",
        set: &["firmware.write_ack=program"],
        reason: "likewise: after the flash has it, for all file systems",
    },
];

#[cfg(test)]
mod tests {
    use super::super::STUDY;
    use super::*;
    use granary_testbed::Testbed;

    fn plan(figures: &[&str]) -> Vec<Planned> {
        let plan = Plan {
            testbed: "bytefs-reproduction",
            set: &[],
            scale: 0.01,
            seed: 1,
            commit: "",
            workloads: &[],
            file_systems: &[],
        };
        plan.runs(&STUDY, &figures.iter().map(|&f| f.to_owned()).collect::<Vec<_>>())
            .expect("there is a plan")
    }

    /// Were the line another one, the run would be warm and the note wrong.
    #[test]
    fn caches_can_be_dropped_before_the_runs_that_the_paper_has_cold() {
        for name in ["delete", "rmdir"] {
            assert_eq!(builtin(name).expect("built in").matches("\nrun\n").count(), 1, "{name}");
            assert!(workload_of(name, 0.01).expect("parses").1.is_some());
        }
    }

    #[test]
    fn figures_share_their_runs() {
        let (six, all) = (plan(&["6"]), plan(&FIGURES));
        assert_eq!(six.len(), 45);
        assert_eq!(plan(&["6", "8", "10", "11", "table2", "1"]).len(), 45);
        let names =
            |p: &Planned| (p.setting.clone(), p.experiment.workload.name.clone(), p.experiment.fs.clone());
        let mut each: Vec<_> = all.iter().map(names).collect();
        each.sort();
        each.dedup();
        assert_eq!(each.len(), all.len());
        assert_eq!(plan(&["recovery", "4.3"]).len(), 0);
    }

    #[test]
    fn settings_differ_in_what_their_figure_varies() {
        let all = plan(&["13", "14"]);
        let of = |setting: &str, workload: &str| {
            let named = |p: &&Planned| p.setting == setting && p.experiment.workload.name == workload;
            all.iter().find(named).map(|p| p.experiment.testbed.clone()).expect("planned")
        };
        let kib = |t: &Testbed| t.ssd().expect("one").firmware.log_region.0 / 1024;
        let (small, large) = (kib(&of("log 64 MiB", "varmail")), kib(&of("log 512 MiB", "varmail")));
        assert!((small * 8).abs_diff(large) <= 64, "{small} and {large} KiB");
        assert_eq!(kib(&of("log 512 MiB", "oltp")), 512 * 1024, "oltp is not scaled");
        assert_eq!(of("flash 3/80", "varmail").ssd().expect("one").flash.timing.read.0, 3000);
        assert_eq!(of("flash 3/80, CXL", "oltp").ssd().expect("one").link.line_read.0, 175);
        assert_eq!(of(MAIN, "varmail").ssd().expect("one").flash.timing.read.0, 40000);
    }

    #[test]
    fn an_unknown_figure_is_refused_with_those_that_there_are() {
        let plan = Plan {
            testbed: "bytefs-reproduction",
            set: &[],
            scale: 0.01,
            seed: 1,
            commit: "",
            workloads: &[],
            file_systems: &[],
        };
        let said = plan.runs(&STUDY, &["7".to_owned()]).err().expect("refused").to_string();
        assert!(said.contains("`7`") && said.contains("13"), "{said}");
    }
}
