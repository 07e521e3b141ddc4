//! A file system is added and taken away in one place: outside its own crate nobody names it but the
//! registry.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Where a registered file system's crate is named, beside the root manifest's list of dependencies.
const REGISTRY: [&str; 2] = ["crates/granary-testbed/Cargo.toml", "crates/granary-testbed/src/registry.rs"];

/// Parts of paths that are not counted: tests, benches and examples may take any file system they like;
/// `granary-papers` and the command `calibrate` compare with particular ones, which is what they are for;
/// `docs` tell of all; `target` is built.
const NOT_COUNTED: [&str; 7] =
    ["tests", "benches", "examples", "granary-papers", "calibrate", "docs", "target"];

/// Files that name a file system without need. It may only become shorter: file, crate.
const STILL: [(&str, &str); 0] = [];

/// File systems that stand on another's structures, as their papers have it: crate, crate below. The one
/// below does not know them.
const STANDS_ON: [(&str, &str); 1] = [("granary-devfs", "granary-pmfs")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace").to_owned()
}

/// Sources and manifests below `dir` that count, relative to `root`.
fn collect(root: &Path, dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("readable") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let stem = name.strip_suffix(".rs").unwrap_or(name);
        if NOT_COUNTED.contains(&stem) || name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, found);
        } else if name.ends_with(".rs") || name.ends_with(".toml") {
            found.push(path.strip_prefix(root).expect("below it").to_owned());
        }
    }
}

/// The parts of a file that bind it to a crate: no comments, which bind nobody, and no dependencies of tests.
fn binding(text: &str) -> String {
    let mut tests_only = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.starts_with('[') {
            tests_only = line.starts_with("[dev-dependencies");
        }
        if !tests_only && !line.trim_start().starts_with("//") {
            kept += line;
            kept.push('\n');
        }
    }
    kept
}

/// Whether `text` has the crate's name, as a package or in a path, and not only as the beginning of a longer
/// one.
fn names(text: &str, package: &str) -> bool {
    let longer = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    [package.to_owned(), package.replace('-', "_")].iter().any(|name| {
        let after = |(at, _): (usize, &str)| text[at + name.len()..].chars().next();
        text.match_indices(name.as_str()).any(|found| !after(found).is_some_and(longer))
    })
}

/// The crates of the registry's entries: `granary_nova::NOVA,`.
fn registered(registry: &str) -> BTreeSet<String> {
    let list = registry.split_once("FILE_SYSTEMS: &[FsEntry] = &[").expect("the list").1;
    let list = list.split_once("];").expect("its end").0;
    let entries = list.lines().filter_map(|line| line.trim().split_once("::"));
    entries.map(|(name, _)| name.replace('_', "-")).collect()
}

#[test]
fn a_file_system_is_named_by_the_registry_alone() {
    let root = root();
    let mut files = Vec::new();
    collect(&root, &root, &mut files);
    let texts: BTreeMap<String, String> = files
        .iter()
        .map(|file| {
            let text = fs::read_to_string(root.join(file)).expect("readable");
            (file.to_str().expect("UTF-8").to_owned(), binding(&text))
        })
        .collect();
    let crates = registered(&texts[REGISTRY[1]]);
    assert!(crates.len() >= 5, "{crates:?}");
    for package in &crates {
        let own = format!("crates/{package}/");
        assert!(texts.keys().any(|file| file.starts_with(&own)), "{package} has its own folder");
        let above = STANDS_ON.iter().filter(|(_, below)| below == package);
        let mut allowed: Vec<String> = above.map(|(fs, _)| format!("crates/{fs}/")).collect();
        allowed.push(own);
        let elsewhere = |file: &str| allowed.iter().all(|folder| !file.starts_with(folder));
        // Planted bugs are patches of every crate.
        let planted = |file: &str| file.starts_with("crates/granary-crash/plants/");
        let naming =
            texts.iter().filter(|(file, text)| elsewhere(file) && !planted(file) && names(text, package));
        let naming: BTreeSet<&str> = naming.map(|(file, _)| file.as_str()).collect();
        let still = STILL.iter().filter(|(_, of)| of == package).map(|(file, _)| *file);
        let right: BTreeSet<&str> = REGISTRY.into_iter().chain(["Cargo.toml"]).chain(still).collect();
        assert_eq!(naming, right, "who names {package}");
    }
}

#[test]
fn names_are_told_from_longer_ones() {
    assert!(names("granary_pm::X", "granary-pm") && names("granary-pm.workspace = true", "granary-pm"));
    assert!(!names("granary_pmfs::X", "granary-pm") && !names("granary-pm-tools", "granary-pm"));
    assert_eq!(binding("a\n// b\n[dev-dependencies]\nc\n[features]\nd"), "a\n[features]\nd\n");
}
