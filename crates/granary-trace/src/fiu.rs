//! FIU's traces as calls on files: [`Trace`], read from a file by [`Trace::parse`] and replayed by
//! granary-workload.
//!
//! ```text
//!   of files    seq  ts(ns)  READ|WRITE                       inode  inode-size  offset  bytes
//!                                                                                HIT|MISS|APPEND
//!               seq  ts(ns)  OPEN|CLOSE|FSYNC|FDATASYNC       inode  inode-size
//!   of blocks   ts(ns)  pid  process  lba  sectors  W|R  major  minor  md5
//! ```
//!
//! Each inode is a file. A trace of blocks is below the page cache of its server. Each device is a file,
//! which begins at the lowest block that the trace touches. Each write is durable when it returns, since the
//! traced drive had it then.
//!
//! Invariants: every record's file is in [`Trace::files`]. A file's pieces are disjoint, ascending and within
//! its size. A trace has at least one record. It does *not* keep time stamps: a replay measures throughput,
//! each client makes its next call when the last one has returned.
//!
//! Sources: the description of the traces of "Non-blocking Writes to Files" (FAST 2015), FIU's systems
//! laboratory; the README of the traces of "I/O Deduplication" (FAST 2010), SNIA IOTTA 390 and 391.

mod line;
mod parse;
#[cfg(test)]
mod tests;

use std::sync::Arc;

/// Bytes of a piece. The pieces that a trace touches are laid out before the replay. \[choice\] Large enough
/// that laying out is no random access of single pages. Small enough that a large file stays small where the
/// trace touches little of it.
pub const PIECE: u64 = 64 << 10;

/// A call of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// `pread`.
    Read,
    /// `pwrite`.
    Write,
    /// `open`.
    Open,
    /// `close` of the descriptor that was opened last.
    Close,
    /// `fsync`.
    Fsync,
    /// `fdatasync`.
    Fdatasync,
}

impl Call {
    /// All of them.
    pub const ALL: [Call; 6] =
        [Call::Read, Call::Write, Call::Open, Call::Close, Call::Fsync, Call::Fdatasync];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Call::Read => "read",
            Call::Write => "write",
            Call::Open => "open",
            Call::Close => "close",
            Call::Fsync => "fsync",
            Call::Fdatasync => "fdatasync",
        }
    }
}

/// A record of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The call.
    pub call: Call,
    /// The file: an index into [`Trace::files`].
    pub file: u32,
    /// The first byte, of reads and writes.
    pub offset: u64,
    /// Bytes, of reads and writes.
    pub len: u32,
}

/// A file of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFile {
    /// Its name below the directory of its client.
    pub name: String,
    /// Bytes that it has before the replay begins.
    pub size: u64,
    /// Which of them have content: first byte and end of each run. The rest is a hole, since the trace does
    /// not touch it.
    pub pieces: Vec<(u64, u64)>,
}

/// A trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Where it came from; for reports.
    pub name: String,
    /// Its files.
    pub files: Vec<TraceFile>,
    /// Its records, in order.
    pub records: Arc<[Record]>,
    /// Records that each client replays: the first ones, or all of them and some again.
    pub count: u64,
    /// Clients; each replays the trace on files of its own.
    pub clients: u32,
    /// Files are opened so that a write is durable when it returns.
    pub durable: bool,
}

impl Trace {
    /// The same with its records multiplied by `factor`; at least one.
    pub fn scale(&mut self, factor: f64) {
        // `as` saturates.
        self.count = ((self.count as f64 * factor).round() as u64).max(1);
    }

    /// Whether any record that is replayed is of this file, for each file.
    pub fn touched(&self) -> Vec<bool> {
        let mut touched = vec![false; self.files.len()];
        let count = usize::try_from(self.count).unwrap_or(usize::MAX).min(self.records.len());
        self.records[..count].iter().for_each(|r| touched[r.file as usize] = true);
        touched
    }

    /// Bytes that are laid out before the replay.
    pub fn expected_bytes(&self) -> f64 {
        let touched = self.touched();
        let files = self.files.iter().zip(touched).filter(|(_, touched)| *touched);
        let one: u64 = files.flat_map(|(file, _)| &file.pieces).map(|(from, to)| to - from).sum();
        one as f64 * f64::from(self.clients)
    }

    /// The path of a file of the `client`-th client, from 0.
    pub fn path(&self, client: u32, file: u32) -> String {
        format!("/fiu/{client}/{}", self.files[file as usize].name)
    }
}
