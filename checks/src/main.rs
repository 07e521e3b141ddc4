//! Long checks that do not belong into `cargo test`: `cargo xtask soak`, `cargo xtask plants`, `cargo xtask
//! fuzz`. `xtask` hands them on to this program, which needs the whole house.
//!
//! Exit codes: 0 nothing found, 1 a check found something, 2 usage or environment.

#![warn(clippy::print_stdout, clippy::print_stderr, reason = "out.rs is the way to both")]

#[path = "../../crates/granary/src/out.rs"]
#[macro_use]
#[allow(dead_code, unused_macros, reason = "shared with the command line, which uses all of it")]
mod out;
mod fuzz;
mod plants;
mod soak;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Long checks of Granary")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

/// As in the command line: lives of a file system are made of small nodes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Subcommand)]
enum Task {
    /// Explores power failures or schedules by the thousand; goes on where it stopped last time.
    Soak(soak::Args),
    /// Looks for the bugs that are planted for the crash explorer.
    Plants(plants::Args),
    /// Tries input from outside: images, headers, logs, commands, workloads, job files, testbeds, traces.
    Fuzz(fuzz::Args),
}

fn main() -> ExitCode {
    let found = match Cli::parse().task {
        Task::Soak(args) => soak::run(&args),
        Task::Plants(args) => plants::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
    };
    let found = found.and_then(|found| {
        out::finish().map_err(|e| format!("writing to stdout: {e}"))?;
        Ok(found)
    });
    match found {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(what) => {
            say!("error: {what}");
            ExitCode::from(2)
        }
    }
}
