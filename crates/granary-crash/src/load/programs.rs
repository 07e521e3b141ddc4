//! [`Programs`]: short generated programs ([`Sequences`](super::Sequences)), one in each round.
//!
//! A run with one round has one program on a new file system, as ACE has it; a long run has several, one behind the other.

use super::{Clients, Load, Names, Sequences};
use granary_sim::rng::Stream;
use std::sync::OnceLock;

/// The load of generated programs.
#[derive(Clone, Copy, Debug)]
pub struct Programs {
    /// Calls of each, at most three.
    pub depth: usize,
    name: &'static str,
}

impl Programs {
    /// Of two calls.
    pub const TWO: Programs = Programs { depth: 2, name: "programs-2" };
    /// Of three.
    pub const THREE: Programs = Programs { depth: 3, name: "programs-3" };
}

/// All programs of so many calls.
fn all(depth: usize) -> &'static Sequences {
    static ALL: [OnceLock<Sequences>; 4] = [const { OnceLock::new() }; 4];
    ALL[depth].get_or_init(|| Sequences::new(depth as u32, Names::ALL))
}

impl Load for Programs {
    fn name(&self) -> &str {
        self.name
    }

    fn run(&self, clients: &Clients, round: u32, random: &mut Stream) -> Result<(), String> {
        let all = all(self.depth);
        let mut posix = clients.client();
        all.nth(random.below(all.count())).calls(&mut posix, round == 0)?;
        posix.into_inner().exit();
        Ok(())
    }
}
