//! [`Space`] of [`DevFs`]: blocks.

use crate::DevFs;
use crate::command::Op;
use granary_fs::{Allocate, Call, Inode, Result, Space, StatFs};
use std::ops::Range;

impl Space for DevFs {
    granary_fs::file_system_lacks!(empty_until, grow, sweep);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.change(call, Op::Space, &[inode], |fs| fs.fallocate(call, inode, how, pos, len))
    }

    fn seek_data(&self, call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        self.look(call, Op::Space, &[inode], |fs| fs.seek_data(call, inode, pos))
    }

    fn seek_hole(&self, call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        self.look(call, Op::Space, &[inode], |fs| fs.seek_hole(call, inode, pos))
    }

    fn statfs(&self, call: &Call<'_>) -> Result<StatFs> {
        self.look(call, Op::Space, &[], |fs| fs.statfs(call))
    }

    fn trim(&self, call: &Call<'_>, blocks: Range<u64>, least: u64) -> Result<u64> {
        self.look(call, Op::Space, &[], |fs| fs.trim(call, blocks, least))
    }
}
