//! fstrim: the SSD is told of its free blocks. Positions are those of `statfs`: first the SSD's pages, then
//! the NVM's, which have nobody to tell.

use crate::fs::OrchFs;
use crate::geometry::PAGES;
use crate::layout::Area;
use granary_fs::{Result, TRIM_RUN};
use granary_units::Lpa;
use std::ops::Range;

impl OrchFs {
    /// Tells of the free blocks among these pages, in runs of `least` pages or more; says how many pages.
    /// Numbers that a journal frees are free after its digest, so no power failure gives them back.
    pub(crate) fn trim_free(&self, pages: Range<u64>, least: u64) -> Result<u64> {
        self.check_alive()?;
        self.digest_all()?;
        let per = PAGES as u64;
        let end = (pages.end / per).min(self.pools.all(Area::Block));
        let (mut from, mut told) = (pages.start.div_ceil(per), 0);
        while let Some(run) = self.pools.take_run(Area::Block, from..end, TRIM_RUN / per) {
            from = run.end;
            let count = (run.end - run.start) * per;
            let done = if count >= least {
                told += count;
                self.ssd.trim(Lpa(run.start * per), count).map(|ticket| self.ssd.wait(ticket))
            } else {
                Ok(())
            };
            run.into_iter().try_for_each(|block| self.pools.give(Area::Block, block))?;
            done?;
        }
        Ok(told)
    }
}
