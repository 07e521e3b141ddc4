use super::{LATENCY, MemFs, count, fails, one_process, one_thread, run, run_with};
use crate::run::{Clients, Finish, Outcome, Phase, ProcessId, Progress, Run, RunOptions};
use granary_fs::FsError;
use granary_sim::World;
use granary_units::Nanos;
use parking_lot::Mutex;
use std::sync::Arc;

const FILES: &str = "size=8k,entries=40,dirwidth=100,prealloc=100";
/// Without a limit of time.
const UNLIMITED: &str = "set mode quit alldone\nrun";
const STAT: &str = "flowop statfile name=s,filesetname=set";

#[test]
fn run_ends_by_its_time() {
    let (outcome, _) = run(&one_thread(FILES, STAT, 3));
    assert_eq!(outcome.finished_because, Finish::Time);
    assert_eq!(outcome.elapsed, Nanos::from_secs(3));
    assert_eq!(outcome.total_ops, 300_000, "10 us each");
    assert_eq!(outcome.ops["s"].latency.quantile(0.5).0 / 100, 100);
}

#[test]
fn finishoncount_ends_at_the_count_of_its_process() {
    let thread = format!(
        "thread name=t,memsize=1m,instances=4\n{{\n{STAT}\nflowop finishoncount name=end,value=1000\n}}"
    );
    let (outcome, _) = run(&one_process(FILES, &thread, "run"));
    assert_eq!(outcome.finished_because, Finish::Count("end".into()));
    assert_eq!(outcome.total_ops, 1000);
    // Four threads, 10 us an operation.
    assert_eq!(outcome.elapsed, Nanos::from_micros(2500));
}

#[test]
fn each_process_counts_for_itself() {
    let text = format!(
        "define fileset name=set,path=/d,{FILES}\n\
         define process name=p,instances=3\n{{\nthread name=t,memsize=1m\n{{\n{STAT}\n\
         flowop finishoncount name=end,value=100\n}}\n}}\nrun\n"
    );
    let (outcome, _) = run(&text);
    assert!((298..=300).contains(&outcome.total_ops), "{}", outcome.total_ops);
}

#[test]
fn finishonbytes_ends_when_more_was_moved() {
    let flowops =
        "flowop read name=r,filesetname=set,iosize=1k,random\nflowop finishonbytes name=end,value=20k";
    let (outcome, _) =
        run(&one_process(FILES, &format!("thread name=t,memsize=1m\n{{\n{flowops}\n}}"), "run"));
    assert_eq!(outcome.finished_because, Finish::Bytes("end".into()));
    assert_eq!(outcome.app_read, 21 * 1024);
}

#[test]
fn a_target_is_counted_alone() {
    let flowops = format!(
        "{STAT}\nflowop read name=r,filesetname=set,iosize=1k,random,iters=2\nflowop finishoncount name=end,value=50,target=r"
    );
    let (outcome, _) =
        run(&one_process(FILES, &format!("thread name=t,memsize=1m\n{{\n{flowops}\n}}"), "run"));
    assert!((50..=51).contains(&count(&outcome, "r")));
}

#[test]
fn firstdone_ends_with_the_first_thread_that_finds_nothing() {
    let text = one_process(
        FILES,
        &format!(
            "thread name=a,memsize=1m\n{{\nflowop deletefile name=d,filesetname=set\nflowop delay name=w,value=1\n}}\n\
                  thread name=b,memsize=1m\n{{\n{STAT}\nflowop delay name=v,value=1000\n}}"
        ),
        "set mode quit firstdone\nrun",
    );
    let (outcome, _) = run(&text);
    assert_eq!(outcome.finished_because, Finish::FirstDone("d".into()));
    assert_eq!(count(&outcome, "d"), 40);
    // 40 deletes, a second after each; then nothing. The other thread's delay does not hold it up.
    assert_eq!(outcome.elapsed.0 / 1_000_000_000, 40);
}

#[test]
fn running_out_of_files_is_an_error_when_time_should_end_the_run() {
    let text = one_thread(FILES, "flowop deletefile name=d,filesetname=set", 60);
    let error = fails(&text);
    assert!(error.starts_with("flowop `d` of p-1/t-1 found no file that exists in fileset `set`"), "{error}");
}

#[test]
fn a_run_that_nothing_ends_is_refused() {
    let text = one_process(FILES, &format!("thread name=t,memsize=1m\n{{\n{STAT}\n}}"), UNLIMITED);
    assert!(fails(&text).starts_with("nothing would end this run"));
}

