//! [`Load`]: what the file system is busy with when the power fails.
//!
//! A load runs in a virtual world, starts tasks of its own ([`granary_sim::spawn`]) and ends; after a recovery it is
//! run again on what is left, as the next round. It must be a function of its random stream, treat errors that its
//! own randomness provokes (no such name, no space) as a matter of course, and return the others.

mod filebench;
mod full;
mod late;
mod sparse;
mod torture;

pub use filebench::Filebench;
pub use full::Full;
pub use late::Late;
pub use sparse::Sparse;
pub use torture::Torture;

use crate::oracle::Promises;
use crate::recorded::Recorded;
use granary_sim::rng::Stream;
use granary_vfs::{Cred, Process, Vfs};
use std::sync::Arc;

/// Makes recorded clients of one mounted file system.
#[derive(Clone)]
pub struct Clients {
    vfs: Arc<Vfs>,
    promises: Promises,
}

impl Clients {
    /// Clients of `vfs`, recorded in `promises`.
    pub fn new(vfs: Arc<Vfs>, promises: Promises) -> Clients {
        Clients { vfs, promises }
    }

    /// A new client: a superuser's process whose filled writes get words of their own.
    pub fn client(&self) -> Recorded<Process> {
        Recorded::new(Process::new(Arc::clone(&self.vfs), Cred::ROOT), self.promises.clone())
            .with_unique_fills()
    }

    /// The file system that they run on.
    pub fn vfs(&self) -> &Arc<Vfs> {
        &self.vfs
    }
}

/// A workload for the crash explorer.
pub trait Load: Send + Sync {
    /// The name, as `cargo xtask soak --load` takes it.
    fn name(&self) -> &str;

    /// Runs until it is done. `round` counts the runs on one file system: 0 on the empty one.
    ///
    /// # Errors
    /// An error that the load did not provoke, in one sentence.
    fn run(&self, clients: &Clients, round: u32, random: &mut Stream) -> Result<(), String>;
}
