//! Long checks that do not belong into `cargo test`: `cargo xtask soak`.
//!
//! Exit codes: 0 nothing found, 1 a check found something, 2 usage or environment.

mod soak;
#[path = "../../crates/granary-crash/tests/common/targets.rs"]
mod targets;

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
}

fn main() -> ExitCode {
    let Task::Soak(args) = Cli::parse().task;
    match soak::run(&args) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(what) => {
            eprintln!("error: {what}");
            ExitCode::from(2)
        }
    }
}
