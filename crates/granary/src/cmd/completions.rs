//! `granary completions SHELL`.

use crate::cli::Cli;
use clap::CommandFactory;
use granary_lab::LabError;

/// Prints the completion script.
pub fn run(shell: clap_complete::Shell) -> Result<(), LabError> {
    // It panics where it cannot write, so not to stdout itself.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "granary", &mut script);
    crate::out::bytes(&script);
    Ok(())
}
