//! The built-in workloads say what their sources say: nine what the ByteFS paper's Table 5 and the authors'
//! `baseline` branch do.

use granary_workload::spec::{Distribution, FlowopSpec, Op, QuitMode, Value};
use granary_workload::{Workload, builtin, list};

fn load(name: &str) -> Workload {
    Workload::from_builtin(name, &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// Expected properties of one workload; sizes and counts are those of Table 5 and of the branch's CSV.
struct Expected {
    name: &'static str,
    entries: u64,
    leafdirs: u64,
    mean_size: f64,
    gamma: Option<f64>,
    dirwidth: u64,
    prealloc: u8,
    threads: u64,
    memsize: u64,
    /// Value of `finishoncount`.
    count: Option<u64>,
    /// Types and names of the flowops, in order.
    flowops: &'static str,
}

const K: u64 = 1024;
const M: u64 = 1024 * 1024;

const EXPECTED: &[Expected] = &[
    Expected {
        name: "create",
        entries: 1_000_000,
        leafdirs: 0,
        mean_size: 4096.0,
        gamma: None,
        dirwidth: 100_000,
        prealloc: 50,
        threads: 12,
        memsize: 10 * M,
        count: Some(1_000_000),
        flowops: "createfile:createfile1 writewholefile:writefile1 fsync:fsyncfile1 closefile:closefile1 \
                  finishoncount:finish",
    },
    Expected {
        name: "delete",
        entries: 1_000_000,
        leafdirs: 0,
        mean_size: 4096.0,
        gamma: None,
        dirwidth: 100,
        prealloc: 100,
        threads: 12,
        memsize: 10 * M,
        count: Some(1_000_000),
        flowops: "deletefile:deletefile1 opslimit:limit finishoncount:finish",
    },
    Expected {
        name: "mkdir",
        entries: 0,
        leafdirs: 1_000_000,
        mean_size: 0.0,
        gamma: None,
        dirwidth: 100,
        prealloc: 0,
        threads: 12,
        memsize: M,
        count: None,
        flowops: "makedir:mkdir1",
    },
    Expected {
        name: "rmdir",
        entries: 0,
        leafdirs: 1_000_000,
        mean_size: 0.0,
        gamma: None,
        dirwidth: 100,
        prealloc: 100,
        threads: 12,
        memsize: M,
        count: None,
        flowops: "removedir:dirremover",
    },
    Expected {
        name: "varmail",
        entries: 1_000_000,
        leafdirs: 0,
        mean_size: 16384.0,
        gamma: Some(1.5),
        dirwidth: 1_000_000,
        prealloc: 80,
        threads: 12,
        memsize: 10 * M,
        count: Some(500_000),
        flowops: "deletefile:deletefile1 createfile:createfile2 appendfilerand:appendfilerand2 fsync:fsyncfile2 \
                  closefile:closefile2 openfile:openfile3 readwholefile:readfile3 appendfilerand:appendfilerand3 \
                  fsync:fsyncfile3 closefile:closefile3 openfile:openfile4 readwholefile:readfile4 \
                  closefile:closefile4 finishoncount:finish",
    },
    Expected {
        name: "fileserver",
        entries: 100_000,
        leafdirs: 0,
        mean_size: 131_072.0,
        gamma: Some(1.5),
        dirwidth: 20,
        prealloc: 80,
        threads: 12,
        memsize: 10 * M,
        count: Some(1_000_000),
        flowops: "createfile:createfile1 writewholefile:wrtfile1 closefile:closefile1 openfile:openfile1 \
                  appendfilerand:appendfilerand1 closefile:closefile2 openfile:openfile2 readwholefile:readfile1 \
                  closefile:closefile3 deletefile:deletefile1 statfile:statfile1 finishoncount:finish",
    },
    Expected {
        name: "webproxy",
        entries: 1_000_000,
        leafdirs: 0,
        mean_size: 16384.0,
        gamma: None,
        dirwidth: 1_000_000,
        prealloc: 80,
        threads: 12,
        memsize: 10 * M,
        count: Some(500_000),
        flowops: "deletefile:deletefile1 createfile:createfile1 appendfilerand:appendfilerand1 closefile:closefile1 \
                  openfile:openfile2 readwholefile:readfile2 closefile:closefile2 openfile:openfile3 \
                  readwholefile:readfile3 closefile:closefile3 openfile:openfile4 readwholefile:readfile4 \
                  closefile:closefile4 openfile:openfile5 readwholefile:readfile5 closefile:closefile5 \
                  openfile:openfile6 readwholefile:readfile6 closefile:closefile6 opslimit:limit \
                  finishoncount:finish",
    },
    Expected {
        name: "webserver",
        entries: 1_000_000,
        leafdirs: 0,
        mean_size: 16384.0,
        gamma: Some(1.5),
        dirwidth: 20,
        prealloc: 100,
        threads: 12,
        memsize: 10 * M,
        count: Some(500_000),
        flowops: "openfile:openfile1 readwholefile:readfile1 closefile:closefile1 openfile:openfile2 \
                  readwholefile:readfile2 closefile:closefile2 openfile:openfile3 readwholefile:readfile3 \
                  closefile:closefile3 openfile:openfile4 readwholefile:readfile4 closefile:closefile4 \
                  openfile:openfile5 readwholefile:readfile5 closefile:closefile5 openfile:openfile6 \
                  readwholefile:readfile6 closefile:closefile6 openfile:openfile7 readwholefile:readfile7 \
                  closefile:closefile7 openfile:openfile8 readwholefile:readfile8 closefile:closefile8 \
                  openfile:openfile9 readwholefile:readfile9 closefile:closefile9 openfile:openfile10 \
                  readwholefile:readfile10 closefile:closefile10 appendfilerand:appendlog finishoncount:finish",
    },
];

fn sequence(flowops: &[FlowopSpec]) -> String {
    let pairs: Vec<_> = flowops.iter().map(|f| format!("{}:{}", f.op.type_name(), f.name)).collect();
    pairs.join(" ")
}

#[test]
fn each_file_has_the_table_s_counts_and_the_branch_s_loop() {
    for expected in EXPECTED {
        let workload = load(expected.name);
        let name = expected.name;
        let set = &workload.filesets[0];
        assert_eq!((set.entries, set.leafdirs), (expected.entries, expected.leafdirs), "{name}");
        assert_eq!(set.size.mean(&workload.randoms), expected.mean_size, "{name}");
        match (expected.gamma, set.size) {
            (None, Value::Const(_)) => {}
            (Some(wanted), Value::Random(id)) => match workload.randoms[id.0].distribution {
                Distribution::Gamma { shape, offset, .. } => {
                    assert_eq!((shape, offset), (wanted, 0.0), "{name}")
                }
                ref other => panic!("{name}: {other:?}"),
            },
            (_, size) => panic!("{name}: {size:?}"),
        }
        assert_eq!(set.dirwidth, Value::Const(expected.dirwidth), "{name}");
        assert_eq!(set.prealloc_percent, expected.prealloc, "{name}");
        assert_eq!(set.reuse, name != "create", "{name}");
        assert_eq!(set.parallel_prealloc, name == "delete", "{name}");
        assert_eq!(workload.threads(), expected.threads, "{name}");
        let [process] = &workload.processes[..] else { panic!("{name} has one process") };
        let [thread] = &process.threads[..] else { panic!("{name} has one kind of thread") };
        assert_eq!((process.instances, thread.memsize), (1, expected.memsize), "{name}");
        assert_eq!(sequence(&thread.flowops), expected.flowops, "{name}");
        let counts: Vec<_> = thread.flowops.iter().filter_map(|f| finish(&f.op)).collect();
        assert_eq!(counts, expected.count.into_iter().collect::<Vec<_>>(), "{name}");
        assert_eq!(workload.mode, QuitMode::AllDone, "{name}");
        assert_eq!(workload.run.seconds, None, "{name}");
        assert_eq!(workload.event_rate, 0, "{name}");
    }
}

fn finish(op: &Op) -> Option<u64> {
    if let Op::FinishOnCount { value, target: None } = op { Some(*value) } else { None }
}

/// Reads use 1 MiB calls, appends up to 16 KiB, everything on descriptor 1 except the web server's log.
#[test]
fn transfers_have_the_branch_s_sizes() {
    for expected in EXPECTED {
        for flowop in &load(expected.name).processes[0].threads[0].flowops {
            let (file, io) = match &flowop.op {
                Op::ReadWhole(file, io) | Op::WriteWhole { file, io, .. } => {
                    assert_eq!(io.size, Value::Const(M), "{}", flowop.name);
                    (file, io)
                }
                Op::AppendRandom(file, io) => {
                    assert_eq!(io.size, Value::Const(16 * K), "{}", flowop.name);
                    (file, io)
                }
                _ => continue,
            };
            assert_eq!(file.fd, if flowop.name == "appendlog" { 2 } else { 1 }, "{}", flowop.name);
            assert!(!io.random && !file.flags.dsync && !file.flags.direct);
            assert_eq!(flowop.iters, Value::Const(1));
        }
    }
}

#[test]
fn the_web_server_has_read_only_pages_and_one_log() {
    let workload = load("webserver");
    let [pages, log] = &workload.filesets[..] else { panic!("two filesets") };
    assert!(pages.readonly && !log.readonly);
    assert_eq!((log.name.as_str(), log.entries, log.prealloc_percent), ("logfiles", 1, 100));
    assert_eq!(pages.size, log.size, "both draw from the same variable");
}

#[test]
fn oltp_has_its_three_kinds_of_process() {
    let workload = load("oltp");
    let sets: Vec<_> = workload.filesets.iter().map(|s| (s.name.as_str(), s.entries, s.size)).collect();
    let size = Value::Const(10 * M);
    assert_eq!(sets, [("datafiles", 1600, size), ("logfile", 1, size)]);
    let shape: Vec<_> = workload
        .processes
        .iter()
        .map(|p| (p.name.as_str(), p.instances, sequence(&p.threads[0].flowops)))
        .collect();
    assert_eq!(shape[0], ("lgwr", 1, "aiowrite:lg-write aiowait:lg-aiowait semblock:lg-block".into()));
    assert_eq!(
        shape[1],
        ("dbwr", 10, "aiowrite:dbwrite-a hog:dbwr-hog semblock:dbwr-block aiowait:dbwr-aiowait".into())
    );
    assert_eq!(
        shape[2],
        (
            "shadow",
            200,
            "read:shadowread hog:shadowhog sempost:shadow-post-lg sempost:shadow-post-dbwr eventlimit:random-rate"
                .into()
        )
    );
    assert_eq!(workload.threads(), 211);
    assert_eq!((workload.run.seconds, workload.mode), (Some(60), QuitMode::Timeout));

    let log = &workload.processes[0].threads[0].flowops;
    match &log[0].op {
        Op::AioWrite(file, io) => {
            assert_eq!((io.size, io.random), (Value::Const(256 * K), true));
            assert!(file.flags.dsync && !file.flags.direct && !file.rotate);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(log[2].op, Op::SemBlock { value: Value::Const(3200), highwater: 1000 });
    let writer = &workload.processes[1].threads[0].flowops;
    assert_eq!(writer[0].iters, Value::Const(100));
    match &writer[0].op {
        Op::AioWrite(file, io) => {
            assert_eq!((io.size, io.working_set), (Value::Const(2 * K), Value::Const(0)));
            assert!(file.flags.dsync && file.rotate);
        }
        other => panic!("{other:?}"),
    }
    let reader = &workload.processes[2].threads[0].flowops;
    assert!(matches!(&reader[0].op, Op::Read(file, io) if file.rotate && io.random && !file.flags.dsync));
    assert_eq!(reader[1].op, Op::Hog(Value::Const(200_000)));
    assert_eq!(
        reader[3].op,
        Op::SemPost { value: Value::Const(1), target: "dbwr-block".into(), blocking: true }
    );
}

/// Those of FIU's traces.
const FIU: [&str; 3] = ["moodle", "usr1", "usr2"];

/// The data that a trace touches fits onto the slides' 16 GB of memory.
#[test]
fn the_generators_of_traces_fit_onto_the_small_memory() {
    for name in FIU {
        let bytes = load(name).expected_bytes();
        assert!((4e9..16e9).contains(&bytes), "{name}: {bytes}");
    }
}

#[test]
fn the_built_in_files_are_beyond_reproach() {
    assert_eq!(list().len(), 12);
    for item in list() {
        let workload = load(item.name);
        assert_eq!(workload.warnings, [], "{}", item.name);
        assert_eq!(builtin(item.name), Some(item.text));
        let source = if FIU.contains(&item.name) { "FIU" } else { "Table 5" };
        assert!(item.text.contains(source), "{} says where its numbers come from", item.name);
        assert!(item.text.lines().filter(|l| l.starts_with('#')).all(|l| l.len() <= 120), "{}", item.name);
        assert!(workload.filesets.iter().all(|set| set.path == "/data"));
        // Table 5's trees must fit on the paper's 32 GiB drive.
        assert!(workload.expected_bytes() < 20.0 * 1024.0 * M as f64, "{}", item.name);
    }
    assert_eq!(builtin("nosuch"), None);
    let error = Workload::from_builtin("vramail", &[]).unwrap_err();
    assert_eq!(error.to_string(), "no built-in workload is named `vramail`; did you mean `varmail`?");
}
