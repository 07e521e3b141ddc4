//! Inodes: where a new one goes, and its bit.
//!
//! Directories spread (Orlov): a directory of the root goes to the flex group with the fewest directories
//! among those with at least average free inodes and blocks, others stay near their parent while there is
//! room. Files go to the first group of the parent's flex group that has a free inode.

use super::bits::{get, next_zero, set_range};
use super::{Flex, Groups, clear_range, less};
use crate::journal::Handle;
use crate::layout::corrupt;
use crate::layout::inode::INODES_PER_BLOCK;
use granary_device::Structure;
use granary_fs::{FsError, Result};
use granary_kit::Block;
use granary_units::Lpa;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A new inode's number and the block that it lies in.
pub(crate) struct NewInode {
    pub ino: u32,
    pub table: Arc<Block>,
}

impl Groups {
    /// Allocates an inode. `spread`: a hash for directories of the root, to place them.
    ///
    /// # Errors
    /// `NoSpace` where no inode is free.
    pub fn new_inode(
        &self,
        h: &mut Handle<'_>,
        parent: u32,
        is_dir: bool,
        spread: Option<u32>,
    ) -> Result<NewInode> {
        let near = self.geo.inode_place(parent).0 / self.geo.flex;
        let first = match (is_dir, spread) {
            (true, Some(hash)) => self.orlov_top(hash),
            (true, None) => self.orlov_near(near),
            (false, _) => near,
        };
        let n = self.geo.flex_groups();
        for f in (0..n).map(|i| (first + i) % n) {
            if self.flex[f as usize].free_inodes.load(Relaxed) == 0 {
                continue;
            }
            for group in f * self.geo.flex..((f + 1) * self.geo.flex).min(self.geo.groups) {
                if self.groups[group as usize].lock().desc.free_inodes.get() == 0 {
                    continue;
                }
                if let Some(new) = self.new_in_group(h, group, is_dir)? {
                    return Ok(new);
                }
            }
        }
        Err(FsError::NoSpace)
    }

    fn averages(&self) -> (u64, u64) {
        let n = self.flex.len() as u64;
        let sum = |of: fn(&Flex) -> u64| self.flex.iter().map(of).sum::<u64>() / n;
        (sum(|f| f.free_inodes.load(Relaxed)), sum(|f| f.free_blocks.load(Relaxed)))
    }

    fn orlov_top(&self, hash: u32) -> u32 {
        let (inodes, blocks) = self.averages();
        let n = self.flex.len() as u32;
        let mut best = (u64::MAX, hash % n);
        for f in (0..n).map(|i| (hash.wrapping_add(i)) % n) {
            let flex = &self.flex[f as usize];
            let dirs = flex.dirs.load(Relaxed);
            let enough =
                flex.free_inodes.load(Relaxed) >= inodes.max(1) && flex.free_blocks.load(Relaxed) >= blocks;
            if enough && dirs < best.0 {
                best = (dirs, f);
            }
        }
        best.1
    }

    fn orlov_near(&self, near: u32) -> u32 {
        let (inodes, blocks) = self.averages();
        let n = self.flex.len() as u32;
        let per_flex = (self.geo.inodes_per_group * self.geo.flex) as u64;
        let dirs: u64 = self.flex.iter().map(|f| f.dirs.load(Relaxed)).sum();
        let most_dirs = dirs / n as u64 + per_flex / 16;
        let least_inodes = inodes.saturating_sub(per_flex / 4).max(1);
        let least_blocks =
            blocks.saturating_sub(super::super::layout::BLOCKS_PER_GROUP as u64 * self.geo.flex as u64 / 4);
        (0..n)
            .map(|i| (near + i) % n)
            .find(|&f| {
                let flex = &self.flex[f as usize];
                flex.dirs.load(Relaxed) < most_dirs
                    && flex.free_inodes.load(Relaxed) >= least_inodes
                    && flex.free_blocks.load(Relaxed) >= least_blocks
            })
            .unwrap_or(near)
    }

