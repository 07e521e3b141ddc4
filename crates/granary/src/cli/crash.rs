//! Arguments of `crash`.

use clap::{Args, ValueEnum};
use granary_crash::{Calls, Campaign, Effort, Path};
use granary_units::Nanos;
use std::path::PathBuf;
use std::str::FromStr;

/// Which crash images of a run are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Half of them in rare steps (a journal that wraps, garbage collection), half anywhere; two draws of what is lost in each
    Sample,
    /// Before and after every command of the run
    Linear,
    /// As sample, and of each image every state that the devices may be left in, up to 64
    Exhaustive,
    /// As sample, and in each run, not in one of eight, some writes of content fail, and behind it commands for metadata do: fsync must tell
    Errors,
    /// No power failure: flipped bits, lost, stale, torn, misdirected and unreadable pages in what a run has left
    Media,
}

impl Mode {
    /// How much of each run is looked at.
    pub fn effort(self) -> Effort {
        match self {
            Mode::Sample | Mode::Errors | Mode::Media => Effort::default(),
            Mode::Linear => Effort { anywhere: 0, in_steps: 0, linear: true, draws: 1, ..Effort::default() },
            Mode::Exhaustive => Effort { draws: 64, exhaustive: true, ..Effort::default() },
        }
    }
}

/// A run and the places of its power failures, as a report names them.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The run.
    pub seed: u64,
    /// Block writes fail in it.
    pub errors: bool,
    /// Where the power fails.
    pub path: Path,
    /// The calls that alone are made; all where it names none.
    pub only: Option<Calls>,
}

impl FromStr for Replay {
    type Err = String;

    fn from_str(text: &str) -> Result<Replay, String> {
        let (seed, rest) = text.split_once(':').unwrap_or((text, ""));
        let (path, only) = match rest.split_once(':') {
            Some((path, only)) => (path, Some(only.parse()?)),
            None => (rest, None),
        };
        let (seed, errors) = match seed.strip_prefix('e') {
            Some(seed) => (seed, true),
            None => (seed, false),
        };
        let seed = seed
            .parse()
            .map_err(|_| format!("'{seed}' is no number of a run: write for example 17:l812+.0"))?;
        Ok(Replay { seed, errors, path: path.parse()?, only })
    }
}

/// How a drive lies about FLUSH: whether the explorer finds it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lie {
    /// The last flush before the power failure did nothing
    LastFlush,
    /// No flush did anything
    Flushes,
}

/// Arguments of `granary crash`.
#[derive(Args, Clone)]
pub struct CrashArgs {
    /// File systems, or crash cases of them (`granary crash --list` names all); all where left out
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub fs: Vec<String>,
    /// Loads (`granary crash --list` names all), files (Filebench, fio, traces) or short programs; all named ones where left out
    #[arg(long, value_name = "LOAD")]
    pub load: Vec<String>,
    /// List file systems and loads
    #[arg(long)]
    pub list: bool,
    /// Crash points of each file system
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub points: Option<u64>,
    /// Seconds for all; 60 where neither points nor time are given
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    pub time: Option<Nanos>,
    /// Which crash images are looked at
    #[arg(long, value_enum, default_value_t = Mode::Sample)]
    pub mode: Mode,
    /// Power failures one after the other, at most: the second in the recovery from the first, or in the load behind it
    #[arg(long, value_name = "N", default_value_t = Campaign::NESTED, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub nested: u32,
    /// Number of the first run of each load
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Runs at a time; one for each core of this machine where left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Stop at the first failure
    #[arg(long)]
    pub stop: bool,
    /// Do one crash point once more, as a report names it, with all calls or those named alone; needs one file system and one load
    #[arg(long, value_name = "RUN:PLACE[:CALLS]")]
    pub replay: Option<String>,
    /// Do not look for the fewest calls that lead to each of the first failures, which takes up to 20 seconds each
    #[arg(long)]
    pub no_minimise: bool,
    /// File of failures: those in it are tried first, and stay until they pass; new ones are added
    #[arg(long, value_name = "FILE")]
    pub failures: Option<PathBuf>,
    /// Print a JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Instead, a file system of this machine's kernel (ext4, xfs, btrfs), mounted on a drive that is recorded; needs root. Loads are
    /// `torture`, `programs`, or a short program
    #[arg(long, value_name = "FS", conflicts_with_all = ["fs", "list", "mode", "nested", "failures", "no_minimise"])]
    pub kernel: Option<String>,
    /// With --kernel: an image of each state that is complained about is kept in this directory, as the power failure left it
    #[arg(long, value_name = "DIR")]
    pub keep_image: Option<PathBuf>,
    /// With --kernel, for tests: the drive lies about FLUSH
    #[arg(long, value_enum, hide = true)]
    pub lie: Option<Lie>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_names_a_run_a_place_and_calls() {
        let replay: Replay = "e17:l812+.0/r3-.1:1.3,1.7-9".parse().expect("a replay");
        assert!(replay.errors && replay.seed == 17);
        assert_eq!(replay.path.to_string(), "l812+.0/r3-.1");
        assert_eq!(replay.only.expect("calls").to_string(), "1.3,1.7-9");
        assert!("17:l812+.0".parse::<Replay>().expect("a replay").only.is_none());
        for wrong in ["17:l812+.0:", "17:l812+.0:1", "17:l812+.0:1.2:1.3"] {
            assert!(wrong.parse::<Replay>().expect_err(wrong).contains("1.3,1.7-9,2.4"), "{wrong}");
        }
    }
}
