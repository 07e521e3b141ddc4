//! [`Space`] of [`Nova`]: blocks.

use crate::{Nova, inodes};
use granary_fs::{Allocate, Call, Inode, Result, Space, StatFs};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

impl Space for Nova {
    granary_fs::file_system_lacks!(empty_until, grow, sweep);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.change_space(call, inode, how, pos, len)
    }

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        Ok(self.next_data(inode, pos))
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        Ok(self.next_hole(inode, pos))
    }

    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        let free = self.free.available();
        let (mut places, used) = (0, self.used_inodes.load(Relaxed));
        for table in &self.tables {
            places += table.lock().pieces.len() as u64 * inodes::per_piece(self.piece) - 1;
        }
        let more = free / self.piece * inodes::per_piece(self.piece);
        let blocks = self.data_end - crate::mount::first_free(&self.superblock);
        let (inodes, free_inodes) = (places + more, places + more - used);
        Ok(StatFs { blocks, free_blocks: free, reserved_blocks: 0, inodes, free_inodes })
    }

    fn trim(&self, _call: &Call<'_>, blocks: Range<u64>, least: u64) -> Result<u64> {
        self.free.trim(&self.pm, blocks, least)
    }
}
