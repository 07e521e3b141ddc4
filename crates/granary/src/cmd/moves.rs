//! `granary drive bench move` and `granary drive space`: PebbleSSD's remap beside read and write, and its
//! tables.

use crate::progress::Fraction;
use clap::Args;
use granary_bench::moves::{self, MoveBench};
use granary_lab::LabError;
use granary_testbed::Testbed;

/// Arguments of `drive bench move`.
#[derive(Args)]
pub struct MoveArgs {
    /// Moves of each thread
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub moves: u64,
    /// Pages of one move
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub pages: u64,
    /// Built-in testbed (see `granary testbed list`) or path of a .toml file; its drive must have BAM
    #[arg(long, default_value = "pebblessd")]
    pub testbed: String,
    /// Change a value of the testbed; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Root seed: equal seeds give equal results
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print a JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `drive space`.
#[derive(Args)]
pub struct SpaceArgs {
    /// Built-in testbed or path of a .toml file; its drive must have BAM
    #[arg(long, default_value = "pebblessd")]
    pub testbed: String,
    /// Change a value of the testbed; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Runs `drive bench move`.
pub fn run(args: &MoveArgs) -> Result<(), LabError> {
    let testbed = Testbed::load(&args.testbed, &args.set)?;
    if args.moves == 0 || args.pages == 0 {
        return Err(LabError::Usage("--moves and --pages must be at least 1".to_owned()));
    }
    let bench = MoveBench {
        testbed: &testbed.name,
        ssd: testbed.ssd()?,
        costs: &testbed.host.costs,
        moves: args.moves,
        pages: args.pages,
        seed: args.seed,
    };
    let bar = Fraction::new();
    let record = bench.run(|part| bar.set("move", part));
    bar.finish();
    let record = record?;
    if args.json {
        outln!(
            "{}",
            serde_json::to_string(&record).expect("a record has only string keys and finite numbers")
        );
    } else {
        out!("{}", moves::table(&record));
    }
    Ok(())
}

/// Runs `drive space`.
pub fn space(args: &SpaceArgs) -> Result<(), LabError> {
    let testbed = Testbed::load(&args.testbed, &args.set)?;
    out!("{}", moves::space(&testbed.name, testbed.ssd()?)?);
    Ok(())
}
