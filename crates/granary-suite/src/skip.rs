//! Tests that cannot run where they are: each says so, and whoever runs them all learns which did.

use std::io::Write;

/// Variable of the environment that names a file; each test that skips adds a line to it. `.ci/run` fails
/// where one gives a reason that it has not found to be a limit of the machine.
pub const LIST: &str = "GRANARY_SKIPS";

/// This test, or a part of it, does not run here, for this reason.
pub fn skipped(why: impl std::fmt::Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    eprintln!("skipped: {test}: {why}");
    let Some(list) = std::env::var_os(LIST) else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&list);
    // One write: tests of several programs add to it at a time.
    let added = file.and_then(|mut file| file.write_all(format!("{test}: {why}\n").as_bytes()));
    added.unwrap_or_else(|e| panic!("{LIST}={}: {e}", list.display()));
}
