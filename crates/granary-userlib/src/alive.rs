//! Whether the server lives: looked at once in each tick of the kernel's clock.

use crate::{session, versions};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// When the server was last seen, in ticks of the kernel's clock.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// The present connection, if it has versions and its server lives.
pub fn connection() -> Option<u32> {
    let epoch = session::epoch();
    (versions::are_of(epoch) && is_alive(epoch)).then_some(epoch)
}

/// Whether the server was there in this tick of the kernel's clock.
fn is_alive(epoch: u32) -> bool {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for a time; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    let now = (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64);
    if SEEN.load(Relaxed) == now {
        return true;
    }
    let alive = session::is_there(epoch);
    if alive {
        SEEN.store(now, Relaxed);
    }
    alive
}
