//! Fsx: the crate `fsx` on mounted images, 5,000 operations for each seed; the image is checked at the end of
//! each turn.
//!
//! Reads, writes, mappings of both kinds, truncates, punched holes (where the file system has them),
//! copy_file_range. *Not* O_DIRECT, which fsx cannot ([`super::calls`] can), nor posix_fallocate: fsx 0.3.2
//! takes the refusal of an empty range, which POSIX demands, for a file system without it. Fsx never unmaps
//! what it maps, and the kernel walks all mappings of a file when it is cut: 20,000 at once take twice as
//! long as four times 5,000.

use super::mounted::{Mounted, Work, run};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Operations for each seed.
const OPERATIONS: u64 = 5_000;

/// See the module.
#[derive(Clone, Copy)]
pub(super) struct Fsx;

impl Work for Fsx {
    const KIND: &'static str = "fsx";
    const UNIT: &'static str = "operations of fsx";

    fn ready(self) -> Result<(), String> {
        run(Command::new("fsx").arg("--version"))
            .map_err(|e| format!("fsx does not run: {e}\nnext: cargo install fsx"))
    }

    fn seed(self, mounted: &Mounted, _: &str, seed: u64, done: &AtomicU64) -> Result<(), String> {
        let punch = u32::from(punches(&mounted.dir())?);
        let weights = format!("[weights]\npunch_hole = {punch}\nposix_fallocate = 0\ncopy_file_range = 1\n");
        let config = mounted.place().join("fsx.toml");
        std::fs::write(&config, weights).map_err(|e| format!("{}: {e}", config.display()))?;
        let (operations, seed) = (OPERATIONS.to_string(), seed.to_string());
        let mut fsx = Command::new("fsx");
        fsx.arg("-f").arg(config).arg("-P").arg(mounted.place());
        fsx.args(["-N", &operations, "-S", &seed]).arg(mounted.dir().join("file"));
        done.fetch_add(OPERATIONS, Relaxed);
        mounted.bounded(|| run(&mut fsx))
    }
}

/// Whether a file here can get a hole: some file systems refuse that, like their originals.
fn punches(dir: &Path) -> Result<bool, String> {
    let path = dir.join("punches");
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let file = std::fs::File::create(&path).map_err(|e| failed(&e))?;
    let punched = fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 4096);
    std::fs::remove_file(&path).map_err(|e| failed(&e))?;
    match punched {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP) => Ok(false),
        Err(e) => Err(failed(&e)),
    }
}
