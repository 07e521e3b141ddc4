//! Storage of devices in files of the host: the files, memories with checksums, one redo log, group commit.
//!
//! ```text
//!   devices ──records, contents of pages──> Journal ──frames──> wal: two halves in turn, safe from here on
//!                                             └─a half is full─> dram | nvm (Region): bytes   flash: pages
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`host`] | the few requests to the machine: a directory of it, or files in memory that can crash |
//! | [`redo`] | form of a change: bytes of a memory, or the content of a flash page |
//! | [`journal`], `commit` | takes changes in groups, makes them safe, moves them to their place |
//! | [`wal`] | the file of the log, and how it is read back |
//! | [`region`] | a memory as a file that has checksums, changed by records only |
//! | `pending`, [`direct`] | contents of pages on their way to `flash`: through the log, or straight |
//! | [`files`] | names of an image's files |
//!
//! It does *not* know any device. The devices decide what the bytes mean and when they change; granary-image
//! decides which devices an image has.

#![deny(unsafe_code)] // but for host/map.rs

mod blocks;
mod commit;
pub mod direct;
mod error;
pub mod files;
pub mod host;
pub mod journal;
mod numbers;
mod pending;
pub mod redo;
pub mod region;
pub mod sum;
pub mod wal;

pub use error::ImageError;
pub use numbers::{long, word};
pub use pending::Rider;

use std::thread::JoinHandle;

/// Failures that acknowledged changes survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process, `kill -9` at any instruction.
    #[default]
    Process,
    /// That, and after a barrier ([`journal::Journal::barrier`]) a crash of the machine.
    Machine,
}

/// Starts a thread that serves an image.
///
/// # Errors
/// The host's.
#[allow(clippy::disallowed_methods, reason = "host I/O beside the simulated world: it changes no result")]
pub fn start_thread(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(body)
}
