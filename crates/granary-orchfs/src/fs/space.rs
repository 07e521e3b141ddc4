//! [`Space`] of [`OrchFs`]: blocks and pages.

use crate::OrchFs;
use crate::geometry::PAGES;
use crate::hrtree::{FANOUT, MOST_NEW};
use crate::layout::Area;
use crate::pools::Claim;
use granary_fs::{Allocate, Call, Inode, Result, Space, StatFs};
use std::ops::Range;

/// Longest names that a directory's page holds: (4096 - 32) / 288 B (SPEC.md).
const NAMES_OF_A_PAGE: u64 = 14;

impl Space for OrchFs {
    granary_fs::file_system_lacks!(empty_until, grow, sweep);

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
        let free_blocks = free(Area::Block) * per + free(Area::Page);
        // Content leaves some pages for names. And it has to be found again: an A-ELN names 8 pages, an index node 64 blocks at most.
        // A write asks for some nodes more than it needs.
        let pages = free(Area::Page).saturating_sub(self.pools.kept_from(Claim::Data));
        let kept = free(Area::Page) - pages.min(free(Area::Append).saturating_mul(per));
        let nodes = free(Area::Index).saturating_sub(MOST_NEW as u64 + 2);
        let named = nodes.saturating_mul(FANOUT as u64 * per);
        // A name needs a place on the NVM, which migration can free.
        let places =
            (free(Area::Page) + self.migratable()).saturating_sub(self.pools.kept_from(Claim::Metadata));
        Ok(StatFs {
            blocks: self.pools.all(Area::Block) * per + self.pools.all(Area::Page),
            free_blocks,
            reserved_blocks: kept.max(free_blocks.saturating_sub(named)),
            inodes: self.pools.all(Area::Inode),
            free_inodes: free(Area::Inode).min(places.saturating_mul(NAMES_OF_A_PAGE)),
        })
    }
}
