//! A firmware is added and taken away in one place: outside granary-mssd few files name one of its modes, and none names one of another
//! crate but the registry.

use std::fs;
use std::path::{Path, PathBuf};

/// Files that name the write log or the page cache. The list may only become shorter.
const STILL: [&str; 8] = [
    // What a file system that asks for the write log gets.
    "crates/granary-testbed/src/devices.rs",
    "crates/granary-crash/src/target.rs",
    // Sizes and sentences of the two.
    "crates/granary-bench/src/memory.rs",
    "crates/granary-bench/src/figures.rs",
    "crates/granary/src/cmd/stat.rs",
    // Drives of particular kinds.
    "crates/granary-fuzz/src/kinds/commands.rs",
    "crates/granary-fuzz/src/kinds/files.rs",
    "crates/granary-fuzz/src/kinds/text.rs",
];

/// Parts of paths that are not counted: tests, benches and examples may take any drive they like; granary-papers reproduces papers of
/// particular drives, and granary-suite is support of tests.
const NOT_COUNTED: [&str; 8] =
    ["tests", "benches", "examples", "granary-papers", "granary-suite", "granary-mssd", "docs", "target"];

fn collect(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("readable") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if NOT_COUNTED.contains(&name) || name == "tests.rs" || name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// The text in front of a file's own tests.
fn counted(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text)
}

#[test]
fn few_files_name_a_firmware_and_each_has_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace");
    let mut files = Vec::new();
    collect(&root.join("crates"), &mut files);
    let names = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("readable");
        ["Mode::Log", "Mode::Cache"].iter().any(|mode| counted(&text).contains(mode))
    };
    let naming = files.iter().filter(|path| names(path));
    let naming = naming.map(|path| path.strip_prefix(root).expect("below it").display().to_string());
    let mut naming: Vec<String> = naming.collect();
    naming.sort();
    let mut still = STILL.map(str::to_owned);
    still.sort();
    assert_eq!(naming, still, "files that name a firmware, and those that may");
}

#[test]
fn every_firmware_of_the_registry_has_its_own_name_and_makes_a_drive() {
    let mut names = std::collections::BTreeSet::new();
    for entry in granary_bench::drives::DRIVES {
        assert!(names.insert(entry.name), "{} twice", entry.name);
        let config = granary_mssd::DriveConfig::tiny(granary_mssd::Mode::named(entry.name));
        granary_bench::drives::make(&config, true).unwrap_or_else(|e| panic!("{}: {e}", entry.name));
    }
    let other = granary_mssd::DriveConfig::tiny(granary_mssd::Mode::named("none-of-these"));
    let refused = granary_bench::drives::make(&other, true).map(drop).expect_err("no such firmware");
    assert!(refused.to_string().contains("mode is one of log, cache"), "{refused}");
}
