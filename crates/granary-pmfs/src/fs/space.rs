//! [`Space`] of [`Pmfs`]: blocks.

use crate::Pmfs;
use crate::layout::FANOUT;
use crate::table::per_piece;
use granary_fs::{Allocate, Call, Inode, Result, Space, StatFs};
use std::ops::Range;

impl Space for Pmfs {
    granary_fs::file_system_lacks!(empty_until, grow, sweep);

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
