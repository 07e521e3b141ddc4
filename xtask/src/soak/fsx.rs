//! Fsx: the crate `fsx` on mounted images, 5,000 operations for each seed; the image is checked at the end of each turn.
//!
//! ```text
//!   granary mkfs, mount --daemon ── fsx -N 5000 -S seed, seed by seed ── granary umount, fsck
//! ```
//!
//! Reads, writes, mappings of both kinds, truncates, punched holes (where the file system has them), copy_file_range. *Not*
//! O_DIRECT, which fsx cannot (`cargo test -p granary-mount --test mount calls_of_every_kind` with `GRANARY_OPS` does), nor
//! posix_fallocate: fsx 0.3.2 takes the refusal of an empty range, which POSIX demands, for a file system without it.
//! Fsx never unmaps what it maps, and the kernel walks all mappings of a file when it is cut: 20,000 at once take
//! twice as long as four times 5,000.

use super::Job;
use super::state::target_dir;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Operations for each seed.
const OPERATIONS: u64 = 5_000;
/// File systems that are mounted.
const ALL: &[&str] = &["bytefs", "ext4", "f2fs", "nova", "pmfs"];

struct Fsx {
    name: String,
    fs: String,
    granary: PathBuf,
    done: AtomicU64,
}

/// One job for each file system.
pub(super) fn jobs(fs: &[String]) -> Result<Vec<Box<dyn Job>>, String> {
    run(Command::new("fsx").arg("--version"))
        .map_err(|e| format!("fsx does not run: {e}\nnext: cargo install fsx"))?;
    let granary = target_dir().join("release/granary");
    if !granary.exists() {
        return Err(format!("{} is missing\nnext: cargo build --release", granary.display()));
    }
    let chosen = super::power::choose("file system", fs, ALL)?;
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
        let (first, mut failures) = (seeds.start, Vec::new());
        let replay = |from, points| {
            format!("  replay: cargo xtask soak --kind fsx --fs {} --from {from} --points {points}", self.fs)
        };
        let count = seeds.end - seeds.start;
        let place = target_dir().join(format!("soak/{}-{first}", self.name));
        let mount = match Mount::new(self, &place) {
            Ok(mount) => mount,
            Err(e) => return vec![format!("{}: {e}", self.fs)],
        };
        for seed in seeds {
            if let Err(e) = mount.fsx(seed) {
                failures.push(format!("seed {seed}, {}: {e}\n{}", self.fs, replay(seed, 1)));
            }
            self.done.fetch_add(OPERATIONS, Relaxed);
        }
        if let Err(e) = mount.end() {
            failures.push(format!("seeds {first} on, {}: {e}\n{}", self.fs, replay(first, count)));
        }
        failures
    }

    fn summary(&self) -> String {
        format!("{} operations of fsx", self.done.load(Relaxed))
    }
}

/// An image that is mounted.
struct Mount<'a> {
    job: &'a Fsx,
    place: PathBuf,
}

impl<'a> Mount<'a> {
    fn new(job: &'a Fsx, place: &Path) -> Result<Mount<'a>, String> {
        let failed = |e| format!("{}: {e}", place.display());
        if place.exists() {
            // Of a soak that was ended in the middle, perhaps still mounted.
            let _ = run(Command::new(&job.granary).arg("umount").arg(place.join("mnt")));
            let _ = std::fs::remove_dir_all(place.join("image"));
        }
        std::fs::create_dir_all(place.join("mnt")).map_err(failed)?;
        // NOVA and PMFS punch no holes, like their originals.
        let punch = u32::from(!matches!(job.fs.as_str(), "nova" | "pmfs"));
        let weights = format!("[weights]\npunch_hole = {punch}\nposix_fallocate = 0\ncopy_file_range = 1\n");
        std::fs::write(place.join("fsx.toml"), weights).map_err(failed)?;
        let mount = Mount { job, place: place.to_owned() };
        run(mount.granary("mkfs").args(["--fs", &job.fs, "--size", "2GiB"]).arg(mount.image()))?;
        run(mount.granary("mount").arg("--daemon").arg(mount.image()).arg(place.join("mnt")))?;
        Ok(mount)
    }

    fn image(&self) -> PathBuf {
        self.place.join("image")
    }

    fn granary(&self, command: &str) -> Command {
        let mut granary = Command::new(&self.job.granary);
        granary.arg(command);
        granary
    }

    fn fsx(&self, seed: u64) -> Result<(), String> {
        let (operations, seed) = (OPERATIONS.to_string(), seed.to_string());
        let mut fsx = Command::new("fsx");
        fsx.arg("-f").arg(self.place.join("fsx.toml")).arg("-P").arg(&self.place);
        run(fsx.args(["-N", &operations, "-S", &seed]).arg(self.place.join("mnt/file")))
    }

    /// Unmounts, checks, and removes the image where nothing is wrong.
    fn end(self) -> Result<(), String> {
        run(self.granary("umount").arg(self.place.join("mnt")))?;
        run(self.granary("fsck").arg(self.image()))?;
        std::fs::remove_dir_all(&self.place).map_err(|e| format!("{}: {e}", self.place.display()))
    }
}

/// Runs to the end; an error has the last of what was said.
fn run(command: &mut Command) -> Result<(), String> {
    let out = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    let lines: Vec<&str> = said.lines().collect();
    let last = lines[lines.len().saturating_sub(20)..].join("\n    ");
    Err(format!("{command:?}: {}\n    {last}", out.status))
}
