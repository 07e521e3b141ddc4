//! [`Space`] of [`F2fs`]: blocks.

use crate::F2fs;
use crate::layout::node::NODE_ADDRS;
use granary_fs::{Allocate, Call, Inode, Result, Space, StatFs, Sweep, Swept};
use std::ops::Range;

impl Space for F2fs {
    granary_fs::file_system_lacks!(empty_until, grow);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.change_space(call, inode, how, pos, len)
    }

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        self.next_data(inode, pos)
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        self.next_hole(inode, pos)
    }

    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        let s = *self.space.lock();
        let free_blocks = s.user.saturating_sub(s.valid);
        let nids = (self.geo.nids() - crate::layout::node::FIRST_NID) as u64;
        // The kernel says how many there could be on an empty drive, so that whatever takes blocks seems to take inodes.
        let free_inodes = (nids.saturating_sub(s.nodes as u64)).min(free_blocks);
        let inodes = s.inodes as u64 + free_inodes;
        // A block of nodes names so many of data: what is offered can be filled.
        let reserved_blocks = StatFs::index_of_all(free_blocks, NODE_ADDRS as u64);
        Ok(StatFs { blocks: s.user, free_blocks, reserved_blocks, inodes, free_inodes })
    }

    fn trim(&self, _call: &Call<'_>, blocks: Range<u64>, least: u64) -> Result<u64> {
        // All that is dead and no checkpoint needs; which part of the drive it is in makes no difference to it.
        let _ = blocks;
        let before = self.stats.lock().discarded;
        while self.discard_some(64, least.try_into().unwrap_or(u32::MAX)) == 64 {}
        Ok(self.stats.lock().discarded - before)
    }

    fn sweep(&self, _call: &Call<'_>, _sweep: &Sweep) -> Result<Swept> {
        self.sweep_all()
    }
}