    fn new_in_group(&self, h: &mut Handle<'_>, group: u32, is_dir: bool) -> Result<Option<NewInode>> {
        let (hint, itable) = {
            let s = self.groups[group as usize].lock();
            // Also where its bitmap says otherwise: one of the two is damaged.
            if s.desc.free_inodes.get() == 0 {
                return Ok(None);
            }
            (s.inode_hint, s.desc.inode_table.get())
        };
        let bitmap = self.bitmap(group, true)?;
        let n = self.geo.inodes_per_group;
        let found = h.change(&bitmap, |b| {
            let mut i = next_zero(b, hint, n);
            if i >= n {
                i = next_zero(b, 0, n);
            }
            if i >= n {
                return None;
            }
            let first = i / INODES_PER_BLOCK * INODES_PER_BLOCK;
            let alone = (first..first + INODES_PER_BLOCK).all(|j| !get(b, j));
            set_range(b, i, 1);
            Some((i, alone))
        });
        let Some((index, alone)) = found else { return Ok(None) };
        let table = self.table_block(Lpa(itable + (index / INODES_PER_BLOCK) as u64), alone);
        let table = match table {
            Ok(block) => block,
            Err(e) => {
                h.change(&bitmap, |b| clear_range(b, index, 1));
                return Err(e);
            }
        };
        self.groups[group as usize].lock().inode_hint = index + 1;
        self.change_desc(h, group, |d| {
            d.free_inodes = d.free_inodes.get().saturating_sub(1).into();
            d.used_dirs = (d.used_dirs.get() + is_dir as u32).into();
            d.itable_unused = d.itable_unused.get().min(n - index - 1).into();
        });
        let flex = &self.flex[(group / self.geo.flex) as usize];
        less(&flex.free_inodes, 1);
        flex.dirs.fetch_add(is_dir as u64, Relaxed);
        Ok(Some(NewInode { ino: group * n + index + 1, table }))
    }

    /// The inode-table block of a new inode: not read where no other inode of it is in use.
    fn table_block(&self, lpa: Lpa, alone: bool) -> Result<Arc<Block>> {
        // Another task may have taken the block's second inode meanwhile, and be reading it.
        if alone {
            Ok(self.cache.get_or_zeroed(lpa, Structure::Inode))
        } else {
            self.cache.get(lpa, Structure::Inode)
        }
    }

    /// The inode-table block of an inode in use; a miss reads the aligned 32 blocks around it, as far as the
    /// table was ever used.
    ///
    /// # Errors
    /// `Stale` where there is no such inode; the drive's.
    pub fn inode_block(&self, ino: u32, readahead: u32) -> Result<Arc<Block>> {
        if ino == 0 || ino > self.geo.inodes() {
            return Err(FsError::Stale);
        }
        let (group, index) = self.geo.inode_place(ino);
        let (table, used) = {
            let s = self.groups[group as usize].lock();
            (s.desc.inode_table.get(), self.geo.inodes_per_group - s.desc.itable_unused.get())
        };
        let lpa = table + (index / INODES_PER_BLOCK) as u64;
        if let Some(block) = self.cache.cached(Lpa(lpa)) {
            return Ok(block);
        }
        let window = readahead.max(1) as u64;
        let first = (lpa / window * window).max(table);
        let end = (lpa / window * window + window).min(table + (used / INODES_PER_BLOCK) as u64);
        self.cache.get_window(Lpa(lpa), first.min(lpa)..end.max(lpa + 1), Structure::Inode)
    }

    /// Frees an inode's bit. Its content on media is the caller's affair.
    ///
    /// # Errors
    /// `Corrupt` where it was free.
    pub fn free_inode(&self, h: &mut Handle<'_>, ino: u32, is_dir: bool) -> Result<()> {
        let (group, index) = self.geo.inode_place(ino);
        let bitmap = self.bitmap(group, true)?;
        if !h.change(&bitmap, |b| clear_range(b, index, 1)) {
            return Err(corrupt(format!("inode {ino} was free already")));
        }
        {
            let mut s = self.groups[group as usize].lock();
            s.inode_hint = s.inode_hint.min(index);
        }
        self.change_desc(h, group, |d| {
            d.free_inodes = (d.free_inodes.get() + 1).into();
            d.used_dirs = (d.used_dirs.get().saturating_sub(is_dir as u32)).into();
        });
        let flex = &self.flex[(group / self.geo.flex) as usize];
        flex.free_inodes.fetch_add(1, Relaxed);
        less(&flex.dirs, is_dir as u64);
        Ok(())
    }
}
