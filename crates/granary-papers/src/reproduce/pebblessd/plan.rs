//! The runs of PebbleSSD's figures, each once.

use super::{CLEANED, SYNC};
use crate::reproduce::plan::{Plan, Planned};
use crate::reproduce::study::{Choice, MAIN};
use granary_lab::LabError;
use granary_lab::experiment::Experiment;
use granary_units::Nanos;
use granary_workload::Workload;

/// F2FS of Linux 3.16 (section 6.1), which wrote always out of place and had no checkpoint by age:
/// 1,000,000,000 s.
const F2FS_3_16: [&str; 2] = ["f2fs.in_place=never", "f2fs.checkpoint_interval=1000000000000000000"];
/// The paper's fsync writes no node, so times of a file wait for the next checkpoint.
const LAZY_TIMES: &str = "f2fs.lazy_times=true";
/// `nilfs-clean -p 600` (section 6.3).
const PROTECTION: Nanos = Nanos::from_secs(600);

/// A drive of 1.9 GB with the testbed's over-provisioning (16 dies of 240 blocks), which a run of seconds
/// fills. A choice: how full it is decides what gc finds (docs/BENCHMARKS.md has three sizes).
const SMALL: [&str; 3] = [
    "drive.flash.geometry.channels=4",
    "drive.flash.geometry.ways=4",
    "drive.flash.geometry.blocks_per_plane=240",
];

/// Values that the testbed chose, and others that they could have.
pub(super) const CHOICES: [Choice; 4] = [
    Choice {
        name: "command 2 us",
        set: &["drive.firmware.command_cost=2000"],
        reason: "calibrated to figure 6's latency, and decides figures 7 to 9: half",
    },
    Choice {
        name: "entry 400",
        set: &["drive.firmware.bam.entry_cost=400"],
        reason: "the paper says \"minimal\"; twice the 100 cycles of the testbed",
    },
    Choice {
        name: "buffer 4M",
        set: &["drive.firmware.write_buffer=4MiB"],
        reason: "the paper does not state the write buffer: a quarter",
    },
    Choice {
        name: "spare 14 %",
        set: &["drive.flash.over_provisioning_permille=140"],
        reason: "the paper does not state the spare flash: twice as much",
    },
];

/// The runs for these figures, in a fixed order.
///
/// # Errors
/// A testbed that is not there; no such scale.
pub(super) fn runs(plan: &Plan<'_>, figures: &[String]) -> Result<Vec<Planned>, LabError> {
    let asked = |figure: &str| figures.iter().any(|f| f == figure);
    let mut all: Vec<(String, &str, &str)> = Vec::new();
    let mut add = |setting: &str, workloads: &[&'static str], file_systems: &[&'static str]| {
        for &workload in workloads {
            all.extend(file_systems.iter().map(|&fs| (setting.to_owned(), workload, fs)));
        }
    };
    if asked("7") {
        add("cleaned", &CLEANED, &["f2fs", "f2fs-remap", "nilfs2", "nilfs2-remap"]);
        add("overwritten", &["scattered"], &["f2fs", "f2fs-remap", "nilfs2", "nilfs2-remap"]);
    }
    if asked("8") {
        add("sync", &SYNC, &["f2fs", "f2fs-fswrite", "nilfs2", "nilfs2-fswrite"]);
    }
    if asked("9") || asked("10") {
        add(MAIN, &["oltp"], &["f2fs", "f2fs-fswrite", "nilfs2", "nilfs2-fswrite"]);
    }
    plan.keep(&mut all);
    all.into_iter()
        .map(|(setting, w, fs)| Ok(Planned { experiment: experiment(plan, &setting, w, fs)?, setting }))
        .collect()
}

fn experiment(plan: &Plan<'_>, setting: &str, workload: &str, fs: &str) -> Result<Experiment, LabError> {
    let (workload, note) = workload_of(workload, plan.scale)?;
    let f2fs = fs.starts_with("f2fs");
    let mut set: Vec<String> = plan.set.to_vec();
    if f2fs {
        set.splice(..0, F2FS_3_16.into_iter().chain([LAZY_TIMES]).map(str::to_owned));
    }
    if setting == "overwritten" {
        set.splice(..0, SMALL.map(str::to_owned));
    }
    let mut experiment = plan.experiment(workload, fs, set, note)?;
    experiment.then_overwrite = setting == "overwritten";
    if setting == "cleaned" || experiment.then_overwrite {
        experiment.then_clean = Some(if f2fs { Nanos::ZERO } else { PROTECTION });
    }
    Ok(experiment)
}

