//! [`Snapshots`]: snapshots of a file system that keeps them, while clients change it and a cleaner collects
//! what they removed.
//!
//! ```text
//!   a round   torture ── unmount, snapshot, a picture of it ── mount ── torture     the power fails anywhere
//!   behind    recovery, check, verify ── unmount ── each snapshot shows its picture still
//! ```

use super::{Clients, Load, Torture};
use granary_sim::rng::Stream;

/// The load of snapshots.
#[derive(Clone, Copy, Debug)]
pub struct Snapshots {
    /// The load beside them.
    pub torture: Torture,
}

impl Default for Snapshots {
    /// Two clients with 40 operations each, before a snapshot and behind it.
    fn default() -> Snapshots {
        Snapshots { torture: Torture { clients: 2, ops: 40, ..Torture::default() } }
    }
}

impl Load for Snapshots {
    fn name(&self) -> &str {
        "snapshots"
    }

    fn takes_snapshots(&self) -> bool {
        true
    }

    fn run(&self, clients: &Clients, round: u32, random: &mut Stream) -> Result<(), String> {
        self.torture.run(clients, round, random)
    }
}
