//! The runs of OrchFS's figures, each once.

use crate::reproduce::plan::{Plan, Planned};
use crate::reproduce::study::{Choice, MAIN};
use granary_lab::LabError;
use granary_lab::experiment::Experiment;
use granary_workload::Workload;

/// All workloads.
pub(super) const WORKLOADS: [&str; 48] = [
    "fill-1k",
    "fill-4k",
    "fill-8k",
    "fill-16k",
    "fill-32k",
    "fill-64k",
    "fill-128k",
    "fill-256k",
    "fill-512k",
    "fill-1m",
    "fill-mixed",
    "over-1k",
    "over-4k",
    "over-8k",
    "over-16k",
    "over-32k",
    "over-64k",
    "over-128k",
    "over-256k",
    "over-512k",
    "over-1m",
    "over-mixed",
    "nosync-1m",
    "nosync-mixed",
    "fsync-4k",
    "fsync-16k",
    "fsync-64k",
    "fsync-256k",
    "fsync-1m",
    "fsync-mixed",
    "direct-4k",
    "direct-16k",
    "direct-64k",
    "direct-256k",
    "direct-1m",
    "read-4k",
    "read-128k",
    "read-1m",
    "read-mixed",
    "threads-1",
    "threads-2",
    "threads-4",
    "threads-8",
    "threads-16",
    "fileserver",
    "webproxy",
    "varmail",
    "grow",
];
/// Sizes of figure 10 and Table 2; `mixed` is 1 B to 2 MB.
pub(super) const SIZES: [&str; 11] =
    ["1k", "4k", "8k", "16k", "32k", "64k", "128k", "256k", "512k", "1m", "mixed"];
/// Sizes of figure 4.
pub(super) const PARTS: [&str; 5] = ["4k", "16k", "64k", "256k", "1m"];
/// Distributions of figure 13; `128k` is 1 B to 128 KB.
pub(super) const READS: [&str; 4] = ["1m", "mixed", "4k", "128k"];
/// Threads of figure 14.
pub(super) const THREADS: [u32; 5] = [1, 2, 4, 8, 16];
/// Threads for the SSD of figure 12.
pub(super) const SSD_THREADS: [u32; 8] = [1, 2, 4, 8, 16, 32, 48, 64];
/// File systems on the SSD.
pub(super) const ON_SSD: [&str; 2] = ["ext4", "f2fs"];
/// File systems on both.
pub(super) const HYBRID: [&str; 3] = ["phfs", "spfs+ext4", "spfs+f2fs"];
/// All that OrchFS is compared with.
pub(super) const OTHERS: [&str; 6] = ["ext4", "f2fs", "nova", "phfs", "spfs+ext4", "spfs+f2fs"];
/// As the released code counts space: what a block write makes stale stays allocated, and nothing migrates.
pub(super) const ARTIFACT: &str = "artifact";
/// As the paper's text has it.
pub(super) const PAPER: &str = "paper";

/// The page cache takes no time: its pages are found and its bytes copied at once.
pub(super) const PAGES_FREE: &str = "page cache free";
/// The host's processors take no time: what is left are the devices.
pub(super) const HOST_FREE: &str = "processor free";
/// With a PCIe 5.0 drive instead, on [`PCIE5_TESTBED`].
pub(super) const PCIE5: &str = "PCIe 5.0";
/// Its testbed.
pub(super) const PCIE5_TESTBED: &str = "orchfs-pcie5";

/// Values that the testbed chose, and others that they could have.
pub(super) const CHOICES: [Choice; 4] = [
    Choice {
        name: "page 1.45 us",
        set: &["host.costs.page=1450"],
        reason: "measured of a read of a cached page on another machine; NVLog's hot writes say 1.34 us and more",
    },
    Choice {
        name: "command 2.7 us",
        set: &["drive.firmware.command_cost=2665"],
        reason: "calibrated to figure 3's worst case: half",
    },
    Choice {
        name: "cache 4M",
        set: &["drive.firmware.cache=4MiB"],
        reason: "what the drive keeps of its DRAM is not published: four units for each die",
    },
    Choice {
        name: "buffer 16M",
        set: &["drive.firmware.write_buffer=16MiB"],
        reason: "NVMeVirt's rule for a Samsung drive gives 4 MiB; four times as much",
    },
];

