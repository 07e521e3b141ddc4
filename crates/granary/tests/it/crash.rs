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

const PROGRAM: &str = "creat(/A/foo) fsync";
/// Where a FLUSH that does nothing shows.
const LIE: [&str; 6] = ["--fs", "ext4@volatile", "--load", PROGRAM, "--lie", "flushes"];

fn json(out: &str) -> serde_json::Value {
    serde_json::from_str(out).expect("JSON")
}

/// The findings in a report as JSON.
fn findings(report: &serde_json::Value) -> Vec<serde_json::Value> {
    let pairs = report["pairs"].as_array().expect("pairs").iter();
    pairs.flat_map(|pair| pair["failures"].as_array().expect("failures").clone()).collect()
}

/// The line of a failure that comes again below a drive that lies.
fn failing() -> String {
    let (out, _) = crash(&[&LIE[..], &["--stop", "--no-minimise", "--json"]].concat(), 1);
    findings(&json(&out))[0]["replay"].as_str().expect("a line").to_owned()
}

#[test]
fn a_sound_file_system_ends_with_0_and_a_table_of_what_was_looked_at() {
    let program = PROGRAM;
    let (out, _) = crash(&["--fs", "pmfs,nova@nvm", "--load", program, "--points", "20"], 0);
    assert!(out.contains("pmfs") && out.contains("nova@nvm") && out.contains(program), "{out}");
    let (out, _) =
        crash(&["--fs", "pmfs", "--load", program, "--points", "40", "--mode", "linear", "--json"], 0);
    let json = json(&out);
    assert_eq!(json["pairs"][0]["points"], 40, "{json}");
    assert_eq!(json["pairs"][0]["failures"], serde_json::json!([]));
}

#[test]
fn tries_with_errors_of_metadata_are_counted_and_those_that_were_not_compared() {
    let args = ["--fs", "nilfs2@usual", "--load", "torture", "--points", "36", "--mode", "errors"];
    let (out, _) = crash(&args, 0);
    assert!(out.contains("errors of metadata") && out.contains("not compared"), "{out}");
    let (out, _) = crash(&[&args[..], &["--json"]].concat(), 0);
    let json = json(&out);
    let number = |key: &str| json["pairs"][0]["errors"][key].as_u64().expect("a number");
    assert!(number("tries") >= 12 && number("commands") > 0, "{json}");
    assert!(number("not_compared") <= number("tries"), "{json}");
}

#[test]
fn what_there_is_not_is_refused_with_what_there_is() {
    let (_, err) = crash(&["--fs", "ext5", "--points", "1"], 2);
    assert!(err.contains("no file system 'ext5': did you mean `ext4`?"), "{err}");
    let (_, err) = crash(&["--fs", "zfs", "--points", "1"], 2);
    assert!(err.contains("no file system 'zfs': choose from bytefs"), "{err}");
    let (_, err) = crash(&["--fs", "ext4", "--load", "tortue", "--points", "1"], 2);
    assert!(err.contains("no load 'tortue': did you mean `torture`?"), "{err}");
    let (_, err) = crash(&["--fs", "ext4", "--mode", "liner"], 2);
    assert!(err.contains("'linear'"), "{err}");
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
    let (_, err) = crash(&["--list", "--fs", "zzz"], 2);
    assert!(err.contains("cannot be used with"), "{err}");
    let (_, err) = crash(&["--fs", "ext4", "--load", "snapshots"], 2);
    assert!(err.contains("snapshots for those that keep some"), "{err}");
    let (_, err) = crash(&["--replay", "1:x2+.0"], 2);
    assert!(err.contains("no place of a power failure"), "{err}");
}

/// A line with a wrong number must not pass for a mended fault.
#[test]
fn a_line_with_what_the_run_does_not_have_is_refused() {
    let again = |load: &str, place: &str, code: i32| {
        crash(&["--fs", "ext4@usual", "--load", load, "--replay", place], code).1
    };
    for (place, what) in [
        ("3:l9999+.0", "'l9999+.0' is not reached"),
        ("3:l5+.0:lost=nvm.line.3", "the power failure cannot take 'nvm.line.3'"),
        ("3:l5+.0:99.1", "the run has no call '99.1'"),
    ] {
        let err = again(PROGRAM, place, 2);
        assert!(err.contains(what) && err.contains("take the line as the report gives it"), "{place}: {err}");
    }
    let err = again("every-1", "1444:l5+.0", 2);
    assert!(err.contains("load every-1 has runs 0 to 1443, there is no run 1444"), "{err}");
    assert!(again(PROGRAM, "3:l5+.0", 0).is_empty());
}

