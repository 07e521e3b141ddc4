//! The command line as a user meets it: results, determinism, errors that say what to do next, exit codes.

use assert_cmd::Command;
use granary_papers::reproduce::STUDIES;

fn granary(args: &[&str]) -> Command {
    let mut c = Command::cargo_bin("granary").expect("the binary is built");
    c.args(args);
    c
}

/// stdout and stderr of a command that must end with `code`.
fn ends(args: &[&str], code: i32) -> (String, String) {
    let out = granary(args).assert().code(code).get_output().clone();
    (String::from_utf8_lossy(&out.stdout).into_owned(), String::from_utf8_lossy(&out.stderr).into_owned())
}

const SMALL: [&str; 7] = ["run", "varmail", "--scale", "0.0005", "--fs", "bytefs,ext4", "--json"];

fn records(json: &str) -> Vec<serde_json::Value> {
    json.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

#[test]
fn one_seed_gives_one_result_and_another_seed_another() {
    let (a, _) = ends(&SMALL, 0);
    let (b, _) = ends(&SMALL, 0);
    assert_eq!(a, b);
    let mut other = SMALL.to_vec();
    other.extend(["--seed", "2"]);
    let (c, _) = ends(&other, 0);
    assert_ne!(a, c);
}

#[test]
fn json_has_one_object_per_file_system_with_the_documented_fields() {
    let (out, _) = ends(&SMALL, 0);
    let records = records(&out);
    assert_eq!(
        records.iter().map(|r| r["fs"].as_str().expect("a name")).collect::<Vec<_>>(),
        ["bytefs", "ext4"]
    );
    for r in &records {
        for field in [
            "v",
            "granary",
            "commit",
            "workload",
            "vars",
            "scale",
            "testbed",
            "testbed_hash",
            "seed",
            "threads",
            "virtual_s",
            "ops",
            "app",
            "host",
            "flash",
            "amplification",
            "warnings",
            "setup",
            "drain",
        ] {
            assert!(!r[field].is_null(), "{field} is missing");
        }
        assert!(r["ops"]["total"].as_u64() > Some(0));
        let total: u64 = r["ops"]["by_type"]
            .as_object()
            .expect("operations by name")
            .values()
            .filter(|op| op["counted"] == true)
            .map(|op| op["count"].as_u64().expect("a count"))
            .sum();
        assert_eq!(total, r["ops"]["total"].as_u64().expect("a count"), "operations add up");
    }
}

#[test]
fn the_table_compares_and_out_writes_both_forms() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("results");
    let mut args = SMALL[..6].to_vec();
    args.extend(["--out", path.to_str().expect("utf-8")]);
    let (out, _) = ends(&args, 0);
    assert!(out.contains("operations per second") && out.contains("ext4/bytefs"), "{out}");
    assert_eq!(std::fs::read_to_string(path.join("results.txt")).expect("written"), out);
    assert_eq!(std::fs::read_to_string(path.join("results.jsonl")).expect("written").lines().count(), 2);
}

#[test]
fn a_users_own_file_runs_and_a_broken_one_is_refused_with_line_and_column() {
    let dir = tempfile::tempdir().expect("a directory");
    let good = dir.path().join("mine.f");
    let text = "define fileset name=set,path=/data,entries=20,dirwidth=5,size=8k,prealloc=100\n\
                define process name=p,instances=1 {\n  thread name=t,memsize=1m,instances=2 {\n\
                flowop readwholefile name=r,filesetname=set,iosize=4k\n\
                flowop finishoncount name=f,value=50\n  }\n}\nrun\n";
    std::fs::write(&good, text).expect("written");
    let (out, _) = ends(&["run", good.to_str().expect("utf-8"), "--fs", "ext4"], 0);
    assert!(out.contains("operations per second"));
    let bad = dir.path().join("broken.f");
    std::fs::write(&bad, text.replace("iosize=4k", "iosiez=4k")).expect("written");
    let (_, err) = ends(&["run", bad.to_str().expect("utf-8")], 2);
    assert!(err.contains("broken.f:4:") && err.contains("iosize"), "{err}");
}

