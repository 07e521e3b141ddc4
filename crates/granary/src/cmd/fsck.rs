//! `granary fsck IMAGE [--repair]`: one line on stdout for each thing that is wrong, and for each that was mended.
//!
//! Exit codes: 0 nothing is wrong (with `--repair`: any more), 1 something is, 2 it could not be looked at or mended.

use granary_lab::LabError;
use granary_lab::image::{Findings, State, check, repair};
use granary_vfs::Repaired;
use std::path::Path;
use std::process::ExitCode;

/// Runs the command.
pub fn run(image: &Path, mend: bool, json: bool) -> Result<ExitCode, LabError> {
    let found = check(image)?;
    let (repaired, now) = match mend && !found.wrong.is_empty() {
        false => (None, found.clone()),
        true => {
            if !json {
                found.wrong.iter().for_each(|w| say!("found: {w}"));
            }
            let repaired = repair(image)?;
            (Some(repaired), check(image)?)
        }
    };
    if json {
        print_json(&found, repaired.as_ref(), &now);
    } else {
        print_text(image, &found, repaired.as_ref(), &now);
    }
    let left = repaired.is_some_and(|r| !r.left.is_empty());
    Ok(if now.wrong.is_empty() && !left { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn print_json(found: &Findings, repaired: Option<&Repaired>, now: &Findings) {
    let mut value = serde_json::json!({
        "clean": now.wrong.is_empty(), "replayed": found.replayed, "wrong": now.wrong,
    });
    if let Some(r) = repaired {
        value["found"] = serde_json::json!(found.wrong);
        value["mended"] = serde_json::json!(r.done);
        value["left"] = serde_json::json!(r.left);
    }
    outln!("{value}");
}

fn print_text(image: &Path, found: &Findings, repaired: Option<&Repaired>, now: &Findings) {
    let name = image.display();
    if found.replayed > 0 {
        say!(
            "{name}: was not closed cleanly; checked as it is after recovery ({} groups of its redo log)",
            found.replayed
        );
    }
    if let Some(r) = repaired {
        r.done.iter().for_each(|d| outln!("mended: {d}"));
        r.left.iter().for_each(|l| outln!("left: {l}"));
    }
    now.wrong.iter().for_each(|w| outln!("{w}"));
    match (now.wrong.len(), repaired) {
        (0, None) => say!("{name}: clean"),
        (0, Some(r)) => say!("{name}: clean now, {} things mended", r.done.len()),
        (n, repaired) => {
            let stay = if repaired.is_some() { " stay" } else { "" };
            let advice = match (now.state, repaired) {
                (State::Unusable, _) => "the image cannot be opened: take a copy of it, if there is one",
                (State::Opens, None) => "its files cannot be reached: fsck --repair, on a copy of the image",
                (State::Opens, Some(_)) => "its files cannot be reached",
                (State::Mounts, None) => {
                    "copy out what you need (granary cp-out), then fsck --repair (ByteFS), or mkfs and cp-in"
                }
                (State::Mounts, Some(_)) => "copy out what you need (granary cp-out)",
            };
            say!("{name}: {n} findings{stay}; {advice}");
        }
    }
}
