//! [`Plan`]: how large, on what, from which seed; and what every study's plan checks and makes in the same
//! way.

use super::study::Study;
use granary_lab::LabError;
use granary_lab::experiment::{Experiment, Origin};
use granary_testbed::Testbed;
use granary_workload::Workload;

/// A run to be made.
#[derive(Clone)]
pub struct Planned {
    /// Its setting.
    pub setting: String,
    /// Its experiment.
    pub experiment: Experiment,
}

/// Parameters of the runs: testbed, size, selection.
pub struct Plan<'a> {
    /// The testbed's name or path.
    pub testbed: &'a str,
    /// Changes to it.
    pub set: &'a [String],
    /// Factor on files and operations; of oltp, on the time.
    pub scale: f64,
    /// Root seed.
    pub seed: u64,
    /// The commit this program was built from.
    pub commit: &'a str,
    /// Workloads to leave out all others; none: all.
    pub workloads: &'a [String],
    /// The same of file systems.
    pub file_systems: &'a [String],
}

impl Plan<'_> {
    /// The runs of a study for these figures, in a fixed order.
    ///
    /// # Errors
    /// A figure, workload, file system or testbed that is not there; no such scale.
    pub fn runs(&self, study: &Study, figures: &[String]) -> Result<Vec<Planned>, LabError> {
        if let Some(unknown) = figures.iter().find(|f| !study.figures.contains(&f.as_str())) {
            let known = study.figures.join(", ");
            return Err(LabError::Usage(format!("there is no figure `{unknown}`: choose from {known}")));
        }
        if let Some(name) = self.workloads.iter().find(|w| !study.workloads.contains(&w.as_str())) {
            let known = study.workloads.join(", ");
            return Err(LabError::Usage(format!("the paper has no workload `{name}`: choose from {known}")));
        }
        self.file_systems.iter().try_for_each(|fs| granary_testbed::registry::find(fs).map(drop))?;
        (study.plan)(self, figures)
    }

    /// The testbed of the main setting, with nothing scaled: what a drive alone is made of.
    ///
    /// # Errors
    /// As [`Testbed::load`].
    pub fn whole(&self) -> Result<Testbed, LabError> {
        Ok(Testbed::load(self.testbed, self.set)?)
    }

    /// Leaves out the workloads and file systems that were not asked for.
    pub(super) fn keep(&self, runs: &mut Vec<(String, &str, &str)>) {
        let wanted = |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
        runs.retain(|(_, w, fs)| wanted(self.workloads, w) && wanted(self.file_systems, fs));
    }

    /// One run: a workload, scaled already, on a file system, on the testbed that these changes make.
    ///
    /// # Errors
    /// As [`Testbed::load`].
    pub(super) fn experiment(
        &self,
        workload: Workload,
        fs: &str,
        set: Vec<String>,
        note: Option<&str>,
    ) -> Result<Experiment, LabError> {
        let testbed = Testbed::load(self.testbed, &set)?;
        let origin = Origin {
            testbed_file: Testbed::file(self.testbed),
            notes: note.map(str::to_owned).into_iter().chain(testbed.impostor(self.testbed)).collect(),
            ..Origin::default()
        };
        Ok(Experiment {
            workload,
            scale: self.scale,
            fs: fs.to_owned(),
            testbed,
            set,
            origin,
            seed: self.seed,
            commit: self.commit.to_owned(),
            record: None,
            changed_lines: 0.0,
            then_clean: None,
            then_overwrite: false,
        })
    }
}