/// A run that only Filebench's default of 60 s ends may take long: what is to be known of it is said before.
#[test]
fn what_is_wrong_with_a_workloads_end_is_said_before_it_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("end.f");
    let text = "define fileset name=set,path=/d,size=16k,entries=20,dirwidth=10,prealloc=100\n\
                define process name=p\n{\nthread name=t,memsize=1m\n{\nflowop statfile name=s,filesetname=set\n\
                flowop delay name=d,value=1\n}\n}\n";
    let run = |end: &str| {
        std::fs::write(&file, format!("{text}{end}")).expect("written");
        ends(&["run", file.to_str().expect("a name"), "--fs", "pmfs"], 0)
    };
    let (_, err) = run("create processes\nsleep 3\nshutdown processes\n");
    assert!(
        err.contains("3.000 virtual seconds measured, ended by time") && !err.contains("warning"),
        "{err}"
    );
    for (end, warning) in [("", "there is no `run`"), ("run\n", "but Filebench's default of 60")] {
        let (out, err) = run(end);
        let (said, ended) = (err.find(warning), err.find("60.000 virtual seconds measured"));
        assert!(said.expect("told") < ended.expect("run"), "{err}");
        assert!(out.contains(warning), "in the record, too: {out}");
    }
}

/// The messages and wishes of a workload file reach the user: talk on stderr, figures in table and record.
#[test]
fn echo_print_psrun_and_lathist_are_heard() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("talk.f");
    let text = "define fileset name=set,path=/d,size=16k,entries=20,dirwidth=10,prealloc=100\n\
                define process name=p\n{\nthread name=t,memsize=1m\n{\n\
                flowop print name=say,value=\"a round\"\n\
                flowop statfile name=s,filesetname=set\n\
                flowop delay name=d,value=1\n\
                flowop finishoncount name=f,value=100\n}\n}\n\
                set $n=20\necho \"files: $n\"\nenable lathist\npsrun 2 3\n";
    std::fs::write(&file, text).expect("written");
    let file = file.to_str().expect("a name");
    let (out, err) = ends(&["run", file, "--fs", "bytefs,ext4"], 0);
    assert_eq!(err.matches("files: 20").count(), 1, "{err}");
    assert_eq!(err.matches("on ext4: a round").count(), 3, "{err}");
    assert!(err.contains("3.000 virtual seconds measured, ended by time"), "{err}");
    assert!(!out.contains("files: 20") && !out.contains("a round"), "{out}");
    assert!(out.contains("Periods (psrun)") && out.contains("Latencies of s (lathist)"), "{out}");
    assert!(out.contains("time ended the run before finishoncount `f` (line 9) did"), "{out}");
    let (out, _) = ends(&["run", file, "--fs", "bytefs", "--json"], 0);
    let record = &records(&out)[0];
    assert_eq!(record["ended_by"], "time");
    assert_eq!(record["periods"].as_array().map(Vec::len), Some(2));
    assert_eq!(record["messages"][0], "a round");
    let counted: u64 = record["ops"]["by_type"]["s"]["histogram"]
        .as_array()
        .expect("buckets")
        .iter()
        .filter_map(|b| b[1].as_u64())
        .sum();
    assert_eq!(counted, 3);
}

#[test]
fn a_failed_file_system_leaves_the_others_results_and_code_2() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, out) = (dir.path().join("full.f"), dir.path().join("results"));
    // Of a drive of 32 MiB F2FS keeps more than a tenth for its cleaning.
    let text = "define fileset name=set,path=/data,entries=28,dirwidth=5,size=1m,prealloc=100\n\
                define process name=p,instances=1 {\n  thread name=t,memsize=1m,instances=2 {\n\
                flowop statfile name=s,filesetname=set\n\
                flowop finishoncount name=f,value=50\n  }\n}\nrun\n";
    std::fs::write(&file, text).expect("written");
    let file = file.to_str().expect("utf-8");
    let mut args = vec!["run", file, "--set", "blocks_per_plane=10", "--fs", "f2fs,bytefs", "--json"];
    args.extend(["--out", out.to_str().expect("utf-8")]);
    let (json, err) = ends(&args, 2);
    let names: Vec<_> = records(&json).iter().map(|r| r["fs"].clone()).collect();
    assert_eq!(names, ["bytefs"]);
    assert!(err.contains("granary: f2fs, setup: ") && err.contains("no space left"), "{err}");
    assert_eq!(std::fs::read_to_string(out.join("results.jsonl")).expect("written"), json);
}

#[test]
fn arguments_of_run_that_cannot_be_say_what_could_be() {
    let dir = tempfile::tempdir().expect("a directory");
    let latin = dir.path().join("latin.f");
    std::fs::write(&latin, b"# gr\xfc\xdfe\nrun\n").expect("written");
    let latin = latin.to_str().expect("utf-8");
    for (args, said) in [
        (&["run", "nosuch.f"][..], "there is no file `nosuch.f` and no built-in workload of that name"),
        (&["run", "varmial"], "did you mean `varmail`?"),
        (&["run", latin], "latin.f:1:5: the byte 0xfc is no UTF-8 text"),
        (&["run", "/dev/zero"], "a workload file has at most"),
        (&["run", "varmail", "--var", "nfiles"], "--var nfiles: write NAME=VALUE"),
        (&["run", "varmail", "--jobs", "0"], "give at least 1"),
        (&["reproduce", "bytefs", "--jobs", "0"], "give at least 1"),
    ] {
        let (_, err) = ends(args, 2);
        assert!(err.contains(said), "{args:?}: {err}");
    }
    let (_, err) = ends(&["run", "nosuch.f"], 2);
    assert!(err.contains("create, delete, mkdir"), "{err}");
}

