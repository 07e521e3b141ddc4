//! `--replay`: one point once more.

use super::told::Told;
use super::{CrashArgs, explorer, keep, shortened, tables};
use crate::cli::crash::Replay;
use crate::cmd::interrupt::Stop;
use crate::failure::Failure;
use granary_crash::{Load, Target};
use std::process::ExitCode;
use std::slice::from_ref;
use std::sync::Arc;

/// Does the point of the arguments once more.
pub(super) fn again(
    args: &CrashArgs,
    text: &str,
    targets: &[Arc<dyn Target>],
    loads: &[Arc<dyn Load>],
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    let replay: Replay = text.parse().map_err(Failure::usage)?;
    if replay.path.0.is_empty() {
        return Err(Failure::usage("--replay needs a place in the run: write for example 17:l812+.0"));
    }
    let ([target], [load]) = (targets, loads) else {
        return Err(Failure::usage(
            "--replay needs --fs and --load with one name each, as the report names them",
        ));
    };
    if let Some(runs) = load.runs().filter(|runs| replay.seed >= *runs) {
        let what =
            format!("load {} has runs 0 to {}, there is no run {}", load.name(), runs - 1, replay.seed);
        return Err(Failure::usage(what));
    }
    let told = |failures: Vec<serde_json::Value>| {
        let (fs, load) = (target.name(), load.name());
        outln!("{}", serde_json::json!({ "fs": fs, "load": load, "replay": text, "failures": failures }));
    };
    let mut explorer = match explorer(args, target, load) {
        Ok(explorer) => shortened(explorer, &replay),
        Err(failure) if failure.is_of_the_load() => return Err(Failure::usage(failure.evidence.join("; "))),
        Err(failure) => {
            match args.json {
                true => told(vec![tables::finding(&failure, &[])]),
                false => outln!("{failure}"),
            }
            return Ok(ExitCode::from(1));
        }
    };
    let ended = explorer.replay(replay.seed, &replay.path);
    let (failure, code) = match ended {
        Ok(()) => {
            match args.json {
                true => told(Vec::new()),
                false => outln!("nothing is wrong there"),
            }
            (explorer.passed(replay.seed, &replay.path), ExitCode::SUCCESS)
        }
        Err(failure) if failure.is_of_no_place() => {
            let what = failure.evidence.join("; ");
            return Err(Failure::usage(format!(
                "{what}: take the line as the report gives it, for the same code"
            )));
        }
        Err(failure) => {
            let of = Told::of(args, &mut explorer, &failure, stop);
            if args.json {
                told(vec![tables::finding(&failure, from_ref(&of))]);
            } else {
                outln!("{failure}");
                of.lines().iter().for_each(|line| outln!("  {line}"));
            }
            (failure, ExitCode::from(1))
        }
    };
    if let Some(path) = &args.keep_image {
        keep::keep(&mut explorer, &**target, &failure, path).map_err(|why| {
            match code == ExitCode::SUCCESS {
                true => why,
                // The failure that was found matters more.
                false => Failure::found(why.to_string()),
            }
        })?;
    }
    Ok(code)
}
