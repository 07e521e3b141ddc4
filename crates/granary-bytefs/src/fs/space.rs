//! [`Space`] of [`ByteFs`]: blocks.

use crate::ByteFs;
use granary_fs::{Allocate, Call, Inode, Result, Space, StatFs};
use std::ops::Range;

impl Space for ByteFs {
    granary_fs::file_system_lacks!(empty_until, sweep);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.core.fallocate(call, inode, how, pos, len)
    }

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        Ok(self.core.seek_data(inode, pos))
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        Ok(self.core.seek_hole(inode, pos))
    }

    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        let g = &self.core.geometry;
        let free_inodes = self.core.inodes.lock().free();
        Ok(StatFs {
            blocks: g.data_blocks(),
            free_blocks: self.core.space.free(),
            reserved_blocks: self.core.space.kept(),
            inodes: g.inodes() - 1,
            free_inodes,
        })
    }

    fn trim(&self, _call: &Call<'_>, blocks: Range<u64>, least: u64) -> Result<u64> {
        self.core.trim_free(blocks, least)
    }

    fn grow(&self, _call: &Call<'_>, blocks: u64) -> Result<()> {
        self.core.grow(&self.superblock, blocks)
    }
}
