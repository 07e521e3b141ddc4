//! [`Faults`]: which flash operations fail.
//!
//! Faults are drawn from a random stream of their own, so switching them on changes nothing else, and the
//! same seed gives the same failures. A failed program leaves an unreadable page; a failed erase leaves the
//! block as it was; a failed read attempt is retried by the NAND array and only then reported.
//!
//! A read attempt that fails stands for a page with more wrong bits than the ECC corrects; bits that the ECC
//! corrects cost nothing. Each further attempt (shifted read levels) takes its own time; a page that no
//! attempt reads is uncorrectable and reported.
//!
//! It does *not* model why cells fail: rates are constants of the run, except for wear-out
//! ([`FaultRates::endurance`]). No read disturb, no retention loss.

use crate::error::FlashError;
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

/// How often operations of a testbed's flash fail, in failures per 10^9 operations. All zero by default:
/// nothing fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ErrorConfig {
    /// Page programs that fail.
    pub program_ppb: u32,
    /// Block erases that fail.
    pub erase_ppb: u32,
    /// Attempts to read a page that the ECC cannot correct.
    pub read_ppb: u32,
    /// Erases after which every further erase of a block fails; 0 for no limit.
    pub endurance: u32,
    /// Seed of the failures.
    pub seed: u64,
}

impl ErrorConfig {
    /// The failures, if there are to be any.
    pub fn plan(&self) -> Option<Faults> {
        let part = |ppb: u32| ppb as f64 / 1e9;
        let rates = FaultRates {
            program: part(self.program_ppb),
            erase: part(self.erase_ppb),
            read: part(self.read_ppb),
            endurance: self.endurance,
        };
        (rates != FaultRates::default()).then(|| Faults::new(self.seed, rates))
    }

    pub(crate) fn validate(&self) -> Result<(), FlashError> {
        let parts =
            [("program_ppb", self.program_ppb), ("erase_ppb", self.erase_ppb), ("read_ppb", self.read_ppb)];
        match parts.iter().find(|(_, ppb)| *ppb > 1_000_000_000) {
            None => Ok(()),
            Some((name, ppb)) => {
                Err(FlashError::Config(format!("errors.{name} is {ppb}, but it counts failures in 10^9")))
            }
        }
    }
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