#[test]
fn a_record_says_variables_and_files_of_a_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, testbed) = (dir.path().join("varmail"), dir.path().join("mine.toml"));
    let text = "set $n=20\ndefine fileset name=set,path=/data,entries=$n,dirwidth=5,size=8k,prealloc=100\n\
                define process name=p,instances=1 {\n  thread name=t,memsize=1m,instances=2 {\n\
                flowop statfile name=s,filesetname=set\n\
                flowop finishoncount name=f,value=50\n  }\n}\nrun\n";
    std::fs::write(&file, text).expect("written");
    std::fs::write(&testbed, "base = \"bytefs-emulator\"\n[drive.flash.nand]\nread_ns = 40001\n")
        .expect("written");
    let (file, testbed) = (file.to_str().expect("utf-8"), testbed.to_str().expect("utf-8"));
    let args = ["run", file, "--fs", "pmfs", "--var", "n=30", "--testbed", testbed];
    assert!(ends(&args, 0).0.lines().next().expect("a title").ends_with(", n=30"));
    let record = records(&ends(&[&args[..], &["--json"]].concat(), 0).0).remove(0);
    assert_eq!((&record["vars"][0], &record["workload"]), (&"n=30".into(), &file.into()));
    assert!(record["workload_hash"].as_str().expect("a hash").starts_with("crc32c:"));
    assert_eq!(record["testbed_file"], testbed);
    assert!(
        record["warnings"].to_string().contains("the built-in bytefs-emulator"),
        "{}",
        record["warnings"]
    );
    let built_in = records(&ends(&SMALL, 0).0).remove(0);
    assert_eq!((&built_in["workload"], &built_in["vars"]), (&"varmail".into(), &serde_json::json!([])));
    assert!(built_in["workload_hash"].is_null() && built_in["testbed_file"].is_null());
    assert_ne!(built_in["testbed_hash"], record["testbed_hash"]);
}

#[test]
fn wrong_arguments_end_with_code_2_and_say_what_would_be_right() {
    for (args, word) in [
        (&["run", "varmial"][..], "varmail"),
        (&["run", "varmail", "--fs", "bytfs"], "there are bytefs, "),
        (&["run", "varmail", "--testbed", "nope"], "bytefs-emulator"),
        (&["run", "varmail", "--set", "nand.raed_ns=1"], "no key"),
        (&["run", "varmail", "--set", "nand.read_ns"], "KEY=VALUE"),
        (&["run", "varmail", "--scale", "0"], "scale"),
        (&["run", "varmail", "--scale", "100"], "scale"),
        (&["run", "varmail", "--var", "nfiles"], "NAME=VALUE"),
        (&["run"], "Usage"),
        (&["workload", "show", "nope"], "nope"),
        (&["testbed", "show", "nope"], "bytefs-emulator"),
        (&["drive", "bench", "--accesses", "0"], "nothing is measured"),
        (&["drive", "bench", "--runtime", "0"], "nothing is measured"),
        (&["frobnicate"], "Usage"),
    ] {
        let (_, err) = ends(args, 2);
        assert!(err.contains(word), "{args:?}: {err}");
        assert!(!err.contains("panicked"), "{args:?}: {err}");
    }
}

/// Exit code and stderr of a command whose stdout goes to `out`.
fn prints_to(args: &[&str], out: impl Into<std::process::Stdio>) -> (Option<i32>, String) {
    let mut c = std::process::Command::new(assert_cmd::cargo::cargo_bin("granary"));
    let done = c.args(args).stdout(out).output().expect("the binary runs");
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn a_reader_that_went_away_is_no_error_and_a_full_disk_is_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let (image, wrong) = (path("image"), path("wrong.toml"));
    std::fs::write(&wrong, "name = 1\n").expect("written");
    ends(&["mkfs", &image, "--size", "400MiB"], 0);
    for (args, code) in [
        (&["testbed", "list"][..], 0),
        (&["testbed", "show", "cxl"], 0),
        (&["testbed", "check", "cxl", &wrong], 1),
        (&["workload", "list"], 0),
        (&["workload", "show", "varmail"], 0),
        (&["completions", "bash"], 0),
        (&["drive", "space"], 0),
        (&["drive", "bench", "--rw", "write", "--accesses", "100", "--no-data"], 0),
        (&SMALL[..6], 0),
        (&SMALL, 0),
        (&["stat", &image], 0),
        (&["stat", &image, "--json"], 0),
        (&["ls", "-l", &image], 0),
        (&["fsck", &image, "--json"], 0),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let (ended, err) = prints_to(args, writer);
        assert_eq!(ended, Some(code), "{args:?}: {err}");
        assert!(!err.contains("panicked") && !err.contains("roken pipe"), "{args:?}: {err}");
    }
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let (ended, err) = prints_to(&["testbed", "list"], full);
    assert_eq!((ended, err.contains("writing to stdout: No space left")), (Some(2), true), "{err}");
    let (out, _) = ends(&["fsck", &image], 0);
    assert_eq!(out, "", "closed as ever");
}

