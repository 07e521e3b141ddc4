//! Bitmaps, descriptors, counts.

use super::Checker;
use crate::alloc::{clear_range, empty_blocks, get};
use crate::layout::group::BLOCK_UNINIT;
use crate::layout::inode::RawInode;
use crate::layout::superblock::Superblock;
use crate::layout::{BLOCK_SIZE, BLOCKS_PER_GROUP};
use crate::node::{self};
use granary_device::Structure;
use granary_fs::Result;

impl Checker<'_> {
    pub(super) fn group_metadata(&mut self, g: u32) {
        let d = self.fs.groups.desc(g);
        let itable = self.fs.groups.geo.itable_blocks();
        for (first, n) in [(d.block_bitmap, 1), (d.inode_bitmap, 1), (d.inode_table, itable)] {
            self.use_blocks(first.get(), n, &|| format!("group {g}"));
        }
    }

    pub(super) fn bitmap_of(&mut self, g: u32) -> Result<()> {
        let d = self.fs.groups.desc(g);
        let used = self.used[g as usize].clone();
        let bitmap = if d.flags.get() & BLOCK_UNINIT != 0 {
            let mut b = [0; BLOCK_SIZE];
            empty_blocks(&self.fs.groups.geo, g, &mut b);
            b
        } else {
            self.block(d.block_bitmap.get(), Structure::Bitmap)?.snapshot().to_bytes()
        };
        if bitmap != *used {
            let first = (0..BLOCKS_PER_GROUP).find(|i| get(&bitmap, *i) != get(&used, *i)).unwrap_or(0);
            let what = if get(&used, first) { "in use and marked free" } else { "free and marked in use" };
            self.problem(format!("block {} is {what}", self.fs.groups.geo.group_start(g) + first as u64));
        }
        let free: u32 = bitmap.iter().map(|b| b.count_zeros()).sum();
        if free != d.free_blocks.get() {
            self.problem(format!(
                "group {g}: {free} free blocks, its descriptor says {}",
                d.free_blocks.get()
            ));
        }
        if let Some(mut view) = self.fs.groups.view(g) {
            // All blocks in use must be out of the search's reach.
            let hidden = (0..BLOCKS_PER_GROUP).all(|i| !get(&bitmap, i) || clear_range(&mut view, i, 1));
            if !hidden {
                self.problem(format!("group {g}: the search could find blocks in use"));
            }
        }
        Ok(())
    }

    pub(super) fn totals(&mut self) -> Result<()> {
        let geo = self.fs.groups.geo;
        for i in 0..geo.descriptor_blocks() as u64 {
            let block = self.block(1 + i, Structure::Superblock)?;
            for g in (i as u32 * 64..geo.groups).take(64) {
                let media = block.with(|b| crate::layout::group::GroupDesc::parse(b, g))?;
                // The copy in memory carries no up-to-date checksum.
                let mut memory = self.fs.groups.desc(g);
                memory.checksum = media.checksum;
                if media != memory {
                    self.problem(format!("group {g}: its descriptor in memory differs from its block"));
                }
            }
        }
        let sum = |of: fn(&crate::layout::group::GroupDesc) -> u32| {
            (0..geo.groups).map(|g| of(&self.fs.groups.desc(g)) as u64).sum::<u64>()
        };
        let (blocks, inodes) = (sum(|d| d.free_blocks.get()), sum(|d| d.free_inodes.get()));
        let space = self.fs.groups.space();
        if blocks != space.free || inodes != self.fs.groups.free_inodes() {
            self.problem(format!(
                "descriptors have {blocks} free blocks and {inodes} free inodes, memory {} and {}",
                space.free,
                self.fs.groups.free_inodes()
            ));
        }
        let sb = self.block(0, Structure::Superblock)?.with(Superblock::parse)?;
        let orphans = self.fs.orphans.lock().newest_first();
        let (mut at, mut chain) = (sb.last_orphan.get(), Vec::new());
        while at != 0 && chain.len() <= orphans.len() {
            chain.push(at);
            let block = self.fs.inode_block(at)?;
            at = block.with(|b| RawInode::at(b, node::slot(at, geo.inodes_per_group)).next_orphan.get());
        }
        if chain != orphans {
            self.problem(format!("the orphan list on media is {chain:?}, in memory {orphans:?}"));
        }
        if !self.settled {
            let n = self.fs.journal.pending();
            self.problem(format!("{n} blocks are not home: sync before check"));
        }
        Ok(())
    }
}