/// A finish flowop of a process that does nothing that it counts never comes to its end.
#[test]
fn counting_what_nobody_does_does_not_end_a_run() {
    let read = "flowop read name=r,filesetname=set,iosize=1k,random";
    for (flowops, ends) in [
        ("flowop delay name=d,value=1\nflowop finishoncount name=end,value=1".to_owned(), false),
        ("flowop delay name=d,value=1\nflowop finishoncount name=end,value=0".to_owned(), true),
        (format!("{STAT}\nflowop finishonbytes name=end,value=1"), false),
        (format!("{STAT}\n{read}\nflowop finishonbytes name=end,value=1,target=r"), true),
        ("flowop delay name=d,value=1\nflowop finishoncount name=end,value=3,target=d".to_owned(), true),
    ] {
        let text = one_process(FILES, &format!("thread name=t,memsize=1m\n{{\n{flowops}\n}}"), UNLIMITED);
        if ends {
            run(&text);
        } else {
            assert!(fails(&text).starts_with("nothing would end this run"), "{flowops}");
        }
    }
    // Another process's operations are not counted.
    let thread = |flowops: &str| format!("{{\nthread name=t,memsize=1m\n{{\n{flowops}\n}}\n}}\n");
    let text = format!(
        "define fileset name=set,path=/d,{FILES}\ndefine process name=a{}define process name=b{}{UNLIMITED}\n",
        thread(STAT),
        thread("flowop delay name=d,value=1\nflowop finishoncount name=end,value=1"),
    );
    assert!(fails(&text).starts_with("nothing would end this run"));
}

#[test]
fn a_failing_call_ends_the_run_and_names_flowop_path_and_cause() {
    let fs = MemFs::new(LATENCY);
    let text = one_thread(
        "size=10k,entries=10,dirwidth=100,dirgamma=0",
        "flowop createfile name=c,filesetname=set,fd=1\n\
         flowop writewholefile name=w1,fd=1,iosize=1m\n\
         flowop closefile name=x,fd=1",
        60,
    );
    fs.state().fail = Some(("write", 4, FsError::NoSpace));
    let error = run_with(&text, 1, &fs).expect_err("no space").to_string();
    assert_eq!(
        error,
        "flowop `w1` of p-1/t-1 failed: write /mnt/data/set/00000001/00000004: no space left on the drive"
    );
}

#[test]
fn a_failing_asynchronous_write_ends_the_run() {
    let fs = MemFs::new(LATENCY);
    let text = one_thread(
        "size=64k,entries=1,dirwidth=100",
        "flowop createfile name=c,filesetname=set,fd=1\n\
         flowop aiowrite name=a,fd=1,iosize=2k,random,iters=10\nflowop aiowait name=w\nflowop closefile name=x,fd=1",
        60,
    );
    fs.state().fail = Some(("write", 3, FsError::NoSpace));
    let error = run_with(&text, 1, &fs).expect_err("no space").to_string();
    assert!(
        error.contains("pwrite /mnt/data/set/") && error.ends_with("no space left on the drive"),
        "{error}"
    );
}

#[test]
fn a_failing_setup_names_the_path() {
    let fs = MemFs::new(LATENCY);
    fs.state().fail = Some(("mkdir", 1, FsError::ReadOnly));
    let error = run_with(&one_thread(FILES, STAT, 1), 1, &fs).expect_err("read-only").to_string();
    assert_eq!(error, "setup failed: mkdir /mnt: read-only file system");
}

#[test]
fn misuse_of_descriptors_is_explained() {
    let close = fails(&one_thread(FILES, "flowop openfile name=o,filesetname=set,fd=1", 1));
    assert_eq!(close, "flowop `o` of p-1/t-1: fd 1 is open already; close it first");
    let buffer = one_process(
        FILES,
        "thread name=t,memsize=1k\n{\nflowop read name=r,filesetname=set,iosize=4k\n}",
        "run 1",
    );
    assert!(fails(&buffer).contains("raise its memsize"));
}

#[test]
fn threads_on_a_file_system_without_costs_still_end() {
    let fs = MemFs::new(Nanos::ZERO);
    let outcome = run_with(&one_thread(FILES, STAT, 1), 1, &fs).expect("runs");
    assert_eq!(outcome.total_ops, 1_000_000, "a pass takes at least 1 us");
}