#[test]
fn talk_that_nobody_hears_ends_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    let deaf = |args: &[&str]| {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let mut c = std::process::Command::new(assert_cmd::cargo::cargo_bin("granary"));
        let c = c.args(args).arg(&image).stdout(std::process::Stdio::null()).stderr(full);
        c.status().expect("the binary runs").code()
    };
    assert_eq!(deaf(&["mkfs", "--size", "400MiB"]), Some(0));
    assert_eq!(deaf(&["fsck"]), Some(0));
    assert_eq!(deaf(&["mkfs", "--size", "400MiB"]), Some(2), "it exists");
    assert_eq!(deaf(&["run", "varmail", "--fs"]), Some(2), "clap says it");
}

#[test]
fn lists_show_what_there_is() {
    let (workloads, _) = ends(&["workload", "list"], 0);
    assert!(["varmail", "fileserver", "create", "delete"].iter().all(|w| workloads.contains(w)));
    let (file, _) = ends(&["workload", "show", "varmail"], 0);
    assert!(file.contains("define fileset"));
    let (testbeds, _) = ends(&["testbed", "list"], 0);
    assert!(testbeds.contains("bytefs-emulator"));
    let (completions, _) = ends(&["completions", "bash"], 0);
    assert!(completions.contains("granary"));
}

#[test]
fn a_slower_flash_makes_a_slower_drive() {
    // Device cache and write buffer so small that the journal's pages reach the flash at this scale.
    let rate = |program_ns: &str| {
        let program = format!("nand.program_ns={program_ns}");
        let mut args =
            vec!["run", "varmail", "--scale", "0.002", "--fs", "ext4", "--json", "--set", &program];
        args.extend(["--set", "firmware.cache=1MiB", "--set", "firmware.write_buffer=64KiB"]);
        records(&ends(&args, 0).0)[0]["ops"]["per_s"].as_f64().expect("a rate")
    };
    let (base, slow) = (rate("60000"), rate("2000000"));
    assert!(slow < base * 0.5, "{slow} with 2 ms programs, {base} with 60 us");
}

#[test]
fn drive_bench_measures_the_dimm_of_a_testbed() {
    let nvm = ["drive", "bench", "--device", "nvm", "--testbed", "spfs", "--accesses", "500", "--rw"];
    let run = || ends(&[&nvm[..], &["randload,persist", "--numjobs", "3", "--json"]].concat(), 0).0;
    let v: serde_json::Value = serde_json::from_str(&run()).expect("JSON");
    assert_eq!((&v["device"], &v["jobs"][1]["accesses"]), (&"nvm".into(), &1500.into()));
    assert!(v.get("flash").is_none());
    assert_eq!(v.to_string(), serde_json::from_str::<serde_json::Value>(&run()).expect("JSON").to_string());
    assert!(ends(&[&nvm[..], &["load"]].concat(), 0).0.contains("device nvm"));
    for (more, why) in [
        (&["randread"][..], "knows bytes only"),
        (&["load", "--precondition", "fill"], "--precondition"),
        (&["load", "--no-data"], "--no-data"),
        (&["load", "--warm"], "--size"),
    ] {
        let (_, err) = ends(&[&nvm[..], more].concat(), 2);
        assert!(err.contains(why), "{err}");
    }
    let (_, err) = ends(&["drive", "bench", "--device", "nvm", "--rw", "load"], 2);
    assert!(err.contains("needs an NVM DIMM") && err.contains("spfs"), "{err}");
    assert!(ends(&["drive", "bench", "--device", "nmv"], 2).1.contains("did you mean `nvm`?"));
}

