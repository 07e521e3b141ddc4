//! The runs of DevFS's figures, each once.

use crate::reproduce::plan::{Plan, Planned};
use crate::reproduce::study::{Choice, MAIN};
use granary_lab::LabError;
use granary_lab::experiment::Experiment;
use granary_workload::Workload;
use std::fmt::Write as _;

/// All workloads.
pub(super) const WORKLOADS: [&str; 21] = [
    "write-1k",
    "write-4k",
    "write-16k",
    "read-1k",
    "read-4k",
    "read-16k",
    "append-1",
    "append-2",
    "append-4",
    "append-8",
    "append-16",
    "shared-1",
    "shared-2",
    "shared-4",
    "shared-8",
    "shared-16",
    "file-create",
    "file-reopen",
    "snappy-4k",
    "snappy-16k",
    "snappy-64k",
];
/// Sizes of figure 6.
pub(super) const SIZES: [&str; 3] = ["1k", "4k", "16k"];
/// Processes of figure 7.
pub(super) const PROCESSES: [u32; 5] = [1, 2, 4, 8, 16];
/// Steps of section 3.4 on top of +cap, all by system calls, and what the whole is by none: figures 8 and 9.
pub(super) const STEPS: [(&str, [bool; 3], &str); 4] = [
    ("+demand", [true, false, false], "trap"),
    ("+dentry", [true, true, false], "trap"),
    ("+inode", [true, true, true], "trap"),
    ("+cap+direct", [false, false, false], "direct"),
];
/// Clocks of the drive's processors of figure 10b, MHz.
pub(super) const CLOCKS: [u32; 3] = [2200, 1800, 1400];

