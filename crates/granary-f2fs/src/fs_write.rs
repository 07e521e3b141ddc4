//! Fsync without nodes: FS_WRITE tells the drive which block of which file a page is, and BAM keeps that
//! until the checkpoint.
//!
//! ```text
//!   a file since the last checkpoint
//!     covered   in the checkpoint, and has only got new data: all its write-back is by FS_WRITE, fsync
//!               writes nothing more
//!     spoiled   anything else changed (size by truncation, attributes, names, ranges), or a block was
//!               written otherwise: ordinary writes, fsync writes nodes with marks, until the next
//!               checkpoint
//!   recovery    nodes with marks go before BAM: they came later, and have all addresses
//! ```
//!
//! The inode's number in BAM has the checkpoint's version above it, so that entries of an earlier interval
//! are void (power failed between the footer and BAM_RESET). No block is used twice in an interval (segs.rs).
//! So the data of an entry is there, even where cleaning has copied the block meanwhile. All blocks that BAM
//! names fit beside the checkpoint. Before they no longer would, files are spoiled and fsync takes a
//! checkpoint.
//!
//! BAM has no times: fsync (not fdatasync) writes the inode where they changed, unless `lazy_times` is on.
//!
//! Source: PebbleSSD section 5.2.

use crate::file::BS;
use crate::fs::F2fs;
use crate::layout::summary::Summary;
use crate::layout::{NULL_ADDR, corrupt, is_real};
use crate::node::{Node, node};
use crate::nodes::Batch;
use crate::segs::log;
use granary_device::vendor::pebble::Bam;
use granary_device::{DriveError, FileEnd, Structure, Ticket};
use granary_fs::{FileKind, Result};
use granary_units::{Lpa, Page};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

/// Which blocks of a file a batch has, in its order, and what that does to its size.
pub(crate) struct Blocks {
    pub index: Vec<u64>,
    /// Where the file's content ends afterwards, bytes.
    pub end: u64,
    /// Where it ended on media, bytes.
    pub before: u64,
}

/// BAM's knowledge of a file.
#[derive(Default)]
struct Told {
    /// Block -> where it is.
    blocks: BTreeMap<u32, u32>,
    /// Its size is at least this, bytes.
    size: u64,
}

impl F2fs {
    /// The file in BAM: the low half of the checkpoint's version, then the inode.
    fn key(version: u64, ino: u32) -> u64 {
        version << 32 | ino as u64
    }

    /// BAM alone cannot say any more what became of a file since the last checkpoint.
    pub(crate) fn spoil(&self, ino: u32) {
        if self.options.fs_write_fsync {
            self.memory.lock().spoiled.insert(ino);
        }
    }

    /// Whether what recovery would bring back might not fit.
    pub(crate) fn has_no_room(&self) -> bool {
        let s = self.space.lock();
        s.at_checkpoint + s.since > s.user
    }

    /// Whether the file is covered. Under its inode lock.
    pub(crate) fn is_covered(&self, node: &Node) -> bool {
        if !self.options.fs_write_fsync || self.recovering.load(Relaxed) {
            return false;
        }
        let plain = {
            let s = node.state.lock();
            s.attr.kind == FileKind::File && s.attr.nlink == 1 && !s.is_inline()
        };
        plain
            && self.nat.is_checkpointed(node.ino)
            && !self.memory.lock().spoiled.contains(&node.ino)
            && !self.has_no_room()
    }

