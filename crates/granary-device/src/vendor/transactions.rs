//! Transactions of a write log: COMMIT, RECOVER (ByteFS sections 4.3 and 4.7).

use super::{Extension, Vendor};
use crate::drive::DriveError;
use crate::port::{Port, Ticket};
use granary_units::TxId;

/// The names of the commands.
pub const COMMANDS: &[&str] = &["COMMIT", "RECOVER"];

/// Facts about the drive's write log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Bytes of a half of the log, which is what uncommitted transactions may take; 0: not known, or no log.
    pub half: u64,
}

/// Commits a transaction. All its stores must have been verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The transaction.
    pub tx: TxId,
}

/// Drops what has not committed, and brings the rest to flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recover;

// Both go to the queue directly, and carry no data.
impl Vendor for Commit {
    fn name(&self) -> &'static str {
        "COMMIT"
    }
}

impl Vendor for Recover {
    fn name(&self) -> &'static str {
        "RECOVER"
    }
}

/// The write log of a drive: stores may carry a transaction
/// ([`Drive::store_from`](crate::Drive::store_from)).
#[derive(Clone, Copy)]
pub struct Transactions<'p> {
    port: &'p Port,
}

impl<'p> Extension<'p> for Transactions<'p> {
    const NAME: &'static str = "write log with transactions";

    #[inline]
    fn of(port: &'p Port) -> Option<Transactions<'p>> {
        port.offers(COMMANDS[0]).then_some(Transactions { port })
    }
}

impl Transactions<'_> {
    /// Starts the COMMIT of a transaction. Commits complete in the order in which they are submitted.
    ///
    /// # Errors
    /// Of the drive.
    pub fn submit_commit(&self, tx: TxId) -> Result<Ticket, DriveError> {
        self.port.submit_vendor(&mut Commit { tx })
    }

    /// RECOVER: the firmware drops what was not committed and flushes the rest.
    ///
    /// # Errors
    /// Of the drive.
    pub fn recover(&self) -> Result<(), DriveError> {
        let t = self.port.submit_vendor(&mut Recover)?;
        self.port.wait(t);
        Ok(())
    }
}
