//! [`Log`]: which calls a load made, and what was promised at which place of the tape.
//!
//! ```text
//!   Recorded: begin(model) ── Client: note ── the system call ── Recorded: end(model)
//!                               '─ position on the tape, fork of the promises
//! ```
//!
//! Invariants: the model knows of a call before its note is made, and the kernel sees the call after that. So
//! the note before a request has every change that the request may carry. A promise shows in the first note
//! behind it: the requests that it stands on are on the tape by then.

use super::tape::Tape;
use granary_crash::Promises;
use parking_lot::Mutex;
use std::sync::Arc;

/// A call that begins.
pub struct Note {
    /// Requests on the tape before it.
    pub at: usize,
    /// The client and the call.
    pub text: String,
    /// The promises at this moment, and the changes that have begun.
    pub promises: Promises,
}

/// Notes of all clients of a mount.
pub struct Log {
    tape: Arc<Tape>,
    promises: Promises,
    notes: Mutex<Vec<Note>>,
    /// Appends are made one at a time: where each went is found out in two steps.
    pub appends: Mutex<()>,
}

impl Log {
    /// An empty one.
    pub fn new(tape: Arc<Tape>, promises: Promises) -> Log {
        Log { tape, promises, notes: Mutex::default(), appends: Mutex::default() }
    }

    /// A call begins.
    pub fn note(&self, text: String) {
        let mut notes = self.notes.lock();
        let promises = self.promises.fork();
        notes.push(Note { at: self.tape.position(), text, promises });
    }

    /// All notes, in order.
    pub fn end(&self) -> Vec<Note> {
        std::mem::take(&mut self.notes.lock())
    }
}
