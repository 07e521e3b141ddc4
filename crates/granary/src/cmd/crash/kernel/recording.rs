//! [`Recording`]: a load on a mount of the kernel's file system, and the tape of the drive below.
//!
//! ```text
//!   load ──> mount ──> /dev/loopN ──> exported file (FUSE) ──> Tape ──> emulated SSD
//!     '── notes: promises at each call, by place on the tape ──'
//! ```

use super::kind::Kind;
use super::load::Load;
use super::log::{Log, Note};
use super::mounted::{Mount, pause};
use super::tape::{Asked, Base, Tape, TapeEntry};
use crate::cmd::loopdev::LoopDevice;
use granary_bench::memory;
use granary_crash::Promises;
use granary_device::Port;
use granary_mount::{DRIVE_FILE, Exported, MountError, Options};
use granary_mssd::DriveConfig;
use granary_papers::calibrate::SETS;
use granary_sim::rng::Stream;
use granary_testbed::Testbed;
use granary_units::{Bytes, PAGE_SIZE};
use std::path::Path;
use std::sync::Arc;

/// Threads that serve the exported file: so many requests are under way at once.
const THREADS: usize = 4;
/// Bytes of the drive, which the smallest of the testbed's can have.
const DRIVE: Bytes = Bytes(512 << 20);

/// Of the drive.
const TESTBED: &str = "bytefs-emulator";

/// The drive below.
///
/// # Errors
/// The testbed has none such.
pub fn drive_config() -> Result<DriveConfig, String> {
    // Its cache is volatile: another drive is not asked to flush.
    let testbed = Testbed::load(TESTBED, &SETS.map(str::to_owned));
    let testbed = testbed.and_then(|t| t.with_size(None, DRIVE));
    Ok(testbed.map_err(|e| e.to_string())?.drive.ok_or("the testbed has no SSD")?)
}

/// A recorded load.
pub struct Recording {
    /// Number of the run.
    pub seed: u64,
    /// The drive's content when it began.
    pub base: Base,
    /// Requests, in order of arrival.
    pub entries: Vec<TapeEntry>,
    /// Calls, in order.
    pub notes: Vec<Note>,
}

/// An exported drive with a loop device over it; dropped, it is taken apart.
struct Rig {
    device: Option<LoopDevice>,
    exported: Option<Exported>,
}

impl Rig {
    fn new(tape: &Arc<Tape>, dir: &Path) -> Result<Rig, String> {
        let options = Options { threads: THREADS, ..Options::default() };
        let exported = granary_mount::export(Port::new(Arc::clone(tape) as _), dir, &options)
            .map_err(|e| e.to_string())?;
        let mut rig = Rig { device: None, exported: Some(exported) };
        rig.device = Some(LoopDevice::over(&dir.join(DRIVE_FILE), false).map_err(|e| e.to_string())?);
        Ok(rig)
    }

    fn device(&self) -> &Path {
        self.device.as_ref().expect("made with it").path()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.device.take());
        let Some(exported) = self.exported.take() else { return };
        // The loop device lets go of its file a moment after it was detached.
        for _ in 0..100 {
            match exported.unmounter().unmount(false) {
                Err(MountError::InUse(_)) => pause(),
                _ => break,
            }
        }
        drop(exported);
    }
}

impl Recording {
    /// Makes one in `dir`, which has empty directories `drive` and `mnt`.
    ///
    /// # Errors
    /// A failure without a power failure, in one sentence.
    pub fn make(kind: &Kind, load: &Load, seed: u64, dir: &Path) -> Result<Recording, String> {
        let config = drive_config()?;
        let drive = Arc::new(memory::ssd(TESTBED, &config, memory::Use::NEW).map_err(|e| e.to_string())?);
        let tape = Arc::new(Tape::around(drive, seed));
        let rig = Rig::new(&tape, &dir.join("drive"))?;
        kind.make(rig.device())?;
        let root = dir.join("mnt");
        let refused = |what: &str, e: rustix::io::Errno| format!("{what} the new {}: {e}", kind.name);
        let mount = Mount::new(kind, rig.device(), &root).map_err(|e| refused("mounting", e))?;
        let synced = std::fs::File::open(&root).map(rustix::fs::syncfs);
        synced.map_err(|e| e.to_string())?.map_err(|e| refused("syncing", e))?;
        let base = tape.start(kind.size / PAGE_SIZE as u64).map_err(|e| e.to_string())?;
        let promises = Promises::new().with_whole_renames(kind.renames_are_whole);
        let log = Arc::new(Log::new(Arc::clone(&tape), promises.clone()));
        log.note("nothing was called yet".to_owned());
        let ran = load.run(&root, &log, &promises, seed);
        log.note("the load is over".to_owned());
        let recorded_end = Stream::new(seed, "end").chance(0.5);
        let entries = if recorded_end { None } else { Some(tape.end()) };
        mount.end().map_err(|e| refused("unmounting", e))?;
        let entries = entries.unwrap_or_else(|| {
            promises.keep_everything();
            log.note("it is unmounted".to_owned());
            tape.end()
        });
        drop(rig);
        kind.forget();
        ran?;
        Ok(Recording { seed, base, entries, notes: log.end() })
    }

    /// The requests and the calls until `cut`, a line each, for people.
    pub fn told(&self, cut: usize, kept: &[usize]) -> String {
        let mut notes = self.notes.iter().peekable();
        let mut out = String::new();
        for at in 0..=cut {
            while let Some(note) = notes.next_if(|note| note.at <= at) {
                out += &format!("          call    {}\n", note.text);
            }
            let Some(entry) = self.entries.get(at).filter(|_| at < cut) else { continue };
            let asked = match &entry.asked {
                Asked::Write(first, pages) => {
                    format!("write   block {first}, {} blocks of 4096 bytes", pages.len())
                }
                Asked::Zero(first, count) => format!("zero    block {first}, {count} blocks"),
                Asked::Flush => "flush".to_owned(),
            };
            let kept = if kept.contains(&at) { "  (not covered, there)" } else { "" };
            let ended = if entry.ended == u64::MAX { String::new() } else { entry.ended.to_string() };
            out += &format!("{at:>8}  {asked}, from {} to {ended}{kept}\n", entry.arrived);
        }
        out + "          the power fails\n"
    }

    /// The promises where the power fails before entry `cut`, as a number of the notes.
    pub fn note_at(&self, cut: usize) -> usize {
        self.notes.partition_point(|note| note.at <= cut).saturating_sub(1)
    }
}
