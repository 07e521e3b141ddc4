//! Commands that make devices say how much memory they take, and refuse what there is no memory for.

use assert_cmd::Command;
use granary_testbed::Testbed;
use granary_testbed::registry;
use granary_units::Bytes;

fn granary() -> Command {
    Command::cargo_bin("granary").expect("the binary is built")
}

/// `memory: A estimated, B at its peak`.
fn told(stderr: &str) -> (f64, f64) {
    let line = stderr.lines().find_map(|l| l.strip_prefix("memory: ")).unwrap_or_else(|| panic!("{stderr}"));
    let (estimated, peak) = line.split_once(" estimated, ").expect("two sizes");
    // One digit behind the point.
    let size = |text: &str| {
        let tenths = ["KiB", "MiB", "GiB"].into_iter().find_map(|unit| {
            let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
            Some(format!("{}{unit}", (number * 10.0).round() as u64).parse::<Bytes>().ok()?.0 as f64 / 10.0)
        });
        tenths.unwrap_or_else(|| panic!("{text} is no size"))
    };
    (size(estimated), size(peak.strip_suffix(" at its peak").expect("ends so")))
}

#[test]
fn the_memory_of_a_bench_is_what_was_estimated_within_a_factor_of_one_and_a_half() {
    for (testbed, blocks, how) in
        [("orchfs", "64", "fill"), ("bytefs-emulator", "96", "random:1"), ("spfs", "192", "fill")]
    {
        let blocks = format!("blocks_per_plane={blocks}");
        let mut command = granary();
        command.args(["drive", "bench", "--testbed", testbed, "--rw", "randread", "--accesses", "2000"]);
        let out =
            command.args(["--set", &blocks, "--precondition", how]).assert().code(0).get_output().clone();
        let (estimated, peak) = told(&String::from_utf8_lossy(&out.stderr));
        assert!(
            peak < estimated * 1.5 && estimated < peak * 1.5,
            "{testbed} {how}: {estimated} estimated, {peak} at its peak"
        );
    }
}

/// All commands that make devices: benches, runs, mounts in memory, images.
#[test]
fn a_command_that_needs_more_memory_than_there_is_says_so_and_what_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("img");
    let image = image.to_str().expect("UTF-8");
    let there = dir.path().join("mnt");
    std::fs::create_dir(&there).expect("made");
    let there = there.to_str().expect("UTF-8");
    // A drive is made before the first line is read.
    let trace = dir.path().join("trace.blkparse");
    std::fs::write(&trace, "").expect("writes");
    let trace = trace.to_str().expect("UTF-8");
    for (args, advice) in [
        (&["drive", "bench", "--rw", "randread", "--testbed", "orchfs"][..], "--set blocks_per_plane="),
        (
            &["run", "varmail", "--scale", "0.001", "--fs", "ext4", "--testbed", "orchfs"],
            "--set blocks_per_plane=",
        ),
        (&["run", "varmail", "--scale", "0.001", "--fs", "nova", "--testbed", "orchfs"], "of memory"),
        (&["mkfs", image, "--fs", "ext4", "--size", "900GiB"], "--size"),
        (&["mount", "ram:ext4", there, "--size", "900GiB"], "--set blocks_per_plane="),
        (&["export", "ram:", there, "--size", "900GiB"], "--set blocks_per_plane="),
        (
            &["drive", "replay", trace, "--format", "blkparse", "--testbed", "orchfs"],
            "--set blocks_per_plane=",
        ),
        (&["testbed", "measure", "orchfs"], "--set blocks_per_plane="),
        (&["reproduce", "spfs", "--figure", "mapping"], "of memory"),
        (&["reproduce", "bytefs", "--figure", "6"], "--set blocks_per_plane="),
        (&["calibrate", "--reference"], "--set blocks_per_plane="),
        (&["crash", "--fs", "ext4", "--jobs", "2", "--points", "1"], "more memory"),
        (&["crash", "--fs", "nova@nvm", "--jobs", "1", "--points", "1"], "more memory"),
    ] {
        let out = granary().args(args).env("GRANARY_MEMORY", "25MiB").assert().code(2).get_output().clone();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(said.contains("of memory, and there is 25MiB (GRANARY_MEMORY)"), "{args:?}: {said}");
        assert!(said.contains(advice), "{args:?}: {said}");
    }
}

/// Alone each fits, and all at the same time do not.
#[test]
fn what_does_not_fit_together_is_told_to_come_one_by_one() {
    let run: &[&str] = &["run", "varmail", "--scale", "0.001", "--fs", "ext4,f2fs", "--jobs", "2"];
    let testbed = Testbed::load("bytefs-emulator", &[]).expect("built in");
    let ext4 = registry::find("ext4").expect("registered");
    let run_alone = testbed.memory_for(ext4).expect("it has an SSD").reserved;
    // With the rest that the allocator takes, and the program.
    let limit = format!("{}KiB", (run_alone >> 10) + (64 << 10));
    let out = granary().args(run).env("GRANARY_MEMORY", limit).assert().code(2).get_output().clone();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("of memory, and there is") && said.contains("--jobs 1"), "{said}");
}

#[test]
fn a_limit_of_the_shell_is_respected_without_an_abort() {
    let bench = "ulimit -v 2500000; exec \"$0\" drive bench --testbed orchfs --rw randread --accesses 10";
    let program = assert_cmd::cargo::cargo_bin("granary");
    let out = std::process::Command::new("sh").arg("-c").arg(bench).arg(program).output().expect("a shell");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("ulimit -v") && said.contains("--set blocks_per_plane="), "{said}");
}