    /// Starts writing blocks of a file that have new places. Where BAM is full they are written all the same,
    /// and the file is spoiled.
    pub(crate) fn submit_blocks(&self, ino: u32, batch: Batch, blocks: &Blocks) -> Result<Ticket> {
        let key = F2fs::key(self.last.lock().version, ino);
        let all: Vec<(&(u32, Page, Structure), u64)> =
            batch.iter().zip(blocks.index.iter().copied()).collect();
        let mut ticket = Ticket::NONE;
        for run in all.chunk_by(|a, b| a.0.0 + 1 == b.0.0 && a.1 + 1 == b.1) {
            let (first, last) = (run[0].1, run[run.len() - 1].1);
            let pages: Vec<Page> = run.iter().map(|(b, _)| b.1.clone()).collect();
            let end = blocks.end.min((last + 1) * BS);
            let valid = end.saturating_sub(last * BS).clamp(1, BS) as u16;
            let end = FileEnd { valid, grew: end > blocks.before };
            let lpa = Lpa(run[0].0.0 as u64);
            match self.port.require::<Bam>()?.submit_fs_write(
                lpa,
                &pages,
                key,
                first as u32,
                end,
                Structure::Data,
            ) {
                Ok(written) => ticket = ticket.and(written),
                Err(DriveError::BamFull(_)) => {
                    self.spoil(ino);
                    return Ok(ticket.and(self.submit(batch)?));
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(ticket)
    }

    /// After the log was rolled forward: takes over what BAM knows of files that have no nodes there
    /// (`rolled`), nor are gone. Returns how many blocks.
    ///
    /// # Errors
    /// `Corrupt` where BAM names what cannot be; the drive's.
    pub(crate) fn replay(&self, version: u64, rolled: &BTreeSet<u32>) -> Result<u32> {
        if self.port.vendor::<Bam>().is_none() || !self.options.fs_write_fsync {
            return Ok(0);
        }
        let mut files: BTreeMap<u32, Told> = BTreeMap::new();
        for e in self.port.require::<Bam>()?.read(None)? {
            let ino = e.ino as u32;
            if e.ino != F2fs::key(version, ino) || rolled.contains(&ino) {
                continue;
            }
            let at = u32::try_from(e.lpa.0).ok().filter(|at| self.geo.in_main(*at));
            let at = at.ok_or_else(|| corrupt(format!("BAM has inode {ino} at page {}", e.lpa)))?;
            let told = files.entry(ino).or_default();
            told.blocks.insert(e.offset, at);
            if e.end.grew {
                told.size = told.size.max(e.offset as u64 * BS + e.end.valid as u64);
            }
        }
        let mut taken = 0;
        for (ino, told) in files {
            taken += self.take_told(ino, &told)?;
        }
        Ok(taken)
    }

    fn take_told(&self, ino: u32, told: &Told) -> Result<u32> {
        if self.nat.lookup(ino)?.addr == NULL_ADDR {
            return Ok(0);
        }
        let inode = self.recovered_inode(ino)?;
        let node = node(&inode);
        if inode.attr().kind != FileKind::File || node.state.lock().is_inline() {
            return Err(corrupt(format!("BAM has blocks of inode {ino}, which has none")));
        }
        let mut taken = 0;
        for (&index, &new) in &told.blocks {
            if index as u64 >= crate::layout::node::MAX_BLOCKS {
                return Err(corrupt(format!("BAM has block {index} of inode {ino}")));
            }
            let d = self.grow(node, index as u64)?;
            let old = d.addr();
            if old == new {
                continue;
            }
            let version = self.nat.lookup(d.nid)?.version;
            {
                let mut segs = self.segs.lock();
                segs.validate(new)?;
                let sum = Summary { nid: d.nid, version, ofs: d.ofs as u16 };
                segs.set_summary(new, log::WARM_DATA, sum)?;
                if is_real(old) {
                    segs.invalidate(old)?;
                }
            }
            if old == NULL_ADDR {
                self.take_blocks(1)?;
                node.state.lock().blocks += 1;
            }
            self.set_addr(&d, new);
            taken += 1;
        }
        {
            let mut s = node.state.lock();
            s.disksize = s.disksize.max(told.size);
        }
        inode.update(|a| a.size = a.size.max(told.size));
        self.show_blocks(&inode);
        self.mark_inode(&inode, true);
        self.settle_inode(node)?;
        Ok(taken)
    }
}