/// Values that the testbed chose, and others that they could have.
pub(super) const CHOICES: [Choice; 4] = [
    Choice {
        name: "syscall 500",
        set: &["host.costs.syscall=500"],
        reason: "getppid was measured; Kuco has about 480 ns for the kernel's file layer in a read of 1 KiB",
    },
    Choice {
        name: "hand-over 59",
        set: &["host.costs.doorbell=59", "host.costs.completion=59"],
        reason: "measured on another machine and scaled as a system call, which a cache line's way is not: half",
    },
    Choice {
        name: "caches 14M",
        set: &["nvm.caches=14MiB"],
        reason: "the paper does not name its processor: those of a Xeon of fewer cores",
    },
    Choice {
        name: "no log entry",
        set: &["host.costs.log_entry=0"],
        reason: "NOVA is charged for a record of its log, DevFS for none of its journal: none for both",
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
    if asked("6") {
        for size in SIZES {
            for what in ["write", "read"] {
                let workload = format!("{what}-{size}");
                add(MAIN, &workload, &["devfs-naive", "nova", "devfs-cap"]);
                add("+cap+direct", &workload, &["devfs"]);
            }
        }
    }
    if asked("7") {
        for n in PROCESSES {
            for what in ["append", "shared"] {
                let workload = format!("{what}-{n}");
                add(MAIN, &workload, &["nova", "devfs-cap"]);
                add("+cap+direct", &workload, &["devfs"]);
            }
        }
    }
    for (figure, workload) in [("8", "file-create"), ("9", "file-create"), ("9", "file-reopen")] {
        if asked(figure) {
            add(MAIN, workload, &["devfs-cap", "devfs"]);
            for (setting, ..) in STEPS {
                add(setting, workload, &["devfs"]);
            }
        }
    }
    if asked("10") {
        for workload in ["snappy-4k", "snappy-16k", "snappy-64k"] {
            add(MAIN, workload, &["devfs-naive", "nova", "devfs-cap"]);
            add("+cap+direct", workload, &["devfs"]);
        }
        for mhz in CLOCKS {
            add(&format!("{mhz} MHz"), "snappy-4k", &["devfs-cap"]);
            add(&format!("+direct, {mhz} MHz"), "snappy-4k", &["devfs"]);
        }
    }
    plan.keep(&mut all);
    all.into_iter()
        .map(|(setting, w, fs)| Ok(Planned { experiment: experiment(plan, &setting, w, fs)?, setting }))
        .collect()
}

fn experiment(plan: &Plan<'_>, setting: &str, workload: &str, fs: &str) -> Result<Experiment, LabError> {
    let mut set: Vec<String> = plan.set.to_vec();
    let mut steps = |on: [bool; 3], crossing: &str| {
        let [demand, dentries, inodes] = on;
        set.push(format!("devfs.on_demand={demand}"));
        set.push(format!("devfs.reverse_dentries={dentries}"));
        set.push(format!("devfs.reverse_inodes={inodes}"));
        set.push(format!("devfs.crossing={crossing}"));
    };
    if let Some((_, on, crossing)) = STEPS.iter().find(|(name, ..)| *name == setting) {
        steps(*on, crossing);
    }
    if setting.starts_with("+direct") {
        steps([false; 3], "direct");
    }
    if let Some(mhz) = CLOCKS.iter().find(|mhz| setting.ends_with(&format!("{mhz} MHz"))) {
        set.push(format!("inside.clock_mhz={mhz}"));
    }
    let text = text_of(workload, plan.scale);
    let mut parsed = Workload::parse(workload, &text, &[])?;
    workload.clone_into(&mut parsed.name);
    plan.experiment(parsed, fs, set, None)
}

/// Processor time of Snappy for a file of so many KiB, in stores of Filebench's `hog` (370 ps). Measured by
/// `scripts/host-costs/snappy.py` on an idle machine: 5.6, 13.9 and 45.5 us for 4, 16 and 64 KiB; scaled by
/// 90/228 as the host's other costs (docs/HOST_COSTS.md).
fn snappy_stores(kib: u64) -> u64 {
    let ns = match kib {
        4 => 5_600,
        16 => 13_900,
        _ => 45_500,
    };
    ns * 90 / 228 * 1_000 / 370
}

/// The text of a workload at a scale: of files, bytes and operations.
fn text_of(name: &str, scale: f64) -> String {
    let part = |n: u64| ((n as f64 * scale) as u64).max(1);
    let (what, size) = name.split_once('-').unwrap_or((name, ""));
    match what {
        // One file of 1 GiB, which the paper does not say; as many operations as it has pages of 4 KiB.
        "write" | "read" => format!(
            "define file name=f,path=/d,size={}k,prealloc=100\n\
             define process name=p,instances=1\n{{\n thread name=t,memsize=1m,instances=1\n {{\n  \
             flowop {what} name=x,filesetname=f,fd=1,random,iosize={size}\n  \
             flowop finishoncount name=end,value={}\n }}\n}}\ncreate files\nrun\n",
            part(1 << 20).max(64),
            part(1 << 18)
        ),
        "append" | "shared" => {
            appends(size.parse().expect("a number of processes"), what == "shared", part(256 << 10))
        }
        // A million files, a hundred to a directory as in Filebench's createfiles.f; each is written with 16
        // KiB.
        "file" => {
            let n = part(1_000_000);
            let again = match size {
                "reopen" => {
                    "  flowop openfile name=again,filesetname=set,fd=2\n  flowop closefile name=c2,fd=2\n"
                }
                _ => "",
            };
            format!(
                "define fileset name=set,path=/d,size=16k,entries={n},dirwidth=100,prealloc=0\n\
                 define process name=p,instances=1\n{{\n thread name=t,memsize=1m,instances=1\n {{\n  \
                 flowop createfile name=c,filesetname=set,fd=1\n  flowop writewholefile name=w,fd=1,iosize=16k\n  \
                 flowop closefile name=c1,fd=1\n{again}  flowop finishoncount name=end,value={}\n }}\n}}\ncreate files\nrun\n",
                n * if again.is_empty() { 3 } else { 5 }
            )
        }
        _ => {
            let kib: u64 = size.trim_end_matches('k').parse().expect("a size in KiB");
            // 16 GB of images.
            let n = part((16 << 20) / kib).max(8);
            format!(
                "define fileset name=in,path=/in,size={size},entries={n},dirwidth=1000,prealloc=100\n\
                 define fileset name=out,path=/out,size={size},entries={},dirwidth=1000,prealloc=0\n\
                 define process name=p,instances=1\n{{\n thread name=t,memsize=1m,instances=4\n {{\n  \
                 flowop openfile name=o,filesetname=in,fd=1\n  flowop readwholefile name=r,fd=1,iosize=1m\n  \
                 flowop closefile name=c1,fd=1\n  flowop hog name=snappy,value={}\n  \
                 flowop createfile name=c,filesetname=out,fd=2\n  flowop writewholefile name=w,fd=2,iosize=1m\n  \
                 flowop fsync name=s,fd=2\n  flowop closefile name=c2,fd=2\n  \
                 flowop finishoncount name=end,value={}\n }}\n}}\ncreate files\nrun\n",
                n + 8,
                snappy_stores(kib),
                n * 7
            )
        }
    }
}

/// `n` processes append 4 KiB at a time to ten files each, or all to the same ten, until each file would have
/// grown by `kib`.
fn appends(n: u32, shared: bool, kib: u64) -> String {
    let mut text = String::from("set mode quit alldone\n");
    let own = if shared { 1 } else { n };
    for dir in 0..own {
        for file in 0..10 {
            let _ = writeln!(text, "define file name=f{dir}x{file},path=/d{dir},size=0,prealloc=100");
        }
    }
    for p in 0..n {
        let _ = write!(
            text,
            "define process name=p{p},instances=1\n{{\n thread name=t{p},memsize=1m,instances=1\n {{\n"
        );
        let dir = if shared { 0 } else { p };
        for file in 0..10 {
            let _ = writeln!(
                text,
                "  flowop appendfile name=a{p}x{file},filesetname=f{dir}x{file},fd={},iosize=4k",
                file + 1
            );
        }
        let _ = write!(text, "  flowop finishonbytes name=end{p},value={}k\n }}\n}}\n", (10 * kib).max(400));
    }
    text + "create files\nrun\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::study::Study;

    #[test]
    fn every_workload_parses_and_every_figure_has_runs() {
        for name in WORKLOADS {
            let text = text_of(name, 0.001);
            Workload::parse(name, &text, &[]).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
        }
        let study = Study::find("devfs").expect("a study");
        let plan = Plan {
            testbed: study.testbed,
            set: &[],
            scale: 0.001,
            seed: 1,
            commit: "",
            workloads: &[],
            file_systems: &[],
        };
        for figure in ["6", "7", "8", "9", "10"] {
            let runs = plan.runs(study, &[figure.to_owned()]).expect("there is a plan");
            assert!(!runs.is_empty(), "{figure}");
        }
        let all = plan.runs(study, &["10".to_owned()]).expect("there is a plan");
        let slow = all.iter().find(|p| p.setting == "1400 MHz").expect("planned");
        assert_eq!(slow.experiment.testbed.inside.as_ref().map(|i| i.clock_mhz), Some(1400));
    }
}
