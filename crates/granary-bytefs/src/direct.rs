//! Direct I/O: past the page cache, by byte up to 512 bytes, else by block.
//!
//! ```text
//!   write 100 B at 5000 into an existing block:   store ── verify                         one line, no flash read
//!   write 10,000 B at 3000:                       read the two partial blocks ── write three blocks ── wait
//! ```
//!
//! Invariants: a block that a direct write allocates is written whole; on return the drive has the data.
//!
//! Source: ByteFS section 4.6 (direct data access).

use crate::core::Core;
use crate::data::{old_blocks, pages_of};
use crate::journal::Tx;
use crate::map::Piece;
use crate::node::{Dirty, Standing, node};
use crate::options::DataMode;
use granary_mssd::{Structure, Ticket};
use granary_units::{Dest, Lpa, PAGE_SIZE, Page, Payload};
use granary_vfs::{Cx, Inode, Result};

/// Pages read or written together; bounds the memory of one large request.
const CHUNK: u64 = 256;

/// Splits `pos..pos + len` at page borders: page, first byte in it, offset in the request, length.
fn parts(pos: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = pos + done as u64;
        let inside = (at % PAGE_SIZE as u64) as usize;
        let n = (PAGE_SIZE - inside).min(len - done);
        let part = (at / PAGE_SIZE as u64, inside, done, n);
        done += n;
        (n > 0).then_some(part)
    })
}

impl Core {
    /// See [`granary_vfs::FileSystem::read_direct`].
    pub fn read_direct(&self, inode: &Inode, pos: u64, mut dest: Dest<'_>) -> Result<()> {
        if dest.len() <= self.options.direct_byte_max {
            for (page, inside, done, n) in parts(pos, dest.len()) {
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
        let mut done = 0;
        while done < dest.len() {
            let at = pos + done as u64;
            let chunk_end = (at / PAGE_SIZE as u64 + CHUNK) * PAGE_SIZE as u64;
            let n = (dest.len() - done).min((chunk_end - at) as usize);
            let range = pages_of(at, n as u64);
            let mut pages = vec![Page::ZERO; (range.end - range.start) as usize];
            self.read_pages(inode, range.start, &mut pages)?;
            let mut chunk = dest.part(done, n);
            for (page, inside, offset, len) in parts(at, n) {
                chunk.part(offset, len).copy_from(&pages[(page - range.start) as usize], inside);
            }
            done += n;
        }
        Ok(())
    }

    /// See [`granary_vfs::FileSystem::write_direct`].
    pub fn write_direct(&self, cx: &Cx<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        self.journal.alive()?;
        let mut done = 0;
        while done < data.len() {
            let at = pos + done as u64;
            let chunk_end = (at / PAGE_SIZE as u64 + CHUNK) * PAGE_SIZE as u64;
            let n = (data.len() - done).min((chunk_end - at) as usize);
            self.write_chunk(cx, inode, at, data.part(done, n))?;
            done += n;
        }
        Ok(())
    }

    fn write_chunk(&self, cx: &Cx<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        let node = node(inode);
        let _change = node.change.lock();
        let range = pages_of(pos, data.len() as u64);
        let mut targets = self.targets(node, range.clone());
        if self.options.data == DataMode::Journal {
            if self.standing(node) != Standing::Gone {
                return self.write_direct_journaled(cx, inode, pos, data);
            }
            self.leave_journal(node, old_blocks(&targets))?;
        }
        let mut tx = Tx::new(self);
        let small = data.len() <= self.options.direct_byte_max && targets.iter().all(|t| !t.new);
        let new = if small {
            for ((_, inside, offset, n), target) in parts(pos, data.len()).zip(&targets) {
                let mut buf = vec![0; n];
                data.part(offset, n).copy_to(pos + offset as u64, &mut buf);
                self.store_data(node, target.lba, inside, &buf)?;
            }
            self.journal.verify_all(&self.port)?;
            Vec::new()
        } else {
            let new = self.allocate(&mut tx, node, |i| range.start + i as u64, &mut targets)?;
            let mut pages = vec![Page::ZERO; targets.len()];
            // Blocks that are partly overwritten are read first: at most the first and the last.
            let mut all = Ticket::NONE;
            for (i, (_, _, _, n)) in parts(pos, data.len()).enumerate() {
                if n < PAGE_SIZE && !targets[i].new {
                    let lpa = Lpa(targets[i].lba as u64);
                    all = all.and(self.port.submit_read(lpa, &mut pages[i..i + 1], Structure::Data)?);
                }
            }
            self.port.wait(all);
            for (i, (_, inside, offset, n)) in parts(pos, data.len()).enumerate() {
                pages[i].write(inside, data.part(offset, n));
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
        inode.update(|a| {
            a.size = a.size.max(end);
            a.mtime = cx.time;
            a.ctime = cx.time;
        });
        self.mark_dirty(inode, Dirty { times: true, atime: false });
        self.point_at(tx, inode, &new, end).map(drop)
    }
}
