//! [`Space`] of [`OrchFs`]: blocks and pages.

use crate::OrchFs;
use crate::geometry::PAGES;
use crate::layout::Area;
use granary_vfs::{Allocate, Call, Inode, Result, Space, StatFs};
use std::ops::Range;

impl Space for OrchFs {
    granary_vfs::file_system_lacks!(empty_until, grow, sweep);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.change_space(call, inode, how, pos, len)
    }

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        Ok(self.seek(inode, pos, true))
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        Ok(self.seek(inode, pos, false).unwrap_or(inode.size()))
    }

    fn trim(&self, _call: &Call<'_>, blocks: Range<u64>, least: u64) -> Result<u64> {
        self.trim_free(blocks, least)
    }

    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        // What waits for a digest is free: whoever needs it digests first.
        let free = |area| {
            self.pools.free(area) + self.journals.iter().map(|journal| journal.waiting(area)).sum::<u64>()
        };
        let per = PAGES as u64;
        Ok(StatFs {
            blocks: self.pools.all(Area::Block) * per + self.pools.all(Area::Page),
            free_blocks: free(Area::Block) * per + free(Area::Page),
            reserved_blocks: 0,
            inodes: self.pools.all(Area::Inode),
            free_inodes: free(Area::Inode),
        })
    }
}
