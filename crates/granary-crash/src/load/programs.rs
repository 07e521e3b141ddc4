//! Short generated programs ([`Sequences`](super::Sequences)): [`Programs`] draws one for each round,
//! [`Every`] has each once.
//!
//! ```text
//!   Programs   run 7:  a program | one more | one more ...      drawn; a long run has several, one behind
//!                                                               the other
//!   Every      run 7:  program 7 * STRIDE mod count             alone on a new file system, as ACE has it
//! ```

use super::{Clients, Load, Names, Sequences};
use granary_sim::rng::Stream;
use std::sync::{Arc, OnceLock};

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

/// Every program of so many calls, over [`Names::FEW`] where it has two, one in each run: after
/// [`Load::runs`] of them each was there once.
#[derive(Clone, Copy, Debug)]
pub struct Every {
    depth: usize,
    name: &'static str,
}

/// From run to run the number of the program moves by this prime, which divides no count: part of all runs
/// has calls of all kinds.
const STRIDE: u64 = 2_147_483_647;

impl Every {
    /// Of one call.
    pub const ONE: Every = Every { depth: 1, name: "every-1" };
    /// Of two calls.
    pub const TWO: Every = Every { depth: 2, name: "every-2" };
    /// Of three calls.
    pub const THREE: Every = Every { depth: 3, name: "every-3" };

    fn all(self) -> &'static Sequences {
        static FEW: OnceLock<Sequences> = OnceLock::new();
        if self.depth == 2 { FEW.get_or_init(|| Sequences::new(2, Names::FEW)) } else { all(self.depth) }
    }

    fn program(self, run: u64) -> super::Sequence {
        let (all, of) = (self.all(), |n: u64, count| (u128::from(n) * u128::from(STRIDE) % count) as u64);
        all.nth(of(run % all.count(), u128::from(all.count())))
    }
}

impl Load for Every {
    fn name(&self) -> &str {
        self.name
    }

    /// The program of the run is [`Load::of_run`]; this is one that is drawn.
    fn run(&self, clients: &Clients, round: u32, random: &mut Stream) -> Result<(), String> {
        self.program(random.below(self.all().count())).run(clients, round, random)
    }

    fn rounds(&self) -> u32 {
        1
    }

    fn of_run(&self, run: u64) -> Option<Arc<dyn Load>> {
        Some(Arc::new(self.program(run)))
    }

    fn runs(&self) -> Option<u64> {
        Some(self.all().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_program_comes_once() {
        let count = Every::TWO.runs().expect("an end");
        let seen: HashSet<String> = (0..count).map(|run| Every::TWO.program(run).name().to_owned()).collect();
        assert_eq!(seen.len() as u64, count);
        assert!([Every::ONE, Every::THREE].iter().all(|every| every.runs().expect("an end") % STRIDE != 0));
    }
}