#[test]
fn known_failures_are_tried_first_and_go_when_they_pass() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("failures");
    let (failing, line) = (failing(), |place: &str| format!("pmfs\t{PROGRAM}\t{place}"));
    std::fs::write(&file, [line("0:l1-.0"), line("0:l999999-.0"), failing.clone()].join("\n"))
        .expect("writes");
    let name = file.to_str().expect("UTF-8");
    let args = ["--fs", "pmfs", "--load", PROGRAM, "--lie", "flushes", "--points", "2", "--failures", name];
    let (_, err) = crash(&args, 1);
    for told in ["passes now: ", "still fails: ", "no longer has a place: "] {
        assert_eq!(err.matches(told).count(), 1, "{err}");
    }
    let moved = format!("{}\tno longer has a place\n{failing}\n", line("0:l999999-.0"));
    assert_eq!(std::fs::read_to_string(&file).expect("reads"), moved);
    // A line without a place is tried again, and is no failure.
    std::fs::write(&file, moved.lines().next().expect("a line")).expect("writes");
    let (_, err) = crash(&args, 0);
    assert!(err.contains("no longer has a place: pmfs") && !err.contains("still fails"), "{err}");
}

#[test]
fn findings_are_told_where_their_file_cannot_be_written_and_nobody_works_for_nothing() {
    let lie = [&LIE[..], &["--stop", "--no-minimise"]].concat();
    let (out, err) = crash(&[&lie[..], &["--failures", "/dev/full"]].concat(), 1);
    assert!(out.contains("replay: `granary crash"), "{out}");
    assert!(err.contains("/dev/full is not kept"), "{err}");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("writes");
    let below = file.join("failures").display().to_string();
    let (out, err) = crash(&[&lie[..], &["--failures", &below]].concat(), 2);
    assert!(out.is_empty() && err.contains("opening"), "{out}{err}");
    crash(&[&lie[..], &["--failures", file.to_str().expect("UTF-8")]].concat(), 1);
    assert!(std::fs::read_to_string(&file).expect("reads").starts_with("ext4@volatile\t"));
    assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 1, "no other file is left");
}

#[test]
fn a_replay_tells_its_finding_as_an_exploration_does() {
    let line = failing();
    let place = line.split('\t').nth(2).expect("a place");
    let args = [&LIE[..], &["--no-minimise", "--json", "--replay", place]].concat();
    let (out, _) = crash(&args, 1);
    let replayed = json(&out);
    assert_eq!(replayed["failures"][0]["replay"], line.as_str(), "{replayed}");
    let (out, _) = crash(&[&LIE[..], &["--no-minimise", "--json", "--stop"]].concat(), 1);
    let found = findings(&json(&out));
    let keys =
        |of: &serde_json::Value| of.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&replayed["failures"][0]), keys(&found[0]));
    let sound = ["--fs", "ext4@volatile", "--load", PROGRAM, "--json", "--replay", place];
    assert_eq!(json(&crash(&sound, 0).0)["failures"], serde_json::json!([]));
    for other in
        [&["--points", "3"][..], &["--time", "3"], &["--mode", "linear"], &["--stop"], &["--seed", "1"]]
    {
        let (_, err) = crash(&[&args[..], other].concat(), 2);
        assert!(err.contains("cannot be used with"), "{err}");
    }
}

/// Not each of the images that other workers, and the run itself, still have.
#[test]
fn the_first_failure_alone_is_told_where_it_stops_there() {
    let args =
        [&LIE[..], &["--stop", "--json", "--no-minimise", "--jobs", "4", "--points", "100000"]].concat();
    let report = json(&crash(&args, 1).0);
    assert_eq!(findings(&report).len(), 1, "{report}");
}

