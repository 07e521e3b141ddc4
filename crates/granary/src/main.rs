//! The granary command line: reads arguments, calls the lab, prints. It knows everything and decides nothing.
//!
//! stdout is data, stderr is talk. Exit codes: 0 done, 1 a check found something, 2 usage or environment.

mod cli;
mod commands {
    //! One module per command.
    pub mod completions;
    pub mod run;
    pub mod testbed;
    pub mod workload;
}
mod progress;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Run(args) => commands::run::run(&args),
        Command::Workload(cmd) => commands::workload::run(&cmd),
        Command::Testbed(cmd) => commands::testbed::run(&cmd),
        Command::Completions { shell } => commands::completions::run(shell),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("granary: {e}");
            ExitCode::from(2)
        }
    }
}
