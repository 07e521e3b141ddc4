//! `granary fsck IMAGE [--repair | --stack DIR]`: one line on stdout for each thing that is wrong, and for
//! each that was mended.
//!
//! Exit codes: 0 nothing is wrong (with `--repair`: any more), 1 something is, 2 it could not be looked at or
//! mended.

use crate::cmd::files::warn;
use crate::cmd::serve::when_free;
use crate::cmd::stacked;
use granary_fs::Repaired;
use granary_image::Image;
use granary_lab::LabError;
use granary_lab::image::{BLANK, Findings, ImageState, check, rehearse, repair};
use granary_lab::stack;
use std::path::Path;
use std::process::ExitCode;

/// Runs the command.
pub fn run(image: &Path, dir: Option<&Path>, mend: bool, json: bool) -> Result<ExitCode, LabError> {
    let found = match dir {
        Some(dir) => {
            let config = stacked::config()?;
            when_free(image, || stack::check(dir, image, config))?
        }
        None => when_free(image, || check(image))?,
    };
    warn(found.exposed.as_deref());
    warn(found.note.as_deref());
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
        print_text(image, dir, &found, repaired.as_ref(), &now);
    }
    let left = repaired.is_some_and(|r| !r.left.is_empty());
    Ok(if now.wrong.is_empty() && !left { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn print_json(found: &Findings, repaired: Option<&Repaired>, now: &Findings) {
    let mut value = serde_json::json!({
        "clean": now.wrong.is_empty(), "closed_cleanly": !found.unclean, "replayed": found.replayed, "wrong": now.wrong,
    });
    if let Some(r) = repaired {
        value["found"] = serde_json::json!(found.wrong);
        value["mended"] = serde_json::json!(r.done);
        value["left"] = serde_json::json!(r.left);
    }
    outln!("{value}");
}

fn print_text(
    image: &Path,
    dir: Option<&Path>,
    found: &Findings,
    repaired: Option<&Repaired>,
    now: &Findings,
) {
    let name = image.display();
    if found.unclean {
        let replayed = match found.replayed {
            0 => "nothing had to be replayed".to_owned(),
            n => format!("{n} groups of its redo log"),
        };
        say!("{name}: was not closed cleanly; checked as it is after recovery ({replayed})");
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
            let advice = advice(image, dir, now.state, repaired.is_some());
            say!("{name}: {n} findings{stay}; {advice}");
        }
    }
    if dir.is_none() && stack::is_stacked(image) {
        let below = stack::directory_shown(image);
        say!(
            "{name}: the devices alone were checked; `granary fsck --stack {below} {name}` checks its files with their directory"
        );
    }
}

/// The advice to the user: a repair where it would do something. A trial that changes nothing finds that out.
fn advice(image: &Path, dir: Option<&Path>, state: ImageState, repaired: bool) -> String {
    if let Some(dir) = dir.filter(|_| state != ImageState::Unusable) {
        let (dir, image) = (dir.display(), image.display());
        return match state {
            ImageState::Mounts => format!(
                "put back what is missing, or copy out what you need (`granary cp-out --stack {dir} {image} / PLACE`) and give up what does \
                 not fit (`granary mount --stack {dir} --forget {image} MNT`)"
            ),
            _ => format!(
                "put back the newest of both, or give up what does not fit (`granary mount --stack {dir} --forget {image} MNT`)"
            ),
        };
    }
    let fs = Image::describe(image).map_or_else(|_| BLANK.to_owned(), |info| info.meta.fs);
    let (reach, copy) = match state {
        ImageState::Unusable => {
            return "the image cannot be opened: take a copy of it, if there is one".into();
        }
        ImageState::Opens if fs == BLANK => {
            return "copy what you need off the drive (`granary export --read-only IMAGE DIR`)".into();
        }
        ImageState::Opens => ("its files cannot be reached", ": take a copy of the image, if there is one"),
        ImageState::Mounts => {
            ("copy out what you need (`granary cp-out IMAGE / DIR`)", ", then mkfs and cp-in")
        }
    };
    if repaired {
        return reach.into();
    }
    match (rehearse(image), state) {
        (Ok(Some(would)), ImageState::Mounts) if would.done.is_empty() => format!(
            "{reach}: no repair brings back what cannot be read; the files that are named here can be removed or written anew"
        ),
        (Ok(Some(_)), ImageState::Mounts) => format!("{reach}, then fsck --repair"),
        (Ok(Some(_)), _) => format!("{reach}: fsck --repair, on a copy of the image"),
        (Ok(None), _) => format!("{reach}{copy}: {fs} has no repair"),
        (Err(e), _) => format!("{reach}{copy}: fsck --repair cannot mend it ({e})"),
    }
}
