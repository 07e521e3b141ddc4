//! Commands that fail with an error although the power stays on: writes of content, or all that concerns
//! metadata.
//!
//! ```text
//!   WriteErrors      writes of content, one in so many
//!   MetadataErrors   writes and reads of metadata, FLUSH, commands of the drive's own: from one of them on, one in so many, so often
//! ```
//!
//! A write that fails leaves the drive as it was. Stores do not fail: the host posts them and hears of
//! nothing.

use super::Faults;
use granary_device::{Command, DriveError, Structure};
use granary_sim::rng::Stream;

/// Which writes of content fail.
pub(crate) struct WriteErrors {
    /// One in so many.
    pub(crate) one_in: u64,
    pub(crate) random: Stream,
}

/// Which commands for metadata fail.
pub(crate) struct MetadataErrors {
    /// Writes of metadata, FLUSH and commands of the drive's own do.
    pub(crate) writes: bool,
    /// Reads and loads of metadata do.
    pub(crate) reads: bool,
    /// So many of these are spared first.
    pub(crate) spared: u64,
    /// One in so many behind them.
    pub(crate) one_in: u64,
    /// So many at most.
    pub(crate) left: u64,
    pub(crate) random: Stream,
}

impl MetadataErrors {
    fn fails(&mut self) -> bool {
        if self.spared > 0 {
            self.spared -= 1;
            return false;
        }
        let fails = self.left > 0 && self.random.below(self.one_in) == 0;
        self.left -= u64::from(fails);
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

    /// Lets commands for metadata fail from now on. Returns how many those before were allowed to fail and
    /// did not.
    pub(crate) fn fail_metadata(&self, errors: Option<MetadataErrors>) -> u64 {
        std::mem::replace(&mut self.state.lock().metadata_errors, errors).map_or(0, |before| before.left)
    }

    /// Whether a command that changes something fails.
    pub(super) fn change_fails(&self, command: &Command<'_>) -> bool {
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
            _ => state.metadata_errors.as_mut().is_some_and(|errors| errors.writes && errors.fails()),
        }
    }

    /// Whether a read of this fails.
    ///
    /// # Errors
    /// The drive's.
    pub(super) fn read_fails(&self, what: Structure) -> Result<(), DriveError> {
        let mut state = self.state.lock();
        let errors = state.metadata_errors.as_mut().filter(|errors| errors.reads && what.is_metadata());
        if errors.is_some_and(MetadataErrors::fails) { Err(made()) } else { Ok(()) }
    }
}
