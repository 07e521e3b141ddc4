//! fio's job files: text in, plain jobs out.
//!
//! ```text
//!   [global]              applies to the jobs below it
//!   bs=4k
//!   [prepare]             a job; all jobs run at the same time ...
//!   rw=write
//!   [measure]
//!   stonewall             ... but for this one, which waits for those above it
//!   rw=randread
//!
//!   text ──parse──> JobFile { jobs: [Job], ... }        options.rs: what each option is
//!                          │                            value.rs: sizes, times, ranges
//!                          └─ the runner decides which of `Job::other` matter there (a drive alone: none)
//! ```
//!
//! Invariants: an option that would change what a job does is honoured or refused, never left out. All
//! mistakes of a file are reported at once, with the lines ([`Mistakes`]). Options that change no access at
//! all (reports, engines, content) are kept in [`JobFile::without_effect`].
//!
//! It does *not* run anything. [`Client`] gives the next step of one of a job's clients; granary-workload
//! defines the meaning of a job on files.
//!
//! Source: fio's HOWTO, "Job file format", "Parameter types", "Job file parameters".

mod client;
mod content;
mod free;
mod job;
mod mistakes;
mod options;
mod order;
mod shuffle;
mod value;

pub use client::{Client, Drawn, Next};
pub use content::Content;
pub use job::{Access, Amount, Blocks, Job, Lines, Part, Pattern, PerDirection, Setting, stride};
pub use mistakes::{Mistake, Mistakes};
pub use value::{flag, number, size, time};

use options::Kind;

/// A job file.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFile {
    /// Its path, for messages.
    pub file: String,
    /// The jobs, in order.
    pub jobs: Vec<Job>,
    /// Options that say nothing of what a job does, each once, in order.
    pub without_effect: Vec<String>,
}

/// Reads a job file.
///
/// # Errors
/// All that is wrong with it, with the lines.
pub fn parse(file: &str, text: &str) -> Result<JobFile, Mistakes> {
    let lines = Lines { file: file.to_owned(), ..Lines::default() };
    let mut global = Job { lines: Some(lines), ..Job::default() };
    let (mut jobs, mut section) = (Vec::<Job>::new(), Section::None);
    let (mut wrong, mut without_effect) = (Vec::new(), Vec::<String>::new());
    for (n, raw) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = raw.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let mut bad = |message: String| wrong.push(Mistake { line: n + 1, message });
        if let Some(name) = line.strip_prefix('[') {
            match name.strip_suffix(']').map(str::trim).filter(|s| !s.is_empty()) {
                Some("global") => section = Section::Global,
                Some(name) => {
                    let lines = global.lines.clone().map(|lines| Lines { section: n + 1, ..lines });
                    jobs.push(Job { name: name.to_owned(), lines, ..global.clone() });
                    section = Section::Job;
                }
                None => {
                    bad(format!("'{line}' is no section: write [name]"));
                    section = Section::Bad;
                }
            }
            continue;
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim())),
            None => (line, None),
        };
        let job = match section {
            Section::Global => &mut global,
            Section::Job => jobs.last_mut().expect("a section was opened"),
            // Still looked at, so that all that is wrong with it is said now.
            Section::Bad => &mut global.clone(),
            Section::None => {
                bad(format!("'{key}' stands before the first section: begin with [global] or [name]"));
                section = Section::Bad;
                continue;
            }
        };
        match options::set(job, key, value) {
            Err(message) => bad(message),
            Ok((name, Kind::WithoutEffect)) => {
                if !without_effect.iter().any(|k| k == name) {
                    without_effect.push(name.to_owned());
                }
            }
            Ok((name, Kind::Other)) => {
                job.other.retain(|s| s.key != name);
                let value = value.unwrap_or_default().to_owned();
                job.other.push(Setting { key: name.to_owned(), value, line: n + 1 });
            }
            Ok((name, Kind::Honoured)) => {
                if let Some(lines) = &mut job.lines {
                    lines.note(name, n + 1);
                }
            }
        }
    }
    for job in jobs.iter_mut().filter(|job| job.unaligned) {
        for blocks in &mut job.blocks {
            if let Blocks::Range(least, most) = *blocks {
                *blocks = Blocks::Between(least, most);
            }
        }
    }
    if jobs.is_empty() && !matches!(section, Section::Bad) {
        let message = "there is no job: add a section such as [randread] with rw=randread".to_owned();
        wrong.push(Mistake { line: text.lines().count().max(1), message });
    }
    match wrong.is_empty() {
        true => Ok(JobFile { file: file.to_owned(), jobs, without_effect }),
        false => Err(Mistakes::new(file, wrong)),
    }
}

/// Where the line that is read stands.
enum Section {
    /// Before the first.
    None,
    Global,
    Job,
    /// In one that has no name.
    Bad,
}

#[cfg(test)]
mod tests;
