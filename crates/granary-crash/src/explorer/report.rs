//! Findings of an exploration, and how much it looked at.

use super::aim::recoveries;
use super::loss::Loss;
use super::place::Path;
use crate::load::OWN_FAULT;
use crate::recorded::Calls;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// How much was exercised; a run without failures is worth as much as this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Points that ended well.
    pub points: u64,
    /// Power failures.
    pub failures: u64,
    /// Of these: before the recovered file system was verified.
    pub in_recovery: u64,
    /// Of these: after the load had ended.
    pub idle: u64,
    /// Of these: in mkfs.
    pub in_mkfs: u64,
    /// Recovered file systems that went on with their load.
    pub went_on: u64,
    /// File systems that were filled and emptied at the end of a life.
    pub exercised: u64,
    /// Times that a file system was compared with its promises.
    pub verified: u64,
    /// Files compared.
    pub files: u64,
    /// Bytes compared.
    pub bytes: u64,
    /// Damages of media.
    pub damages: Damages,
    /// Errors of metadata.
    pub errors: Errors,
    /// Points behind one interrupted recovery, behind two in a row, and so on; the last counts all that are
    /// deeper.
    pub depths: [u64; DEPTHS],
}

/// Recoveries in a row whose interruptions are counted apart.
const DEPTHS: usize = 16;

/// Tries in which commands for metadata fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// Tries.
    pub tries: u64,
    /// Commands that failed in them.
    pub commands: u64,
    /// Of the tries: those in which nobody can say what a failed call has left, so that nothing was compared.
    pub not_compared: u64,
}

/// The outcomes of damages of media: each has one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damages {
    /// The mount, `check()` or a call told of it.
    pub told: u64,
    /// Nothing is another than it was.
    pub harmless: u64,
    /// Content of the damaged pages is wrong, and nothing else.
    pub content: u64,
    /// Something else is wrong, and nobody tells: this file system's metadata have nothing that would show
    /// it.
    pub silent: u64,
    /// Repairs that left nothing, interrupted ones included.
    pub repaired: u64,
}

impl Coverage {
    /// Adds another's numbers.
    pub fn add(&mut self, other: &Coverage) {
        self.points += other.points;
        self.failures += other.failures;
        self.in_recovery += other.in_recovery;
        self.idle += other.idle;
        self.in_mkfs += other.in_mkfs;
        self.went_on += other.went_on;
        self.exercised += other.exercised;
        self.verified += other.verified;
        self.files += other.files;
        self.bytes += other.bytes;
        self.damages.add(&other.damages);
        self.errors.add(&other.errors);
        self.depths.iter_mut().zip(other.depths).for_each(|(all, more)| *all += more);
    }

    /// A power failure at the end of this path.
    pub(super) fn met(&mut self, path: &Path) {
        let recoveries = recoveries(path);
        self.failures += 1;
        self.in_recovery += u64::from(recoveries > 0);
        if let Some(depth) = recoveries.checked_sub(1) {
            self.depths[depth.min(DEPTHS - 1)] += 1;
        }
    }
}

impl Errors {
    pub(super) fn add(&mut self, other: &Errors) {
        self.tries += other.tries;
        self.commands += other.commands;
        self.not_compared += other.not_compared;
    }
}

impl Damages {
    fn add(&mut self, other: &Damages) {
        self.told += other.told;
        self.harmless += other.harmless;
        self.content += other.content;
        self.silent += other.silent;
        self.repaired += other.repaired;
    }

    /// All together.
    pub fn all(&self) -> u64 {
        self.told + self.harmless + self.content + self.silent
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} power failures ({} in recovery, {} idle), {} verifications of {} files, {} MiB",
            self.failures,
            self.in_recovery,
            self.idle,
            self.verified,
            self.files,
            self.bytes >> 20
        )
    }
}

/// A point at which something went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Replays the point.
    pub seed: u64,
    /// Where in the run the power failed; empty: nowhere, or where the seed alone says.
    pub path: Path,
    /// Block writes failed in each run ([`super::Explorer::write_errors`]).
    pub errors: bool,
    /// The file system's name.
    pub fs: Box<str>,
    /// The load's name.
    pub load: Box<str>,
    /// Rare steps that were under way when the power failed last.
    pub steps: Arc<Vec<&'static str>>,
    /// In which life and what it was doing.
    pub stage: Box<str>,
    /// One sentence for each violation.
    pub evidence: Box<[String]>,
    /// Calls of the run that alone are made ([`super::Explorer::only`]); `None`: all.
    pub only: Option<Arc<Calls>>,
    /// Things that the last power failure takes ([`super::Explorer::losing`]); `None`: those that were drawn.
    pub loss: Option<Arc<Loss>>,
}

