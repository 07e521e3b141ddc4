//! The tables of mechanisms in the papers' pages name files, tests and planted bugs that are there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGES: [&str; 5] = ["bytefs", "devfs", "orchfs", "pebblessd", "spfs"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace")
}

/// The words of a text that stand between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Names of all functions of the sources, and of all planted bugs.
fn known() -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let mut todo = vec![root().join("crates"), root().join("examples")];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(path).expect("text");
                let named = text.split("fn ").skip(1).map(word);
                known.extend(named.map(str::to_owned));
            }
        }
    }
    let plants = root().join("crates/granary-crash/plants/plants.toml");
    let text = fs::read_to_string(plants).expect("the list of plants");
    let names = text.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    known.extend(names.map(str::to_owned));
    known
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The file that a row names: below the page's own crate, below the crates, or beside the one named before.
fn is_there(name: &str, own: Option<&str>, before: Option<&Path>) -> Option<PathBuf> {
    let places = [
        own.map(|own| root().join(own).join(name)),
        Some(root().join("crates").join(name)),
        before.and_then(|before| Some(before.parent()?.join(name))),
        before.map(|before| before.with_extension("").join(name)),
    ];
    places.into_iter().flatten().find(|path| path.exists())
}

#[test]
fn mechanisms_name_files_and_tests_that_are_there() {
    let known = known();
    for page in PAGES {
        let text = fs::read_to_string(root().join("docs/papers").join(page).with_extension("md"));
        let text = text.expect("a page");
        let part = text.split("## Mechanisms").nth(1).expect("the table of mechanisms");
        let part = part.split("\n## ").next().unwrap_or_default();
        let (head, table) = part.split_at(part.find("\n| ").expect("a table"));
        let own = quoted(head).find(|word| word.starts_with("crates/"));
        let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
        let mut count = 0;
        for row in rows {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
            let [what, _, files, tests] = cells[..] else { panic!("{page}: {row}") };
            count += 1;
            let mut before: Option<PathBuf> = None;
            for file in quoted(files) {
                let found = is_there(file, own, before.as_deref());
                assert!(found.is_some(), "{page}: {what}: there is no file {file}");
                before = found;
            }
            assert!(before.is_some() || files.contains("not there"), "{page}: {what}: no file");
            for name in quoted(tests) {
                assert!(known.contains(name), "{page}: {what}: there is no test or plant {name}");
            }
            let tested = quoted(tests).next().is_some();
            assert!(tested || tests.contains("none yet"), "{page}: {what}: say `none yet`, or name a test");
        }
        assert!(count > 9, "{page}: {count} mechanisms");
    }
}
