//! The wall-clock world: real threads, and optionally the pace of the modelled drive.
//!
//! Pacing `off` (default): waiting for a modelled completion returns at once; everything runs at full speed.
//! Pacing `on`: the caller really waits until the modelled instant, so that a program feels the drive; a
//! dilation factor of N makes modelled time pass N times slower than the clock. Waits shorter than 100 us
//! spin, because a sleeping thread wakes up to 60 us late; results still come from virtual time only.
//!
//! This is the only module below the command line that reads the clock.

use granary_units::Nanos;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static EPOCH: OnceLock<Instant> = OnceLock::new();
/// 0 = pacing off, else the dilation factor.
static DILATION: AtomicU32 = AtomicU32::new(0);

/// Whether and how slowly modelled time passes on the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Nobody waits for the modelled drive.
    Off,
    /// Modelled time passes `dilation` times slower than the clock (1 = real time).
    On {
        /// Dilation factor, at least 1.
        dilation: u32,
    },
}

/// Sets the pacing for the whole process.
pub fn set_pacing(pacing: Pacing) {
    let d = match pacing {
        Pacing::Off => 0,
        Pacing::On { dilation } => dilation.max(1),
    };
    DILATION.store(d, Ordering::Relaxed);
}

/// The pacing in force.
pub fn pacing() -> Pacing {
    match DILATION.load(Ordering::Relaxed) {
        0 => Pacing::Off,
        dilation => Pacing::On { dilation },
    }
}

#[allow(clippy::disallowed_methods)] // the one place that reads the clock
fn clock() -> Nanos {
    let since = EPOCH.get_or_init(Instant::now).elapsed();
    Nanos(since.as_nanos() as u64)
}

/// Modelled time: the clock divided by the dilation factor.
pub(crate) fn now() -> Nanos {
    Nanos(clock().0 / DILATION.load(Ordering::Relaxed).max(1) as u64)
}

/// Waits until modelled time `t` where pacing is on.
pub(crate) fn sleep_until(t: Nanos) {
    if DILATION.load(Ordering::Relaxed) != 0 {
        wait_until(t);
    }
}

/// Really waits until modelled time `t`, paced or not (daemons, time-outs).
#[allow(clippy::disallowed_methods)] // the one place that sleeps
pub(crate) fn wait_until(t: Nanos) {
    const SPIN: u64 = 100_000;
    let target = t.0.saturating_mul(DILATION.load(Ordering::Relaxed).max(1) as u64);
    loop {
        let left = target.saturating_sub(clock().0);
        if left == 0 {
            return;
        }
        if left > SPIN {
            std::thread::sleep(Duration::from_nanos(left - SPIN))
        } else {
            std::hint::spin_loop()
        }
    }
}

/// The real span that a modelled span lasts.
pub(crate) fn real(span: Nanos) -> Duration {
    Duration::from_nanos(span.0.saturating_mul(DILATION.load(Ordering::Relaxed).max(1) as u64))
}

/// A new OS thread.
#[allow(clippy::disallowed_methods)] // the one place that starts threads
pub(crate) fn spawn(name: &str, f: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(f)
        .unwrap_or_else(|e| panic!("cannot start thread '{name}': {e}; raise the process limit (ulimit -u)"));
}
