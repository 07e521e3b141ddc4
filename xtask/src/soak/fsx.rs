//! Fsx: the crate `fsx` on mounted images, 5,000 operations for each seed; the image is checked at the end of each turn.
//!
//! Reads, writes, mappings of both kinds, truncates, punched holes (where the file system has them), copy_file_range. *Not*
//! O_DIRECT, which fsx cannot ([`super::calls`] can), nor posix_fallocate: fsx 0.3.2 takes the refusal of an empty range,
//! which POSIX demands, for a file system without it.
//! Fsx never unmaps what it maps, and the kernel walks all mappings of a file when it is cut: 20,000 at once take
//! twice as long as four times 5,000.

use super::Job;
use super::mounted::{self, Mounted, Work, run};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Operations for each seed.
const OPERATIONS: u64 = 5_000;

struct Fsx {
    name: String,
    fs: String,
    granary: PathBuf,
    done: AtomicU64,
}

/// One job for each file system.
pub(super) fn jobs(fs: &[String]) -> Result<Vec<Box<dyn Job>>, String> {
    let granary = mounted::granary()?;
    run(Command::new("fsx").arg("--version"))
        .map_err(|e| format!("fsx does not run: {e}\nnext: cargo install fsx"))?;
    let chosen = super::power::choose("file system", fs, mounted::ALL)?;
    let job = |fs: String| -> Box<dyn Job> {
        Box::new(Fsx { name: format!("fsx-{fs}"), fs, granary: granary.clone(), done: AtomicU64::new(0) })
    };
    Ok(chosen.into_iter().map(job).collect())
}

impl Job for Fsx {
    fn name(&self) -> &str {
        &self.name
    }

    fn explore(&self, seeds: Range<u64>) -> Vec<String> {
        mounted::explore(self, seeds)
    }

    fn summary(&self) -> String {
        format!("{} operations of fsx", self.done.load(Relaxed))
    }
}

impl Work for Fsx {
    fn kind(&self) -> &str {
        "fsx"
    }

    fn fs(&self) -> &str {
        &self.fs
    }

    fn granary(&self) -> &Path {
        &self.granary
    }

    fn seed(&self, mounted: &Mounted, seed: u64) -> Result<(), String> {
        // NOVA and PMFS punch no holes, like their originals.
        let punch = u32::from(!matches!(self.fs.as_str(), "nova" | "pmfs"));
        let weights = format!("[weights]\npunch_hole = {punch}\nposix_fallocate = 0\ncopy_file_range = 1\n");
        let config = mounted.place().join("fsx.toml");
        std::fs::write(&config, weights).map_err(|e| format!("{}: {e}", config.display()))?;
        let (operations, seed) = (OPERATIONS.to_string(), seed.to_string());
        let mut fsx = Command::new("fsx");
        fsx.arg("-f").arg(config).arg("-P").arg(mounted.place());
        fsx.args(["-N", &operations, "-S", &seed]).arg(mounted.dir().join("file"));
        self.done.fetch_add(OPERATIONS, Relaxed);
        mounted.bounded(|| run(&mut fsx))
    }
}
