//! The statements of papers beside our numbers.
//!
//! ```text
//!   figures ─ plan ─> runs: setting, workload, file system ─> records ─┐
//!          └────────> measurements of a drive alone ───────────────────┴─> Results ─ claims ─> classes
//! ```
//!
//! A [`Study`] is a paper: its figures as runs, its statements. A *setting* is the testbed as one figure has
//! it: `main` for most. Figures share runs: each is made once.
//!
//! Each statement says what kind it is ([`Kind`]). A result gets a [`Class`]; what no run can give stands in
//! a table of its own. A reason is an [`Experiment`] that shows it, or there is none.

mod bytefs;
mod claim;
mod devfs;
mod export;
mod orchfs;
mod pebblessd;
mod plan;
mod spfs;
mod study;
mod table;
mod verdict;
mod why;

pub use bytefs::{Recovery, recovery};
pub use claim::Judged;
pub use export::{claims_csv, claims_json, claims_page};
pub use plan::{Plan, Planned};
pub use study::{Alone, Choice, MAIN, Results, Study};
pub use table::{choices_text, claims_table, matrix_table, sensitivity_table, summary, warnings_text};
pub use verdict::{Class, How, Kind, NoResult, Ours, Paper, Stat};
pub use why::{Experiment, Must, Shown, Why};

use granary_lab::LabError;

/// The papers, in the order in which they came.
pub const STUDIES: [&Study; 5] =
    [&bytefs::STUDY, &pebblessd::STUDY, &devfs::STUDY, &orchfs::STUDY, &spfs::STUDY];

impl Study {
    /// The study of this name.
    ///
    /// # Errors
    /// None has it.
    pub fn find(name: &str) -> Result<&'static Study, LabError> {
        STUDIES.into_iter().find(|s| s.name == name).ok_or_else(|| {
            let known = STUDIES.map(|s| s.name).join(", ");
            LabError::Usage(format!("no experiments of '{name}': there are those of {known}"))
        })
    }
}

#[cfg(test)]
mod tests;