#[test]
fn drive_bench_reads_fio_jobs_and_repeats() {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("a.fio");
    let job = path.to_str().expect("UTF-8");
    let text = "[global]\nsize=4m\n[r]\nrw=randread\niodepth=8\n[p]\nrw=persist\nbs=64\nsize=64k\n";
    std::fs::write(job, text).expect("written");
    let run = || {
        let (out, _) = ends(&["drive", "bench", "--json", "--precondition", "none", "--job", job], 0);
        serde_json::from_str::<serde_json::Value>(&out).expect("JSON")
    };
    let v = run();
    let accesses = [0, 1].map(|i| v["jobs"][i]["accesses"].as_u64());
    assert_eq!(accesses, [Some(1024), Some(1024)]);
    assert_eq!(v, run());

    std::fs::write(job, "[r]\nrw=randread\nzonemode=zbd\nsize=5%%\n").expect("written");
    let (_, err) = ends(&["drive", "bench", "--job", job], 2);
    assert!(err.contains("2 lines cannot be taken\n  line 3: 'zonemode' is not supported"), "{err}");
    assert!(err.contains("\n  line 4: size=5%%: "), "{err}");
    for option in ["bs", "iodepth", "numjobs", "offset", "size", "rwmixread", "accesses", "runtime"] {
        let (_, err) = ends(&["drive", "bench", "--job", job, &format!("--{option}"), "1"], 2);
        assert!(err.contains("cannot be used with") && err.contains(option), "{option}: {err}");
    }
    assert!(ends(&["drive", "bench", "--job", job, "--norandommap"], 2).1.contains("cannot be used with"));
}

#[test]
fn testbeds_are_checked_with_figures_warnings_and_lines() {
    let (out, _) = ends(&["testbed", "check", "bytefs-emulator", "bytefs-fpga", "cxl"], 0);
    assert!(out.contains("capacity") && out.contains("2.50 GB/s, limited by the link"), "{out}");
    assert!(!out.contains("warning"), "{out}");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("mine.toml");
    let mine = path.to_str().expect("UTF-8");
    let head = "base = \"cxl\"\nname = \"mine\"\ndescription = \"few dies\"\n[drive.flash.geometry]\n";
    std::fs::write(&path, format!("{head}ways = 2\nblocks_per_plane = 4384\n")).expect("written");
    let (out, _) = ends(&["testbed", "check", mine], 0);
    assert!(out.contains(&format!("warning: {mine}, line 5: 16 planes of 80us program 0.82 GB/s")), "{out}");
    std::fs::write(&path, format!("{head}weys = 2\n")).expect("written");
    let (out, _) = ends(&["testbed", "check", mine, "cxl"], 1);
    assert!(out.contains("line 5: unknown field `weys`") && out.contains("cxl: ByteFS paper"), "{out}");
    let (_, err) = ends(&["run", "varmail", "--testbed", mine], 2);
    assert!(err.contains("line 5: unknown field `weys`"), "{err}");
    // A daemon that never lets the clock go on: the run would not end.
    let head = "base = \"cxl\"\nname = \"mine\"\ndescription = \"d\"\n";
    std::fs::write(&path, format!("{head}[host.vfs]\nwriteback_interval = 0\n")).expect("written");
    let (_, err) = ends(&["run", "create", "--scale", "0.0005", "--fs", "ext4", "--testbed", mine], 2);
    assert!(err.contains("line 5: host.vfs.writeback_interval must be at least 1000"), "{err}");
    std::fs::write(&path, format!("{head}[drive.flash]\nidle_gc_stop = 9\n")).expect("written");
    let (out, _) = ends(&["testbed", "check", mine], 0);
    assert!(out.contains(&format!("warning: {mine}, line 5: has no effect: with idle_gc_ns = 0")), "{out}");
    let (values, _) = ends(&["testbed", "show", "cxl", "--values"], 0);
    assert!(values.contains("read_ns = 3000") && values.contains("channels = 8"), "{values}");
}

#[test]
fn file_systems_run_on_every_testbed() {
    // All of them on both would take a minute.
    for (testbed, fs) in [("bytefs-fpga", "bytefs,ext4"), ("cxl", "f2fs,nova,pmfs")] {
        let args = ["run", "varmail", "--scale", "0.0002", "--json", "--fs", fs, "--testbed", testbed];
        let (out, _) = ends(&args, 0);
        assert_eq!(out.lines().count(), fs.split(',').count(), "{testbed}: {out}");
    }
}

