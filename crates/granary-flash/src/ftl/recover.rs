//! Power: the FTL's knowledge after a power cycle, and the rebuilding of its tables when they are gone.
//!
//! ```text
//!   map saved:  battery-backed DRAM kept tables, open blocks and jobs      nothing to do
//!   map lost:   scan OOB of every programmed page  --->  newest seq per lpa wins  --->  l2p, live, valid
//!               block headers  --->  free / closed / bad;  partly programmed  --->  open again
//! ```
//!
//! The scan reads each plane's blocks one after another, all planes at once. An interrupted gc job leaves its
//! victim closed with the pages that had not moved; the roomiest partly programmed block of a plane becomes
//! the open gc block, so the room that the job had counted on is there again.
//!
//! Cost-benefit gc starts from the age of the pages' programs: of data that gc had moved, that is the age of
//! the copy.
//!
//! It does *not* resurrect lost content: a copy that had become stale is older than the live one in sequence
//! numbers. The OOB cannot tell a trim (see [`Ftl::trim`]).

use super::alloc::{FreeBlocks, Open, Plane, Stream};
use super::victims::{LiveMap, ValidCounts};
use super::{Ftl, empty_map};
use crate::config::FtlConfig;
use crate::counters::Cause;
use crate::error::FlashError;
use crate::medium::{BlockNo, Medium, Oob};
use granary_units::{Lpa, Nanos, Page, Ppa};

impl<M: Medium> Ftl<M> {
    /// Power returns at `now` after a failure; returns when the FTL can serve commands. Operations in flight
    /// are finished by the drive's capacitors (undo those that were not, with [`Ftl::restore`]); all
    /// reservations are forgotten.
    ///
    /// With `map_saved` the tables survived in battery-backed DRAM. Otherwise they are rebuilt by a scan of
    /// the OOB areas: one page read for each programmed page of the drive, cause [`Cause::Mapping`].
    ///
    /// # Errors
    /// [`FlashError::Corrupt`], errors of the medium.
    pub fn power_cycle(&mut self, now: Nanos, map_saved: bool) -> Result<Nanos, FlashError> {
        self.nand.power_cycle(now);
        self.busy_until = now;
        if map_saved { Ok(now) } else { self.rebuild(now) }
    }

    /// Sets a logical page to what it held before a program that the power failure prevented (`None`:
    /// nothing). For power-fail modelling, before [`Ftl::power_cycle`]: the content is changed in place,
    /// taking no time and not counted. Only a page that is unmapped now but was not then has to be written
    /// anew, and counts as [`Cause::Recovery`].
    ///
    /// # Errors
    /// As [`Ftl::write`].
    pub fn restore(&mut self, lpa: Lpa, page: Option<Page>) -> Result<(), FlashError> {
        let l = self.index(lpa)?;
        match (page, self.l2p[l as usize].checked_sub(1)) {
            (Some(page), Some(ppa)) => self.nand.replace(Ppa(ppa), &page),
            (Some(page), None) => self.write(Nanos::ZERO, lpa, page, Cause::Recovery).map(drop),
            (None, _) => {
                self.unmap(l);
                Ok(())
            }
        }
    }

    /// Makes the medium durable on the machine that runs the emulation.
    ///
    /// # Errors
    /// Errors of the medium.
    pub fn sync(&mut self) -> Result<(), FlashError> {
        self.nand.sync()
    }

    /// A drive on a medium that kept the map, as battery-backed DRAM does: `live` says of each programmed
    /// page whether it is the current copy of the page that its OOB names. Takes no time at the flash.
    ///
    /// # Errors
    /// As [`Ftl::with_medium`]; also [`FlashError::Corrupt`] where two live pages name one logical page.
    pub fn with_saved_map(
        config: &FtlConfig,
        medium: M,
        live: impl Fn(&M, BlockNo, u32) -> bool,
    ) -> Result<Ftl<M>, FlashError> {
        let mut ftl = Ftl::blank(config, medium)?;
        let per_block = config.geometry.pages_per_block;
        let mut torn = Vec::new();
        for block in 0..config.geometry.blocks() {
            for page in 0..ftl.nand.header(BlockNo(block)).programmed {
                let oob = ftl.nand.medium().oob(BlockNo(block), page)?;
                ftl.seq = ftl.seq.max(oob.seq);
                if let Some(youngest) = ftl.youngest.get_mut(block as usize) {
                    *youngest = oob.seq.max(*youngest);
                }
                if oob.lpa == Oob::NO_LPA {
                    if torn.last() != Some(&block) {
                        torn.push(block);
                    }
                } else if live(ftl.nand.medium(), BlockNo(block), page) {
                    ftl.adopt(oob.lpa, block, block * per_block + page)?;
                }
            }
        }
        ftl.planes = (0..config.geometry.plane_count()).map(|p| ftl.plane_from_headers(p, &torn)).collect();
        ftl.nand.power_cycle(Nanos::ZERO);
        Ok(ftl)
    }

