//! [`Batch`]: the stores of one step of a protocol, written back together.
//!
//! ```text
//!   put a, put b, stream page      a, b lie in the write-combining buffers, the page is posted
//!   write_back                     clwb of a and b, which overlap, and one sfence
//!   fence                          write_back, then a verify if anything was posted since the last answered
//!                                  one
//! ```
//!
//! Over a [`RedoLog`](crate::RedoLog) a fence commits: what was put since the last one becomes a transaction,
//! and nothing of it is at home before that. Nobody loads what he has put and not fenced.
//!
//! It does *not* order what lies between two fences.

use crate::Pm;
use crate::redo::{Change, Keep, page_change};
use granary_device::{Port, Streamed, Structure};
use granary_fs::Result;
use granary_units::{ByteAddr, LINE_SIZE, Lpa, PAGE_SIZE, Page, Payload, TxId};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Stores on their way.
pub struct Batch<'a> {
    pm: &'a Pm,
    ranges: Vec<(ByteAddr, usize)>,
    /// Over a redo log: what the next fence commits.
    gathered: Vec<Change>,
}

fn lines(at: u64, len: usize) -> u64 {
    let line = LINE_SIZE as u64;
    if len == 0 { 0 } else { (at + len as u64 - 1) / line - at / line + 1 }
}

impl<'a> Batch<'a> {
    pub(crate) fn new(pm: &'a Pm) -> Batch<'a> {
        Batch { pm, ranges: Vec::with_capacity(8), gathered: Vec::new() }
    }

    fn port(&self) -> &'a Port {
        &self.pm.port
    }

    /// Stores bytes into the CPU's cache lines.
    ///
    /// # Errors
    /// The drive's, here and below.
    pub fn put(&mut self, at: u64, data: &[u8], what: Structure) -> Result<()> {
        self.pm.working()?;
        if self.pm.redo.is_some() {
            self.gathered.push(Change { at, bytes: data.to_vec(), what, streamed: false });
            return Ok(());
        }
        self.port().stage(ByteAddr(at), data, TxId::NONE, what)?;
        self.pm.lines.fetch_add(lines(at, data.len()), Relaxed);
        // Neighbours are written back in one sweep.
        match self.ranges.last_mut() {
            Some((start, len)) if start.0 + *len as u64 == at => *len += data.len(),
            _ => self.ranges.push((ByteAddr(at), data.len())),
        }
        Ok(())
    }

    /// Stores a word: atomic with respect to power loss.
    pub fn put_u64(&mut self, at: u64, value: u64, what: Structure) -> Result<()> {
        self.put(at, &value.to_le_bytes(), what)
    }

    /// Stores half a word.
    pub fn put_u32(&mut self, at: u64, value: u32, what: Structure) -> Result<()> {
        self.put(at, &value.to_le_bytes(), what)
    }

    /// Stores a whole block past the caches.
    pub fn stream_page(&mut self, block: u64, page: &Page, what: Structure) -> Result<()> {
        self.pm.working()?;
        if self.gathers_streams() {
            self.gathered.push(page_change(block, page, what));
            return Ok(());
        }
        self.pm.streamed.fetch_add((PAGE_SIZE / LINE_SIZE) as u64, Relaxed);
        self.port().stream(Lpa(block), 0, Streamed::Page(page), what)?;
        self.pm.posted.fetch_add(1, Release);
        Ok(())
    }

    /// Stores data past the caches; a fill is in phase with the address.
    pub fn stream(&mut self, at: u64, data: Payload<'_>, what: Structure) -> Result<()> {
        self.pm.working()?;
        if self.gathers_streams() {
            let mut bytes = vec![0; data.len()];
            data.copy_to(at, &mut bytes);
            self.gathered.push(Change { at, bytes, what, streamed: true });
            return Ok(());
        }
        self.pm.streamed.fetch_add(lines(at, data.len()), Relaxed);
        let mut done = 0;
        while done < data.len() {
            let here = ByteAddr(at + done as u64);
            let n = (PAGE_SIZE - here.in_page()).min(data.len() - done);
            let part = Streamed::Part(data.part(done, n));
            self.port().stream(here.lpa(), here.in_page(), part, what)?;
            done += n;
        }
        self.pm.posted.fetch_add(1, Release);
        Ok(())
    }

    fn gathers_streams(&self) -> bool {
        self.pm.redo.as_ref().is_some_and(|redo| redo.keep() == Keep::Storage)
    }

    /// Hands over the ranges that were put and are not written back; the caller writes them back later.
    pub(crate) fn keep(&mut self) -> std::vec::Drain<'_, (ByteAddr, usize)> {
        self.ranges.drain(..)
    }

    /// Takes over what [`Batch::keep`] gave.
    pub(crate) fn resume(&mut self, ranges: Vec<(ByteAddr, usize)>) {
        self.ranges.extend(ranges);
    }

    /// Whether something was put over a redo log that no fence has committed.
    pub fn is_open(&self) -> bool {
        !self.gathered.is_empty()
    }

    /// Forgets what was put over a redo log and not committed.
    pub fn forget(&mut self) {
        self.gathered.clear();
    }

    /// Writes back what was put; it will arrive, in any order. Over a redo log: it is at home for all to see,
    /// and may be lost.
    pub fn write_back(&mut self) -> Result<()> {
        if let Some(redo) = &self.pm.redo {
            return redo.bring_home_all(&self.pm.bare(), std::mem::take(&mut self.gathered));
        }
        if !self.ranges.is_empty() {
            self.port().flush_lines(self.ranges.drain(..))?;
            self.pm.posted.fetch_add(1, Release);
        }
        Ok(())
    }

    /// Writes back, and waits until everything put so far is safe.
    pub fn fence(&mut self) -> Result<()> {
        if let Some(redo) = &self.pm.redo {
            // Bytes streamed past the log are made safe before the pointers to them count.
            self.verify()?;
            let changes = std::mem::take(&mut self.gathered);
            return if changes.is_empty() { Ok(()) } else { redo.commit(&self.pm.bare(), changes) };
        }
        self.write_back()?;
        self.pm.fences.fetch_add(1, Relaxed);
        self.verify()
    }

    fn verify(&self) -> Result<()> {
        let posted = self.pm.posted.load(Acquire);
        if self.pm.verified.load(Acquire) < posted {
            self.pm.verifies.fetch_add(1, Relaxed);
            self.port().verify()?;
            self.pm.verified.fetch_max(posted, Release);
        }
        Ok(())
    }
}