#[test]
fn a_second_measured_phase_goes_on_with_the_files_of_the_first() {
    let workload = super::workload(&one_thread(
        FILES,
        "flowop deletefile name=d,filesetname=set\nflowop delay name=w,value=1",
        10,
    ));
    let fs = MemFs::new(LATENCY);
    let inner = fs.clone();
    let body = move || {
        let mut run = Run::new(&workload, |name: &str| inner.client(name), RunOptions::default());
        run.setup().expect("set up");
        run.measure_for(Some(Nanos::from_secs(5))).expect("warms up");
        run.measure().expect("runs").total_ops
    };
    let ops = World::default().run(body).expect("no deadlock");
    assert_eq!(ops, 10);
    assert_eq!(fs.state().files.len(), 40 - 10 - 5);
}

#[test]
fn progress_is_reported_for_both_phases() {
    let seen: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let workload = super::workload(&one_thread("size=10,entries=9000,dirwidth=50,prealloc=100", STAT, 1));
    let (fs, sink) = (MemFs::new(LATENCY), Arc::clone(&seen));
    let body = move || {
        let progress: crate::run::ProgressFn = Arc::new(move |p| sink.lock().push(p));
        let options = RunOptions { progress: Some(progress), ..RunOptions::default() };
        let mut run = Run::new(&workload, |name: &str| fs.client(name), options);
        run.setup().expect("set up");
        run.measure().expect("runs");
    };
    World::default().run(body).expect("no deadlock");
    let seen = seen.lock();
    let last = seen.iter().rfind(|p| p.phase == Phase::Setup).expect("setup reports");
    assert_eq!(Some(last.done), last.total);
    assert_eq!(seen.iter().filter(|p| p.phase == Phase::Measure).count(), 100_000 / 4096);
}

/// A set of clients that is not a closure, and knows about caches.
struct Counted(MemFs, Arc<Mutex<u32>>);

impl Clients for Counted {
    type Client = super::memfs::Client;
    fn client(&self, _process: ProcessId<'_>, thread: &str) -> Self::Client {
        self.0.client(thread)
    }
    fn drop_caches(&self) -> Result<(), FsError> {
        *self.1.lock() += 1;
        Ok(())
    }
}

#[test]
fn the_prologue_is_done_in_order() {
    let text = format!(
        "define fileset name=set,path=/d,{FILES}\n\
         define process name=p\n{{\nthread name=t,memsize=1m\n{{\n{STAT}\n}}\n}}\n\
         create files\nsystem \"sync\"\nsystem \"echo 3 > /proc/sys/vm/drop_caches\"\nsleep 5\nrun 1\n"
    );
    let (fs, drops) = (MemFs::new(LATENCY), Arc::new(Mutex::new(0)));
    let (workload, clients) = (super::workload(&text), Counted(fs.clone(), Arc::clone(&drops)));
    let after = World::default()
        .run(move || {
            let mut run = Run::new(&workload, clients, RunOptions::default());
            run.setup().expect("set up");
            granary_sim::now()
        })
        .expect("no deadlock");
    assert_eq!(*drops.lock(), 1);
    assert!(after > Nanos::from_secs(5));
    let log = &fs.state().log;
    assert_eq!(log.last().map(String::as_str), Some("prologue sync "));
}

#[test]
fn every_built_in_workload_runs_to_its_end() {
    for builtin in crate::list() {
        let small: &[(&str, &str)] = match builtin.name {
            "oltp" => &[("filesize", "64k"), ("logfilesize", "1m"), ("runtime", "2")],
            "moodle" => &[("tablesize", "1m"), ("redosize", "1m"), ("filesize", "16k")],
            "usr1" | "usr2" => &[("databasesize", "1m"), ("documentsize", "16k"), ("entrysize", "8k")],
            _ => &[],
        };
        let overrides: Vec<_> = small.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut workload = crate::Workload::from_builtin(builtin.name, &overrides).expect("built in");
        workload.scale(if builtin.name == "oltp" { 0.01 } else { 0.001 }).expect("a scale");
        let fs = MemFs::new(LATENCY);
        let body = move || {
            let mut run = Run::new(&workload, |name: &str| fs.client(name), RunOptions::default());
            run.setup()?;
            run.measure()
        };
        let outcome = World::default().run(body).expect("no deadlock");
        let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", builtin.name));
        let expected = match builtin.name {
            "create" | "delete" | "mkdir" | "rmdir" | "fileserver" => 1000..1100,
            // Each of 12 threads ends its pass of up to 31 operations.
            "varmail" | "webproxy" | "webserver" => 500..500 + 12 * 31,
            // Each of 4 threads ends its pass of up to 32 operations.
            "moodle" | "usr1" | "usr2" => 500..500 + 4 * 32,
            _ => 10_000..u64::MAX,
        };
        assert!(expected.contains(&outcome.total_ops), "{}: {}", builtin.name, outcome.total_ops);
        let sum: u64 = outcome.ops.values().filter(|op| op.counted).map(|op| op.count).sum();
        assert_eq!(sum, outcome.total_ops, "{}", builtin.name);
        assert!(outcome.ops.values().all(|op| op.latency.count() == op.count), "{}", builtin.name);
    }
}

