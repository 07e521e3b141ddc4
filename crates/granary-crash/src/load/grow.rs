//! [`Grow`]: a file system that grows while clients change it.
//!
//! ```text
//!   mkfs on three quarters of the drive      clients of torture, and a task beside them: grow to seven
//!                                            eighths, grow to the whole
//!                                            the power fails: the old size or the new one; growing again
//!                                            does the rest
//! ```

use super::{Clients, Load, Torture};
use granary_fs::FsError;
use granary_sim::rng::Stream;
use granary_sim::sleep;
use granary_units::Nanos;

/// The load of growth.
#[derive(Clone, Copy, Debug)]
pub struct Grow {
    /// The load beside it.
    pub torture: Torture,
    /// A growth begins at most so long after the one before.
    pub pause: Nanos,
}

impl Default for Grow {
    /// Two clients with 40 operations each.
    fn default() -> Grow {
        Grow {
            torture: Torture { clients: 2, ops: 40, ..Torture::default() },
            pause: Nanos::from_micros(1_500),
        }
    }
}

impl Load for Grow {
    fn name(&self) -> &str {
        "grow"
    }

    fn leaves_room(&self) -> bool {
        true
    }

    fn run(&self, clients: &Clients, round: u32, random: &mut Stream) -> Result<(), String> {
        let (vfs, room) = (clients.vfs().clone(), clients.room());
        let pauses: Vec<Nanos> = (0..2).map(|_| Nanos(random.below(self.pause.0))).collect();
        let growth = granary_sim::spawn("growth", move || {
            for (pause, blocks) in pauses.into_iter().zip([room - room / 8, room]) {
                sleep(pause);
                match vfs.grow(blocks) {
                    // Smaller than it is: it has grown before.
                    Ok(()) | Err(FsError::Invalid) => {}
                    Err(e) => return Err(format!("grow to {blocks} blocks: {e}")),
                }
            }
            Ok(())
        });
        let done = self.torture.run(clients, round, random);
        growth.join()?;
        done
    }
}
