//! Checkpoints and snapshots of a file system that keeps its past: calls made while nobody uses it.

use granary_units::Nanos;

/// A state of the past that can be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its number.
    pub number: u64,
    /// How long the file system had been mounted when it was made.
    pub age: Nanos,
    /// It is kept until somebody says otherwise; others end when the cleaner needs their space.
    pub snapshot: bool,
    /// Inodes in use.
    pub inodes: u64,
    /// Blocks of files.
    pub blocks: u64,
}

/// Requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointCall {
    /// Nothing is changed.
    List,
    /// Makes one of the present state, or a snapshot.
    Make {
        /// It is to be kept.
        snapshot: bool,
    },
    /// This one becomes a snapshot.
    Keep(u64),
    /// This snapshot becomes a checkpoint like others.
    Release(u64),
    /// This one ends.
    End(u64),
}

/// State after the call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoints {
    /// All, oldest first.
    pub all: Vec<Checkpoint>,
    /// The one that was made.
    pub made: Option<u64>,
}
