//! `granary completions SHELL`.

use crate::cli::Cli;
use clap::CommandFactory;
use granary_lab::LabError;

/// Prints the completion script.
pub fn run(shell: clap_complete::Shell) -> Result<(), LabError> {
    clap_complete::generate(shell, &mut Cli::command(), "granary", &mut std::io::stdout());
    Ok(())
}
