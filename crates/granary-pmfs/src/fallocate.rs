//! Space on request: reserving blocks, and where a file's holes are.
//!
//! ```text
//!   reserve   holes get blocks <── zeros | new nodes | transaction: pointers in existing nodes, inode
//!             (several transactions where the journal has no room for all pointers, or the range is longer
//!             than 128 MiB; each
//!             leaves a sound file)
//! ```
//!
//! The original knows no more: `pmfs_fallocate` refuses every mode but FALLOC_FL_KEEP_SIZE with EOPNOTSUPP,
//! so punching and zeroing are refused here, too; `pmfs_llseek` knows data and holes. Extended attributes and
//! access control lists it does not have at all (its inode operations name none; the README of the 4.3 port
//! says so).
//!
//! Invariant: blocks wholly beyond a file's end are zero. Only one moment breaks it: data was stored there
//! and the power failed before the size grew. So recovery zeroes them.
//!
//! Source: linux-pmfs, fs/pmfs/file.c (`pmfs_fallocate`, `pmfs_llseek`).

use crate::fs::{Pmfs, node};
use crate::layout::FANOUT;
use crate::layout::inode::Tree;
use crate::namespace::inode_edit;
use crate::table::per_piece;
use crate::tree::Mapping;
use granary_device::Structure;
use granary_fs::{Allocate, Attr, Call, FsError, Inode, Result, Space, StatFs};
use granary_pm::{BLOCK, Batch};
use granary_units::Page;
use std::ops::Range;

/// Pages planned at once: those of one node.
const STEP: u64 = 512;
/// Pages reserved at once: their pointers and new nodes are in memory meanwhile, some 21 B a page.
const PIECE: u64 = 1 << 15;
/// Undo entries of an inode, and the one that commits.
const OTHERS: usize = 3;

impl Pmfs {
    /// Whether there is room for all holes among these pages, so that a range of many pieces is not begun in
    /// vain.
    ///
    /// # Errors
    /// `NoSpace`.
    fn room_for_holes(&self, tree: Tree, (first, end): (u64, u64)) -> Result<()> {
        let (mut at, mut holes) = (first, 0);
        while at < end {
            let blocks = self.blocks(tree, at, (end - at).min(STEP))?;
            holes += blocks.iter().filter(|block| **block == 0).count() as u64;
            at += blocks.len() as u64;
        }
        if holes > self.free.available() { Err(FsError::NoSpace) } else { Ok(()) }
    }

    /// Gives the holes among these pages blocks; `new` is the inode afterwards, but for the count of its
    /// blocks.
    fn reserve_piece(
        &self,
        b: &mut Batch<'_>,
        inode: &Inode,
        pages: (u64, u64),
        mut new: Attr,
    ) -> Result<()> {
        let tree = *node(inode).tree.read();
        let (mut m, mut taken) = (Mapping::new(tree), Vec::new());
        if let Err(e) = self.plan_holes(&mut m, tree, pages, &mut taken) {
            self.give_all(taken.into_iter().chain(m.node_blocks()))?;
            return Err(e);
        }
        self.store_fresh(b, taken.iter().map(|block| (*block, &Page::ZERO)), Structure::Data)?;
        self.store_fresh(b, m.new_nodes(), Structure::DataPointer)?;
        new.blocks = new.blocks.saturating_add(taken.len() as u64 * (BLOCK / 512));
        self.enter_reserved(b, inode, &m, new)
    }

    /// Gives every hole of a range of pages a block; `taken` has them even after an error.
    fn plan_holes(
        &self,
        m: &mut Mapping,
        tree: Tree,
        (first, end): (u64, u64),
        taken: &mut Vec<u64>,
    ) -> Result<()> {
        let mut at = first;
        while at < end {
            let mut blocks = self.blocks(tree, at, (end - at).min(STEP))?;
            let holes: Vec<usize> = (0..blocks.len()).filter(|i| blocks[*i] == 0).collect();
            let filled = self.fill_holes(m, at, &mut blocks);
            taken.extend(holes.iter().map(|i| blocks[*i]).filter(|block| *block != 0));
            filled?;
            at += blocks.len() as u64;
        }
        Ok(())
    }