    fn adopt(&mut self, lpa: u32, block: u32, ppa: u32) -> Result<(), FlashError> {
        let capacity = self.l2p.len();
        match self.l2p.get_mut(lpa as usize) {
            Some(entry @ 0) => *entry = ppa + 1,
            Some(entry) => {
                return Err(FlashError::Corrupt(format!(
                    "flash pages {} and {ppa} both claim to be the current copy of page {lpa}",
                    *entry - 1
                )));
            }
            None => {
                return Err(FlashError::Corrupt(format!(
                    "flash page {ppa} claims logical page {lpa} of a drive of {capacity} pages"
                )));
            }
        }
        self.live.set(ppa);
        self.valid.add(block, 1);
        self.mapped += 1;
        Ok(())
    }

    /// Rebuilds all tables from the medium.
    pub(super) fn rebuild(&mut self, now: Nanos) -> Result<Nanos, FlashError> {
        // Pages that were called stale stay so: a trimmed page that comes back must not change later on.
        self.nand.sync()?;
        let blocks = self.config.geometry.blocks();
        // Tables of a drive that is being made are empty, and a second map beside the first might not fit
        // into memory.
        if self.seq > 0 || self.mapped > 0 {
            self.l2p = empty_map(self.l2p.len());
            self.live = LiveMap::new(self.config.geometry.pages());
        }
        self.valid = ValidCounts::new(blocks);
        (self.seq, self.mapped, self.lost_blocks, self.read_only) = (0, 0, 0, false);
        self.cursors = [0; Stream::COUNT];
        self.youngest.fill(0);

        // An erased drive has nothing to look at, and pays nothing.
        let holds_data = |b: &u32| self.nand.header(BlockNo(*b)).programmed > 0;
        let written: Vec<u32> = (0..blocks).filter(holds_data).collect();
        let (torn, done) = self.scan_all(now, &written)?;
        if !self.p2l.is_empty() {
            self.invert_p2l();
        }
        for l in 0..if written.is_empty() { 0 } else { self.l2p.len() } {
            if let Some(ppa) = self.l2p[l].checked_sub(1) {
                let (block, _) = self.config.geometry.split(Ppa(ppa));
                self.live.set(ppa);
                self.valid.add(block, 1);
                self.mapped += 1;
            }
        }
        self.planes =
            (0..self.config.geometry.plane_count()).map(|p| self.plane_from_headers(p, &torn)).collect();
        Ok(done)
    }

    /// Fills the map with the newest copies in `written` blocks. Returns the blocks that hold a failed
    /// program, ascending.
    fn scan_all(&mut self, now: Nanos, written: &[u32]) -> Result<(Vec<u32>, Nanos), FlashError> {
        let per_block = self.config.geometry.pages_per_block;
        let mut newest = vec![0u64; if written.is_empty() { 0 } else { self.l2p.len() }];
        let (mut torn, mut end, mut corrupt) = (Vec::new(), now, None);
        for &block in written {
            let (l2p, seq) = (&mut self.l2p, &mut self.seq);
            let mut unused = 0;
            let youngest = self.youngest.get_mut(block as usize).unwrap_or(&mut unused);
            let mut pages = 0;
            let done = self.nand.scan(now, BlockNo(block), |page, oob| {
                pages += 1;
                *seq = (*seq).max(oob.seq);
                *youngest = (*youngest).max(oob.seq);
                if oob.lpa == Oob::NO_LPA {
                    if torn.last() != Some(&block) {
                        torn.push(block);
                    }
                } else if let Some(seen) = newest.get_mut(oob.lpa as usize) {
                    if oob.seq > *seen {
                        *seen = oob.seq;
                        l2p[oob.lpa as usize] = block * per_block + page + 1;
                    }
                } else {
                    corrupt = Some((block, page, oob.lpa));
                }
            })?;
            self.counters.read_pages[Cause::Mapping as usize] += pages;
            end = end.max(done);
        }
        if let Some((block, page, lpa)) = corrupt {
            return Err(FlashError::Corrupt(format!(
                "page {page} of block {block} claims logical page {lpa} of a drive of {} pages",
                self.l2p.len()
            )));
        }
        Ok((torn, end))
    }

    pub(super) fn plane_from_headers(&mut self, plane: u32, torn: &[u32]) -> Plane {
        let per_block = self.config.geometry.pages_per_block;
        let (from, end) = self.blocks_of(plane);
        let (mut free, mut retiring, mut partial, mut most_erases) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for block in from..end {
            let header = self.nand.header(BlockNo(block));
            most_erases = most_erases.max(header.erases);
            if header.bad {
                self.lose_block();
            } else if torn.binary_search(&block).is_ok() {
                retiring.push(block);
                self.lose_block();
            } else if header.programmed == 0 {
                free.push((block, header.erases));
            } else if header.programmed < per_block {
                partial.push(Open { block, used: header.programmed });
            } else {
                self.valid.offer(block);
            }
        }
        // Roomiest last.
        partial.sort_by_key(|o| (std::cmp::Reverse(o.used), o.block));
        let mut open = [Open::NONE; Stream::COUNT];
        for stream in [Stream::Gc, Stream::Host, Stream::Cold, Stream::Apart] {
            if stream != Stream::Apart || self.config.has_second_stream() {
                open[stream as usize] = partial.pop().unwrap_or(Open::NONE);
            }
        }
        for o in partial {
            self.valid.offer(o.block);
        }
        Plane {
            free: FreeBlocks::new(free.into_iter()),
            open,
            job: None,
            retiring,
            collecting: false,
            erases_unlooked: 0,
            wear_hand: 0,
            most_erases,
        }
    }
}