/// The runs for these figures, in a fixed order.
///
/// # Errors
/// A testbed that is not there; no such scale.
pub(super) fn runs(plan: &Plan<'_>, figures: &[String]) -> Result<Vec<Planned>, LabError> {
    let asked = |figure: &str| figures.iter().any(|f| f == figure);
    let mut all: Vec<(String, &str, &str)> = Vec::new();
    let mut add = |setting: &str, workload: &str, file_systems: &[&'static str]| {
        let known = WORKLOADS.iter().find(|w| **w == workload).expect("one of the workloads");
        for &fs in file_systems {
            let run = (setting.to_owned(), *known, fs);
            if !all.contains(&run) {
                all.push(run);
            }
        }
    };
    let with_orchfs: Vec<&'static str> = std::iter::once("orchfs").chain(OTHERS).collect();
    for (figure, what) in [("1", "nosync"), ("2", "fsync")] {
        if asked(figure) {
            for size in ["1m", "mixed"] {
                add(MAIN, &format!("{what}-{size}"), &ON_SSD);
            }
        }
    }
    if asked("2") {
        add(MAIN, "fsync-1m", &["orchfs"]);
    }
    if asked("1") {
        add(PCIE5, "nosync-1m", &ON_SSD);
    }
    if asked("4") {
        for size in PARTS {
            [MAIN, PAGES_FREE, HOST_FREE].iter().for_each(|s| add(s, &format!("fsync-{size}"), &ON_SSD));
            [MAIN, HOST_FREE].iter().for_each(|s| add(s, &format!("direct-{size}"), &ON_SSD));
        }
    }
    if asked("10") {
        SIZES.iter().for_each(|size| add(MAIN, &format!("over-{size}"), &with_orchfs));
    }
    if asked("table2") {
        for size in SIZES {
            for setting in [ARTIFACT, PAPER] {
                add(setting, &format!("fill-{size}"), &["orchfs"]);
                add(setting, &format!("over-{size}"), &["orchfs"]);
            }
        }
    }
    if asked("11") {
        for size in ["1m", "mixed"] {
            add(MAIN, &format!("over-{size}"), &["orchfs"]);
            add("engine off", &format!("over-{size}"), &["orchfs"]);
        }
    }
    if asked("12") {
        SSD_THREADS.iter().for_each(|n| add(&format!("{n} SSD threads"), "over-1m", &["orchfs"]));
    }
    if asked("13") {
        READS.iter().for_each(|size| add(MAIN, &format!("read-{size}"), &with_orchfs));
    }
    if asked("14") {
        THREADS.iter().for_each(|n| add(MAIN, &format!("threads-{n}"), &["orchfs", "ext4", "nova"]));
    }
    if asked("15") {
        for workload in ["fill-1m", "fill-mixed", "over-1m", "over-mixed"] {
            add(PCIE5, workload, &with_orchfs);
        }
    }
    if asked("16") {
        ["fileserver", "webproxy", "varmail"].iter().for_each(|w| add(MAIN, w, &with_orchfs));
    }
    if asked("19") {
        add(ARTIFACT, "grow", &["orchfs"]);
    }
    plan.keep(&mut all);
    all.into_iter()
        .map(|(setting, w, fs)| Ok(Planned { experiment: experiment(plan, &setting, w, fs)?, setting }))
        .collect()
}

fn experiment(plan: &Plan<'_>, setting: &str, workload: &str, fs: &str) -> Result<Experiment, LabError> {
    let mut set: Vec<String> = plan.set.to_vec();
    if [ARTIFACT, PAPER].contains(&setting) {
        set.push("orchfs.migrate=false".to_owned());
        set.push(format!("orchfs.reclaim={setting}"));
    }
    if setting == "engine off" {
        set.push("orchfs.engine=false".to_owned());
    }
    if let Some(n) = setting.strip_suffix(" SSD threads") {
        set.push(format!("orchfs.ssd_threads={n}"));
    }
    // A cost that takes no time takes none whatever it was changed to.
    let mut free = |cost: &str| {
        let key = format!("host.costs.{cost}=");
        set.retain(|change| !change.starts_with(&key));
        set.push(format!("{key}0"));
    };
    if setting == PAGES_FREE {
        ["page", "copy_bandwidth"].into_iter().for_each(&mut free);
    }
    if setting == HOST_FREE {
        let costs = toml::Table::try_from(plan.whole()?.host.costs).expect("a table of numbers");
        costs.keys().for_each(|cost| free(cost));
    }
    let testbed = if setting == PCIE5 { PCIE5_TESTBED } else { plan.testbed };
    let parsed = match text_of(workload, plan.scale) {
        Some(text) => {
            let mut parsed = Workload::from_fio(workload, &text).map_err(LabError::BadJobFile)?;
            workload.clone_into(&mut parsed.name);
            parsed
        }
        None => {
            let mut parsed = Workload::from_builtin(workload, &[])?;
            parsed.scale(plan.scale)?;
            parsed
        }
    };
    Plan { testbed, ..*plan }.experiment(parsed, fs, set, None)
}

