//! [`Study`]: a paper, as what to run and what it states; [`Results`]: what the runs gave.

use super::claim::Judged;
use super::plan::{Plan, Planned};
use super::why::Why;
use granary_lab::LabError;
use granary_lab::record::Record;
use std::collections::BTreeMap;

/// The setting of most figures.
pub const MAIN: &str = "main";

/// Measurements of a drive alone, by name.
pub type Alone = BTreeMap<&'static str, f64>;

/// A paper: what to run for its figures, and what it states.
pub struct Study {
    /// Its name for `granary reproduce`.
    pub name: &'static str,
    /// Title for tables and pages.
    pub title: &'static str,
    /// Figures, tables and sections that `--figure` takes.
    pub figures: &'static [&'static str],
    /// Workloads that `--workload` takes.
    pub workloads: &'static [&'static str],
    /// Testbed where none is named.
    pub testbed: &'static str,
    /// Scale where none is given.
    pub scale: f64,
    /// The runs for these figures, in a fixed order.
    pub plan: fn(&Plan<'_>, &[String]) -> Result<Vec<Planned>, LabError>,
    /// Measurements of a drive alone for these figures, by name.
    pub alone: fn(&Plan<'_>, &[String]) -> Result<Alone, LabError>,
    /// All statements beside the results of the runs.
    pub claims: fn(&Results) -> Vec<Judged>,
    /// Whether a statement of this figure is told where those figures were asked for.
    pub belongs: fn(&str, &[String]) -> bool,
    /// Values that the testbed chose, which `--sensitivity` changes one at a time.
    pub choices: &'static [Choice],
}

/// A value of the testbed that no source states, and another that it could have.
#[derive(Debug)]
pub struct Choice {
    /// The name of its column.
    pub name: &'static str,
    /// The changes of the testbed.
    pub set: &'static [&'static str],
    /// Why it is a choice, and why this is the other value.
    pub reason: &'static str,
}

impl Study {
    /// The statements of these figures beside what the runs say.
    pub fn judge(&self, results: &Results, figures: &[String]) -> Vec<Judged> {
        let mut judged = (self.claims)(results);
        judged.retain(|j| (self.belongs)(j.figure, figures));
        judged.iter_mut().for_each(|j| j.scale = results.scale);
        judged
    }

    /// The statement of this name, with or without the study's before it.
    ///
    /// # Errors
    /// None has it.
    pub fn row(&self, name: &str) -> Result<Judged, LabError> {
        let short = name.strip_prefix(self.name).and_then(|rest| rest.strip_prefix('/')).unwrap_or(name);
        let mut rows = (self.claims)(&Results::default());
        if let Some(at) = rows.iter().position(|j| j.name == short) {
            return Ok(rows.swap_remove(at));
        }
        let explained = rows.iter().filter(|j| matches!(j.why, Why::Experiment(_)));
        let explained: Vec<&str> = explained.map(|j| j.name.as_str()).collect();
        Err(LabError::Usage(format!(
            "{} has no row `{short}`: rows with an experiment are {}; --export FILE.csv has all names",
            self.name,
            explained.join(", ")
        )))
    }
}

/// Results of the planned runs.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Each with its setting.
    pub runs: Vec<(String, Record)>,
    /// Measurements of a drive alone, by name.
    pub alone: Alone,
    /// The scale of the runs.
    pub scale: f64,
}

impl Results {
    /// The run of this workload on this file system in a setting.
    pub fn find(&self, setting: &str, workload: &str, fs: &str) -> Option<&Record> {
        let named = |r: &Record| r.workload == workload && r.fs == fs;
        self.runs.iter().find(|(s, r)| s == setting && named(r)).map(|(_, r)| r)
    }

    /// Of the main setting.
    pub fn main(&self, workload: &str, fs: &str) -> Option<&Record> {
        self.find(MAIN, workload, fs)
    }

    /// The records alone.
    pub fn records(&self) -> Vec<Record> {
        self.runs.iter().map(|(_, record)| record.clone()).collect()
    }
}
