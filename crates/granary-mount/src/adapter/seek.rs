//! SEEK_DATA and SEEK_HOLE: exact, pages that programs have changed through mappings included.
//!
//! ```text
//!   serving thread:  LSEEK ── the vfs says: data here, or no hole at all ──────────────────────────> reply
//!                      └─ a hole in question ─> an errand:       invalidate those pages in the kernel
//!                                                                  └─ dirty ones come as WRITE,
//!                                                                     to serving threads
//!                                                                ask the vfs again, reply
//! ```
//!
//! The kernel does not write the pages of mappings back before it asks (`fuse_lseek` of fs/fuse/file.c).
//! Nobody here knows which pages they changed in a hole: those have to be fetched, or `cp` would leave them
//! out. Only pages of holes are asked for, of which the kernel caches zeros at most.
//!
//! The kernel answers the invalidation when the WRITE requests that it causes are answered. A thread that
//! waits for that must not be needed to serve them. Hence the thread (errands.rs). The caller of lseek holds
//! the kernel's lock of the inode, but no page; write-back takes pages, but no such lock.

use super::Adapter;
use super::stats::Statistics;
use crate::convert::errno;
use granary_fs::{Caller, FsError, Result};
use granary_fuse::{NodeId, Notifier, Reply};
use std::ops::Range;

/// Linux's SEEK_DATA and SEEK_HOLE.
const DATA: u32 = 3;
const HOLE: u32 = 4;
/// Holes that one SEEK_HOLE looks at; a file that has them filled under its eyes has none, which is always a
/// right answer.
const MOST: usize = 64;

/// Makes the kernel write back what mappings changed in these bytes.
fn fetch(kernel: Option<&Notifier>, node: NodeId, range: Range<u64>) {
    // Where the kernel refuses (the mount is ending), the answer stays as the media have it.
    let told =
        kernel.map(|kernel| kernel.invalidate(node, range.start as i64, (range.end - range.start) as i64));
    drop(told);
}

fn send(reply: Reply, result: Result<u64>) {
    match result {
        Ok(pos) => reply.offset(pos),
        Err(e) => reply.error(errno(&e)),
    }
}

impl Adapter {
    /// Where data or a hole begins; the kernel does the other kinds of `lseek` alone.
    pub(super) fn seek(&self, node: NodeId, pos: i64, whence: u32, reply: Reply) {
        let hole = whence == HOLE;
        let pos = match u64::try_from(pos) {
            Ok(pos) if matches!(whence, DATA | HOLE) && !Statistics::is(node) => pos,
            Ok(_) => return send(reply, Err(FsError::Invalid)),
            Err(_) => return send(reply, Err(FsError::NoDevice)),
        };
        match self.seek_once(node, pos, hole) {
            Ok((answer, empty)) if empty.is_empty() => send(reply, answer),
            Ok(_) => {
                let errand = move |adapter: &Adapter| {
                    let kernel = adapter.kernel.get();
                    send(reply, adapter.seek_with(node, pos, hole, |range| fetch(kernel, node, range)));
                };
                self.errands.ask(self, Box::new(errand));
            }
            Err(e) => send(reply, Err(e)),
        }
    }

    /// The vfs's answer, and the hole on which it rests.
    fn seek_once(&self, node: NodeId, pos: u64, hole: bool) -> Result<(Result<u64>, Range<u64>)> {
        let node = self.node(node)?;
        let (answer, size) = (self.vfs.seek(&Caller::KERNEL, &node, pos, hole), node.size());
        let data = |from: u64| match self.vfs.seek(&Caller::KERNEL, &node, from, false) {
            Err(FsError::NoDevice) => Ok(size),
            other => other,
        };
        let empty = match (&answer, hole) {
            // At or beyond the end.
            _ if pos >= size => 0..0,
            (Ok(at), true) => *at..data(*at)?.max(*at),
            (Ok(at), false) => pos..*at,
            (Err(FsError::NoDevice), false) => pos..size,
            (Err(_), _) => 0..0,
        };
        Ok((answer, empty))
    }

    /// The answer when the kernel has been made to tell, by `fetch`, what it knows of the holes in question.
    fn seek_with(&self, node: NodeId, pos: u64, hole: bool, fetch: impl Fn(Range<u64>)) -> Result<u64> {
        let mut told = 0..0;
        for _ in 0..MOST {
            let (answer, empty) = self.seek_once(node, pos, hole)?;
            if empty.is_empty() || told.start <= empty.start && empty.end <= told.end {
                return answer;
            }
            fetch(empty.clone());
            told = empty;
        }
        if hole { Ok(self.node(node)?.size()) } else { Ok(pos) }
    }
}
