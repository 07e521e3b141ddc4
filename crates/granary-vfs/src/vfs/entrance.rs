//! Entry of a program's call into the vfs, and its cost.
//!
//! The first layer that knows of a new call reports it here, once. A call that a stacked file system makes is
//! part of one that the upper vfs has let in: it costs and counts nothing more.

use super::Vfs;
use granary_fs::{Entrance, Origin};
use granary_sim::{costs, cpu};
use granary_units::Nanos;
use std::sync::atomic::Ordering;

impl Vfs {
    /// Begins a call and charges `more`. A call from a program is also counted, and charged for its entry.
    pub(crate) fn enter(&self, origin: Origin, more: Nanos) {
        let coming_in = match origin {
            Origin::Program => {
                self.calls.fetch_add(1, Ordering::Relaxed);
                entry(self.features.entrance)
            }
            Origin::Above(_) => Nanos::ZERO,
        };
        match self.features.entrance {
            Entrance::Device(inside) | Entrance::Ioctl(inside) => {
                cpu(coming_in);
                // The tables have the same rows, which cost what they cost on those processors.
                inside.run(|| cpu(costs().admission + more));
            }
            Entrance::Kernel | Entrance::Direct => cpu(coming_in + more),
        }
    }
}

/// The entry's cost on the program's processor. The kernel is entered and left; a library is called; a drive
/// gets a command and is told of it. Work on the other side is charged there.
fn entry(entrance: Entrance) -> Nanos {
    let c = costs();
    match entrance {
        Entrance::Kernel => c.syscall,
        Entrance::Direct => c.library_call,
        Entrance::Device(_) => c.library_call + c.command_build + c.doorbell + c.completion,
        Entrance::Ioctl(_) => c.syscall + c.command_build + c.doorbell + c.completion,
    }
}
