//! Every rare step that the sources name is one that the explorer takes crash images in.

use granary_crash::{Bounds, Effort, Explorer};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;

/// Where steps are met: file system, load, steps.
const MET: &[(&str, &str, &[&str])] = &[
    (
        "ext4",
        "torture",
        &[
            "ext4: a transaction commits",
            "ext4: committed blocks are written home",
            "ext4: the journal is shut down",
            "ext4: orphans are removed",
            "ext4: the log is replayed",
            "FTL: garbage collection",
        ],
    ),
    ("ext4", "long", &["ext4: the log's tail moves"]),
    ("ext4-lazy", "torture", &["ext4: the log is full"]),
    (
        "f2fs",
        "torture",
        &[
            "f2fs: a checkpoint is written",
            "f2fs: fsynced files are rolled forward",
            "f2fs: a segment is cleaned",
        ],
    ),
    (
        "nilfs2-pebble",
        "torture",
        &[
            "nilfs2: a log is written",
            "nilfs2: a mount rolls logs forward",
            "nilfs2: segments are cleaned",
            "nilfs2: the superblock is written",
            "nilfs2: BAM is reset",
            "BAM: reset",
        ],
    ),
    (
        "bytefs",
        "torture",
        &["write log: a half is cleaned", "write log: the TxLog is purged", "write log: RECOVER"],
    ),
    (
        "bytefs",
        "unnamed",
        &["bytefs: a removed file is freed", "bytefs: a mount finishes removals and truncations"],
    ),
    ("bytefs", "grow", &["bytefs: the file system grows", "bytefs: a mount finishes a growth"]),
    ("bytefs-journal", "torture", &["bytefs: a mount brings the data journal home"]),
    ("bytefs-sync", "torture", &["bytefs: a truncation goes on"]),
    (
        "bytefs-dual",
        "torture",
        &[
            "bytefs: a group is committed through the redo log",
            "bytefs: the redo log is emptied",
            "bytefs: a mount replays the redo log",
        ],
    ),
    (
        "pmfs",
        "torture",
        &[
            "pmfs: a file is renamed",
            "pmfs: the journal is cleaned",
            "pmfs: interrupted transactions are undone",
            "pmfs: the truncate list is finished",
        ],
    ),
    (
        "nova",
        "torture",
        &[
            "nova: a log grows",
            "nova: a lite transaction is under way",
            "nova: an interrupted lite transaction is undone",
            "nova: logs are repaired at a mount",
        ],
    ),
    ("nova@nvm", "crowd", &["nova: a log is copied"]),
    ("nova@nvm", "ledger", &["nova: pages of a log are freed"]),
    (
        "devfs",
        "crowd",
        &[
            "redo log on persistent memory: changes are brought home",
            "redo log on persistent memory: a mount brings changes home",
        ],
    ),
    (
        "orchfs",
        "torture",
        &[
            "orchfs: a journal is digested",
            "orchfs: a mount brings a journal home",
            "orchfs: a mount frees orphans",
        ],
    ),
    ("orchfs-undo", "torture", &["orchfs: a write may be undone", "orchfs: a mount settles an undo slot"]),
    ("orchfs-small", "crowd", &["orchfs: NVM is full", "orchfs: a block migrates to the SSD"]),
    (
        "spfs+ext4",
        "torture",
        &[
            "spfs: removed files are freed",
            "spfs: an overwrite keeps the old bytes",
            "spfs: an overwrite is taken back",
            "spfs: a mount puts persistent memory in order",
        ],
    ),
    ("spfs+ext4", "sparse", &["spfs: a file is demoted", "spfs: a run of the pair opens"]),
    (
        "spfs+ext4-alone",
        "churn",
        &["spfs: a file in persistent memory alone is renamed", "spfs: a mount finishes a rename"],
    ),
    (
        "spfs+ext4-alone",
        "crowd",
        &[
            "spfs: a segment of a table splits",
            "spfs: a table's directory doubles",
            "spfs: segments of a table merge",
            "spfs: a mount finishes a split or a merge",
        ],
    ),
    (
        "spfs+ext4-overflow",
        "torture",
        &["spfs: a table gets an overflow page", "spfs: empty overflow pages are unlinked"],
    ),
];

/// The names in `step("...")` of all crates.
fn named(dir: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            named(&path, names);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source");
            names.extend(
                text.split("granary_sim::step(\"")
                    .skip(1)
                    .filter_map(|s| Some(s.split_once('"')?.0.to_owned())),
            );
        }
    }
}

#[test]
fn every_step_that_the_sources_name_is_in_the_list() {
    let mut names = BTreeSet::new();
    for crates in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("the crates") {
        let sources = crates.expect("a crate").path().join("src");
        if sources.is_dir() {
            named(&sources, &mut names);
        }
    }
    let listed = MET.iter().flat_map(|(_, _, steps)| *steps);
    assert_eq!(names, listed.map(|&step| step.to_owned()).collect());
}

/// Images are taken in every step of the file systems whose names begin so.
fn met(of: &[&str]) {
    for (fs, load, steps) in MET.iter().filter(|(fs, ..)| of.iter().any(|of| fs.starts_with(of))) {
        let target = crate::targets::by_name(fs).expect("a target");
        let explorer = Explorer::new(target, crate::targets::load(load).expect("a load")).expect("sound");
        let effort = Effort { anywhere: 2, in_steps: 32, draws: 1, ..Effort::default() };
        let mut missing: BTreeSet<&str> = steps.iter().copied().collect();
        for seed in 0..24 {
            // The other images of a run are of the same steps.
            let left = Cell::new(150_u32);
            let over = || left.replace(left.get().saturating_sub(1)) == 0;
            let report = explorer.run_until(seed, &effort, &Bounds::until(&over));
            assert!(report.failures.is_empty(), "{fs}: {report}");
            missing.retain(|step| report.steps.get(step).is_none_or(|(_, images)| *images == 0));
            if missing.is_empty() {
                break;
            }
        }
        assert!(missing.is_empty(), "{fs} under {load}: no image in {missing:?}");
    }
}

const ON_BLOCKS: &[&str] = &["ext4", "f2fs", "nilfs2"];
const ON_BYTES: &[&str] = &["bytefs", "nova", "pmfs", "devfs"];
const ON_BOTH: &[&str] = &["orchfs", "spfs"];

#[test]
fn images_are_taken_in_every_step_on_blocks() {
    met(ON_BLOCKS);
}

#[test]
fn images_are_taken_in_every_step_on_bytes() {
    met(ON_BYTES);
}

#[test]
fn images_are_taken_in_every_step_on_both() {
    met(ON_BOTH);
}

#[test]
fn every_file_system_of_the_list_is_looked_at() {
    let all = [ON_BLOCKS, ON_BYTES, ON_BOTH].concat();
    assert!(MET.iter().all(|(fs, ..)| all.iter().any(|of| fs.starts_with(of))));
}
