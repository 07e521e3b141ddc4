//! TRIM of dead blocks within segments that live on, when nothing else happens.
//!
//! ```text
//!   checkpoint: whole dead segments, at once (checkpoint.rs)
//!   daemon:     idle? eight runs, 50 ms | busy: 500 ms | nothing left: 5 s
//!   unmount:    all that is left
//! ```
//!
//! A run is taken and told under the lock of the segments, so that nobody writes one of its blocks before.
//! Source: the kernel's `issue_discard_thread`, `__init_discard_policy` (DPOLICY_BG, DPOLICY_UMOUNT).

use crate::fs::F2fs;
use granary_sim::{Signal, Stopper};
use granary_units::Lpa;
use std::sync::Weak;

/// Runs of one round (DEF_MAX_DISCARD_REQUEST).
const ROUND: usize = 8;

impl F2fs {
    fn discard_granularity(&self) -> u32 {
        let default = if self.force_in_place { 1 } else { 16 };
        self.options.discard_granularity.unwrap_or(default)
    }

    /// Tells the drive of up to `most` runs; says how many there were.
    pub(crate) fn discard_some(&self, most: usize, least: u32) -> usize {
        let mut segs = self.segs.lock();
        for n in 0..most {
            let Some((addr, count)) = segs.take_discard(least) else { return n };
            // A trim that fails costs space on the drive, nothing else.
            let _ = self.port.trim(Lpa(addr as u64), count as u64);
            let mut stats = self.stats.lock();
            stats.discarded += count as u64;
            stats.discards += 1;
        }
        most
    }
}

/// Body of the discard daemon.
pub(crate) fn discard_loop(fs: &Weak<F2fs>, stop: &Stopper) {
    let Some((more, busy, none)) = fs.upgrade().map(|f| f.options.discard_sleep) else { return };
    let mut wait = busy;
    while stop.pause(wait) != Signal::Stop {
        let Some(fs) = fs.upgrade() else { return };
        wait = if !fs.is_idle(fs.options.idle_interval) {
            busy
        } else if fs.discard_some(ROUND, fs.discard_granularity()) == ROUND {
            more
        } else {
            none
        };
    }
}
