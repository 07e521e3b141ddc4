//! Transactions: from the lines that an operation changes to their COMMIT.
//!
//! ```text
//!   operation:  plan ── lock lines (TxTable) ── change memory, store lines with TxID ── seal ── unlock
//!                       all or none             posted writes, no wait for the drive      |
//!                                                                                        v
//!   group commit:                    sealed transactions in order:   7  9  8  12  10 ...
//!       leader: one write-verify read for all ── COMMIT(7) COMMIT(9) COMMIT(8) ... back to back ── one wait
//! ```
//!
//! Invariants:
//! - *Seal order is commit order.* Two transactions that change one line are sealed in the order in which they stored
//!   it, because the line is locked from before the change until after the seal. So whatever prefix of the TxLog
//!   survives a power failure, the media show all operations up to one point of the seal order and none after it.
//! - *No deadlock.* Lines are locked all at once or not at all, so nobody holds lines while he waits for lines; and who
//!   holds lines waits only for the drive, a core, or a leader's bookkeeping, none of which waits for lines.
//! - A transaction that failed half-way (the drive failed) stops the journal: memory is ahead of the media, so nothing
//!   may be committed any more.
//!
//! Deviation from the paper (section 4.3), where a line stays locked until its transaction has committed: the seal
//! order makes that unnecessary, so concurrent operations share one verify and never wait for each other's COMMIT.
//! `commit = "sync"` is the paper's rule.
//!
//! On firmware without a write log (`bytefs-dual`) the lines of sealed transactions wait in memory, and the group commit
//! puts them into a redo log of the host's ([`redo`]); all else is the same.
//!
//! It does *not* know what the lines mean.
//!
//! Source: ByteFS section 4.3 (TxTable, TxID, COMMIT), 4.2 (write-verify read).

pub mod area;
pub mod commit;
pub mod locks;
pub mod redo;
pub mod tx;

pub use area::DataJournal;
pub use commit::Journal;
pub use locks::TxTable;
pub use redo::Redo;
pub use tx::{Bitmap, Tx};
