//! A mounted image, which kinds of soak work on from outside: made, unmounted and mounted again, checked,
//! removed.
//!
//! ```text
//!   granary mkfs, mount --daemon ── work, each piece bounded in time ── granary umount, fsck
//! ```
//!
//! The server is another process: so files can be mapped, and a piece that hangs in a call is ended by
//! killing it.

use super::Job;
use super::state::target_dir;
use granary_testbed::Testbed;
use granary_testbed::registry::{self, FILE_SYSTEMS};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The longest that a piece of work may take: hundreds of times what the slowest did, so that only one that
/// hangs does.
const LIMIT: Duration = Duration::from_secs(900);

/// How an image of a file system is made. NILFS2 keeps for an hour what is overwritten: a soak that writes
/// the image over would find no space, as it should. The variants of PebbleSSD are made for their cleaning:
/// their images are small and their cleaners never rest.
fn settings(fs: &str) -> Vec<&'static str> {
    let variant = ["-remap", "-fswrite", "-pebble"].iter().any(|end| fs.ends_with(end));
    const UNPROTECTED: &str = "nilfs2.protection_period=0";
    let mut all = vec![UNPROTECTED];
    if variant {
        let section = fs.split('-').next().unwrap_or(fs);
        all.extend(granary_suite::suite::restless_settings(section).filter(|set| *set != UNPROTECTED));
    }
    let size = if variant { ["--size", "512MiB"] } else { ["--size", "2GiB"] };
    size.into_iter().chain(all.into_iter().flat_map(|set| ["--set", set])).collect()
}

/// The release build of the command line.
///
/// # Errors
/// Where it is missing, or nothing can be mounted here.
fn granary() -> Result<PathBuf, String> {
    let fuse = "/dev/fuse";
    if let Err(e) = fs::File::options().read(true).write(true).open(fuse) {
        return Err(format!(
            "{fuse}: {e}\nnext: a machine (or a container with that device) that can mount FUSE"
        ));
    }
    let granary = target_dir().join("release/granary");
    if granary.exists() {
        return Ok(granary);
    }
    Err(format!("{} is missing\nnext: cargo build --release", granary.display()))
}

/// An image that is mounted.
pub(super) struct Mounted {
    granary: PathBuf,
    /// A directory with `image`, `mnt`, and whatever else the work needs.
    place: PathBuf,
}

impl Mounted {
    /// A new image at `target/soak/NAME`, in the place of one that was left there.
    pub(super) fn new(granary: &Path, name: &str, fs: &str) -> Result<Mounted, String> {
        let mounted = Mounted { granary: granary.to_owned(), place: target_dir().join("soak").join(name) };
        let failed = |e| format!("{}: {e}", mounted.place.display());
        if mounted.place.exists() {
            // Of a soak that was ended in the middle, perhaps still mounted.
            let _ = mounted.unmount();
            let _ = fs::remove_dir_all(mounted.image());
        }
        fs::create_dir_all(mounted.dir()).map_err(failed)?;
        let needs = registry::find(fs).map_err(|e| e.to_string())?.needs;
        let testbed = Testbed::having(needs)
            .first()
            .copied()
            .ok_or_else(|| format!("no testbed has what {fs} needs"))?;
        let how = ["--fs", fs, "--testbed", testbed];
        run(mounted.command("mkfs").args(how).args(settings(fs)).arg(mounted.image()))?;
        mounted.mount()?;
        Ok(mounted)
    }

    /// Where it is mounted.
    pub(super) fn dir(&self) -> PathBuf {
        self.place.join("mnt")
    }

