//! [`Mission`]: what is to happen in a life, and [`Outcome`]: what did.

use super::report::Coverage;
use crate::faulty::Trip;
use granary_units::Nanos;

/// When the power fails, counted from the beginning of a phase.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    Instant(Nanos),
    Command(Trip),
}

impl Cut {
    pub(super) fn command(n: u64, after: bool) -> Cut {
        Cut::Command(if after { Trip::After(n) } else { Trip::Before(n) })
    }
}

/// The plan of a life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mission {
    /// The first round of the load.
    pub(super) round: u32,
    /// Rounds of the load, one after the other.
    pub(super) rounds: u32,
    /// The power was off before.
    pub(super) powered_off: bool,
    /// Between recovery and the first look the file system is unmounted properly: what recovery left to do
    /// must not be lost.
    pub(super) shut_unseen: bool,
    /// The life ends where the recovered file system has been verified.
    pub(super) brief: bool,
    /// At the end the file system is filled, emptied, and compared with what it says of its space.
    pub(super) exercised: bool,
    /// Nothing is synced before the unmount.
    pub(super) unsynced: bool,
    /// One in so many block writes of content fails in the load; the power fails when that is done, as there
    /// is no clean end. Those of metadata do not fail: a file system whose journal fails may stop.
    pub(super) errors: Option<u64>,
    pub(super) in_recovery: Option<Cut>,
    pub(super) in_load: Option<Cut>,
    pub(super) jitter: Nanos,
    pub(super) seed: u64,
}

impl Mission {
    /// No failure.
    pub(super) fn calm(round: u32, powered_off: bool) -> Mission {
        let (shut_unseen, jitter) = (false, Nanos::ZERO);
        let (brief, exercised, unsynced) = (false, false, false);
        Mission {
            round,
            rounds: 1,
            powered_off,
            shut_unseen,
            brief,
            exercised,
            unsynced,
            errors: None,
            in_recovery: None,
            in_load: None,
            jitter,
            seed: 0,
        }
    }
}

pub(super) enum Outcome {
    /// A clean end. `load_end`: instant and commands when the load was done.
    Finished {
        seen: Coverage,
        load_end: (Nanos, u64),
    },
    /// `ran`: the load had begun.
    PowerFailed {
        seen: Coverage,
        ran: bool,
    },
    Wrong {
        stage: String,
        evidence: Vec<String>,
    },
}
