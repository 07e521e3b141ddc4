//! Reading.

use crate::fs::F2fs;
use crate::layout::node::{INLINE_AT, INLINE_BYTES, INLINE_DATA};
use crate::layout::{BLOCK_SIZE, is_real};
use crate::node::node;
use granary_device::{Structure, Ticket};
use granary_fs::{Inode, Result};
use granary_units::{Lpa, Page};

impl F2fs {
    /// Reads consecutive pages; holes are zeros. Takes no lock: where a checkpoint went by meanwhile a block
    /// may have been used again, so everything is read once more.
    pub(crate) fn read_run(&self, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        let node = node(inode);
        loop {
            let before = self.last.lock().version;
            if node.state.lock().is_inline() {
                out.fill(Page::ZERO);
                if first == 0 && !out.is_empty() {
                    let entry = self.inode_node(node.ino)?;
                    let mut bytes = [0; BLOCK_SIZE];
                    let inline = entry.with(|b| {
                        bytes[..INLINE_BYTES].copy_from_slice(&b[INLINE_AT..INLINE_AT + INLINE_BYTES]);
                        b[3] & INLINE_DATA != 0
                    });
                    if !inline {
                        continue;
                    }
                    out[0] = Page::from_bytes(&bytes);
                }
                return Ok(());
            }
            let addrs = self.addrs(node.ino, first, out.len())?;
            let ticket = self.read_addrs(&addrs, out)?;
            self.port.wait(ticket);
            if self.last.lock().version == before {
                return Ok(());
            }
        }
    }

    /// Starts reading blocks, neighbours in one command.
    pub(crate) fn read_addrs(&self, addrs: &[u32], out: &mut [Page]) -> Result<Ticket> {
        let (mut ticket, mut at) = (Ticket::NONE, 0);
        for run in addrs.chunk_by(|a, b| if is_real(*a) { a + 1 == *b && is_real(*b) } else { !is_real(*b) })
        {
            let part = &mut out[at..at + run.len()];
            at += run.len();
            if !is_real(run[0]) {
                part.fill(Page::ZERO);
                continue;
            }
            if !self.geo.in_main(run[0]) || !self.geo.in_main(run[run.len() - 1]) {
                return Err(crate::layout::corrupt(format!("a pointer to block {}", run[0])));
            }
            ticket = ticket.and(self.port.submit_read(Lpa(run[0] as u64), part, Structure::Data)?);
        }
        Ok(ticket)
    }
}
