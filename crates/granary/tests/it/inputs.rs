//! Users' inputs and actions: mistyped names and values, outputs that cannot be written, an interrupt in the
//! middle.

use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn granary(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["300", env!("CARGO_BIN_EXE_granary")]).args(args).current_dir(dir);
    command.env_remove("COLUMNS").output().expect("timeout runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The message of a command that is refused.
fn refused(dir: &Path, args: &[&str]) -> String {
    let out = granary(dir, args);
    assert_eq!(out.status.code(), Some(2), "{args:?}: {}", text(&out.stdout));
    text(&out.stderr)
}

#[test]
fn who_mistypes_a_name_is_told_what_was_meant() {
    let dir = tempfile::tempdir().expect("a directory");
    for (args, meant) in [
        (&["run", "varmial"][..], "did you mean `varmail`?"),
        (&["run", "varmail", "--fs", "bytesf"], "did you mean `bytefs`?"),
        (&["run", "varmail", "--testbed", "bytefs-fgpa"], "did you mean `bytefs-fpga`?"),
        (&["run", "varmail", "--set", "nand.raed_ns=3"], "did you mean `nand.read_ns`?"),
        (&["mkfs", "img", "--fs", "ext5"], "did you mean `ext4`?"),
        (&["drive", "bench", "--rw", "randraed"], "did you mean `randread`?"),
        (&["drive", "bench", "--firmware", "lgo"], "did you mean `log`?"),
        (&["drive", "replay", "-", "--format", "blkpasre"], "did you mean `blkparse`?"),
        (&["testbed", "show", "pebblesd"], "did you mean `pebblessd`?"),
        (&["workload", "show", "webserfer"], "did you mean `webserver`?"),
    ] {
        let said = refused(dir.path(), args);
        assert!(said.contains(meant), "{args:?}: {said}");
    }
}

/// The recommended command works.
#[test]
fn the_list_of_keys_that_an_error_names_can_be_had() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = refused(dir.path(), &["run", "varmail", "--testbed", "cxl", "--set", "qqqqq=3"]);
    let command = said.split('`').nth(1).expect("a command");
    let args: Vec<&str> = command.split(' ').skip(1).collect();
    let out = granary(dir.path(), &args);
    assert!(
        out.status.success() && text(&out.stdout).contains("read_ns = "),
        "{command}: {}",
        text(&out.stderr)
    );
}

#[test]
fn a_value_that_does_not_fit_is_told_what_the_key_takes() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |set: &str| refused(dir.path(), &["run", "varmail", "--set", set]);
    let said = run("nand.read_ns=abc");
    assert!(
        said.contains(
            "drive.flash.nand.read_ns takes a whole number of nanoseconds; it is 40000 in bytefs-emulator"
        ),
        "{said}"
    );
    let said = refused(dir.path(), &["run", "varmail", "--set", "host.cores=1", "--set", "host.cores=2"]);
    assert!(said.contains("host.cores is set already"), "{said}");
    let said = refused(dir.path(), &["run", "varmail", "--var", "nfiles=1", "--var", "nfiles=2"]);
    assert!(said.contains("nfiles is set already"), "{said}");
}

#[test]
fn a_file_without_prealloc_is_told_of_prealloc() {
    let dir = tempfile::tempdir().expect("a directory");
    for (define, word) in [
        ("define file name=one,path=/tmp,size=1m", "add `prealloc` to `define file name=one`"),
        (
            "define fileset name=one,path=/tmp,size=1m,entries=5,dirwidth=5",
            "add `prealloc` to `define fileset name=one`",
        ),
        ("define fileset name=one,path=/tmp,size=1m,entries=1,dirwidth=5,prealloc=1", "raise `prealloc`"),
    ] {
        let process =
            "define process name=p { thread name=t { flowop readwholefile name=r,filename=one,iosize=4k } }";
        std::fs::write(dir.path().join("w.f"), format!("{define}\n{process}\nrun 1\n")).expect("written");
        let said = refused(dir.path(), &["run", "w.f", "--fs", "bytefs"]);
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn a_file_larger_than_the_drive_is_told_of_a_larger_drive() {
    let dir = tempfile::tempdir().expect("a directory");
    let big = "define file name=big,path=/tmp,size=40g,prealloc\n\
               define process name=p { thread name=t { flowop read name=r,filename=big,iosize=4k,random } }\nrun 1\n";
    std::fs::write(dir.path().join("big.f"), big).expect("written");
    let said = refused(dir.path(), &["run", "big.f", "--scale", "0.001"]);
    assert!(said.contains("--scale does not help") && said.contains("--testbed bytefs-fpga"), "{said}");
}

/// Before the run: it would take minutes.
#[test]
fn outputs_that_cannot_be_written_are_refused_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("file"), "").expect("written");
    std::fs::write(dir.path().join("old.json"), "kept").expect("written");
    let long = ["run", "varmail", "--scale", "20", "--fs", "bytefs"];
    for more in [
        &["--out", "/proc/x"][..],
        &["--out", "file"],
        &["--export", "/proc/x.csv"],
        &["--record", "/proc/x"],
        &["--export", "old.json", "--export", "old.json"],
        &["--export", "old.json", "--out", "file/x"],
    ] {
        #[allow(clippy::disallowed_methods, reason = "a run would take minutes")]
        let started = std::time::Instant::now();
        let said = refused(dir.path(), &[&long[..], more].concat());
        assert!(said.contains("/proc/x") || said.contains("file") || said.contains("old.json"), "{said}");
        assert!(started.elapsed() < Duration::from_secs(20), "{more:?}");
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("old.json")).expect("there"), "kept");
    let bench = ["drive", "bench", "--precondition", "random:100", "--record", "/proc/x"];
    assert!(refused(dir.path(), &bench).contains("/proc/x"));
}