    /// Lets the pointers lead to the reserved blocks; the size comes last.
    fn enter_reserved(&self, b: &mut Batch<'_>, inode: &Inode, m: &Mapping, new: Attr) -> Result<()> {
        let own = node(inode);
        let tree = *own.tree.read();
        let edits = Pmfs::pointer_edits(m);
        let room = self.protocol.most_entries(&self.pm) - OTHERS;
        let mut parts: Vec<_> = edits.chunks(room).collect();
        let last = parts.pop().unwrap_or(&[]);
        for part in parts {
            let old = inode.attr();
            let blocks = old.blocks.saturating_add(m.below(part) * (BLOCK / 512));
            let more = Attr { blocks, mtime: new.mtime, ctime: new.ctime, ..old };
            let change = inode_edit(own.addr, (&old, tree), (&more, tree));
            self.transact(b, &[vec![change], part.to_vec()])?;
            inode.update(|a| *a = more);
        }
        let change = inode_edit(own.addr, (&inode.attr(), tree), (&new, m.tree));
        self.transact(b, &[vec![change], last.to_vec()])?;
        *own.tree.write() = m.tree;
        inode.update(|a| *a = new);
        Ok(())
    }

    /// The blocks of a tree that lie wholly beyond `size` and are not zero.
    pub(crate) fn not_zero_beyond(&self, tree: Tree, size: u64) -> Result<Vec<u64>> {
        let (mut blocks, end) = (Vec::new(), size.div_ceil(BLOCK));
        self.walk(tree, &mut |block, page, height| {
            if height == 0 && page >= end {
                blocks.push(block);
            }
            Ok(true)
        })?;
        let mut wrong = Vec::new();
        for block in blocks {
            if self.pm.load_block(block, Structure::Data)?.iter().any(|byte| *byte != 0) {
                wrong.push(block);
            }
        }
        Ok(wrong)
    }
}

impl Space for Pmfs {
    granary_fs::file_system_lacks!(empty_until, grow, sweep);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let Allocate::Reserve { .. } = how else { return Err(FsError::NotSupported) };
        let old = inode.attr();
        let end = pos + len;
        let mut new = old;
        new.allocated(how, end, call.time);
        let (mut first, end) = (pos / BLOCK, end.div_ceil(BLOCK));
        if end - first > PIECE {
            self.room_for_holes(*node(inode).tree.read(), (first, end))?;
        }
        self.stores(|b| {
            self.zero_gap(b, inode, new.size)?;
            while first < end {
                let to = end.min((first / PIECE + 1) * PIECE);
                // The size comes last.
                let size = if to == end { new.size } else { old.size };
                self.reserve_piece(b, inode, (first, to), Attr { size, blocks: inode.attr().blocks, ..new })?;
                first = to;
            }
            self.grown(inode, old.size);
            Ok(())
        })
    }

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        let tree = *node(inode).tree.read();
        let page = self.next_mapped(tree, pos / BLOCK, inode.size().div_ceil(BLOCK))?;
        Ok(page.map(|page| (page * BLOCK).max(pos)))
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        let tree = *node(inode).tree.read();
        let (mut at, end) = (pos / BLOCK, inode.size().div_ceil(BLOCK));
        while at < end {
            let blocks = self.blocks(tree, at, (end - at).min(STEP))?;
            if let Some(i) = blocks.iter().position(|block| *block == 0) {
                return Ok(((at + i as u64) * BLOCK).max(pos));
            }
            at += blocks.len() as u64;
        }
        Ok(inode.size())
    }

    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        let free = self.free.available();
        let (places, used) = {
            let t = self.table.lock();
            (t.pieces.len() as u64 * per_piece(self.piece()) - 1, t.used())
        };
        // The table has so many pieces and no more.
        let most = FANOUT * per_piece(self.piece()) - 1;
        let inodes = (places + free / self.piece() * per_piece(self.piece())).min(most);
        let blocks = self.data_end - self.superblock.table() - 1;
        Ok(StatFs {
            blocks,
            free_blocks: free,
            // Nodes of trees: what is offered can be filled.
            reserved_blocks: StatFs::index_of_all(free, FANOUT),
            inodes,
            free_inodes: inodes.saturating_sub(used),
        })
    }

    fn trim(&self, _call: &Call<'_>, blocks: Range<u64>, least: u64) -> Result<u64> {
        self.free.trim(&self.pm, blocks, least)
    }
}
