//! Whether there is memory for all workers: so many as fit work at a time.
//!
//! ```text
//!   program + workers x (devices + images of a run) + pairs x the devices their runs begin with
//!             fewer where they do not fit             made anew where they do not fit
//! ```

use crate::cli::crash::Mode;
use crate::failure::Failure;
use granary_bench::memory::{Limits, Need, Use, peak};
use granary_crash::{Load, Target};
use granary_testbed::registry::FILE_SYSTEMS;
use granary_units::Bytes;
use std::sync::Arc;

/// Address space that the allocator takes for a thread.
const ARENA: u64 = 64 << 20;
/// The devices that the runs of a pair begin with (measured: 0.4 MiB).
const PAIR: u64 = 512 << 10;

/// The work that there is memory for.
pub(super) struct Room {
    /// Workers.
    pub(super) jobs: u64,
    /// Pairs of file system and load that keep the devices their runs begin with.
    pub(super) kept: usize,
    /// The memory that these workers take.
    workers: Need,
}

impl Room {
    /// The estimate, and the peak of this process, bytes.
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "workers": self.jobs, "estimated": self.workers.peak().0, "peak": peak().map(|Bytes(peak)| peak),
        })
    }
}

/// The devices of a target.
fn devices(target: &Arc<dyn Target>) -> Need {
    let (ssd, nvm) = target.configs();
    let ssd = ssd.map(|ssd| Need::of_ssd(&ssd, Use::NEW)).unwrap_or_default();
    ssd.and(nvm.as_ref().map(Need::of_nvm).unwrap_or_default())
}

/// The images of a run of a load and the promises in them, MiB: about a third more than the peaks of
/// runs of some seconds (`memory.peak` of `granary crash --fs FS --load LOAD --time 10 --jobs 1 --json`).
fn images(target: &dyn Target, load: &dyn Load, mode: Mode) -> u64 {
    let mib = match load.name() {
        // It rewrites all that there is between any two images, and these share what is unchanged alone.
        "full" => match kept_as_bytes(target) {
            Some(true) => 1536,
            Some(false) => 512,
            None => 128,
        },
        "long" => 256,
        "crowd" | "private" | "oltp" => 192,
        program if program.contains('(') || load.runs().is_some() || program.starts_with("programs-") => 80,
        _ => 128,
    };
    match mode {
        Mode::Exhaustive => 3 * mib,
        Mode::Linear => 2 * mib,
        _ => mib,
    }
}

/// Whether all content is in persistent memory, or a part of it; `None`: it is in blocks.
fn kept_as_bytes(target: &dyn Target) -> Option<bool> {
    let name = target.name().split('@').next().unwrap_or_default();
    let fs = FILE_SYSTEMS.iter().find(|fs| fs.crash.iter().any(|case| case.name == name))?;
    let bytes = fs.below.is_none() && !fs.write_log && fs.needs.iter().any(|need| need.is_bytes());
    bytes.then(|| !fs.needs.contains(&granary_device::Need::Blocks))
}

/// A worker at a pair.
fn worker(target: &Arc<dyn Target>, load: &Arc<dyn Load>, mode: Mode) -> Need {
    let images = images(&**target, &**load, mode) << 20;
    // Its runs begin with a copy.
    devices(target).times(2).and(Need { touched: images, reserved: images })
}

/// The workers that there is memory for, at most `jobs`; says so where they are fewer.
///
/// # Errors
/// There is not enough for one; what to do.
pub(super) fn room(
    targets: &[Arc<dyn Target>],
    loads: &[Arc<dyn Load>],
    mode: Mode,
    jobs: u64,
) -> Result<Room, Failure> {
    let pairs = targets.iter().flat_map(|target| loads.iter().map(move |load| (target, load)));
    let needs = pairs.map(|(target, load)| (worker(target, load, mode), target.name(), load.name()));
    let largest = needs.max_by_key(|(need, ..)| (need.touched, need.reserved));
    let (mut one, fs, load) = largest.unwrap_or_default();
    let limits = Limits::here()?;
    if limits.address_space != limits.memory {
        one.reserved += ARENA;
    }
    one.must_fit(&format!("1 worker of `granary crash`, at {fs} under {load},"), &limits, |_| {
        "give it more memory, or name smaller cases with --fs and --load; GRANARY_MEMORY=SIZE says that there is more"
            .to_owned()
    })?;
    let fitting = (1..=jobs).rev().find(|&jobs| one.times(jobs).fits(&limits)).unwrap_or(1);
    if fitting < jobs {
        let workers = if fitting == 1 { "1 worker".to_owned() } else { format!("{fitting} workers") };
        say!(
            "granary: {workers} at a time instead of {jobs}: there is memory for no more ({} each, at {fs} under {load})",
            Bytes(one.touched)
        );
    }
    let workers = one.times(fitting);
    let left = |(has, _): &(u64, String)| has.saturating_sub(workers.peak().0) / PAIR;
    let kept = limits.memory.as_ref().map_or(usize::MAX, |limit| left(limit) as usize);
    Ok(Room { jobs: fitting, kept, workers })
}

/// So many workers, each of which needs so much.
///
/// # Errors
/// There is not so much memory; what to do.
pub(super) fn must_fit(one: Need, jobs: u64, limits: &Limits) -> Result<(), Failure> {
    let what = format!("{jobs} worker{} of `granary crash`", if jobs == 1 { "" } else { "s" });
    one.times(jobs).must_fit(&what, limits, |_| {
        let way = if jobs > 1 && one.fits(limits) { "take fewer (--jobs 1)" } else { "give it more memory" };
        format!("{way}; GRANARY_MEMORY=SIZE says that there is more")
    })?;
    Ok(())
}
