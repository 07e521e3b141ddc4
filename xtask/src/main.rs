//! Chores of the tree: `cargo xtask new-fs NAME`, `cargo xtask new-drive NAME`, `cargo xtask guides`,
//! `cargo xtask measures`. Long checks go on to
//! `granary-checks`, which cargo builds then: `cargo xtask soak`, `cargo xtask plants`, `cargo xtask fuzz`.
//!
//! Exit codes: 0 done or nothing found, 1 a check found something, 2 usage or environment.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its lines are few and for a terminal")]

mod guides;
mod measures;
mod new;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::{Command, ExitCode};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Long checks of Granary, and crates to begin from")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

/// Arguments that another program understands.
#[derive(clap::Args)]
struct Handed {
    /// See `--help` behind it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

#[derive(Subcommand)]
enum Task {
    /// Explores power failures or schedules by the thousand; goes on where it stopped last time
    #[command(disable_help_flag = true)]
    Soak(Handed),
    /// Looks for the bugs that are planted for the crash explorer
    #[command(disable_help_flag = true)]
    Plants(Handed),
    /// Tries input from outside: images, headers, logs, commands, workloads, job files, testbeds, traces
    #[command(disable_help_flag = true)]
    Fuzz(Handed),
    /// Makes and registers a crate to begin a file system of one's own from
    NewFs(new::Args),
    /// Makes and registers a crate to begin a firmware of one's own from
    NewDrive(new::Args),
    /// Follows docs/ADDING.md and docs/ADDING_A_DRIVE.md word for word in a clone of this tree
    Guides(guides::Args),
    /// Measures the prose of documents and comments, and says what passes a limit
    Measures(measures::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Soak(handed) => checks("soak", &handed.args),
        Task::Plants(handed) => checks("plants", &handed.args),
        Task::Fuzz(handed) => checks("fuzz", &handed.args),
        Task::NewFs(args) => new::run(new::Kind::Fs, &args).map(|()| ExitCode::SUCCESS),
        Task::NewDrive(args) => new::run(new::Kind::Drive, &args).map(|()| ExitCode::SUCCESS),
        Task::Guides(args) => guides::run(&args),
        Task::Measures(args) => measures::run(&args),
    };
    done.unwrap_or_else(|what| {
        eprintln!("error: {what}");
        ExitCode::from(2)
    })
}

/// Runs a long check; its exit code is ours.
fn checks(task: &str, args: &[OsString]) -> Result<ExitCode, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--release", "--package", "granary-checks", "--", task]).args(args);
    let status = command.status().map_err(|e| format!("starting cargo: {e}"))?;
    // Without a code it was ended by a signal, as with Ctrl-C.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(130);
    Ok(ExitCode::from(code))
}
