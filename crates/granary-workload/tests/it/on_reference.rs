//! The runner on the reference file system of `granary-vfs`: POSIX as Linux has it.

use granary_fs::Cred;
use granary_sim::World;
use granary_suite::reference::{Limits, RefFs, RefProcess};
use granary_units::Dest;
use granary_vfs::{OpenFlags, Posix};
use granary_workload::run::{Outcome, Run, RunOptions, content_word};
use granary_workload::spec::FilesetId;
use granary_workload::{Workload, list};
use parking_lot::Mutex;
use std::sync::Arc;

fn run(workload: Workload) -> (Outcome, RefProcess) {
    let limits = Limits { max_file_size: 1 << 40, max_links: 65_000 };
    let fs = Arc::new(Mutex::new(RefFs::new(limits)));
    let process = RefProcess::new(Arc::clone(&fs), Cred::ROOT);
    let name = workload.name.clone();
    let body = move || {
        let client = |_: &str| RefProcess::new(Arc::clone(&fs), Cred::ROOT);
        let mut run = Run::new(&workload, client, RunOptions::default());
        run.setup()?;
        run.measure()
    };
    let outcome = World::default().run(body).expect("no deadlock");
    (outcome.unwrap_or_else(|error| panic!("{name}: {error}")), process)
}

#[test]
fn every_built_in_workload_runs() {
    for builtin in list() {
        let small: &[(&str, &str)] = match builtin.name {
            "oltp" => {
                &[("filesize", "64k"), ("logfilesize", "1m"), ("runtime", "1"), ("usermode", "10000000")]
            }
            "moodle" => &[("tablesize", "1m"), ("redosize", "1m"), ("filesize", "16k")],
            "usr1" | "usr2" => &[("databasesize", "1m"), ("documentsize", "16k"), ("entrysize", "8k")],
            _ => &[],
        };
        let overrides: Vec<_> = small.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut workload = Workload::from_builtin(builtin.name, &overrides).expect("built in");
        workload.scale(if builtin.name == "oltp" { 0.01 } else { 0.001 }).expect("a scale");
        let (outcome, _) = run(workload);
        assert!(outcome.total_ops >= 500, "{}: {} operations", builtin.name, outcome.total_ops);
    }
}

/// The share of the written bytes that an fsync follows is what the generators of FIU's traces say of
/// themselves.
#[test]
fn generators_of_traces_have_the_share_of_fsynced_bytes_that_they_state() {
    for (name, percent, synced) in [
        ("moodle", 99.0, &["redo", "page"][..]),
        ("usr1", 72.0, &["journal", "page", "document"]),
        ("usr2", 38.0, &["journal", "page"]),
    ] {
        let text = granary_workload::builtin(name).expect("built in");
        assert!(text.contains(&format!("{percent} % of the written bytes are fsynced")), "{name}");
        // The means of the sizes as they are, so that the share does not depend on how few files there are.
        let sizes: &[(&str, &str)] = match name {
            "moodle" => &[("tablesize", "256k"), ("redosize", "1m"), ("filesize", "16k")],
            _ => &[("databasesize", "256k"), ("documentsize", "64k"), ("entrysize", "32k")],
        };
        let overrides: Vec<_> = sizes.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut workload = Workload::from_builtin(name, &overrides).expect("built in");
        workload.scale(0.002).expect("a scale");
        let (outcome, _) = run(workload);
        let of = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
        let bytes: u64 = outcome
            .ops
            .iter()
            .filter(|(name, ops)| ops.kind.contains("write") && synced.contains(&of(name).as_str()))
            .map(|(_, ops)| ops.bytes)
            .sum();
        let share = bytes as f64 * 100.0 / outcome.app_write as f64;
        assert!((share - percent).abs() < 3.0, "{name}: {share:.1} %");
        assert!(
            outcome.ops.iter().any(|(_, ops)| ops.kind.contains("read") && ops.bytes > 0),
            "{name} reads"
        );
    }
}

#[test]
fn files_hold_the_word_of_their_identity() {
    let text = "define fileset name=set,path=/a/b,size=9999,entries=3,dirwidth=10,dirgamma=0,prealloc=100\n\
                define process name=p\n{\nthread name=t,memsize=1m\n{\n\
                flowop openfile name=o,filesetname=set,fd=1\nflowop appendfile name=a,fd=1,iosize=777\n\
                flowop closefile name=c,fd=1\nflowop finishoncount name=end,value=9\n}\n}\nrun 10\n";
    let (_, mut process) = run(Workload::parse("t.f", text, &[]).expect("a workload"));
    for file in 0..3 {
        let path = format!("/a/b/set/00000001/{:08}", file + 1);
        let fd = process.open(&path, OpenFlags::RDONLY, 0).expect("it exists");
        let mut content = vec![0; 20_000];
        let length = process.read(fd, Dest::Bytes(&mut content)).expect("it can be read");
        assert_eq!(length, 9999 + 777, "{path}");
        let word = content_word(FilesetId(0), file).to_le_bytes();
        assert!(content[..length].iter().enumerate().all(|(i, &byte)| byte == word[i % 8]), "{path}");
    }
}