#[test]
fn a_recorded_bench_replays_with_the_same_figures() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("bench.trace");
    let (file, json) = (path.to_str().expect("UTF-8"), |out: &str| -> serde_json::Value {
        serde_json::from_str(out).expect("JSON")
    });
    let args =
        ["drive", "bench", "--json", "--rw", "randrw,persist", "--accesses", "3000", "--size", "64MiB"];
    let small =
        ["--set", "blocks_per_plane=40", "--precondition", "random:1", "--seed", "7", "--record", file];
    let (bench, wall) = ends(&[&args[..], &["--iodepth", "1"], &small].concat(), 0);
    assert!(wall.contains("wall: opened in"), "{wall}");
    let (replay, _) = ends(&["drive", "replay", file, "--json"], 0);
    let (bench, replay) = (json(&bench), json(&replay));
    for field in ["seed", "precondition", "set", "virtual_s", "utilization", "host", "flash", "drain", "waf"]
    {
        assert_eq!(bench[field], replay[field], "{field}");
        assert!(!bench[field].is_null(), "{field}");
    }
    let (table, _) = ends(&["drive", "replay", file, "--as-fast-as-possible", "--depth", "4"], 0);
    assert!(table.contains("as fast as possible, 4 under way") && table.contains("verify"), "{table}");

    std::fs::write(&path, &std::fs::read(&path).expect("written")[..5000]).expect("cut");
    let (_, err) = ends(&["drive", "replay", file], 2);
    assert!(err.contains("cut off at byte") && err.contains("record it again"), "{err}");
}

#[test]
fn a_recorded_run_replays_with_the_same_figures() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("run.trace");
    let file = path.to_str().expect("UTF-8");
    for fs in ["bytefs", "nova"] {
        let args = ["run", "varmail", "--scale", "0.0005", "--json", "--fs", fs, "--record", file];
        let run = records(&ends(&args, 0).0).remove(0);
        let (out, _) = ends(&["drive", "replay", file, "--json"], 0);
        let replay: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        for field in ["testbed", "seed", "host", "flash"] {
            assert_eq!(run[field], replay[field], "{fs}: {field}");
        }
        assert_eq!(run["drain"]["flash"], replay["drain"], "{fs}");
    }
    let (_, err) = ends(&["run", "varmail", "--scale", "0.0005", "--record", file], 2);
    assert!(err.contains("one file system at a time"), "{err}");
}

#[test]
fn block_traces_are_replayed_and_bad_ones_refused_with_their_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("hm_1.csv");
    let file = path.to_str().expect("UTF-8");
    let line = |n: u64, kind: &str| {
        format!("{},hm,1,{kind},{},4096,59\n", 128166372003061629 + n * 1000, n * 7 * 4096)
    };
    let good: String = (0..500).map(|n| line(n, if n % 3 == 0 { "Write" } else { "Read" })).collect();
    std::fs::write(&path, &good).expect("written");
    let replay = ["drive", "replay", file, "--json", "--precondition", "none"];
    let (a, _) = ends(&replay, 0);
    let v: serde_json::Value = serde_json::from_str(&a).expect("JSON");
    assert_eq!((&v["trace"]["format"], v["ops"][0]["accesses"].as_u64()), (&"msr".into(), Some(333)));
    assert_eq!(a, ends(&replay, 0).0, "equal bytes");
    std::fs::write(&path, format!("{good}nonsense\n")).expect("written");
    let (_, err) = ends(&replay, 2);
    assert!(err.contains("hm_1.csv:501: 1 fields instead of the 7"), "{err}");
    std::fs::write(&path, format!("{good}{}", line(1 << 40, "Read"))).expect("written");
    let (_, err) = ends(&replay, 2);
    assert!(err.contains(":501: ") && err.contains("--wrap"), "{err}");
    for (more, word) in [
        (&["--format", "csv"][..], "there are granary, msr, blkparse, iolog, spc"),
        (&["--event", "X"], "D and Q"),
        (&["--scale=-1"], "--scale -1"),
        (&["--scale", "0"], "--scale 0: there are factors above 0"),
        (&["--depth", "3"], "--as-fast-as-possible"),
        (&["--precondition", "half"], "random:N"),
    ] {
        let (_, err) = ends(&[&replay[..4], more].concat(), 2);
        assert!(err.contains(word), "{more:?}: {err}");
    }
    let (_, err) = ends(&["drive", "replay", "/nonexistent"], 2);
    assert!(err.contains("reading /nonexistent"), "{err}");
}

