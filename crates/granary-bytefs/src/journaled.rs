//! Writing file data inside transactions: `data = "journal"`.
//!
//! ```text
//!   page of a new block              written where it belongs, waited for before the seal
//!   few dirty lines of a known one   lines of the transaction, by byte
//!   the rest                         record in the journal area, entry line in the transaction
//!                                    └── together with extents, bitmap lines and the inode: one COMMIT
//! ```
//!
//! The vfs hands every write() over before the call returns ([`granary_fs::Quirks::writes_through`]), so that
//! the order of transactions is the order of calls and a power failure leaves a prefix of it, data included.
//! A write of more pages than a record holds is split into several, each whole (section 4.3: "smaller atomic
//! operations at block granularity").
//!
//! Stores through mappings are no calls: they are in the order from their write-back on.
//!
//! Source: ByteFS section 4.6 (data journaling).

use crate::core::Core;
use crate::data::pages_of;
use crate::journal::Tx;
use crate::node::{Dirty, Node, Standing, node};
use crate::space::Run;
use granary_device::{Structure, Ticket};
use granary_fs::{Call, DirtyPage, Inode, Result};
use granary_units::{Lpa, PAGE_SIZE, Page, Payload};

/// Data lines that one transaction has at most: a small part of any write log. Pages beyond go into the
/// record.
const BYTE_LINES: u32 = 256;

impl Core {
    /// [`granary_fs::Data::write_pages`] with data journaling; the caller holds `change`.
    pub fn write_journaled(&self, inode: &Inode, pages: &[DirtyPage], size: u64) -> Result<()> {
        for part in pages.chunks(self.data_journal.limit()) {
            let end = part.last().map_or(0, DirtyPage::end).min(size);
            self.write_whole(inode, part, end)?;
        }
        Ok(())
    }

    /// An inode without names writes where its blocks are: nobody will see them after a power failure, unless
    /// the removal of the last name is lost. So that one is made durable first, and nothing of the file stays
    /// in records.
    pub fn leave_journal(&self, node: &Node, old: impl Iterator<Item = Run>) -> Result<()> {
        debug_assert_eq!(node.body.lock().standing, Standing::Gone);
        self.commit_to(self.journal.sealed())?;
        if self.data_journal.has_any(old) { self.checkpoint_data(true) } else { Ok(()) }
    }

    fn write_whole(&self, inode: &Inode, pages: &[DirtyPage], end: u64) -> Result<()> {
        let node = node(inode);
        let mut targets = self.targets(node, pages.iter().map(|p| p.index));
        let mut tx = Tx::new(self);
        let new = self.allocate(&mut tx, node, |i| pages[i].index, &mut targets)?;
        let (mut all, mut left, mut record) = (Ticket::NONE, BYTE_LINES, Vec::new());
        for (page, target) in pages.iter().zip(&targets) {
            let lines = page.lines.count_ones();
            let place = Lpa(target.lba as u64);
            if target.new {
                let one = std::slice::from_ref(&page.page);
                all = all.and(self.port.submit_write(place, one, Structure::Data)?);
            } else if lines < self.threshold && lines <= left && !self.data_journal.has(target.lba) {
                left -= lines;
                tx.put_data(place, page.page.clone(), page.lines);
            } else {
                record.push((target.lba, page.page.clone()));
            }
        }
        if record.is_empty() {
            self.port.wait(all);
            return self.point_at(tx, inode, &new, end).map(drop);
        }
        let _one = self.data_journal.making.lock();
        let (making, ticket) = self.make_record(record)?;
        self.port.wait(all.and(ticket));
        tx.put_entry(&making);
        match self.point_at(tx, inode, &new, end) {
            Ok(Some(seq)) => self.data_journal.sealed(making, seq),
            Ok(None) => self.data_journal.forget(&making),
            Err(e) => {
                self.data_journal.forget(&making);
                return Err(e);
            }
        }
        Ok(())
    }

    /// A direct write with data journaling: pages that are written in part are read, and all go the way of
    /// write-back.
    pub fn write_direct_journaled(
        &self,
        call: &Call<'_>,
        inode: &Inode,
        pos: u64,
        data: Payload<'_>,
    ) -> Result<()> {
        let range = pages_of(pos, data.len() as u64);
        let mut pages = vec![Page::ZERO; (range.end - range.start) as usize];
        let (old, end) = (inode.size(), pos + data.len() as u64);
        for at in [0, pages.len() - 1] {
            let first = (range.start + at as u64) * PAGE_SIZE as u64;
            if pos > first || end < first + PAGE_SIZE as u64 {
                self.read_pages(inode, range.start + at as u64, &mut pages[at..at + 1])?;
                // Beyond the end media have anything.
                pages[at].zero_from(old.saturating_sub(first).min(PAGE_SIZE as u64) as usize);
            }
        }
        let mut dirty = Vec::with_capacity(pages.len());
        for (index, mut page) in range.zip(pages) {
            let first = index * PAGE_SIZE as u64;
            let (from, to) = (pos.max(first), end.min(first + PAGE_SIZE as u64));
            let part = data.part((from - pos) as usize, (to - from) as usize);
            let (from, to) = ((from - first) as usize, (to - first) as usize);
            page.write(from, part);
            // Bytes between the old end and the data become part of the file, too.
            let from = from.min(old.saturating_sub(first).min(PAGE_SIZE as u64) as usize);
            let lines = (u64::MAX >> (63 - (to - 1) / 64)) & (u64::MAX << (from / 64));
            dirty.push(DirtyPage { index, page, valid: PAGE_SIZE, lines });
        }
        inode.update(|a| a.wrote(end, call.time));
        self.mark_dirty(inode, Dirty { times: true, atime: false });
        self.write_journaled(inode, &dirty, inode.size())
    }
}
