//! The planted bugs that `cargo xtask plants` looks for: each can still be planted, and is behind its switch.

#[allow(dead_code, reason = "shared with `cargo xtask plants`, which uses all of it")]
mod patches;

use granary_crash::target;
use granary_fs::FsEntry;
use granary_lab::registry::FILE_SYSTEMS;
use patches::{FIRST, PLACE, Plant, check, in_order, list};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every bug, and the text of its patch.
fn all() -> Vec<(Plant, String)> {
    let place = root().join(PLACE);
    let plants = list(&place).expect("a list");
    let patches = in_order(&place, &plants).split_off(FIRST.len());
    let text = |path: &PathBuf| fs::read_to_string(path).expect("a patch");
    plants.into_iter().zip(patches.iter().map(text)).collect()
}

/// A new directory; gone with what it is returned in.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn every_planted_bug_can_be_planted_in_the_tree_as_it_is() {
    let scratch = scratch();
    match check(&root(), &root().join(PLACE), scratch.path()) {
        Ok(count) => assert!(count > 40, "{count} bugs"),
        Err(e) => panic!("{e}\nnext: make the patch anew on the code as it is now"),
    }
}

#[test]
fn a_patch_that_does_not_apply_any_more_is_named() {
    let (scratch, place) = (scratch(), scratch());
    for entry in fs::read_dir(root().join(PLACE)).expect("a directory") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, place.path().join(path.file_name().expect("a name"))).expect("copies");
    }
    let (last, text) = all().pop().expect("bugs");
    let patch = place.path().join(format!("{}.patch", last.name));
    // The lines that it finds its place by are not there.
    let other = |line: &str| match line.starts_with(' ') {
        true => format!("{line} not there\n"),
        false => format!("{line}\n"),
    };
    fs::write(&patch, text.lines().map(other).collect::<String>()).expect("writes");
    let said = check(&root(), place.path(), scratch.path()).expect_err("it does not apply");
    assert!(said.starts_with(&format!("{}.patch does not apply", last.name)), "{said}");
}

#[test]
fn an_entry_without_a_patch_and_a_patch_without_an_entry_are_refused() {
    let place = scratch();
    let entry = |name: &str| {
        format!("[[plant]]\nname = '{name}'\nbug = 'It.'\nclass = 'B3'\ntargets = ['ext4']\nby = 'crash'\n")
    };
    let write = |file: &str, text: String| fs::write(place.path().join(file), text).expect("writes");
    FIRST.iter().for_each(|name| write(&format!("{name}.patch"), String::new()));
    write("a.patch", String::new());
    write("plants.toml", entry("a"));
    assert_eq!(list(place.path()).map(|plants| plants.len()), Ok(1));
    write("plants.toml", entry("a") + &entry("b"));
    assert!(list(place.path()).is_err_and(|e| e.contains("b: in plants.toml, and has no patch")));
    write("plants.toml", entry("a"));
    write("c.patch", String::new());
    assert!(list(place.path()).is_err_and(|e| e.contains("c.patch: not in plants.toml")));
}

#[test]
fn every_planted_bug_is_behind_a_switch_of_its_own_name_alone() {
    for (plant, patch) in all() {
        let added = patch.lines().filter(|line| line.starts_with('+'));
        let asked: Vec<&str> = added.flat_map(|line| line.split("granary_sim::planted(\"").skip(1)).collect();
        assert!(!asked.is_empty(), "{}: no switch", plant.name);
        let own = |rest: &&str| rest.split('"').next() == Some(plant.name.as_str());
        assert!(asked.iter().all(own), "{}: the switch of another", plant.name);
    }
}

#[test]
fn the_targets_of_every_planted_bug_exist() {
    // 001-example.patch puts it among them.
    static EXAMPLE: &[FsEntry] = &[granary_example::ENTRY];
    let names = [target::names(FILE_SYSTEMS), target::names(EXAMPLE)].concat();
    for (plant, _) in all() {
        let unknown = plant.targets.iter().find(|target| !names.contains(target));
        assert_eq!(unknown, None, "{}: choose from {}", plant.name, names.join(", "));
    }
}
