//! Records of commands that were stopped: what there is of them can be replayed.

use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn granary(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["300", env!("CARGO_BIN_EXE_granary")]).args(args).current_dir(dir);
    command.output().expect("timeout runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a workload that records, and stops it with `signal` when there is something in the record; its exit
/// code or the signal of which it died, and what it said.
fn stopped(dir: &Path, signal: &str) -> (Option<i32>, String) {
    let _ = std::fs::remove_file(dir.join("record"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_granary"));
    command.args(["run", "varmail", "--fs", "bytefs", "--scale", "0.2", "--record", "record"]);
    let child = command.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("runs");
    while std::fs::metadata(dir.join("record")).map_or(0, |m| m.len()) < 1 << 20 {
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
    let out = child.wait_with_output().expect("ends");
    (out.status.signal().or(out.status.code()), text(&out.stderr))
}

#[test]
fn a_run_that_is_interrupted_leaves_a_record_that_replays_and_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    for (signal, number) in [("-INT", 2), ("-TERM", 15)] {
        let (ended, told) = stopped(dir.path(), signal);
        assert_eq!(ended, Some(128 + number), "{told}");
        assert!(told.contains("stopped by SIG"), "{told}");
        let out = granary(dir.path(), &["drive", "replay", "--json", "record"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let record: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        assert!(record["warnings"].to_string().contains("stopped before its end"), "{}", record["warnings"]);
    }
}

#[test]
fn what_a_killed_run_left_of_its_record_replays_where_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let (died, _) = stopped(dir.path(), "-KILL");
    assert_eq!(died, Some(9));
    let out = granary(dir.path(), &["drive", "replay", "record"]);
    let told = text(&out.stderr);
    assert!(
        out.status.code() == Some(2) && told.contains("cut off at byte") && told.contains("--cut"),
        "{told}"
    );
    let out = granary(dir.path(), &["drive", "replay", "--cut", "record"]);
    let table = text(&out.stdout);
    assert!(out.status.success() && table.contains("the record is cut off"), "{table}{}", text(&out.stderr));
}

#[test]
fn cut_is_refused_for_what_is_no_record() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("t.csv"), "128166372003061629,hm,1,Write,0,4096,59\n").expect("written");
    let out = granary(dir.path(), &["drive", "replay", "--cut", "t.csv"]);
    let told = text(&out.stderr);
    assert!(out.status.code() == Some(2) && told.contains("--cut chooses"), "{told}");
}
