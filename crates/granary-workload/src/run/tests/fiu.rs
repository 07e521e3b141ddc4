//! Traces of FIU on a small file system in memory.

use super::super::Finish;
use super::super::fiu::MOST_OPEN;
use super::*;

fn replay(text: &str, change: impl Fn(&mut Workload)) -> (Outcome, MemFs, Vec<String>) {
    let mut workload = Workload::from_fiu("t.fiu", text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    change(&mut workload);
    let fs = MemFs::new(LATENCY);
    let mine = fs.clone();
    let body = move || {
        let mut run = Run::new(&workload, |name: &str| mine.client(name), RunOptions::default());
        run.setup()?;
        mine.state().log.clear();
        run.measure()
    };
    let outcome = World::default().run(body).expect("no deadlock").unwrap_or_else(|e| panic!("{e}"));
    let log = fs.state().log.clone();
    (outcome, fs, log)
}

const TRACE: &str = "\
1 100 OPEN 42 70000
2 200 READ 42 70000 0 4096 MISS
3 300 WRITE 42 70000 69000 2000 APPEND
4 400 WRITE 7 0 0 10
5 500 FDATASYNC 7 10
6 600 FSYNC 42 71000
7 700 CLOSE 42 71000
8 800 CLOSE 42 71000
";

/// Each record is one call, in order; what the trace reads is there, and what it does not open is opened.
#[test]
fn each_record_is_a_call() {
    let (outcome, _, log) = replay(TRACE, |_| ());
    let counts = ["read", "write", "open", "close", "fsync", "fdatasync"].map(|call| count(&outcome, call));
    assert_eq!(counts, [1, 2, 2, 1, 1, 1], "the second file was opened by its first write");
    assert_eq!((outcome.app_read, outcome.app_write), (4096, 2010), "what is read was laid out");
    assert_eq!((outcome.total_ops, outcome.finished_because), (8, Finish::TraceDone));
    assert_eq!(outcome.warnings.len(), 1, "one close was of nothing: {:?}", outcome.warnings);
    let calls: Vec<&str> = log.iter().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(calls.iter().filter(|c| c.contains("sync")).count(), 2, "{log:?}");
}

#[test]
fn clients_and_scale_multiply_what_is_replayed() {
    let (outcome, ..) = replay(TRACE, |w| {
        w.scale(0.5).expect("a scale");
        w.set_threads(3).expect("threads");
        assert_eq!(w.threads(), 3);
    });
    assert_eq!((count(&outcome, "read"), count(&outcome, "write")), (3, 6), "four records, three times");
    let (outcome, ..) = replay(TRACE, |w| w.scale(2.0).expect("a scale"));
    assert_eq!((count(&outcome, "write"), outcome.app_write), (4, 4020));
}

/// A trace that opens and never closes keeps within the descriptors of a process.
#[test]
fn files_that_are_left_open_do_not_run_out_of_descriptors() {
    let mut text = String::new();
    for n in 0..3 * MOST_OPEN {
        text += &format!("{n} {n} OPEN {n} 0\n{n} {n} WRITE {n} 0 0 8\n");
    }
    for n in 0..3 * MOST_OPEN {
        text += &format!("{n} {n} READ {n} 8 0 8 HIT\n");
    }
    let (outcome, fs, _) = replay(&text, |_| ());
    assert_eq!(count(&outcome, "open"), 6 * MOST_OPEN as u64, "each again for its read");
    assert_eq!(outcome.app_read, 8 * 3 * MOST_OPEN as u64);
    assert_eq!(fs.state().most_open, MOST_OPEN);
}
