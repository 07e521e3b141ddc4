//! The granary command line: reads arguments, calls the lab, prints. It knows everything and decides nothing.
//!
//! stdout is data, stderr is talk. Exit codes: 0 done, 1 a check found something, 2 usage or environment.

mod cli;
mod cmd;
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
        Command::Run(args) => commands::run::run(&args).map(done),
        Command::Workload(cmd) => commands::workload::run(&cmd).map(done),
        Command::Testbed(cmd) => commands::testbed::run(&cmd).map(done),
        Command::Mkfs(args) => cmd::mkfs::run(&args).map(done),
        Command::Fsck { image, json } => cmd::fsck::run(&image, json),
        Command::Stat { image, json } => cmd::stat::run(&image, json).map(done),
        Command::Ls { image, paths, long } => cmd::ls::run(&image, &paths, long).map(done),
        Command::Cat { image, paths } => cmd::cat::run(&image, &paths).map(done),
        Command::CpIn { image, paths } => cmd::cp_in::run(&image, &paths).map(done),
        Command::CpOut { image, paths } => cmd::cp_out::run(&image, &paths).map(done),
        Command::Completions { shell } => commands::completions::run(shell).map(done),
    };
    match result {
        Ok(code) => code,
        Err(e) => {
            eprintln!("granary: {e}");
            ExitCode::from(2)
        }
    }
}

fn done((): ()) -> ExitCode {
    ExitCode::SUCCESS
}
