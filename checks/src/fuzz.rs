//! `cargo xtask fuzz`: inputs from outside by the hundred thousand, on stable, each under a number that
//! replays it.

use clap::Args as ClapArgs;
use granary_fuzz::campaign::input;
use granary_fuzz::{Kind, campaign};
use std::path::{Path, PathBuf};

/// Arguments of `fuzz`.
#[derive(ClapArgs)]
pub struct Args {
    /// Kinds of input; all where left out.
    #[arg(long, value_delimiter = ',')]
    kind: Vec<String>,
    /// Inputs of each kind.
    #[arg(long, default_value_t = 10_000)]
    runs: u64,
    /// First number.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Puts inputs that did what none may into this directory.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Writes the inputs into this directory and runs none of them: a corpus that cargo-fuzz can begin with.
    #[arg(long, value_name = "DIR", conflicts_with = "keep")]
    corpus: Option<PathBuf>,
}

/// Inputs between two lines of progress.
const TURN: u64 = 1000;

/// Runs them; returns the number of findings.
pub fn run(args: &Args) -> Result<u64, String> {
    let all = || Kind::all().map(Kind::name).collect::<Vec<_>>();
    let names = if args.kind.is_empty() { all() } else { args.kind.clone() };
    let mut found = 0;
    for dir in args.keep.iter().chain(&args.corpus) {
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    }
    // A panic is told of below, with what replays it.
    std::panic::set_hook(Box::new(|_| {}));
    for name in names {
        let kind =
            Kind::named(&name).ok_or_else(|| format!("--kind {name}: there are {}", all().join(", ")))?;
        let (end, mut of_kind) = (args.from.saturating_add(args.runs), 0);
        if let Some(dir) = &args.corpus {
            let seeds = kind.seeds();
            for number in args.from..end {
                write(dir, &name, number, &input(kind, &seeds, number))?;
            }
            outln!("{name}: {} inputs in {}", args.runs, dir.display());
            continue;
        }
        for first in (args.from..end).step_by(TURN as usize) {
            for finding in campaign(kind, first..end.min(first.saturating_add(TURN))) {
                of_kind += 1;
                let replay = granary_fuzz::campaign::replay(kind, finding.number);
                outln!("{name} {}: {}\n  replay: {replay}", finding.number, finding.what);
                if let Some(dir) = &args.keep {
                    write(dir, &name, finding.number, &finding.bytes)?;
                }
            }
        }
        outln!("{name}: {} inputs, {of_kind} findings", args.runs);
        found += of_kind;
    }
    Ok(found)
}

/// Writes one input under its kind and number.
fn write(dir: &Path, name: &str, number: u64, bytes: &[u8]) -> Result<(), String> {
    let file = dir.join(format!("{name}-{number}"));
    std::fs::write(&file, bytes).map_err(|e| format!("{}: {e}", file.display()))
}
