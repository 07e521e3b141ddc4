//! Commands that fail with an error although the power stays on: writes of content, or all that concerns
//! metadata.
//!
//! ```text
//!   WriteErrors      writes of content, one in so many
//!   MetadataErrors   writes and reads of metadata, FLUSH, commands of the drive's own: from one of them on,
//!                    one in so many, so often; or
//!                    those that are named, counted from the beginnings of calls
//! ```
//!
//! A write that fails leaves the drive as it was. Stores do not fail: the host posts them and hears of
//! nothing.

use super::{Faults, Given};
use crate::recorded::CallId;
use granary_device::{Command, DriveError, Structure};
use granary_sim::rng::Stream;
use std::collections::BTreeSet;

/// Which writes of content fail.
pub(crate) struct WriteErrors {
    /// One in so many.
    pub(crate) one_in: u64,
    pub(crate) random: Stream,
}

/// A command for metadata, counted from the beginning of the last call before it on, or from where commands
/// begin to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Nth {
    pub(crate) after: Option<CallId>,
    pub(crate) n: u64,
}

/// How it is chosen which commands fail.
pub(crate) enum Choice {
    Drawn {
        /// So many are spared first.
        spared: u64,
        /// One in so many behind them.
        one_in: u64,
        /// So many at most.
        left: u64,
        random: Stream,
    },
    These(BTreeSet<Nth>),
}

/// Which commands for metadata fail.
pub(crate) struct MetadataErrors {
    /// Writes of metadata, FLUSH and commands of the drive's own do.
    pub(crate) writes: bool,
    /// Reads and loads of metadata do.
    pub(crate) reads: bool,
    pub(crate) choice: Choice,
    /// The last one.
    pub(crate) last: Nth,
    /// Those that failed.
    pub(crate) failed: Vec<(Nth, Given)>,
}

impl MetadataErrors {
    pub(crate) fn new(writes: bool, reads: bool, choice: Choice) -> MetadataErrors {
        MetadataErrors { writes, reads, choice, last: Nth { after: None, n: 0 }, failed: Vec::new() }
    }

    fn fails(&mut self, given: impl FnOnce() -> Given) -> bool {
        self.last.n += 1;
        let fails = match &mut self.choice {
            Choice::These(these) => these.contains(&self.last),
            Choice::Drawn { spared, .. } if *spared > 0 => {
                *spared -= 1;
                false
            }
            Choice::Drawn { one_in, left, random, .. } => {
                let fails = *left > 0 && random.below(*one_in) == 0;
                *left -= u64::from(fails);
                fails
            }
        };
        if fails {
            self.failed.push((self.last, given()));
        }
        fails
    }
}

/// The error of a command that was made to fail.
const MADE: &str = "a command was made to fail";

/// Whether this is the error of a command that was made to fail.
pub(crate) fn is_made(e: &DriveError) -> bool {
    matches!(e, DriveError::Failed(why) if why == MADE)
}

pub(super) fn made() -> DriveError {
    DriveError::Failed(MADE.to_owned())
}

impl Faults {
    /// Lets block writes of content fail from now on: the drive has none of their pages.
    pub(crate) fn fail_writes(&self, errors: Option<WriteErrors>) {
        self.state.lock().errors = errors;
    }

    /// Lets commands for metadata fail from now on. Returns those that failed before.
    pub(crate) fn fail_metadata(&self, errors: Option<MetadataErrors>) -> Vec<(Nth, Given)> {
        std::mem::replace(&mut self.state.lock().metadata_errors, errors)
            .map_or_else(Vec::new, |before| before.failed)
    }

    /// From now on no command for metadata fails; those that did stay known.
    pub(crate) fn heal(&self) {
        let mut state = self.state.lock();
        state.metadata_errors.iter_mut().for_each(|errors| (errors.writes, errors.reads) = (false, false));
    }

    /// Commands for metadata are counted from this call on.
    pub(crate) fn call_begins(&self, call: CallId) {
        let mut state = self.state.lock();
        state.metadata_errors.iter_mut().for_each(|errors| errors.last = Nth { after: Some(call), n: 0 });
    }

    /// Whether a command that changes something fails.
    pub(super) fn change_fails(&self, command: &Command<'_>, given: Given) -> bool {
        let what = match command {
            Command::Write { what, .. } => Some(*what),
            Command::Vendor(own) => own.writes().map(|(.., what)| what),
            Command::Flush => None,
            Command::Read { .. } | Command::Trim { .. } => return false,
        };
        let mut state = self.state.lock();
        match what {
            Some(what) if !what.is_metadata() => {
                state.errors.as_mut().is_some_and(|errors| errors.random.below(errors.one_in) == 0)
            }
            _ => state.metadata_errors.as_mut().is_some_and(|errors| errors.writes && errors.fails(|| given)),
        }
    }

    /// Whether a read of this fails.
    ///
    /// # Errors
    /// The drive's.
    pub(super) fn read_fails(
        &self,
        what: Structure,
        given: impl FnOnce() -> Given,
    ) -> Result<(), DriveError> {
        let mut state = self.state.lock();
        let errors = state.metadata_errors.as_mut().filter(|errors| errors.reads && what.is_metadata());
        if errors.is_some_and(|errors| errors.fails(given)) { Err(made()) } else { Ok(()) }
    }
}
