//! Whether there is memory for the devices of all workers.

use crate::failure::Failure;
use granary_bench::memory::{Limits, Need, Use};
use granary_crash::Target;
use std::sync::Arc;

/// The devices of a target.
fn need(target: &Arc<dyn Target>) -> Need {
    let (ssd, nvm) = target.configs();
    let ssd = ssd.map(|ssd| Need::of_ssd(&ssd, Use::NEW)).unwrap_or_default();
    ssd.and(nvm.as_ref().map(Need::of_nvm).unwrap_or_default())
}

/// The devices of the target that has the largest.
pub(super) fn largest(targets: &[Arc<dyn Target>]) -> Need {
    targets.iter().map(need).max_by_key(|need| (need.touched, need.reserved)).unwrap_or_default()
}

/// Each worker has such devices, and the copy of them from which its runs begin.
///
/// # Errors
/// There is not so much memory; what to do.
pub(super) fn must_fit(devices: Need, jobs: u64) -> Result<(), Failure> {
    let what = format!("{jobs} worker{} of `granary crash`", if jobs == 1 { "" } else { "s" });
    // A worker's runs begin with a copy.
    let (one, limits) = (devices.times(2), Limits::here()?);
    one.times(jobs).must_fit(&what, &limits, |_| {
        let way = if one.fits(&limits) { "take fewer (--jobs 1)" } else { "give it more memory" };
        format!("{way}; GRANARY_MEMORY=SIZE says that there is more")
    })?;
    Ok(())
}
