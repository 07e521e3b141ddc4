//! Statements of papers, beside our results.
//!
//! ```text
//!   figures ── plan ──> runs: (setting, workload, file system) ──> records ─┐
//!          └──────────> measurements of a drive alone ──────────────────────┴─> Results ── claims
//!                                                                 ──> paper | ours | ratio | why
//! ```
//!
//! A [`Study`] is a paper: its figures as runs, its statements. A *setting* is the testbed as one figure has
//! it: `main` for most. Figures share runs: each is made once.

mod bytefs;
mod devfs;
mod export;
mod orchfs;
mod pebblessd;
mod plan;
mod spfs;
mod study;
mod table;
mod verdict;

pub use bytefs::{Recovery, recovery, sensitivity};
pub use export::{claims_csv, claims_json, claims_page};
pub use plan::{Plan, Planned};
pub use study::{Alone, MAIN, Results, Study};
pub use table::{claims_table, matrix_table, sensitivity_table, warnings_text};
pub use verdict::{Judged, Paper};

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
