//! The runs of SPFS's statements, each once.

use crate::reproduce::plan::{Plan, Planned};
use crate::reproduce::study::{Choice, MAIN};
use granary_lab::LabError;
use granary_lab::experiment::Experiment;
use granary_workload::Workload;

/// All workloads: what is written, how much at a time, and whether an fsync follows each write.
pub(super) const WORKLOADS: [&str; 26] = [
    "rewrite-4k",
    "append-100",
    "append-1k",
    "append-4k",
    "append-16k",
    "large-sync",
    "small-async",
    "large-async",
    "nvlog-mixed-0",
    "nvlog-mixed-2",
    "nvlog-mixed-10",
    "nvlog-append-100",
    "nvlog-append-1k",
    "nvlog-append-4k",
    "nvlog-append-16k",
    "nvlog-threads-1",
    "nvlog-threads-4",
    "nvlog-threads-16",
    "moodle",
    "usr1",
    "usr2",
    "stacking-0",
    "stacking-3",
    "stacking-6",
    "stacking-9",
    "stacking-12",
];
/// A file server of which so many of 12 threads open their files for direct I/O.
pub(super) const STACKING: [&str; 5] =
    ["stacking-0", "stacking-3", "stacking-6", "stacking-9", "stacking-12"];
/// Generators of what FIU's traces are.
pub(super) const TRACES: [&str; 3] = ["moodle", "usr1", "usr2"];
/// The setting of the replay of traces: the slides' second machine, with little memory.
pub(super) const SMALL: &str = "NVDIMM-N";
/// Those of small synchronous writes.
pub(super) const SYNC: [&str; 5] = ["rewrite-4k", "append-100", "append-1k", "append-4k", "append-16k"];
/// The setting of NVLog's tests.
pub(super) const NVLOG: &str = "NVLog";
/// File systems below, with and without SPFS.
pub(super) const PAIRS: [(&str, &str); 2] = [("spfs+ext4", "ext4"), ("spfs+f2fs", "f2fs")];

/// Values that the testbed chose, and others that they could have.
pub(super) const CHOICES: [Choice; 3] = [
    Choice {
        name: "page 1.45 us",
        set: &["host.costs.page=1450"],
        reason: "measured of a read of a cached page on another machine; NVLog's hot writes say 1.34 us and more",
    },
    Choice {
        name: "buffer 8M",
        set: &["drive.firmware.write_buffer=8MiB"],
        reason: "NVMeVirt's rule for a Samsung drive gives 2 MiB; four times as much",
    },
    Choice {
        name: "cache 1M",
        set: &["drive.firmware.cache=1MiB"],
        reason: "what the drive keeps of its DRAM is not published; the testbed has the least",
    },
];

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
    if asked("nvlog") {
        for workload in WORKLOADS.iter().filter(|w| w.starts_with("nvlog")) {
            all.extend(["spfs+ext4", "ext4"].map(|fs| (NVLOG.to_owned(), *workload, fs)));
        }
    }
    if asked("trace") {
        for workload in TRACES {
            let file_systems = PAIRS.iter().flat_map(|(a, b)| [*a, *b]).chain(["nova"]);
            all.extend(file_systems.map(|fs| (SMALL.to_owned(), workload, fs)));
        }
    }
    if asked("stacking") {
        for workload in STACKING {
            all.extend(PAIRS.iter().flat_map(|(a, b)| [*a, *b]).map(|fs| (MAIN.to_owned(), workload, fs)));
        }
    }
    plan.keep(&mut all);
    all.into_iter()
        .map(|(setting, w, fs)| {
            let experiment = match setting.as_str() {
                SMALL => small(plan, w, fs)?,
                NVLOG => {
                    // One of the DIMMs and the SSD of NVLog's machine.
                    let plan = Plan { testbed: "orchfs", ..*plan };
                    let mut parsed =
                        Workload::from_fio(w, &nvlog(w, plan.scale)).map_err(LabError::BadJobFile)?;
                    w.clone_into(&mut parsed.name);
                    plan.experiment(parsed, fs, plan.set.to_vec(), None)?
                }
                _ => experiment(plan, w, fs)?,
            };
            Ok(Planned { experiment, setting })
        })
        .collect()
}

/// A generator of a trace on the machine with little memory, which shrinks with the files: persistent memory
/// and page cache.
fn small(plan: &Plan<'_>, workload: &str, fs: &str) -> Result<Experiment, LabError> {
    let plan = Plan { testbed: "spfs-nvdimm", ..*plan };
    let whole = plan.whole()?;
    let mut set = [whole.memory_sets(plan.scale, plan.set), plan.set.to_vec()].concat();
    let memory = (whole.nvm()?.capacity.0 as f64 * plan.scale) as u64;
    // NOVA's tables and SPFS's want some, however few the files are.
    set.push(format!("nvm.capacity={}MiB", (memory >> 20).max(256)));
    let mut parsed = Workload::from_builtin(workload, &[])?;
    parsed.scale(plan.scale)?;
    plan.experiment(parsed, fs, set, None)
}

fn experiment(plan: &Plan<'_>, workload: &str, fs: &str) -> Result<Experiment, LabError> {
    let mut parsed = Workload::parse(workload, &text_of(workload, plan.scale), &[])?;
    workload.clone_into(&mut parsed.name);
    plan.experiment(parsed, fs, plan.set.to_vec(), None)
}

