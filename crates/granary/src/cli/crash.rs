//! Arguments of `crash`.

use clap::{Args, ValueEnum};
use granary_crash::{Calls, Campaign, Effort, Loss, Path};
use granary_units::Nanos;
use std::path::PathBuf;
use std::str::FromStr;

/// Which crash images of a run are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Half of them in rare steps (a journal that wraps, garbage collection), half anywhere; two draws of
    /// what is lost in each
    Sample,
    /// Before and after every command of the run
    Linear,
    /// As sample, and of each image every state that the devices may be left in, up to 64
    Exhaustive,
    /// As sample, and in each run, not in one of eight, some writes of content fail, and behind it commands
    /// for metadata do: fsync must tell
    Errors,
    /// Behind each power failure of the run the recovery is interrupted, that recovery as well, and so on: as
    /// many recoveries as --nested says
    Nested,
    /// No power failure: flipped bits, lost, stale, torn, misdirected and unreadable pages in what a run has
    /// left
    Media,
}

impl Mode {
    /// How much of each run is looked at.
    pub fn effort(self) -> Effort {
        match self {
            Mode::Sample | Mode::Errors | Mode::Media => Effort::default(),
            Mode::Linear => Effort { anywhere: 0, in_steps: 0, linear: true, draws: 1, ..Effort::default() },
            Mode::Nested => Effort { draws: 1, nested: true, ..Effort::default() },
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
    /// The only calls to make; all where it names none.
    pub only: Option<Calls>,
    /// Pages and lines that the last power failure takes; those that were drawn where it names none.
    pub loss: Option<Loss>,
}

impl FromStr for Replay {
    type Err = String;

    fn from_str(text: &str) -> Result<Replay, String> {
        let (seed, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut parts = rest.split(':');
        let (path, mut only, mut loss) = (parts.next().unwrap_or(""), None, None);
        for part in parts {
            match part {
                part if Loss::begins(part) && loss.is_none() => loss = Some(part.parse()?),
                part if only.is_none() && loss.is_none() => only = Some(part.parse()?),
                part => {
                    return Err(format!(
                        "'{part}' is one part too many: write RUN:PLACE, then calls (for example 1.3,1.7-9,2.4), then what is lost"
                    ));
                }
            }
        }
        let (seed, errors) = match seed.strip_prefix('e') {
            Some(seed) => (seed, true),
            None => (seed, false),
        };
        let seed = seed
            .parse()
            .map_err(|_| format!("'{seed}' is no number of a run: write for example 17:l812+.0"))?;
        Ok(Replay { seed, errors, path: path.parse()?, only, loss })
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
    /// File systems, or crash cases of them (`granary crash --list` names all); all where left out. A name
    /// without an `@` stands for the usual devices and, on an SSD, for `@volatile`; `@usual` is the first
    /// alone
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub fs: Vec<String>,
    /// Loads (`granary crash --list` names all), files (Filebench, fio, traces) or short programs; all named
    /// ones where left out
    #[arg(long, value_name = "LOAD")]
    pub load: Vec<String>,
    /// List file systems and loads
    #[arg(long, conflicts_with_all = ["fs", "load"])]
    pub list: bool,
    /// Crash points of each file system, shared by its loads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub points: Option<u64>,
    /// Seconds for all; 60 where neither points nor time are given
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    pub time: Option<Nanos>,
    /// Which crash images are looked at
    #[arg(long, value_enum, default_value_t = Mode::Sample)]
    pub mode: Mode,
    /// Power failures one after the other, at most: the second in the recovery from the first, or in the load
    /// behind it. With --mode nested: interrupted recoveries behind each power failure
    #[arg(long, value_name = "N", default_value_t = Campaign::NESTED, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub nested: u32,
    /// Number of the first run of each load
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Runs at a time; one for each core of this machine where left out, fewer where there is no memory for
    /// them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Seconds of this machine's clock after which a life (mount, load, checks), or mkfs, is told as a
    /// failure; the program ends then
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    pub patience: u64,
    /// Stop at the first failure, and tell that alone
    #[arg(long)]
    pub stop: bool,
    /// Do one crash point once more, as a report names it, with all calls or those named alone, and with what
    /// is lost as named or as drawn; needs one file system and one load
    #[arg(
        long,
        value_name = "RUN:PLACE[:CALLS][:LOST]",
        conflicts_with_all = ["list", "points", "time", "mode", "nested", "seed", "stop", "failures"]
    )]
    pub replay: Option<String>,
    /// Do not look for the fewest calls that lead to each of the first failures, which takes up to 20 seconds
    /// each
    #[arg(long)]
    pub no_minimise: bool,
    /// File of failures: those in it are tried first, and stay until they pass; new ones are added. A line
    /// whose place the code no longer has stays, and says so
    #[arg(long, value_name = "FILE")]
    pub failures: Option<PathBuf>,
    /// Print a JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Instead, a file system of this machine's kernel (ext4, xfs, btrfs), mounted on a drive that is
    /// recorded; needs root. Loads are `torture`, `programs`, or a short program
    #[arg(long, value_name = "FS", conflicts_with_all = ["fs", "list", "mode", "nested", "failures", "no_minimise"])]
    pub kernel: Option<String>,
    /// Keep the devices of the first failure that is found, or of the point that is replayed, as the power
    /// failure left them: in a new image at this path, for `granary fsck`, `mount`, `ls`. With --kernel: a
    /// directory for an image of each state that is complained about
    #[arg(long, value_name = "PATH")]
    pub keep_image: Option<PathBuf>,
    /// For tests: the drive lies about FLUSH; without --kernel no flush does anything
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
        let replay: Replay = "17:l812+.0:1.3:lost=ssd.cached.12".parse().expect("a replay");
        assert_eq!(replay.loss.expect("a loss").to_string(), "lost=ssd.cached.12");
        let replay: Replay = "17:m3+.0:kept=none".parse().expect("a replay");
        assert!(replay.only.is_none() && replay.loss.is_some());
        for wrong in ["17:l812+.0:kept=none:1.2", "17:l812+.0:", "17:l812+.0:1", "17:l812+.0:1.2:1.3"] {
            assert!(wrong.parse::<Replay>().expect_err(wrong).contains("1.3,1.7-9,2.4"), "{wrong}");
        }
    }
}
