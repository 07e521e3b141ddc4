//! [`Placement`]: the choice of new data that shares flash blocks.
//!
//! ```text
//!   new data ── Placement::is_apart ──┬─ no:  the open block of the host's stream
//!                                     └─ yes: an open block of its own
//!                                             (each plane then has one block more that holds no data)
//! ```
//!
//! Data that dies together should lie together: then gc finds blocks with few live pages. Copies of gc and
//! cold data have blocks of their own under every policy.

use crate::counters::Cause;
use std::fmt::Debug;

/// A policy of placement.
pub trait Placement: Debug + Send + Sync {
    /// Whether a page goes to the second stream. `overwrites`: its logical page has content already.
    fn is_apart(&self, cause: Cause, overwrites: bool) -> bool;
}

/// Data out of the firmware's log is apart from the host's writes.
#[derive(Clone, Copy, Debug)]
pub struct LogApart;

impl Placement for LogApart {
    fn is_apart(&self, cause: Cause, _: bool) -> bool {
        matches!(cause, Cause::LogCleaning | Cause::Recovery)
    }
}

/// Updates are apart from what is written for the first time: data that was overwritten once will be again.
/// Chiang, Lee and Chang, "Using data clustering to improve cleaning performance for flash memory", Software:
/// Practice and Experience 29(3), 1999, here with two regions.
#[derive(Clone, Copy, Debug)]
pub struct UpdatesApart;

impl Placement for UpdatesApart {
    fn is_apart(&self, _: Cause, overwrites: bool) -> bool {
        overwrites
    }
}
