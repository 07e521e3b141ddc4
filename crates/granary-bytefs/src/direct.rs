//! Direct I/O: past the page cache, by byte up to 512 bytes, else by block.
//!
//! ```text
//!   write 100 B at 5000 into an existing block:   store ── verify                  one line, no flash read
//!   write 10,000 B at 3000:                       read the two partial blocks ── write three blocks ── wait
//! ```
//!
//! Invariants: a block that a direct write allocates is written whole; on return the drive has the data.
//!
//! Source: ByteFS section 4.6 (direct data access).

use crate::core::Core;
use crate::data::{NewRuns, old_blocks, pages_of};
use crate::journal::Tx;
use crate::map::Piece;
use crate::node::{Dirty, Standing, node};
use crate::options::DataMode;
use granary_device::{Structure, Ticket};
use granary_fs::{Call, Inode, Result};
use granary_kit::direct;
use granary_kit::direct::{CHUNK, Part, parts};
use granary_units::{Dest, Lpa, PAGE_SIZE, Page, Payload};

impl Core {
    /// See [`granary_fs::Data::read_direct`].
    pub fn read_direct(&self, inode: &Inode, pos: u64, mut dest: Dest<'_>) -> Result<()> {
        if dest.len() <= self.options.direct_byte_max {
            for Part { page, inside, done, len: n } in parts(pos, dest.len()) {
                let piece = node(inode).body.lock().map.piece(page);
                let mut part = dest.part(done, n);
                match (piece, &mut part) {
                    (Piece::Hole { .. }, part) => part.zero(),
                    (Piece::At { lba, .. }, part) if self.data_journal.has(lba) => {
                        let mut whole = [Page::ZERO];
                        self.read_pages(inode, page, &mut whole)?;
                        part.copy_from(&whole[0], inside);
                    }
                    (Piece::At { lba, .. }, Dest::Bytes(out)) => {
                        let at = Lpa(lba as u64).byte().offset(inside as u64);
                        self.port.load(at, out, Structure::Data)?;
                    }
                    (Piece::At { lba, .. }, Dest::Discard(n)) => {
                        let at = Lpa(lba as u64).byte().offset(inside as u64);
                        self.port.load(at, &mut vec![0; *n], Structure::Data)?;
                    }
                }
            }
            return Ok(());
        }
        direct::read(pos, dest, |first, out| self.read_pages(inode, first, out))
    }

    /// See [`granary_fs::Data::write_direct`].
    pub fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        self.journal.alive()?;
        let mut done = 0;
        while done < data.len() {
            let at = pos + done as u64;
            let chunk_end = (at / PAGE_SIZE as u64 + CHUNK) * PAGE_SIZE as u64;
            let n = (data.len() - done).min((chunk_end - at) as usize);
            self.write_chunk(call, inode, at, data.part(done, n))?;
            done += n;
        }
        Ok(())
    }

    fn write_chunk(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        let node = node(inode);
        let _change = node.change.lock();
        let range = pages_of(pos, data.len() as u64);
        let mut targets = self.targets(node, range.clone());
        if self.options.data == DataMode::Journal {
            if self.standing(node) != Standing::Gone {
                return self.write_direct_journaled(call, inode, pos, data);
            }
            self.leave_journal(node, old_blocks(&targets))?;
        }
        let mut tx = Tx::new(self);
        let small = data.len() <= self.options.direct_byte_max && targets.iter().all(|t| !t.new);
        let new = if small {
            for (part, target) in parts(pos, data.len()).zip(&targets) {
                let mut buf = vec![0; part.len];
                data.part(part.done, part.len).copy_to(pos + part.done as u64, &mut buf);
                self.store_data(node, target.lba, part.inside, &buf)?;
            }
            self.journal.verify_all(&self.port)?;
            NewRuns::new()
        } else {
            let new = self.allocate(&mut tx, node, |i| range.start + i as u64, &mut targets)?;
            let mut pages = vec![Page::ZERO; targets.len()];
            // Blocks that are partly overwritten are read first: at most the first and the last.
            let mut all = Ticket::NONE;
            for (i, part) in parts(pos, data.len()).enumerate() {
                if part.len < PAGE_SIZE && !targets[i].new {
                    let lpa = Lpa(targets[i].lba as u64);
                    all = all.and(self.port.submit_read(lpa, &mut pages[i..i + 1], Structure::Data)?);
                }
            }
            self.port.wait(all);
            for (part, page) in parts(pos, data.len()).zip(&mut pages) {
                page.write(part.inside, data.part(part.done, part.len));
            }
            let (mut all, mut first) = (Ticket::NONE, 0);
            for run in targets.chunk_by(|a, b| a.lba + 1 == b.lba) {
                let part = &pages[first..first + run.len()];
                all = all.and(self.port.submit_write(Lpa(run[0].lba as u64), part, Structure::Data)?);
                first += run.len();
            }
            self.port.wait(all);
            new
        };
        let end = pos + data.len() as u64;
        inode.update(|a| a.wrote(end, call.time));
        self.mark_dirty(inode, Dirty { times: true, atime: false });
        self.point_at(tx, inode, &new, end).map(drop)
    }
}
