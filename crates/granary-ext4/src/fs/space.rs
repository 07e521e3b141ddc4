//! [`Space`] of [`Ext4`]: blocks.

use crate::Ext4;
use granary_fs::{Allocate, Call, Inode, Result, Space, StatFs, TRIM_RUN};
use granary_units::Lpa;
use std::ops::Range;

impl Space for Ext4 {
    granary_fs::file_system_lacks!(grow, sweep);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.change_space(call, inode, how, pos, len)
    }

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        self.next_data(inode, pos)
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        self.next_hole(inode, pos)
    }

    fn empty_until(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        self.unwritten_until(inode, pos)
    }

    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        let geo = &self.groups.geo;
        Ok(StatFs {
            blocks: geo.blocks,
            free_blocks: self.groups.space().available(),
            reserved_blocks: 0,
            inodes: geo.inodes() as u64,
            free_inodes: self.groups.free_inodes(),
        })
    }

    fn trim(&self, _call: &Call<'_>, blocks: Range<u64>, least: u64) -> Result<u64> {
        let (mut at, mut told) = (blocks.start, 0);
        while let Some((start, len)) = self.groups.take_next(at..blocks.end, least, TRIM_RUN)? {
            let done = self.port.trim(Lpa(start), len).map(|ticket| self.port.wait(ticket));
            self.groups.put_back(start, len);
            done?;
            told += len;
            at = start + len;
        }
        Ok(told)
    }
}