/// The job file of one of NVLog's micro tests. Its artifact has a hot file of 4 GB with 2 GB of 4 KB
/// accesses, and an fsync after so many of ten writes. It also has 2 GB of appends, each synced, and
/// synchronous random accesses of several threads.
fn nvlog(name: &str, scale: f64) -> String {
    let (what, of) = name.trim_start_matches("nvlog-").split_once('-').unwrap_or((name, ""));
    let part = |bytes: f64| ((bytes * scale) as u64).max(4 << 20) / 4096 * 4096;
    let (file, all) = (part(4e9), part(2e9));
    // The file is hot: what is laid out stays in memory.
    let head = "[global]\nioengine=psync\nfilename=f\ninvalidate=0\n";
    match what {
        "mixed" => {
            let fsync = match of {
                "0" => String::new(),
                n => format!("fsync={}\n", 10 / n.parse::<u64>().expect("a number of ten")),
            };
            format!("{head}size={file}\noverwrite=1\n[mixed]\nrw=randwrite\nbs=4k\nio_size={all}\n{fsync}")
        }
        "append" => {
            // As many accesses of each size as of the largest: of 100 B all would be twenty million.
            let ios = (all / 16_384).max(64);
            format!(
                "{head}size={file}\nfallocate=none\n[append]\nrw=write\nbs={of}\nfsync=1\nnumber_ios={ios}\n"
            )
        }
        _ => {
            let each = all / of.parse::<u64>().expect("a number of threads") / 4096 * 4096;
            format!(
                "{head}size={file}\noverwrite=1\n[threads]\nrw=randrw\nbs=4k\nsync=1\nnumjobs={of}\nio_size={each}\n"
            )
        }
    }
}

/// The text of a workload at a scale: of bytes and operations. The slides name none of their microbenchmarks:
/// these are ours.
fn text_of(name: &str, scale: f64) -> String {
    let part = |n: u64| ((n as f64 * scale) as u64).max(100);
    let (what, size) = name.split_once('-').unwrap_or((name, ""));
    if what == "stacking" {
        return file_server(size.parse().expect("a number of threads"), scale);
    }
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

/// Filebench's fileserver with 12 threads, of which `direct` open their files with O_DIRECT and O_SYNC
/// (slides: "mix of buffered and direct I/O"; they do not say how many threads have which). Each kind has
/// files of its own, as many as its threads have a share. Sizes are the means of the authors of ByteFS
/// (`workloads/fileserver.f`), all the same: direct I/O takes whole blocks only.
fn file_server(direct: u32, scale: f64) -> String {
    const THREADS: u32 = 12;
    let kind = |name: &str, threads: u32, flags: &str| {
        if threads == 0 {
            return String::new();
        }
        let files = ((100_000.0 * scale * f64::from(threads) / f64::from(THREADS)) as u64).max(100);
        format!(
            "define fileset name={name},path=/{name},size=128k,entries={files},dirwidth=20,prealloc=80\n\
             define process name=p-{name},instances=1\n{{\n thread name=t,memsize=10m,instances={threads}\n {{\n  \
             flowop createfile name={name}-c,filesetname={name},fd=1{flags}\n  \
             flowop writewholefile name={name}-w,srcfd=1,fd=1,iosize=1m\n  flowop closefile name=c1,fd=1\n  \
             flowop openfile name=o1,filesetname={name},fd=1{flags}\n  flowop appendfile name=a,iosize=16k,fd=1\n  \
             flowop closefile name=c2,fd=1\n  flowop openfile name=o2,filesetname={name},fd=1{flags}\n  \
             flowop readwholefile name=r,fd=1,iosize=1m\n  flowop closefile name=c3,fd=1\n  \
             flowop deletefile name=d,filesetname={name}\n  flowop statfile name=s,filesetname={name}\n }}\n}}\n"
        )
    };
    let (buffered, direct) =
        (kind("buffered", THREADS - direct, ""), kind("direct", direct, ",directio,dsync"));
    // Buffered threads are a hundred times as fast as direct ones, so that a number of operations would be
    // theirs alone: a second.
    format!("{buffered}{direct}create files\nrun 1\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::study::Study;

    #[test]
    fn every_workload_parses_and_every_figure_has_its_runs() {
        for name in WORKLOADS.iter().filter(|w| w.starts_with("nvlog")) {
            Workload::from_fio(name, &nvlog(name, 0.001)).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        for name in WORKLOADS.iter().filter(|w| !w.starts_with("nvlog") && !TRACES.contains(w)) {
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
        assert_eq!((count("sync"), count("profiler"), count("hashing"), count("nvlog")), (20, 4, 0, 20));
        assert_eq!(count("stacking"), 20);
        let trace = plan.runs(study, &["trace".to_owned()]).expect("there is a plan");
        assert_eq!(trace.len(), 15);
        for run in trace {
            let nvm = run.experiment.testbed.nvm().expect("persistent memory").capacity.0;
            assert_eq!((run.experiment.testbed.name.as_str(), nvm), ("spfs-nvdimm", 256 << 20));
        }
    }
}
