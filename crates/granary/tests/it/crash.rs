//! `granary crash` from outside: exit codes, tables, replays, a file of failures.

use assert_cmd::Command;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

fn crash(args: &[&str], code: i32) -> (String, String) {
    let mut command = Command::cargo_bin("granary").expect("the binary is built");
    let output = command.arg("crash").args(args).output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "granary crash {args:?}: {out}{err}");
    (out.into_owned(), err.into_owned())
}

#[test]
fn a_sound_file_system_ends_with_0_and_a_table_of_what_was_looked_at() {
    let program = "creat(/A/foo) fsync";
    let (out, _) = crash(&["--fs", "pmfs,nova@nvm", "--load", program, "--points", "20"], 0);
    assert!(out.contains("pmfs") && out.contains("nova@nvm") && out.contains(program), "{out}");
    let (out, _) =
        crash(&["--fs", "pmfs", "--load", program, "--points", "4", "--mode", "linear", "--json"], 0);
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert!(json["pairs"][0]["points"].as_u64() > Some(20), "{json}");
    assert_eq!(json["pairs"][0]["failures"], serde_json::json!([]));
}

#[test]
fn tries_with_errors_of_metadata_are_counted_and_those_that_were_not_compared() {
    let args = ["--fs", "nilfs2", "--load", "torture", "--points", "30", "--mode", "errors"];
    let (out, _) = crash(&args, 0);
    assert!(out.contains("errors of metadata") && out.contains("not compared"), "{out}");
    let (out, _) = crash(&[&args[..], &["--json"]].concat(), 0);
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let number = |key: &str| json["pairs"][0]["errors"][key].as_u64().expect("a number");
    assert!(number("tries") >= 12 && number("commands") > 0, "{json}");
    assert!(number("not_compared") <= number("tries"), "{json}");
}

#[test]
fn what_there_is_not_is_refused_with_what_there_is() {
    let (_, err) = crash(&["--fs", "ext5", "--points", "1"], 2);
    assert!(err.contains("no file system 'ext5'") && err.contains("ext4"), "{err}");
    let (_, err) = crash(&["--fs", "ext4", "--load", "tortue", "--points", "1"], 2);
    assert!(err.contains("no load 'tortue'") && err.contains("torture"), "{err}");
    let (_, err) = crash(&["--fs", "ext4,pmfs", "--load", "torture", "--replay", "1:l2+.0"], 2);
    assert!(err.contains("--replay needs"), "{err}");
    let (_, err) = crash(&["--fs", "ext4", "--load", "creat(/somewhere/else) sync", "--points", "1"], 2);
    assert!(err.contains("/somewhere/else"), "{err}");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("broken.f");
    std::fs::write(&file, "define fileset name=a,\nrun\n").expect("writes");
    let (_, err) = crash(&["--fs", "ext4", "--load", file.to_str().expect("UTF-8"), "--points", "1"], 2);
    assert!(err.contains("broken.f"), "the reason is told: {err}");
    crash(&["--fs", "ext4", "--load", "torture", "--points", "0"], 2);
    let (_, err) = crash(&["--fs", "ext4", "--load", "torture", "--time", "0"], 2);
    assert!(err.contains("not one run began"), "{err}");
    let (_, err) = crash(&["--replay", "1:x2+.0"], 2);
    assert!(err.contains("no place of a power failure"), "{err}");
}

#[test]
fn known_failures_are_tried_first_and_go_when_they_pass() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("failures");
    let line = |place: &str| format!("pmfs\tcreat(/A/foo) fsync\t{place}\n");
    std::fs::write(&file, line("0:l1-.0") + &line("0:l999999-.0")).expect("writes");
    let name = file.to_str().expect("UTF-8");
    let args = ["--fs", "pmfs", "--load", "creat(/A/foo) fsync", "--points", "2", "--failures", name];
    let (_, err) = crash(&args, 1);
    assert!(err.contains("passes now") && err.contains("still fails"), "{err}");
    assert_eq!(std::fs::read_to_string(&file).expect("reads"), line("0:l999999-.0"));
}

/// Runs a long exploration, sends `signal` once it has tried a known failure, and returns its code, stdout and stderr.
fn interrupted(known: &str, signal: Signal) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("failures");
    let program = "creat(/A/foo) fsync";
    std::fs::write(&file, format!("pmfs\t{program}\t{known}\n")).expect("writes");
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("granary"));
    command.args([
        "crash",
        "--fs",
        "pmfs",
        "--load",
        program,
        "--points",
        "100000000",
        "--json",
        "--failures",
    ]);
    let mut child =
        command.arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut err = BufReader::new(child.stderr.take().expect("piped"));
    let mut told = String::new();
    err.read_line(&mut told).expect("it tells of the known failure");
    kill_process(Pid::from_child(&child), signal).expect("it is there");
    let mut out = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut out).expect("UTF-8");
    err.read_to_string(&mut told).expect("UTF-8");
    let code = child.wait().expect("it ends").code();
    let kept = std::fs::read_to_string(&file).expect("reads");
    assert_eq!(kept.contains(known), code == Some(1), "{kept}");
    (code, out, told)
}

#[test]
fn a_signal_ends_it_with_what_was_found_so_far() {
    for (known, signal, code) in
        [("0:l1-.0", Signal::INT, 130), ("0:l1-.0", Signal::TERM, 143), ("0:l999999-.0", Signal::INT, 1)]
    {
        let (ended, out, err) = interrupted(known, signal);
        assert_eq!(ended, Some(code), "{out}{err}");
        let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(json["pairs"][0]["fs"], "pmfs", "{json}");
        assert!(err.contains("stopped by SIG"), "{err}");
    }
}

#[test]
fn an_image_is_kept_of_a_failure_alone_and_over_nothing_that_is_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image").display().to_string();
    let args = ["--fs", "pmfs", "--load", "creat(/A/foo) fsync", "--keep-image", &image];
    let with = |more: &[&'static str], code| crash(&[&args[..], more].concat(), code);
    // There is no such place: nothing failed.
    let (_, err) = with(&["--replay", "0:l999999-.0"], 2);
    assert!(err.contains("is not reached"), "{err}");
    let (_, err) = with(&["--points", "10"], 0);
    assert!(!err.contains("kept"), "{err}");
    assert!(!dir.path().join("image").exists());
    std::fs::write(dir.path().join("image"), "mine").expect("a file");
    let (_, err) = with(&["--points", "10"], 2);
    assert!(err.contains("exists already: choose another path"), "{err}");
}