impl Failure {
    /// File system, load, run and place, with tabs between them: a line which finds the failure again; `None`
    /// where only a seed does, or nothing failed but a run without a power failure.
    pub fn replay_line(&self) -> Option<String> {
        let Failure { fs, load, .. } = self;
        (!self.path.0.is_empty()).then(|| format!("{fs}\t{load}\t{}", self.place()))
    }

    /// Whether the load is at fault: it goes wrong by itself, for a reason of its own.
    pub fn is_of_the_load(&self) -> bool {
        self.path.0.is_empty() && self.evidence.iter().any(|what| what.starts_with(OWN_FAULT))
    }

    /// Whether nothing failed: the place of a replay is not in the run.
    pub fn is_of_no_place(&self) -> bool {
        &*self.stage == NO_PLACE
    }

    /// The command that finds the failure again, where one does.
    pub fn replay_command(&self) -> Option<String> {
        let Failure { fs, load, .. } = self;
        let load = quoted(load);
        let command = || format!("granary crash --fs {fs} --load {load} --replay {}", self.place());
        (!self.path.0.is_empty()).then(command)
    }

    /// The run, an `e` before it where writes failed in each, the places in it, the calls that alone are
    /// made, and what is lost.
    fn place(&self) -> String {
        let errors = if self.errors { "e" } else { "" };
        let only = self.only.as_ref().map_or(String::new(), |calls| format!(":{calls}"));
        let loss = self.loss.as_ref().map_or(String::new(), |loss| format!(":{loss}"));
        format!("{errors}{}:{}{only}{loss}", self.seed, self.path)
    }
}

/// The stage of a replay whose place is not in the run.
pub(super) const NO_PLACE: &str = "replay";

/// A load's name for a shell: generated programs have spaces and parentheses in theirs, and files any
/// character.
fn quoted(load: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    match load.chars().all(plain) {
        true => load.to_owned(),
        false => format!("'{}'", load.replace('\'', "'\\''")),
    }
}

/// Sentences shown of one failure.
const SHOWN: usize = 12;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, fs, load, steps, stage, evidence, .. } = self;
        writeln!(f, "seed {seed}, {fs} under {load}, {stage}:")?;
        for step in steps.iter() {
            writeln!(f, "  the power failed in this step: {step}")?;
        }
        for sentence in evidence.iter().take(SHOWN) {
            writeln!(f, "  {sentence}")?;
        }
        if evidence.len() > SHOWN {
            writeln!(f, "  and {} more", evidence.len() - SHOWN)?;
        }
        if let Some(command) = self.replay_command() {
            return write!(f, "  replay: `{command}`");
        }
        // The run fails by itself, without a place in it.
        write!(f, "  once more: `granary crash --fs {fs} --load {} --seed {seed} --points 1`", quoted(load))
    }
}

/// Result of [`super::Explorer::explore`].
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Points explored.
    pub points: u64,
    /// Coverage of the points that ended well.
    pub coverage: Coverage,
    /// Rare steps: how often each was entered, and how many images were taken in it.
    pub steps: BTreeMap<&'static str, (u64, u64)>,
    /// Where something went wrong.
    pub failures: Vec<Failure>,
}

impl Report {
    /// Adds the steps of another report.
    pub fn add_steps(&mut self, other: &BTreeMap<&'static str, (u64, u64)>) {
        for (step, (entered, crashed)) in other {
            let all = self.steps.entry(step).or_default();
            *all = (all.0 + entered, all.1 + crashed);
        }
    }

    /// Adds the report of another range.
    pub fn add(&mut self, other: Report) {
        self.points += other.points;
        self.coverage.add(&other.coverage);
        self.add_steps(&other.steps);
        self.failures.extend(other.failures);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        write!(f, "{} points, {} failures: {}", self.points, self.failures.len(), self.coverage)
    }
}