#[allow(clippy::disallowed_methods, reason = "lets a process run for a while")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}

/// Starts a command and interrupts it when it has said that it runs, or after a while; its exit code or
/// signal, and what it printed and said.
fn interrupted(dir: &Path, args: &[&str], signal: &str, again: bool) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_granary"));
    let child = command.args(args).current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().expect("runs");
    wait(Duration::from_secs(4));
    let pid = child.id().to_string();
    let kill = || Command::new("kill").args([signal, &pid]).status().expect("kill");
    assert!(kill().success());
    if again {
        wait(Duration::from_millis(5));
        kill();
    }
    let out = child.wait_with_output().expect("ends");
    (out.status.signal().or(out.status.code()), text(&out.stdout), text(&out.stderr))
}

#[test]
fn an_interrupt_leaves_what_was_measured() {
    let dir = tempfile::tempdir().expect("a directory");
    let loops = "define fileset name=set,path=/d,size=16k,entries=50,dirwidth=10,prealloc=100\n\
                 define process name=p { thread name=t { flowop readwholefile name=r,filesetname=set,iosize=1m } }\nrun 100000\n";
    std::fs::write(dir.path().join("long.f"), loops).expect("written");
    for (args, signal, code) in [
        (&["run", "long.f", "--fs", "bytefs,ext4", "--json", "--export", "o.json"][..], "-INT", 130),
        (&["run", "long.f", "--fs", "bytefs", "--json"], "-TERM", 143),
        (&["drive", "bench", "--accesses", "100000000000", "--precondition", "none", "--json"], "-INT", 130),
    ] {
        let (ended, out, said) = interrupted(dir.path(), args, signal, false);
        assert_eq!(ended, Some(code), "{args:?}: {said}");
        let records: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert!(!records.is_empty(), "{args:?}: {said}");
        for record in &records {
            assert_eq!(record["cut_short"], true, "{record}");
            assert!(record["warnings"].to_string().contains("cut short by an interrupt"), "{record}");
            let done = record["ops"]["total"].as_u64().or(record["jobs"][0]["accesses"].as_u64());
            assert!(done.is_some_and(|n| n > 0), "{record}");
        }
        if args.contains(&"--export") {
            let exported = std::fs::read_to_string(dir.path().join("o.json")).expect("exported");
            assert!(exported.contains("\"cut_short\":true"), "{exported}");
        }
    }
    let (ended, ..) = interrupted(dir.path(), &["run", "long.f", "--fs", "bytefs"], "-INT", true);
    assert!(matches!(ended, Some(2 | 130)), "the second ends it at once, if it is not over: {ended:?}");
}

#[test]
fn tables_fit_the_terminal() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = ["run", "varmail", "--scale", "0.0005", "--fs", "bytefs,ext4,f2fs,nova,pmfs", "--latencies"];
    let bench = ["drive", "bench", "--accesses", "1000", "--rw", "randread,randrw", "--latencies"];
    for (width, args) in [(80, &run[..]), (120, &run), (80, &bench), (120, &bench)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_granary"));
        let out = command
            .args(args)
            .current_dir(dir.path())
            .env("COLUMNS", width.to_string())
            .output()
            .expect("runs");
        let table = text(&out.stdout);
        assert!(out.status.success() && table.contains("p95"), "{}", text(&out.stderr));
        let widest = table.lines().filter(|l| l.starts_with(['│', '┌'])).map(|l| l.chars().count()).max();
        assert!(widest.is_some_and(|w| w <= width), "{widest:?} of {width}:\n{table}");
    }
}

#[test]
fn a_trace_with_commands_that_pass_the_block_layer_by_is_replayed() {
    let dir = tempfile::tempdir().expect("a directory");
    let trace = "  8,16   0  1  0.000100000  700  D   W 2048 + 8 [writer]\n\
                 \x20 8,16   0  2  0.001000000  701  D   R 96 (12 00 00 00 60 00 ..) [probe]\n\
                 \x20 8,16   1  4  0.003000000  703  D   N 0 [nvme-tool]\n\
                 \x20 8,16   0  5  0.004000000  700  D   R 2048 + 8 [reader]\n";
    std::fs::write(dir.path().join("t"), trace).expect("written");
    let out = granary(dir.path(), &["drive", "replay", "t", "--json", "--precondition", "none"]);
    let record: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out.stderr)));
    let accesses = |n: usize| record["ops"][n]["accesses"].as_u64();
    assert_eq!(
        (accesses(0), accesses(1), record["trace"]["passed_through"].as_u64()),
        (Some(1), Some(1), Some(2))
    );
    assert!(record["warnings"].to_string().contains("passed the block layer by"), "{record}");
}

#[test]
fn the_phases_of_a_job_file_follow_each_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let job = "[global]\nioengine=libaio\ndirect=1\nfilename=/dev/nvme0n1\ngroup_reporting\n\
               [first]\nrw=write\nbs=128k\nsize=64m\n[second]\nstonewall\nrw=randread\nbs=4k\nsize=64m\n";
    std::fs::write(dir.path().join("two.fio"), job).expect("written");
    let out = granary(dir.path(), &["drive", "bench", "--job", "two.fio", "--json"]);
    let record: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out.stderr)));
    assert!(record["jobs"][1]["begin_ns"].as_u64().is_some_and(|ns| ns > 0), "{record}");
    let left_out = record["warnings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|w| w.to_string().contains("had no effect"));
    assert_eq!(left_out.count(), 1, "{}", record["warnings"]);
}
