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

/// What coming in costs the program's processor. The kernel is entered and left; a library is called; a drive gets a command
/// and is told of it. What the other side does with it is charged there.
fn entry(entrance: Entrance) -> Nanos {
    let c = costs();
    match entrance {
        Entrance::Kernel => c.syscall,
        Entrance::Direct => c.library_call,
        Entrance::Device => c.library_call + c.command_build + c.doorbell,
    }
}
