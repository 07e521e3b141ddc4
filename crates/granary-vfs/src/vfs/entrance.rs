//! How a program's call comes in, and what that costs.
//!
//! Who is first to know that a call has begun says so here, once. A call that a stacked file system makes is part of one that
//! the upper vfs has let in: it costs and counts nothing more.

use super::Vfs;
use crate::fs::{Entrance, Origin};
use granary_sim::{costs, cpu};
use granary_units::Nanos;
use std::sync::atomic::Ordering;

impl Vfs {
    /// Begins a call: where it comes from a program counts it, and charges what coming in costs; and charges `more`.
    pub(crate) fn enter(&self, origin: Origin, more: Nanos) {
        let coming_in = match origin {
            Origin::Program => {
                self.calls.fetch_add(1, Ordering::Relaxed);
                entry(self.features.entrance)
            }
            Origin::Above => Nanos::ZERO,
        };
        cpu(coming_in + more);
    }
}

/// What coming in costs. There are no costs of other ways than the kernel's yet.
fn entry(entrance: Entrance) -> Nanos {
    match entrance {
        Entrance::Kernel | Entrance::Direct | Entrance::Device => costs().syscall,
    }
}