/// How long the run lasts until the end is told of, and the outcome.
fn until_told(text: &str, latency: Nanos) -> (Nanos, Outcome) {
    let (workload, fs, told) = (super::workload(text), MemFs::new(latency), Arc::new(Mutex::new(Vec::new())));
    let sink = Arc::clone(&told);
    let body = move || {
        let mut run = Run::new(&workload, |name: &str| fs.client(name), RunOptions::default());
        run.setup().expect("set up");
        let start = granary_sim::now();
        run.measure_then(move || sink.lock().push(granary_sim::now() - start)).expect("runs")
    };
    let outcome = World::default().run(body).expect("no deadlock");
    let told = told.lock();
    assert_eq!(told.len(), 1, "once");
    (told[0], outcome)
}

#[test]
fn whoever_counts_beside_the_run_is_told_of_its_end_at_that_instant() {
    let thread = |flowops: &str| format!("thread name=t,memsize=1m,instances=3\n{{\n{flowops}\n}}");
    let delete = "flowop deletefile name=d,filesetname=set";
    for (flowops, end) in [
        (STAT.to_owned(), "run 1"),
        (format!("{STAT}\nflowop finishoncount name=end,value=100"), "run"),
        (delete.to_owned(), "set mode quit alldone\nrun"),
        (delete.to_owned(), "set mode quit firstdone\nrun"),
    ] {
        // Of three threads at 7 us a call, one is always in a call when another one ends the run.
        let (told, outcome) = until_told(&one_process(FILES, &thread(&flowops), end), Nanos::from_micros(7));
        assert_eq!(told, outcome.elapsed, "{}", outcome.finished_because);
    }
}

/// The operation is not counted, its calls' bytes are: below, they were moved.
#[test]
fn the_end_cuts_an_operation_short_but_not_the_bytes_of_its_calls() {
    let latency = Nanos::from_millis(10);
    let one = |flowop: &str| {
        let flowops = format!("flowop openfile name=o,filesetname=set,fd=1\n{flowop} name=x,fd=1,iosize=256");
        let (told, outcome) =
            until_told(&one_thread("size=64k,entries=1,prealloc=100", &flowops, 1), latency);
        assert_eq!(told, Nanos::from_secs(1));
        assert_eq!((outcome.total_ops, count(&outcome, "x")), (1, 0), "only the open is done");
        outcome
    };
    // A hundred calls of 10 ms, of which the first opens; reading also seeks.
    assert_eq!(one("flowop writewholefile").app_write, 99 * 256);
    assert_eq!(one("flowop readwholefile").app_read, 98 * 256);
}

/// Notes for whom it is asked for clients.
struct Noted(MemFs, Arc<Mutex<Vec<(String, u64, String)>>>);

impl Clients for Noted {
    type Client = super::memfs::Client;
    fn client(&self, process: ProcessId<'_>, thread: &str) -> Self::Client {
        self.1.lock().push((process.name.to_owned(), process.instance, thread.to_owned()));
        self.0.client(thread)
    }
}

#[test]
fn each_instance_of_a_process_is_one_process() {
    let text = format!(
        "define fileset name=set,path=/d,{FILES}\n\
         define process name=p,instances=2\n{{\nthread name=t,memsize=1m,instances=2\n{{\n{STAT}\n}}\n}}\nrun 1\n"
    );
    let (fs, asked) = (MemFs::new(LATENCY), Arc::new(Mutex::new(Vec::new())));
    let (workload, clients) = (super::workload(&text), Noted(fs, Arc::clone(&asked)));
    World::default()
        .run(move || {
            let mut run = Run::new(&workload, clients, RunOptions::default());
            run.setup().expect("set up");
            run.measure().expect("runs");
        })
        .expect("no deadlock");
    let asked = asked.lock();
    let asked: Vec<_> = asked.iter().map(|(name, n, thread)| (name.as_str(), *n, thread.as_str())).collect();
    let measured = [("p", 1, "p-1/t-1"), ("p", 1, "p-1/t-2"), ("p", 2, "p-2/t-1"), ("p", 2, "p-2/t-2")];
    assert_eq!(asked, [&[("setup", 1, "setup")][..], &measured].concat());
}
