//! What an exploration found, and how much it looked at.

use std::fmt;

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
    /// Times that a file system was compared with its promises.
    pub verified: u64,
    /// Files compared.
    pub files: u64,
    /// Bytes compared.
    pub bytes: u64,
}

impl Coverage {
    /// Adds another's numbers.
    pub fn add(&mut self, other: &Coverage) {
        self.points += other.points;
        self.failures += other.failures;
        self.in_recovery += other.in_recovery;
        self.idle += other.idle;
        self.verified += other.verified;
        self.files += other.files;
        self.bytes += other.bytes;
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
    /// The file system's name.
    pub fs: String,
    /// The load's name.
    pub load: String,
    /// In which life and what it was doing.
    pub stage: String,
    /// One sentence for each violation.
    pub evidence: Vec<String>,
}

/// Sentences shown of one failure.
const SHOWN: usize = 12;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, fs, load, stage, evidence } = self;
        writeln!(f, "seed {seed}, {fs} under {load}, {stage}:")?;
        for sentence in evidence.iter().take(SHOWN) {
            writeln!(f, "  {sentence}")?;
        }
        if evidence.len() > SHOWN {
            writeln!(f, "  and {} more", evidence.len() - SHOWN)?;
        }
        write!(f, "  replay: cargo xtask soak --kind power --fs {fs} --load {load} --from {seed} --points 1")
    }
}

/// What [`super::Explorer::explore`] found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Points explored.
    pub points: u64,
    /// What was exercised at the points that ended well.
    pub coverage: Coverage,
    /// Where something went wrong.
    pub failures: Vec<Failure>,
}

impl Report {
    /// Adds the report of another range.
    pub fn add(&mut self, other: Report) {
        self.points += other.points;
        self.coverage.add(&other.coverage);
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
