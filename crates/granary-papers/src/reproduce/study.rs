//! [`Study`]: a paper, as what to run and what it states; [`Results`]: what the runs gave.

use super::plan::{Plan, Planned};
use super::verdict::Judged;
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
}

impl Study {
    /// The statements of these figures beside what the runs say.
    pub fn judge(&self, results: &Results, figures: &[String]) -> Vec<Judged> {
        let mut judged = (self.claims)(results);
        judged.retain(|j| (self.belongs)(j.figure, figures));
        judged
    }
}

/// Results of the planned runs.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Each with its setting.
    pub runs: Vec<(String, Record)>,
    /// Measurements of a drive alone, by name.
    pub alone: Alone,
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
