//! `granary reproduce bytefs`: the paper's nine workloads on its five file systems; its numbers beside ours.

use crate::cli::ReproduceArgs;
use crate::cmd::run::{all, ended, write};
use crate::cmd::{interrupt, results};
use crate::failure::Failure;
use granary_lab::LabError;
use granary_lab::experiment::Origin;
use granary_lab::report::json_line;
use granary_lab::reproduce::{claims, claims_table, matrix, matrix_table, warnings_text};
use granary_lab::testbed::Testbed;
use std::fmt::Write as _;

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    if args.paper != "bytefs" {
        return Err(Failure::usage(format!("no experiments of '{}': there are those of bytefs", args.paper)));
    }
    let testbed = Testbed::load(&args.testbed, &args.set)?;
    let origin = Origin {
        testbed_file: Testbed::file(&args.testbed),
        notes: testbed.impostor(&args.testbed).into_iter().collect(),
        ..Origin::default()
    };
    let commit = env!("GRANARY_COMMIT");
    let mut experiments =
        matrix(&args.workload, &args.fs, &testbed, &args.set, args.scale, args.seed, commit)?;
    for e in &mut experiments {
        e.origin = origin.clone();
    }
    if let Some(dir) = &args.record {
        let io = |source| LabError::Io { what: format!("making {}", dir.display()), source };
        std::fs::create_dir_all(dir).map_err(io)?;
        for e in &mut experiments {
            e.record = Some(dir.join(format!("{}-{}.trace", e.workload.name, e.fs)));
        }
        interrupt::end_records_first()?;
    }
    let (records, failed) = all(&experiments, args.jobs);
    if records.is_empty() {
        return ended(&failed);
    }
    let mut json = String::new();
    for r in &records {
        let _ = writeln!(json, "{}", json_line(r));
    }
    let judged = claims(&records);
    let text = format!(
        "ByteFS (ASPLOS'25) at scale {} on {}, seed {}; bytes, pages and amplification with those of the drain\n\n{}\n\n{}\n{}",
        args.scale,
        args.testbed,
        args.seed,
        matrix_table(&records),
        claims_table(&judged),
        warnings_text(&records)
    );
    out!("{}", if args.json { &json } else { &text });
    if let Some(dir) = &args.out {
        write(dir, "results.jsonl", &json)?;
        write(dir, "results.txt", &text)?;
    }
    results::write(&args.export, &records)?;
    ended(&failed)
}