/// The SSD of ext4 loses nothing that it has answered; a FLUSH that is missing shows with a cache that is
/// lost.
#[test]
fn a_missing_flush_is_found_by_the_bare_name_of_a_file_system() {
    let args = ["--load", PROGRAM, "--lie", "flushes", "--points", "40", "--json", "--no-minimise"];
    let report = json(&crash(&[&["--fs", "ext4"][..], &args].concat(), 1).0);
    assert_eq!(report["pairs"][1]["fs"], "ext4@volatile", "{report}");
    let report = json(&crash(&[&["--fs", "ext4@usual"][..], &args].concat(), 0).0);
    assert_eq!(report["pairs"].as_array().map(Vec::len), Some(1), "{report}");
}

#[test]
fn interrupted_recoveries_are_counted_by_how_deep_they_are() {
    let args =
        ["--fs", "ext4@usual", "--load", "torture", "--points", "24", "--mode", "nested", "--nested", "2"];
    let (out, _) = crash(&args, 0);
    assert!(out.contains("interrupted recoveries"), "{out}");
    let report = json(&crash(&[&args[..], &["--json"]].concat(), 0).0);
    let deep = report["pairs"][0]["interrupted_recoveries"].as_array().expect("numbers").clone();
    assert!(deep.len() == 2 && deep[1].as_u64() > Some(2), "{report}");
}

#[test]
fn a_load_that_goes_wrong_by_itself_is_no_failure_of_a_file_system() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("large.f");
    let text = "define fileset name=b,path=/x,size=12k,entries=1,prealloc\n\
        define process name=p { thread name=t {\n  flowop openfile name=o,filesetname=b,fd=1\n  \
        flowop appendfile name=w,fd=1,iosize=1m,iters=80\n  flowop closefile name=c,fd=1\n} }\nrun 60\n";
    std::fs::write(&file, text).expect("writes");
    let (out, err) = crash(&["--fs", "ext4", "--load", file.to_str().expect("UTF-8"), "--points", "1"], 2);
    assert!(err.contains("the load itself is at fault") && err.contains("large.f:4: flowop `w`"), "{err}");
    assert!(!out.contains("once more"), "{out}");
}

/// A worker takes no more than its estimate.
#[test]
fn as_many_work_at_a_time_as_there_is_memory_for() {
    let limit: u64 = 400 << 20;
    let mut command = Command::cargo_bin("granary").expect("the binary is built");
    command.args([
        "crash",
        "--fs",
        "ext4",
        "--load",
        "torture,crowd",
        "--points",
        "60",
        "--jobs",
        "8",
        "--json",
    ]);
    let out = command.env("GRANARY_MEMORY", limit.to_string()).assert().code(0).get_output().clone();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("1 worker at a time instead of 8"), "{said}");
    let report = json(&String::from_utf8_lossy(&out.stdout));
    let number = |key: &str| report["memory"][key].as_u64().expect("a number");
    assert_eq!(number("workers"), 1);
    assert!(number("peak") <= number("estimated") && number("estimated") <= limit, "{}", report["memory"]);
}

/// Runs a long exploration, sends `signal` once it has tried a known failure, and returns its code, stdout
/// and stderr.
fn interrupted(known: &str, signal: Signal) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("failures");
    std::fs::write(&file, format!("{known}\n")).expect("writes");
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("granary"));
    command.args(["crash", "--fs", "pmfs", "--load", PROGRAM, "--lie", "flushes"]);
    command.args(["--points", "100000000", "--json", "--failures"]);
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
    let passing = format!("pmfs\t{PROGRAM}\t0:l1-.0");
    for (known, signal, code) in
        [(&passing, Signal::INT, 130), (&passing, Signal::TERM, 143), (&failing(), Signal::INT, 1)]
    {
        let (ended, out, err) = interrupted(known, signal);
        assert_eq!(ended, Some(code), "{out}{err}");
        let json = json(&out);
        assert_eq!(json["pairs"][0]["fs"], "pmfs", "{json}");
        assert!(err.contains("stopped by SIG"), "{err}");
    }
}

#[test]
fn an_image_is_kept_of_a_failure_alone_and_over_nothing_that_is_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image").display().to_string();
    let args = ["--fs", "pmfs", "--load", PROGRAM, "--keep-image", &image];
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
    std::fs::remove_file(dir.path().join("image")).expect("it is there");
    // Nothing fails there, and somebody wants to see it.
    let (out, err) = with(&["--replay", "0:l3+.0"], 0);
    assert!(
        out.contains("nothing is wrong there") && err.contains("all is well behind that recovery"),
        "{out}{err}"
    );
    assert!(dir.path().join("image").is_dir());
}
