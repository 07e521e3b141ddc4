//! The job files of `granary-workload/workloads/orchfs`: each one runs, and those of the study's figures are
//! the study's.

use super::plan::text_of;
use granary_lab::experiment::{Experiment, Origin};
use granary_testbed::Testbed;
use granary_workload::Workload;
use std::path::Path;

/// Files by name, without comments.
fn files() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../granary-workload/workloads/orchfs");
    let mut all: Vec<_> = std::fs::read_dir(dir)
        .expect("the directory is there")
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("text");
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, lines.map(|line| format!("{line}\n")).collect())
        })
        .collect();
    all.sort();
    all
}

#[test]
fn every_job_file_runs_on_orchfs_and_moves_what_it_says() {
    let all = files();
    assert_eq!(all.len(), 26);
    // 32 GiB of flash are enough, and made sooner.
    let small = ["drive.flash.geometry.blocks_per_plane=16", "device.nvm.capacity=2GiB"].map(str::to_owned);
    for (name, text) in all {
        let mut workload = Workload::from_fio(&name, &text).unwrap_or_else(|e| panic!("{name}: {e}"));
        // Some megabytes of the paper's ten gigabytes: the largest accesses have 2 MiB.
        let scale = if name.starts_with("fig14") { 0.0004 } else { 0.000_6 };
        workload.scale(scale).expect("a scale");
        if name.starts_with("fig14") {
            workload.set_threads(3).expect("threads");
        }
        // A file of 10 GB and as much again, or eight times as much; three threads with 3 GB each.
        let wanted = scale
            * match name.rsplit_once('-').map_or(name.as_str(), |(figure, _)| figure) {
                "fig14-separate" => 9e9,
                "fig14-shared" => 19e9,
                "fig13" => 30e9,
                "fig19" => 90e9,
                _ => 20e9,
            };
        let experiment = Experiment {
            workload,
            scale,
            fs: "orchfs".to_owned(),
            testbed: Testbed::load("orchfs", &small).expect("valid"),
            set: Vec::new(),
            origin: Origin::default(),
            seed: 1,
            commit: String::new(),
            record: None,
            changed_lines: 0.0,
            then_clean: None,
            then_overwrite: false,
        };
        let record = experiment.run(None).unwrap_or_else(|e| panic!("{name}: {e}"));
        // The last access of a job's thread may go beyond its share.
        let most = 1.1 * wanted + 4.0 * f64::from(2 << 20);
        let moved = (record.app.read_bytes + record.app.write_bytes) as f64;
        assert!(moved >= 0.7 * wanted && moved <= most, "{name}: {moved} bytes of {wanted}");
        let nvm = &record.devices["nvm"].host.byte.write_bytes;
        assert!(nvm.values().sum::<u64>() > 0, "{name}: nothing went to the NVM");
    }
}

#[test]
fn the_studys_runs_are_the_job_files() {
    let all = files();
    let mut same = 0;
    for (figure, runs) in [("fig1", "nosync"), ("fig2", "fsync"), ("fig10", "over"), ("fig13", "read")] {
        for (name, text) in &all {
            let Some(size) = name.strip_prefix(figure).and_then(|rest| rest.strip_prefix('-')) else {
                continue;
            };
            let run = format!("{runs}-{size}");
            assert_eq!(text_of(&run, 1.0).as_deref(), Some(text.as_str()), "{name} is not {run}");
            same += 1;
        }
    }
    assert_eq!(same, 19);
}
