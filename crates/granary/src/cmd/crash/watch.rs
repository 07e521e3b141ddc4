//! A life that does not end, or an mkfs: it is told, and with it the program ends.

use crate::cli::crash::CrashArgs;
use granary_crash::{Failure, longest_life};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Looks once a second, from a thread of its own, which ends with the program.
#[allow(
    clippy::disallowed_methods,
    reason = "a loop in which nothing happens has no virtual time: a clock of this machine is asked"
)]
pub fn watch(args: &CrashArgs) {
    let (patience, file) = (Duration::from_secs(args.patience), args.failures.clone());
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            if let Some(failure) = longest_life(patience) {
                end(&failure, file);
            }
        }
    });
}

/// No thread can be ended from outside: what the others are at is lost.
fn end(failure: &Failure, file: Option<PathBuf>) -> ! {
    outln!("{failure}\n");
    if let (Some(file), Some(line)) = (file, failure.replay_line()) {
        let added = OpenOptions::new().append(true).open(&file).and_then(|mut file| writeln!(file, "{line}"));
        if let Err(e) = added {
            say!("granary: adding a line to {}: {e}", file.display());
        }
    }
    say!(
        "granary: the program ends here, as a thread cannot be ended from outside; `--patience SECONDS` waits longer"
    );
    std::process::exit(1)
}
