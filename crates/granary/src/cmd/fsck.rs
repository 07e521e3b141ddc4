//! `granary fsck IMAGE`: one line on stdout for each thing that is wrong.

use granary_lab::LabError;
use granary_lab::image::check;
use std::path::Path;
use std::process::ExitCode;

/// Runs the command.
pub fn run(image: &Path, json: bool) -> Result<ExitCode, LabError> {
    let found = check(image)?;
    if json {
        let clean = found.wrong.is_empty();
        println!(
            "{}",
            serde_json::json!({ "clean": clean, "replayed": found.replayed, "wrong": found.wrong })
        );
    } else {
        if found.replayed > 0 {
            eprintln!(
                "{}: was not closed cleanly; checked as it is after recovery ({} groups of its redo log)",
                image.display(),
                found.replayed
            );
        }
        found.wrong.iter().for_each(|w| println!("{w}"));
        match found.wrong.len() {
            0 => eprintln!("{}: clean", image.display()),
            n => eprintln!("{}: {n} findings; copy out what you need (granary cp-out)", image.display()),
        }
    }
    Ok(if found.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