/// A workload of the paper as its experiment has it, and what to say of it.
fn workload_of(name: &str, scale: f64) -> Result<(Workload, Option<&'static str>), LabError> {
    if name == "oltp" {
        let mut oltp = Workload::from_builtin(name, &[])?;
        oltp.scale_time(scale)?;
        return Ok((oltp, Some("all of the files, a part of the time")));
    }
    if name == "scattered" {
        let mut scattered = Workload::parse(name, &overwrites(), &[])?;
        name.clone_into(&mut scattered.name);
        return Ok((scattered, Some("on a drive of 1.9 GB, at any scale")));
    }
    if let Some(kib) = name.strip_prefix("sync-") {
        let mut sync = Workload::parse(name, &synchronous(kib), &[])?;
        name.clone_into(&mut sync.name);
        return Ok((sync, None));
    }
    let mut workload = Workload::from_builtin(name, &[])?;
    workload.scale(scale)?;
    Ok((workload, None))
}

/// Four files of 192 MiB, each of which a thread overwrites by two thirds, 16 KiB at a time anywhere: half of
/// every segment is dead then.
fn overwrites() -> String {
    let thread = |n: u32| {
        format!(
            "define file name=f{n},path=/d,size=192m,prealloc=100\n\
             define process name=p{n},instances=1\n{{\n thread name=t,memsize=1m,instances=1\n {{\n  \
             flowop write name=w,filename=f{n},iosize=16k,random\n  \
             flowop finishonbytes name=end,value=128m\n }}\n}}\n"
        )
    };
    format!("set mode quit alldone\n{}create files\nrun\n", (0..4).map(thread).collect::<String>())
}

/// Four threads, each with a file of its own, which it writes synchronously from one end to the other
/// (section 6.4). The paper says neither how much a write has nor how large the files are; 32 MiB are twice
/// the drive's write buffer. They begin with 64 KiB: what F2FS has in the inode itself would be written
/// otherwise.
fn synchronous(kib: &str) -> String {
    let thread = |n: u32| {
        format!(
            "define file name=f{n},path=/d,size=64k,prealloc=100\n\
             define process name=p{n},instances=1\n{{\n thread name=t,memsize=1m,instances=1\n {{\n  \
             flowop appendfile name=w,filesetname=f{n},fd=1,iosize={kib},dsync\n  \
             flowop finishonbytes name=end,value=32m\n }}\n}}\n"
        )
    };
    format!("set mode quit alldone\n{}create files\nrun\n", (0..4).map(thread).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::study::Study;

    fn planned(figures: &[&str]) -> Vec<Planned> {
        let study = Study::find("pebblessd").expect("a study");
        let plan = Plan {
            testbed: study.testbed,
            set: &[],
            scale: 0.005,
            seed: 1,
            commit: "",
            workloads: &[],
            file_systems: &[],
        };
        plan.runs(study, &figures.iter().map(|&f| f.to_owned()).collect::<Vec<_>>()).expect("there is a plan")
    }

    #[test]
    fn only_runs_that_are_cleaned_are_swept_and_nilfs2_after_its_protection_period() {
        for p in planned(&["7", "8", "9", "10"]) {
            let e = &p.experiment;
            let cleaned = ["cleaned", "overwritten"].contains(&p.setting.as_str());
            assert_eq!(e.then_overwrite, p.setting == "overwritten");
            let wanted = cleaned.then_some(match e.fs.starts_with("f2fs") {
                true => Nanos::ZERO,
                false => PROTECTION,
            });
            assert_eq!(e.then_clean, wanted, "{} of {}", e.workload.name, e.fs);
        }
        assert_eq!(planned(&["9"]).len(), planned(&["9", "10"]).len(), "they share their runs");
    }

    #[test]
    fn four_threads_write_a_file_each() {
        let (sync, _) = workload_of("sync-12k", 1.0).expect("parses");
        assert_eq!((sync.threads(), sync.filesets.len()), (4, 4));
    }
}
