//! How a program's call comes in, and what that costs.
//!
//! Who is first to know that a call has begun says so here, once.

use super::Vfs;
use crate::fs::Entrance;
use granary_sim::{costs, cpu};
use granary_units::Nanos;
use std::sync::atomic::Ordering;

impl Vfs {
    /// Begins a call: counts it, and charges what coming in costs, and `more`.
    pub(crate) fn enter(&self, more: Nanos) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        cpu(entry(self.features.entrance) + more);
    }
}

/// What coming in costs. There are no costs of other ways than the kernel's yet.
fn entry(entrance: Entrance) -> Nanos {
    match entrance {
        Entrance::Kernel | Entrance::Direct | Entrance::Device => costs().syscall,
    }
}
