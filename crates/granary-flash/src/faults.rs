//! [`Faults`]: which flash operations fail.
//!
//! Faults are drawn from a random stream of their own, so switching them on changes nothing else, and the same seed
//! gives the same failures. A failed program leaves an unreadable page; a failed erase leaves the block as it was; a
//! failed read attempt is retried by the NAND array and only then reported.
//!
//! It does *not* model why cells fail: rates are constants of the run, except for wear-out
//! ([`FaultRates::endurance`]).

use granary_sim::rng::Stream;
use granary_units::Ppa;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How often operations fail. All zero by default: nothing fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultRates {
    /// Probability that a page program fails, 0 to 1.
    pub program: f64,
    /// Probability that a block erase fails, 0 to 1.
    pub erase: f64,
    /// Probability that one attempt to read a page fails, 0 to 1; a few attempts are made.
    pub read: f64,
    /// Erases after which every further erase of a block fails; 0 for no limit.
    pub endurance: u32,
}

/// A plan of failures for one NAND array.
#[derive(Clone, Debug)]
pub struct Faults {
    rates: FaultRates,
    rng: Stream,
    broken: BTreeSet<u32>,
}

impl Faults {
    /// Failures at `rates`, drawn from the stream `flash.faults` of root seed `seed`.
    pub fn new(seed: u64, rates: FaultRates) -> Faults {
        Faults { rates, rng: Stream::new(seed, "flash.faults"), broken: BTreeSet::new() }
    }

    /// From now on every read of `ppa` fails, until its block is erased.
    pub fn break_page(&mut self, ppa: Ppa) {
        self.broken.insert(ppa.0);
    }

    pub(crate) fn program_fails(&mut self) -> bool {
        self.rates.program > 0.0 && self.rng.chance(self.rates.program)
    }

    pub(crate) fn erase_fails(&mut self, erases: u32) -> bool {
        let worn_out = self.rates.endurance > 0 && erases >= self.rates.endurance;
        worn_out || (self.rates.erase > 0.0 && self.rng.chance(self.rates.erase))
    }

    pub(crate) fn read_fails(&mut self, ppa: Ppa) -> bool {
        self.broken.contains(&ppa.0) || (self.rates.read > 0.0 && self.rng.chance(self.rates.read))
    }

    /// The pages `first..first + n` have been erased: they read again.
    pub(crate) fn erased(&mut self, first: u32, n: u32) {
        while let Some(&ppa) = self.broken.range(first..first + n).next() {
            self.broken.remove(&ppa);
        }
    }
}