    /// Beside the image.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    fn image(&self) -> PathBuf {
        self.place.join("image")
    }

    fn command(&self, name: &str) -> Command {
        let mut granary = Command::new(&self.granary);
        granary.arg(name);
        granary
    }

    fn mount(&self) -> Result<(), String> {
        run(self.command("mount").arg("--daemon").arg(self.image()).arg(self.dir()))
    }

    fn unmount(&self) -> Result<(), String> {
        run(self.command("umount").arg(self.dir()))
    }

    /// Unmounts and mounts.
    pub(super) fn again(&self) -> Result<(), String> {
        self.bounded(|| self.unmount())?;
        self.mount()
    }

    /// As [`Mounted::again`], after a failure: of the remains.
    pub(super) fn restart(&self) -> Result<(), String> {
        let _ = self.bounded(|| self.unmount());
        self.mount()
    }

    /// Unmounts, checks, and removes the image where nothing is wrong.
    pub(super) fn end(self) -> Result<(), String> {
        self.bounded(|| self.unmount())?;
        run(self.command("fsck").arg(self.image()))?;
        fs::remove_dir_all(&self.place).map_err(|e| format!("{}: {e}", self.place.display()))
    }

    /// Works; after [`LIMIT`] the server is killed, which ends every call on the mount.
    pub(super) fn bounded(&self, work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        let (done, waits) = channel::<()>();
        std::thread::scope(|scope| {
            let watch = scope.spawn(move || {
                let late = waits.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout);
                late.then(|| self.kill())
            });
            let result = work();
            drop(done);
            match watch.join().expect("nothing in it panics") {
                None => result,
                Some(killed) => {
                    let late = format!("took more than {} s; the server was {killed}", LIMIT.as_secs());
                    Err(late + &result.err().map_or(String::new(), |e| format!("\n  then: {e}")))
                }
            }
        })
    }

    /// Kills the process whose number is in the image's lock; returns its end.
    fn kill(&self) -> String {
        let text = fs::read_to_string(self.image().join("lock")).unwrap_or_default();
        let Some(pid) = text.trim().parse().ok().and_then(rustix::process::Pid::from_raw) else {
            return "not found".to_owned();
        };
        match rustix::process::kill_process(pid, rustix::process::Signal::KILL) {
            Ok(()) => "killed".to_owned(),
            Err(e) => format!("not killed: {e}"),
        }
    }
}

/// Runs to the end; an error has the last of what was said.
pub(super) fn run(command: &mut Command) -> Result<(), String> {
    let out = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    let lines: Vec<&str> = said.lines().collect();
    let last = lines[lines.len().saturating_sub(20)..].join("\n    ");
    Err(format!("{command:?}: {}\n    {last}", out.status))
}

/// The work of a kind of soak on mounted images.
pub(super) trait Work: Copy + Sync + 'static {
    /// `fsx` or `calls`.
    const KIND: &'static str;
    /// The unit of the count.
    const UNIT: &'static str;

    /// Checks that everything it needs is here.
    fn ready(self) -> Result<(), String> {
        Ok(())
    }

    /// One seed on a mount of `fs` that others were on before; adds its count to `done`.
    fn seed(self, mounted: &Mounted, fs: &str, seed: u64, done: &AtomicU64) -> Result<(), String>;
}

/// One job for each of these file systems; none: for all.
///
/// # Errors
/// Where nothing can be mounted here, or the work is not ready.
pub(super) fn jobs<W: Work>(work: W, fs: &[String]) -> Result<Vec<Box<dyn Job>>, String> {
    let granary = granary()?;
    work.ready()?;
    let all: Vec<&str> = FILE_SYSTEMS.iter().map(|fs| fs.name).collect();
    let chosen = super::power::choose("file system", fs, &all)?;
    let job = |fs: String| -> Box<dyn Job> {
        let name = format!("{}-{fs}", W::KIND);
        Box::new(OnMounts { work, name, fs, granary: granary.clone(), done: AtomicU64::new(0) })
    };
    Ok(chosen.into_iter().map(job).collect())
}

/// A job on mounted images, seed by seed.
struct OnMounts<W> {
    work: W,
    name: String,
    fs: String,
    granary: PathBuf,
    done: AtomicU64,
}

impl<W: Work> Job for OnMounts<W> {
    fn name(&self) -> &str {
        &self.name
    }

    fn explore(&self, seeds: Range<u64>) -> Vec<String> {
        let (kind, fs, first, count) = (W::KIND, &self.fs, seeds.start, seeds.end - seeds.start);
        let replay = |from, points| {
            format!(
                "  replay: cargo xtask soak --kind {kind} --fs {fs} --from {from} --points {points} --jobs 1"
            )
        };
        let mounted = match Mounted::new(&self.granary, &format!("{kind}-{fs}-{first}"), fs) {
            Ok(mounted) => mounted,
            Err(e) => return vec![format!("{fs}: {e}")],
        };
        let mut failures = Vec::new();
        for seed in seeds {
            let Err(e) = self.work.seed(&mounted, fs, seed, &self.done) else { continue };
            failures.push(format!("seed {seed}, {fs}: {e}\n{}", replay(seed, 1)));
            if let Err(e) = mounted.restart() {
                failures.push(format!("seed {seed}, {fs}, mounted again: {e}\n{}", replay(first, count)));
                return failures;
            }
        }
        if let Err(e) = mounted.end() {
            failures.push(format!("seeds {first} on, {fs}: {e}\n{}", replay(first, count)));
        }
        failures
    }

    fn summary(&self) -> String {
        format!("{} {}", self.done.load(Relaxed), W::UNIT)
    }
}
