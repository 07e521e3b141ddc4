//! Seeds and deterministic mutations of each kind: errors are welcome, nothing else may come of them.

use granary_fuzz::{Kind, campaign};

/// Inputs of a kind where nobody says how many.
fn usual(kind: Kind) -> u64 {
    match kind {
        Kind::Filebench | Kind::Fio | Kind::Requests => 3000,
        Kind::Trace => 2000,
        Kind::Testbed => 300,
        Kind::Commands => 500,
        Kind::Header | Kind::Journal => 200,
        Kind::Image(_) => 40,
    }
}

fn survives(name: &str) {
    let kind = Kind::named(name).unwrap_or_else(|| panic!("there is no kind {name}"));
    let runs = std::env::var("GRANARY_FUZZ_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual(kind));
    let found = campaign(kind, 0..runs);
    let told: Vec<String> = found.iter().map(|f| format!("{name} {}: {}", f.number, f.what)).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

/// A directory that moved gave no seeds, and nobody was told.
#[test]
fn files_of_other_crates_are_seeds() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (kind, file) in [
        (Kind::Testbed, "granary-testbed/testbeds/cxl.toml"),
        (Kind::Filebench, "granary-workload/workloads/varmail.f"),
        (Kind::Fio, "granary-workload/workloads/orchfs/fig19.fio"),
    ] {
        let bytes = std::fs::read(crates.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(kind.seeds().contains(&bytes), "{file} is no seed of {}", kind.name());
    }
}

macro_rules! kinds {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            survives($name);
        })*

        #[test]
        fn every_kind_is_tried() {
            let tried = [$($name),*];
            let all: Vec<String> = Kind::all().map(Kind::name).collect();
            assert_eq!(all, tried);
        }
    };
}

kinds! {
    any_workload_is_read_or_refused: "filebench",
    any_job_file_is_read_or_refused: "fio",
    any_testbed_is_loaded_or_refused: "testbed",
    any_trace_is_read_or_refused: "trace",
    any_request_is_decoded_or_refused: "requests",
    any_command_is_done_or_refused: "commands",
    any_header_is_read_or_refused: "header",
    any_redo_log_is_replayed_or_refused: "journal",
    damaged_bytefs_is_refused_or_read: "image-bytefs",
    damaged_ext4_is_refused_or_read: "image-ext4",
    damaged_f2fs_is_refused_or_read: "image-f2fs",
    damaged_nilfs2_is_refused_or_read: "image-nilfs2",
    damaged_nova_is_refused_or_read: "image-nova",
    damaged_pmfs_is_refused_or_read: "image-pmfs",
    damaged_orchfs_is_refused_or_read: "image-orchfs",
    damaged_devfs_is_refused_or_read: "image-devfs",
    damaged_spfs_over_ext4_is_refused_or_read: "image-spfs+ext4",
    damaged_spfs_over_f2fs_is_refused_or_read: "image-spfs+f2fs",
}
