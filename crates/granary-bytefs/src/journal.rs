//! Transactions: from the lines that an operation changes to their COMMIT.
//!
//! ```text
//!   operation:  plan ── enter the group ── lock lines (TxTable) ── change memory, store lines with TxID
//!                                          all or none             posted writes, no wait for the drive
//!               ── seal ── unlock
//!                   |
//!                   v
//!   group:      all sealed operations under one TxID; their changes to the bitmaps are kept beside it
//!       leader: nobody inside ── next group opens ── bitmap lines, each once ── one write-verify read
//!               ── COMMIT ── one wait
//! ```
//!
//! Invariants:
//! - *A group is there wholly or not at all*, and groups follow one another: whatever prefix of the TxLog
//!   survives a power failure, the media show all operations up to one point of the seal order and none after
//!   it. Two transactions that change one line are sealed in the order in which they stored it, because the
//!   line is locked from before the change until after the seal.
//! - *No deadlock.* Lines are locked all at once or not at all, so nobody holds lines while he waits for
//!   lines; and who is inside a group waits only for lines, the drive, a core, or a leader's bookkeeping.
//!   Nobody inside waits for the group to end.
//! - A transaction that failed half-way (the drive failed) stops the journal: memory is ahead of the media,
//!   so nothing may be committed any more.
//!
//! Deviations from the paper (section 4.3), where each operation has a TxID and a COMMIT, and a line stays
//! locked until then: the group makes both unnecessary, so concurrent operations share one verify and one
//! COMMIT. The bitmaps' lines, which the paper's operations change themselves, are changed by the leader:
//! until the COMMIT nobody needs them, the allocators are in memory. `commit = "sync"` is the paper's rule in
//! all of this.
//!
//! On firmware without a write log (`bytefs-dual`) the lines of sealed transactions wait in memory, and the
//! group commit puts them into a redo log of the host's ([`redo`]); all else is the same.
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
