//! The granary command line: reads arguments, calls the lab, prints. It knows everything and decides nothing.
//!
//! stdout is data, stderr is talk. Exit codes: 0 done, 1 a check found something, 2 usage or environment.

#![warn(clippy::print_stdout, clippy::print_stderr, reason = "out.rs is the way to both")]

#[macro_use]
mod out;

mod cli;
mod cmd;
mod failure;
#[cfg(test)]
mod hints;
mod keep;
mod progress;
mod speed;

use clap::Parser;
use cli::{Cli, Command};
use failure::Failure;
use std::process::ExitCode;

/// A simulation is made of millions of small nodes, and a page for each page of the drive: its arenas in
/// large pages take a hundredth of the page faults (docs/BENCHMARKS.md, "The allocator").
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if matches!(cli.command, Command::Run(_) | Command::Reproduce(_) | Command::Drive(_) | Command::Crash(_))
    {
        keep::keep(); // simulations end; a mount stays
    }
    let result = match cli.command {
        Command::Run(args) => done(cmd::run::run(&args)),
        Command::Reproduce(args) => done(cmd::reproduce::run(&args)),
        Command::Workload(cmd) => done(cmd::workload::run(&cmd)),
        Command::Testbed(cmd) => cmd::testbed::run(&cmd).map_err(Failure::from),
        Command::Mkfs(args) => done(cmd::mkfs::run(&args)),
        Command::Grow { path, size } => done(cmd::grow::run(&path, size)),
        Command::Fsck { image, repair, stack, json } => {
            cmd::fsck::run(&image, stack.dir.as_deref(), repair, json).map_err(Failure::from)
        }
        Command::Mount(args) => done(cmd::mount::run(&args)),
        Command::Exec(args) => done(cmd::exec::run(&args)),
        Command::Export(args) => done(cmd::export::run(&args)),
        Command::Calibrate(args) => cmd::calibrate::run(&args),
        Command::Umount(args) => done(cmd::umount::run(&args)),
        Command::Stat(args) => match &args.stack.dir {
            Some(dir) => done(cmd::stat::run_stacked(&args.path, dir, args.json)),
            None => done(cmd::live::run(&args)),
        },
        Command::Lscp { image, snapshots, json } => done(cmd::checkpoints::list(&image, snapshots, json)),
        Command::Mkcp { image, snapshot } => done(cmd::checkpoints::make(&image, snapshot)),
        Command::Chcp { mode, image, number } => done(cmd::checkpoints::change(&image, mode, &number)),
        Command::Rmcp { image, number } => done(cmd::checkpoints::end(&image, &number)),
        Command::Ls { image, paths, stack, long } => {
            cmd::ls::run(&image, stack.dir.as_deref(), &paths, long).map_err(Failure::from)
        }
        Command::Cat { image, paths, stack } => {
            cmd::cat::run(&image, stack.dir.as_deref(), &paths).map_err(Failure::from)
        }
        Command::CpIn { image, paths } => cmd::cp_in::run(&image, &paths).map_err(Failure::from),
        Command::CpOut { image, paths, stack } => {
            cmd::cp_out::run(&image, stack.dir.as_deref(), &paths).map_err(Failure::from)
        }
        Command::Crash(args) => cmd::crash::run(&args),
        Command::Drive(cmd) => done(cmd::drive::run(&cmd)),
        Command::Completions { shell } => done(cmd::completions::run(shell)),
        Command::Man { out } => done(cmd::man::run(out.as_deref())),
    };
    let result = result.and_then(|code| {
        out::finish().map_err(|e| Failure::io("writing to stdout", e))?;
        Ok(code)
    });
    match result {
        Ok(code) => code,
        Err(e) => {
            out::flush();
            say!("granary: {e}");
            ExitCode::from(e.code())
        }
    }
}

fn done<E: Into<Failure>>(result: Result<(), E>) -> Result<ExitCode, Failure> {
    result.map(|()| ExitCode::SUCCESS).map_err(Into::into)
}
