//! [`FlashError`]: everything that can go wrong at or below the FTL.

use crate::medium::BlockNo;
use granary_units::{Lpa, Nanos, Ppa};

/// Why a flash operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum FlashError {
    /// The configuration makes no working drive; says what to change.
    #[error("flash configuration: {0}")]
    Config(String),
    /// The host named pages beyond the drive's end.
    #[error("{pages} pages from {first} on leave the drive of {capacity} pages")]
    OutOfRange {
        /// First page named.
        first: Lpa,
        /// Number of pages named.
        pages: u64,
        /// Logical pages of the drive.
        capacity: u64,
    },
    /// End of life: too many blocks have failed to accept more writes. Reads still work.
    #[error("the drive is read-only: {lost_blocks} blocks have failed and no spare block is left")]
    ReadOnly {
        /// Blocks out of service.
        lost_blocks: u32,
    },
    /// The page could not be read, not even by retrying.
    #[error("uncorrectable read error at flash page {}", ppa.0)]
    Unreadable {
        /// The page.
        ppa: Ppa,
        /// When the drive gave up.
        done: Nanos,
    },
    /// The NAND reported a failed program; the page's content is undefined and its block should be retired.
    #[error("program failed at flash page {}", ppa.0)]
    ProgramFailed {
        /// The page.
        ppa: Ppa,
        /// When the NAND said so.
        done: Nanos,
    },
    /// The NAND reported a failed erase; the block should be retired.
    #[error("erase failed at block {}", block.0)]
    EraseFailed {
        /// The block.
        block: BlockNo,
        /// When the NAND said so.
        done: Nanos,
    },
    /// A program that breaks the NAND's rule: the pages of an erased block are programmed once, in order.
    #[error("flash page {} is not the next erased page of its block (that is page {next} of the block)", ppa.0)]
    OutOfOrder {
        /// The page that was to be programmed.
        ppa: Ppa,
        /// Number within the block of the only page that may be programmed now.
        next: u32,
    },
    /// A read of a page that holds nothing.
    #[error("flash page {} is erased", ppa.0)]
    Erased {
        /// The page.
        ppa: Ppa,
    },
    /// The files behind the medium failed.
    #[error("flash medium: {0}")]
    Media(#[from] std::io::Error),
    /// The medium holds what this FTL never wrote; says what and where.
    #[error("corrupt flash: {0}")]
    Corrupt(String),
}
