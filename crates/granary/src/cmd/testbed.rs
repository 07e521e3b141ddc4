//! `granary testbed list|show|check|measure`.

use crate::cli::TestbedCommand;
use granary_lab::LabError;
use granary_testbed::{Testbed, TestbedError, builtin, builtins, figures, measure};
use std::process::ExitCode;

/// Runs the command.
pub fn run(command: &TestbedCommand) -> Result<ExitCode, LabError> {
    match command {
        TestbedCommand::List => {
            for (name, _) in builtins() {
                outln!("{name:<18} {}", Testbed::load(name, &[])?.description);
            }
        }
        TestbedCommand::Show { name, values: false } => out!("{}", builtin::text(name)?),
        TestbedCommand::Show { name, values: true } => out!("{}", Testbed::load(name, &[])?.values()),
        TestbedCommand::Check { files } => return check(files),
        TestbedCommand::Measure { names } => {
            let all: Vec<String> = builtins().map(|(name, _)| name.to_owned()).collect();
            for name in if names.is_empty() { &all } else { names } {
                outln!("## {name}\n\n{}", measure::markdown(&measure::measure(name)?));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Figures and warnings of each file; those that make no testbed are findings.
fn check(files: &[String]) -> Result<ExitCode, LabError> {
    let mut code = ExitCode::SUCCESS;
    for file in files {
        let testbed = match Testbed::load(file, &[]) {
            Err(e @ TestbedError::BadTestbed { .. }) => {
                outln!("{e}\n");
                code = ExitCode::from(1);
                continue;
            }
            other => other?,
        };
        outln!("{}: {}", testbed.name, testbed.description);
        for (name, value) in figures::figures(&testbed) {
            outln!("  {name:<32} {value}");
        }
        for warning in Testbed::warnings(file)? {
            outln!("warning: {warning}");
        }
        outln!();
    }
    Ok(code)
}