#[test]
fn the_papers_numbers_stand_beside_those_of_the_runs() {
    let small = [
        "reproduce",
        "bytefs",
        "--scale",
        "0.0005",
        "--figure",
        "6",
        "--workload",
        "create,varmail",
        "--fs",
        "bytefs,ext4",
    ];
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let (csv, page) = (at("claims.csv"), at("claims.html"));
    let exports = ["--export", &csv, "--export", &page];
    let (table, _) = ends(&[&small[..], &exports].concat(), 0);
    let claims = std::fs::read_to_string(&csv).expect("written");
    let row = |on: &str, what: &str| {
        let line = claims.lines().find(|l| l.starts_with(&format!("6,{on},{what},"))).expect("a row");
        line.split(',').map(str::to_owned).collect::<Vec<_>>()
    };
    let known = row("create", "throughput ByteFS/ext4");
    assert_eq!(known[3], "6");
    let ours: f64 = known[4].parse().expect("both runs are there");
    assert!(ours > 1.0 && ["measured", "same direction"].contains(&known[6].as_str()), "{known:?}");
    assert_eq!(row("create", "throughput ByteFS/F2FS")[4], "", "a run that was not made gives no number");
    assert!(table.contains(" measured, ") && table.contains(" not run\n"), "{table}");
    assert!(!claims.contains("\nrecovery,"), "a figure that was not asked for gives no row");
    assert!(std::fs::read_to_string(page).expect("written").contains(">throughput ByteFS/ext4</td>"));
    assert!(std::fs::read_to_string(at("claims.runs.csv")).expect("written").contains("\nvarmail,ext4,"));
    assert!(ends(&["reproduce", "bytefs", "--figure", "7"], 2).1.contains("table2"));
    let traces = dir.path().join("new").to_str().expect("UTF-8").to_owned();
    let mut json = small.to_vec();
    json.extend(["--json", "--record", &traces]);
    let runs = records(&ends(&json, 0).0);
    assert_eq!(runs.len(), 4);
    for run in runs {
        let name = run["workload"].as_str().expect("a name");
        let trace = format!("{traces}/main-{name}-{}.trace", run["fs"].as_str().expect("a name"));
        let replay = records(&ends(&["drive", "replay", &trace, "--json"], 0).0).remove(0);
        assert_eq!(run["flash"], replay["flash"], "{trace}");
    }
    assert!(ends(&["reproduce", "nothing"], 2).1.contains("bytefs"));
}

/// A reason is printed only if an experiment shows it, and `--why` makes that experiment.
#[test]
fn a_reason_is_an_experiment_that_runs() {
    let (text, _) = ends(&["reproduce", "devfs", "--scale", "0.001", "--why", "6-read-direct"], 0);
    assert!(text.contains("host.costs.syscall=500") && text.contains("\n  seen\n"), "{text}");
    let (_, said) = ends(&["reproduce", "devfs", "--why", "6-cap-nova"], 2);
    assert!(said.contains("not explained"), "{said}");
    let (_, said) = ends(&["reproduce", "devfs", "--why", "nothing"], 2);
    assert!(said.contains("6-read-direct"), "rows with an experiment: {said}");
}

#[test]
fn every_paper_has_its_own_choices() {
    let few = ["--figure", "6", "--workload", "write-1k", "--scale", "0.001", "--sensitivity"];
    let (text, _) = ends(&[&["reproduce", "devfs"][..], &few].concat(), 0);
    assert!(text.contains("syscall 500: host.costs.syscall=500 (getppid"), "{text}");
}

#[test]
fn the_help_of_reproduce_names_the_scale_of_every_paper() {
    let (help, _) = ends(&["reproduce", "--help"], 0);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, scales) = help.split_once("Where left out ").expect("the text of --scale");
    let scales = scales.split(" --").next().expect("it ends");
    // "0.02, of A and B 0.005, of C 0.01"
    let clauses: Vec<&str> = scales.split(", of ").collect();
    for study in STUDIES {
        let own = clauses.iter().find(|c| c.split_whitespace().any(|word| word == study.name));
        let said = own.unwrap_or(&clauses[0]).split_whitespace().find_map(|word| word.parse::<f64>().ok());
        assert_eq!(said, Some(study.scale), "{}: {scales}", study.name);
    }
}

#[test]
fn the_reference_of_the_kernels_traffic_is_met() {
    let (table, _) = ends(&["calibrate", "--reference"], 0);
    assert!(table.contains("mkdir + fsync(parent)") && !table.contains("BEYOND"), "{table}");
    assert!(ends(&["calibrate", "xfs"], 2).1.contains("only ext4"));
}

#[test]
fn options_that_say_nothing_of_what_is_done_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (msr, record) = (dir.path().join("t.csv"), dir.path().join("t.trace"));
    std::fs::write(&msr, "128166372003061629,usr,0,Read,4096,4096,100\n").expect("written");
    let (msr, record) = (msr.to_str().expect("utf-8"), record.to_str().expect("utf-8"));
    ends(&["drive", "bench", "--rw", "write", "--size", "1MiB", "--record", record], 0);
    let event = "--event chooses among the events of blkparse";
    for (args, said) in [
        (&["drive", "replay", msr, "--event", "Q"][..], event),
        (&["drive", "replay", record, "--event", "D"], event),
        (&["drive", "replay", record, "--device", "8,0"], "--device chooses one of the devices"),
        (&["calibrate", "--reference", "--scale", "0.5"], "cannot be used with"),
        (&["calibrate", "--reference", "--seed", "2"], "cannot be used with"),
        (&["calibrate", "--reference", "--json"], "cannot be used with"),
    ] {
        let (_, err) = ends(args, 2);
        assert!(err.contains(said), "{args:?}: {err}");
    }
}