/// Sizes of accesses: S +- 10 %, byte by byte.
fn sizes(name: &str) -> String {
    let around = |n: u64| (n - n / 10, n + n / 10);
    let (least, most) = match name {
        "mixed" => (1, 2 << 20),
        "1m" => around(1 << 20),
        kib => around(kib.trim_end_matches('k').parse::<u64>().expect("a size in KiB") << 10),
    };
    format!("bsrange={least}-{most}\nbs_unaligned\n")
}

/// The job file of a workload; none for Filebench's.
pub(super) fn text_of(name: &str, scale: f64) -> Option<String> {
    // 10 GB (slides, "single-threaded writes"), at least some of the largest accesses.
    let total = ((10e9 * scale) as u64).max(16 << 20);
    let (what, size) = name.split_once('-').unwrap_or((name, ""));
    let file = format!("[global]\nioengine=psync\nfilename=f\nsize={total}\nfallocate=none\n");
    // The released code's test opens with O_SYNC and keeps what it appended in memory; that is not measured
    // by itself.
    let kept = "sync=1\ninvalidate=0\n";
    let fill = format!(
        "[fill]\nrw=write\n{}",
        sizes(if size.is_empty() || what == "threads" { "1m" } else { size })
    );
    let over = |more: &str| format!("[over]\nstonewall\nrw=randwrite\nblockalign=1\nio_size={total}\n{more}");
    Some(match what {
        "fill" => format!("{file}sync=1\n{fill}"),
        "over" => format!("{file}{kept}{fill}{}", over(&sizes(size))),
        "nosync" => format!("{file}{fill}end_fsync=1\n{}", over(&sizes(size))),
        "fsync" => format!("{file}fsync=1\n{fill}{}", over(&sizes(size))),
        "direct" => {
            let sizes = format!("bs={size}\n");
            format!(
                "{file}fsync=1\n[fill]\nrw=write\n{sizes}[over]\nstonewall\nrw=randwrite\nio_size={total}\ndirect=1\n{sizes}"
            )
        }
        // The talk's is the peak of 30 s in memory that holds the file (slides: "peak read throughput",
        // "sufficient memory"): what is read has been read before. As many bytes as the file has are enough
        // for a mean.
        "read" => {
            let sizes =
                if size == "128k" { "bsrange=1-131072\nbs_unaligned\n".to_owned() } else { sizes(size) };
            let warm = "[warm]\nstonewall\nrw=read\nbs=1m\n";
            format!(
                "{file}invalidate=0\n{fill}end_fsync=1\n{warm}[read]\nstonewall\nrw=randread\nblockalign=1\nio_size={total}\n{sizes}"
            )
        }
        "threads" => {
            let each = total / size.parse::<u64>().expect("a number of threads");
            let more = format!("{}numjobs={size}\nio_size={each}\n", sizes("1m"));
            format!("{file}{kept}{fill}{}", over(&more))
        }
        // Eight times the file's size of random writes.
        "grow" => {
            format!("{file}{kept}{fill}{}", over(&format!("{}io_size={}\n", sizes("mixed"), total * 8)))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::study::Study;

    #[test]
    fn every_workload_can_be_made() {
        for name in WORKLOADS {
            if let Some(text) = text_of(name, 0.001) {
                let made = Workload::from_fio(name, &text).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(made.expected_bytes() >= f64::from(16 << 20), "{name}");
            }
        }
    }

    #[test]
    fn every_figure_with_runs_is_planned_without_repeats() {
        let study = Study::find("orchfs").expect("a study");
        let plan = Plan {
            testbed: "orchfs",
            set: &[],
            scale: 0.001,
            seed: 1,
            commit: "",
            workloads: &[],
            file_systems: &[],
        };
        let figures: Vec<String> = study.figures.iter().map(|f| (*f).to_owned()).collect();
        let all = plan.runs(study, &figures).expect("a plan");
        let names =
            |p: &Planned| (p.setting.clone(), p.experiment.workload.name.clone(), p.experiment.fs.clone());
        let mut each: Vec<_> = all.iter().map(names).collect();
        let n = each.len();
        each.sort();
        each.dedup();
        assert_eq!(each.len(), n);
        for workload in WORKLOADS {
            assert!(each.iter().any(|(_, w, _)| w == workload), "{workload} is in no figure");
        }
    }
}
