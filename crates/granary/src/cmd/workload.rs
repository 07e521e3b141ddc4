//! `granary workload list|show`.

use crate::cli::WorkloadCommand;
use granary_lab::LabError;
use granary_workload::{Workload, builtin, list};

/// Runs the command.
pub fn run(command: &WorkloadCommand) -> Result<(), LabError> {
    match command {
        WorkloadCommand::List => {
            for w in list() {
                outln!("{:<12} {}", w.name, w.about);
            }
        }
        WorkloadCommand::Show { name } => {
            if let Some(text) = builtin(name) {
                out!("{text}");
            } else {
                // Fails with the nearest names.
                Workload::from_builtin(name, &[])?;
            }
        }
    }
    Ok(())
}
