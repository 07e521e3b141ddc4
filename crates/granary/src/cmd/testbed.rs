//! `granary testbed list|show`.

use crate::cli::TestbedCommand;
use granary_lab::LabError;
use granary_lab::testbed::{self, Testbed};

/// Runs the command.
pub fn run(command: &TestbedCommand) -> Result<(), LabError> {
    match command {
        TestbedCommand::List => {
            for (name, _) in testbed::builtins() {
                println!("{name:<18} {}", Testbed::load(name, &[])?.description);
            }
        }
        TestbedCommand::Show { name } => print!("{}", testbed::text(name)?),
    }
    Ok(())
}
