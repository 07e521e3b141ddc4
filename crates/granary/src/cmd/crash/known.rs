//! `--failures FILE`: lines of failures that are tried first.
//!
//! ```text
//!   fs <tab> load <tab> run:place                               fails still: stays       passes now: goes
//!   fs <tab> load <tab> run:place <tab> no longer has a place   stays, and is tried again: the place may
//!                                                               come back
//! ```

use super::{CrashArgs, explorer, names, shortened};
use crate::cli::crash::Replay;
use crate::cmd::interrupt::Stop;
use crate::failure::Failure;
use std::fs::File;
use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Behind a line whose place the code of today does not have.
const NO_PLACE: &str = "no longer has a place";

/// The lines that stay, and how many of them fail still.
#[derive(Default)]
pub(super) struct Known {
    lines: Vec<String>,
    pub(super) failing: usize,
}

/// The result of trying a line.
enum Now {
    Passes,
    Fails(String),
    HasNoPlace,
}

/// Tries the lines of a file, and makes sure that it can be written.
pub(super) fn look(args: &CrashArgs, file: &Path, stop: &Stop) -> Result<Known, Failure> {
    let mut known = Known::default();
    for line in read(file)? {
        if stop.is_asked() {
            // Nobody has looked: it may still fail.
            known.lines.push(line);
            continue;
        }
        let bare = line.strip_suffix(NO_PLACE).map_or(&*line, str::trim_end);
        match one(args, bare)? {
            Now::Passes => say!("passes now: {bare}"),
            Now::Fails(text) => {
                say!("still fails: {text}");
                known.lines.push(bare.to_owned());
                known.failing += 1;
            }
            Now::HasNoPlace => {
                say!("{NO_PLACE}: {bare}");
                known.lines.push(format!("{bare}\t{NO_PLACE}"));
            }
        }
    }
    Ok(known)
}

impl Known {
    /// Writes the file anew, with these lines as well: all of it, or what was there before stays.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(mut self, file: &Path, new: impl Iterator<Item = String>) -> Result<(), Failure> {
        for line in new {
            if !self.lines.contains(&line) {
                self.lines.push(line);
            }
        }
        let text = self.lines.iter().fold(String::new(), |text, line| text + line + "\n");
        let wrong =
            |e| Failure::io(format!("{} is not kept: write it again, or choose another", file.display()), e);
        replace(file, &text).map_err(wrong)
    }
}

/// The lines of a file; none where it is not there.
fn read(file: &Path) -> Result<Vec<String>, Failure> {
    // Before the work, not behind it.
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(file).and_then(|_| beside(file));
    opened.map_err(|e| Failure::io(format!("opening {}", file.display()), e))?;
    if !file.is_file() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|e| Failure::io(format!("reading {}", file.display()), e))?;
    Ok(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
}

/// A new file beside this one, which takes its place; `None` where it is no ordinary file.
fn beside(file: &Path) -> Result<Option<(PathBuf, PathBuf, File)>, Error> {
    if !file.is_file() {
        return Ok(None);
    }
    let file = file.canonicalize()?;
    let mut name = file.file_name().map(ToOwned::to_owned).ok_or(ErrorKind::InvalidInput)?;
    name.push(format!(".{}", std::process::id()));
    let new = file.with_file_name(name);
    let opened = File::create(&new)?;
    // Its name goes at once where it is not used.
    std::fs::remove_file(&new)?;
    Ok(Some((file, new, opened)))
}

fn replace(file: &Path, text: &str) -> Result<(), Error> {
    let Some((file, new, _)) = beside(file)? else {
        return std::fs::OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes());
    };
    let written = File::create(&new).and_then(|mut written| {
        written.write_all(text.as_bytes())?;
        written.sync_all()
    });
    let done = written.and_then(|()| std::fs::rename(&new, &file));
    if done.is_err() {
        // There is an error to tell already.
        let _ = std::fs::remove_file(&new);
    }
    done
}

/// Does a line once more.
fn one(args: &CrashArgs, line: &str) -> Result<Now, Failure> {
    let wrong = || {
        Failure::usage(format!(
            "'{line}' is no failure: a line is file system, load, run:place, with tabs between them"
        ))
    };
    let words: Vec<&str> = line.split('\t').collect();
    let [fs, load, place] = words[..] else { return Err(wrong()) };
    let replay: Replay = place.parse().map_err(Failure::usage)?;
    let (targets, loads) = (names::targets(&[fs.to_owned()])?, names::loads(&[load.to_owned()])?);
    let targets = if args.lie.is_some() { names::lying(targets) } else { targets };
    let done = explorer(args, &targets[0], &loads[0])
        .and_then(|explorer| shortened(explorer, &replay).replay(replay.seed, &replay.path));
    Ok(match done {
        Ok(()) => Now::Passes,
        Err(failure) if failure.is_of_no_place() => Now::HasNoPlace,
        Err(failure) => Now::Fails(failure.to_string()),
    })
}
