//! `cargo xtask guides`: follows the guides for authors word for word, in a clone of this tree.
//!
//! ```text
//!   git clone . target/guides/tree ── all ```sh blocks of a guide, one after the other,
//!                                     in one shell that stops at the first error
//! ```
//!
//! It builds the released program, so it takes as long as that.

mod blocks;

use blocks::commands;
use clap::Args as ClapArgs;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The guides that are followed, in this order: both begin from a clean clone.
const GUIDES: [&str; 2] = ["docs/ADDING.md", "docs/ADDING_A_DRIVE.md"];
/// Where the clone is.
const PLACE: &str = "target/guides";

/// Arguments.
#[derive(ClapArgs)]
pub struct Args {
    /// Guides; docs/ADDING.md and docs/ADDING_A_DRIVE.md where left out
    guides: Vec<PathBuf>,
    /// Builds go here instead of into the clone, and stay for the next time
    #[arg(long, value_name = "DIR")]
    target: Option<PathBuf>,
}

/// Follows the guides; exit code 1 where a command of one fails.
///
/// # Errors
/// There is no git, no guide, or no commands in it.
pub fn run(args: &Args) -> Result<ExitCode, String> {
    let usual = GUIDES.map(PathBuf::from);
    let guides = if args.guides.is_empty() { &usual[..] } else { &args.guides };
    for guide in guides {
        let text = fs::read_to_string(guide).map_err(|e| format!("reading {}: {e}", guide.display()))?;
        let script = commands(&text);
        if script.is_empty() {
            return Err(format!("{} has no commands: blocks of them begin with ```sh", guide.display()));
        }
        let tree = clone(args.target.as_deref())?;
        println!("{}:", guide.display());
        let shell =
            Command::new("bash").args(["-euxo", "pipefail", "-c", &script]).current_dir(&tree).status();
        let done = shell.map_err(|e| format!("starting bash: {e}"))?;
        if !done.success() {
            println!("{}: a command failed; the tree is {}", guide.display(), tree.display());
            return Ok(ExitCode::from(1));
        }
        println!("{}: every command did what it should", guide.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// A clone of what is committed here.
fn clone(target: Option<&Path>) -> Result<PathBuf, String> {
    let tree = Path::new(PLACE).join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(|e| format!("removing {}: {e}", tree.display()))?;
    }
    fs::create_dir_all(PLACE).map_err(|e| format!("making {PLACE}: {e}"))?;
    let git = |args: &[&str]| {
        let done = Command::new("git").args(args).output().map_err(|e| format!("starting git: {e}"))?;
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
            false => Err(format!("git {}: {}", args.join(" "), String::from_utf8_lossy(&done.stderr).trim())),
        }
    };
    if !git(&["status", "--porcelain"])?.is_empty() {
        println!("what is not committed is not in the clone");
    }
    let to = tree.to_string_lossy().into_owned();
    git(&["clone", "--quiet", ".", &to])?;
    if let Some(target) = target {
        fs::create_dir_all(target).map_err(|e| format!("making {}: {e}", target.display()))?;
        let target = target.canonicalize().map_err(|e| format!("{}: {e}", target.display()))?;
        std::os::unix::fs::symlink(&target, tree.join("target")).map_err(|e| format!("linking: {e}"))?;
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_a_guide_are_those_of_its_shell_blocks() {
        let text = "one\n```sh\na b\n\nc\n```\n```rust\nd\n```\n```sh\ne\n```\n";
        assert_eq!(commands(text), "a b\n\nc\ne\n");
        assert_eq!(commands("```rust\na\n```\n"), "");
    }

    #[test]
    fn each_guide_makes_tests_runs_and_crashes_what_it_adds() {
        for guide in GUIDES {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(guide);
            let script = commands(&fs::read_to_string(file).expect("a guide"));
            for needed in ["cargo xtask new-", "cargo test -p ", "granary run varmail", "granary crash --fs"]
            {
                assert!(script.contains(needed), "{guide}: {needed}");
            }
        }
    }
}
