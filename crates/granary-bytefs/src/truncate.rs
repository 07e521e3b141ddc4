//! Truncation, and the end of an inode. A truncation begins as a change of attributes (attributes.rs).
//!
//! ```text
//!   truncate, small:   one transaction: size, slots, bitmap lines
//!   truncate, large:   size + orphan entry + first blocks | more blocks | ... | last blocks, entry cleared
//!   evict, large:                              blocks     | more blocks | ... | last blocks, inode bit,
//!                                                                               entry cleared
//! ```
//!
//! Every step is atomic and leaves a consistent file system; recovery goes on where the steps stopped.
//!
//! Source: ByteFS section 4.3 (operations larger than the log are split into smaller atomic ones).

use crate::core::Core;
use crate::journal::Tx;
use crate::layout::orphan;
use crate::map::SlotEdits;
use crate::node::{Standing, node};
use granary_fs::{FileKind, FsError, Inode, Result};
use granary_kit::work::Kind;
use granary_sim::costs;
use granary_units::{Lpa, PAGE_SIZE};

/// File blocks that `size` bytes take.
pub fn blocks_of(size: u64) -> u64 {
    size.div_ceil(PAGE_SIZE as u64)
}

impl Core {
    /// Shows how many blocks the inode has, promised ones included.
    pub fn put_blocks(&self, inode: &Inode) {
        // Together: who promises and who keeps promises hold different locks.
        let body = node(inode).body.lock();
        inode.update(|a| a.blocks = body.stat_blocks());
    }

    /// Frees an inode's blocks from `keep` on, step by step; the last step clears place `entry` of the orphan
    /// table. The caller holds the inode's `change` lock, or has it for himself.
    pub fn cut_on(&self, inode: &Inode, keep: u64, entry: Option<u32>) -> Result<()> {
        let node = node(inode);
        loop {
            let block = self.inode_block(node.ino)?;
            let mut tx = Tx::new(self);
            let (half, done) = self.cut_step(&mut tx, node, keep)?;
            tx.touch(&block, self.inode_lines(node.ino, half));
            let clear = entry.filter(|_| done);
            if let Some(place) = clear {
                tx.touch(&self.orphans.block, orphan::line_mask(place));
            }
            let seq = tx.run(|| {
                if let Some(place) = clear {
                    self.orphans.block.change(|b| orphan::set(b, place, 0));
                }
                self.put_blocks(inode);
                self.put_inode(&block, inode);
            })?;
            node.depends(seq);
            if done {
                clear.into_iter().for_each(|place| self.orphans.give(place));
                return Ok(());
            }
        }
    }

    /// Truncates an inode that is no longer on media.
    pub(crate) fn cut_gone(&self, inode: &Inode, size: u64) {
        let mut freed = Vec::new();
        {
            let mut body = node(inode).body.lock();
            self.unreserve_from(&mut body, blocks_of(size));
            body.disk_size = size;
            while !body.map.cut(blocks_of(size), u32::MAX, &mut freed, &mut SlotEdits::new()) {}
        }
        self.put_blocks(inode);
        let seq = self.journal.sealed();
        freed.into_iter().for_each(|run| self.space.withhold(seq, run));
    }

    /// See [`granary_fs::Life::evict`].
    pub fn evict(&self, inode: &Inode) -> Result<()> {
        let node = node(inode);
        let standing = {
            let mut body = node.body.lock();
            self.unreserve_from(&mut body, 0);
            body.standing
        };
        match standing {
            Standing::Live => {
                let linked = inode.attr().nlink;
                return Err(FsError::Corrupt(format!("{} evicted with {linked} links", inode.ino())));
            }
            Standing::Orphan(place) => {
                self.cut_on(inode, 0, None)?;
                self.free_orphan(inode, place)?;
            }
            Standing::Gone => {
                // The transaction that took the last name is sealed; it may not be committed yet.
                let seq = self.journal.sealed();
                let body = node.body.lock();
                for run in body.map.all_runs() {
                    // First: once it is free, it may be somebody else's.
                    if node.kind == FileKind::Dir || run.len == 1 {
                        (run.lba..run.lba + run.len).for_each(|lba| self.cache.forget(Lpa(lba as u64)));
                    }
                    self.space.withhold(seq, run);
                }
            }
        }
        let given = self.inodes.lock().give(node.ino as u64, 1);
        self.journal.fatal(given.map_err(|what| FsError::Corrupt(format!("inodes: {what}"))))
    }

    /// Frees the inode in place `place` of the orphan table; its blocks are free already.
    pub fn free_orphan(&self, inode: &Inode, place: u32) -> Result<()> {
        let _step = granary_sim::step("bytefs: a removed file is freed");
        let mut tx = Tx::new(self);
        tx.work(Kind::End.inodes() + costs().orphan);
        tx.free_inode(node(inode).ino);
        self.free_xattrs(&mut tx, node(inode));
        tx.touch(&self.orphans.block, orphan::line_mask(place));
        tx.run(|| self.orphans.block.change(|b| orphan::set(b, place, 0)))?;
        self.orphans.give(place);
        Ok(())
    }
}