#[test]
fn the_manual_is_printed_or_written_page_by_page() {
    let (text, _) = ends(&["man"], 0);
    assert!(text.contains(".TH granary 1") && text.contains(".TH granary-drive-replay 1"), "{text}");
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("man1");
    ends(&["man", "--out", out.to_str().expect("utf-8")], 0);
    let page = std::fs::read_to_string(out.join("granary-run.1")).expect("a page");
    assert!(text.contains(&page));
}

#[test]
fn results_are_exported_as_their_names_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_str().expect("utf-8").to_owned();
    let (csv, html, json) = (path("r.csv"), path("r.html"), path("r.json"));
    let exports = ["--export", &csv, "--export", &html, "--export", &json];
    let (out, _) = ends(&[&SMALL[..], &exports].concat(), 0);
    let read = |path: &str| std::fs::read_to_string(path).expect("written");
    let array: Vec<serde_json::Value> = serde_json::from_str(&read(&json)).expect("one array");
    assert_eq!(array, records(&out), "the records that were printed");
    assert_eq!(read(&csv).lines().count(), 3, "a header and two runs");
    assert!(read(&csv).starts_with("workload,fs,"));
    assert!(read(&html).contains("<h2>varmail</h2>") && read(&html).matches("<svg").count() >= 3);
    let far = path("nowhere/r.csv");
    for (file, said) in [("r.txt", "the name ends with .json"), (far.as_str(), "there is no directory")] {
        let (_, err) = ends(&["run", "varmail", "--export", file], 2);
        assert!(err.contains(said), "{err}");
    }
}

#[test]
fn a_job_file_of_fio_runs_on_file_systems_and_its_mistakes_have_lines() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("job.fio");
    let file = file.to_str().expect("a path");
    let run = ["run", file, "--fs", "ext4,pmfs", "--json"];
    let job = "[j]\nrw=randrw\nbs=3k\nsize=300k\nverify=crc32c\nfsync=8\ngroup_reporting\n";
    std::fs::write(file, job).expect("writes");
    let (out, said) = ends(&run, 0);
    assert!(said.contains("job.fio: group_reporting changes nothing here"), "{said}");
    for r in records(&out) {
        let count = |op: &str| r["ops"]["by_type"][op]["count"].as_u64().unwrap_or(0);
        assert_eq!(count("j.read") + count("j.write"), 100, "{r}");
        assert!(
            count("j.fsync") > 0 && r["app"]["write_bytes"].as_u64() == Some(count("j.write") * 3072),
            "{r}"
        );
    }
    std::fs::write(file, "[j]\nrw=randrw\nsize=1m\nioengine=mmap\n").expect("writes");
    let (_, said) = ends(&run, 2);
    assert!(said.contains("job.fio, line 4: job j: mappings are not supported"), "{said}");
}

#[test]
fn a_trace_of_fiu_runs_on_file_systems_and_a_malformed_line_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("t.fiu");
    let file = file.to_str().expect("a path");
    let mut text = String::new();
    for n in 0..40 {
        text += &format!("{n} {n} WRITE 42 100000 {} 100 HIT\n{n} {n} FSYNC 42 100000\n", n * 1000);
        text += &format!("{n} {n} READ 7 200000 {} 4096 MISS\n", n * 4096);
    }
    std::fs::write(file, &text).expect("writes");
    let (out, _) = ends(&["run", file, "--fs", "spfs+ext4", "--testbed", "spfs", "--json"], 0);
    let all = records(&out);
    assert_eq!(all.len(), 1);
    for r in all {
        let count = |op: &str| r["ops"]["by_type"][op]["count"].as_u64().unwrap_or(0);
        assert_eq!((count("write"), count("fsync"), count("read"), count("open")), (40, 40, 40, 2), "{r}");
        assert_eq!(r["app"]["read_bytes"].as_u64(), Some(40 * 4096), "what it reads was laid out");
    }
    text += "40 40 WRITE 42 100000 oops 100 HIT\n";
    std::fs::write(file, &text).expect("writes");
    let (_, said) = ends(&["run", file, "--fs", "ext4"], 2);
    assert!(said.contains("t.fiu, line 121: offset 'oops' is no whole number"), "{said}");
    let (_, said) = ends(&["run", file, "--fs", "ext4", "--var", "a=1"], 2);
    assert!(said.contains("traces have no variables"), "{said}");
}
