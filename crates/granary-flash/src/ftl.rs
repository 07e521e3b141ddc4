//! [`Ftl`]: the flash translation layer: logical pages on NAND that must be erased before it is programmed
//! again.
//!
//! ```text
//!   l2p[lpa] = ppa + 1 (0: unmapped)         OOB of ppa = { lpa, seq }      live: 1 bit per ppa
//!
//!   plane 0: [open: host][log][gc][cold] [closed ...][free ...]      <- write n
//!   plane 1: [open: host][log][gc][cold] [closed ...][free ...]      <- write n+1      (striping order)
//!   ...
//!   block:   free --open--> open --full--> closed --gc: copy live pages, erase--> free
//!                             \__program failed__> retiring --copy live pages--> bad
//! ```
//!
//! Writes go round the planes in the order that the striping policy says, one page to each. Every plane keeps
//! an open block for the host's writes and one for gc's copies. It keeps one for log cleaning if that is a
//! stream of its own and, where wear leveling works, one for cold data. See `alloc` for the choice of planes
//! and blocks, `gc` for gc, wear leveling and bad blocks, `idle` for background gc, `recover` for power,
//! `remap` for the P2L table, `fill` for preconditioning, `grow` for more planes.
//!
//! Invariants (`Ftl::check`). `l2p[lpa] == ppa + 1` exactly where `ppa` is live, and then the OOB of `ppa`
//! (or the P2L table, where one is kept) says `lpa`. A block's valid count is the number of its live pages.
//! Every block is in exactly one state.
//!
//! It does *not* cache map pages: the whole table is in the drive's DRAM (512 MB for 1 TB, ByteFS
//! section 4.9). It does *not* buffer writes; that is the firmware's.
//!
//! Source: ByteFS section 4.9: page allocation, page-level translation, garbage collection.

mod ahead;
mod alloc;
mod check;
mod fill;
mod gc;
mod grow;
mod idle;
pub(crate) mod policy;
mod recover;
mod remap;
mod victims;

use crate::config::FtlConfig;
use crate::counters::{Cause, FlashCounters};
use crate::error::FlashError;
use crate::faults::Faults;
use crate::medium::{BlockNo, Medium, RamMedium};
use crate::nand::{Nand, NandStats};
use alloc::{Plane, Stream};
use granary_units::{Lpa, Nanos, Page, Ppa, large_pages};
use policy::Policies;
use serde::Serialize;
pub(crate) use victims::LiveMap;
use victims::ValidCounts;

/// Erase counts over the blocks in service.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Wear {
    /// Fewest erases of a block.
    pub least: u32,
    /// Most erases of a block.
    pub most: u32,
    /// Erases per block.
    pub mean: f64,
}

/// A flash array behind a page-level mapping. All times are instants at which the array is asked and has
/// answered.
#[derive(Clone, Debug)]
pub struct Ftl<M = RamMedium> {
    config: FtlConfig,
    nand: Nand<M>,
    /// `ppa + 1`; zero is unmapped, so that an untouched table costs no memory.
    l2p: Vec<u32>,
    /// `lpa + 1` of each live flash page, zero of the others; empty where the drive keeps no such table.
    p2l: Vec<u32>,
    live: LiveMap,
    valid: ValidCounts,
    planes: Vec<Plane>,
    /// Planes in the order in which writes visit them.
    order: Vec<u32>,
    /// Of each stream: place in `order` that the next write tries first.
    cursors: [u32; Stream::COUNT],
    /// Sequence number of the newest program.
    seq: u64,
    mapped: u64,
    lost_blocks: u32,
    read_only: bool,
    counters: FlashCounters,
    /// Which block gc empties next.
    policies: Policies,
    /// The leveling of the policies ever moves anything.
    levels: bool,
    /// Where the policy needs ages: of each block, the sequence number at which the youngest of its data was
    /// written. Else empty.
    youngest: Vec<u64>,
    /// When everything asked for so far is done.
    busy_until: Nanos,
    /// Scratch space of gc.
    moving: gc::Batch,
}

/// A map that maps nothing.
fn empty_map(entries: usize) -> Vec<u32> {
    let map = vec![0; entries];
    large_pages(&map);
    map
}

impl Ftl<RamMedium> {
    /// An erased drive in memory.
    ///
    /// # Errors
    /// [`FlashError::Config`] for a configuration that makes no working drive.
    pub fn new(config: &FtlConfig) -> Result<Ftl, FlashError> {
        config.validate()?;
        let medium = RamMedium::new(config.geometry.blocks(), config.geometry.pages_per_block);
        Ftl::with_medium(config, medium)
    }
}

impl<M: Medium> Ftl<M> {
    /// A drive on `medium`; one that holds data already has its mapping rebuilt from the OOB areas (counted
    /// as [`Cause::Mapping`], before time starts).
    ///
    /// # Errors
    /// [`FlashError::Config`], [`FlashError::Corrupt`] where the medium holds what no FTL of this
    /// configuration wrote, errors of the medium.
    pub fn with_medium(config: &FtlConfig, medium: M) -> Result<Ftl<M>, FlashError> {
        let mut ftl = Ftl::blank(config, medium)?;
        ftl.rebuild(Nanos::ZERO)?;
        ftl.nand.power_cycle(Nanos::ZERO);
        Ok(ftl)
    }

    /// An FTL with empty tables.
    fn blank(config: &FtlConfig, medium: M) -> Result<Ftl<M>, FlashError> {
        let nand = Nand::new(config, medium)?;
        let geometry = config.geometry;
        let policies = Policies::of(config);
        Ok(Ftl {
            config: *config,
            nand,
            l2p: empty_map(config.capacity_pages() as usize),
            p2l: Vec::new(),
            live: LiveMap::new(geometry.pages()),
            valid: ValidCounts::new(geometry.blocks()),
            planes: Vec::new(),
            order: config.striping.order(&geometry),
            cursors: [0; Stream::COUNT],
            seq: 0,
            mapped: 0,
            lost_blocks: 0,
            read_only: false,
            counters: FlashCounters::default(),
            youngest: vec![0; if policies.victims.needs_ages() { geometry.blocks() as usize } else { 0 }],
            levels: policies.leveling.is_on(),
            policies,
            busy_until: Nanos::ZERO,
            moving: gc::Batch::new(),
        })
    }

    /// Follows these policies from now on. Data that is there already counts as old, and stays where it is.
    pub fn follow(&mut self, policies: Policies) {
        let ages = if policies.victims.needs_ages() { self.config.geometry.blocks() as usize } else { 0 };
        self.youngest.resize(ages, 0);
        self.levels = policies.leveling.is_on();
        self.policies = policies;
    }

    /// From now on flash operations fail as `faults` says; `None` for never.
    pub fn set_faults(&mut self, faults: Option<Faults>) {
        self.nand.set_faults(faults);
    }

    /// The configuration of the drive.
    pub fn config(&self) -> &FtlConfig {
        &self.config
    }

    /// Logical pages of the drive: addresses `0..capacity_pages()`.
    pub fn capacity_pages(&self) -> u64 {
        self.l2p.len() as u64
    }

    /// Logical pages that hold something.
    pub fn mapped_pages(&self) -> u64 {
        self.mapped
    }

    /// Flash traffic so far, by cause.
    pub fn counters(&self) -> FlashCounters {
        self.counters
    }

    /// Pages that gc has copied so far.
    #[inline]
    pub fn copied(&self) -> u64 {
        self.counters.program_pages[Cause::Gc as usize]
    }

    /// Counters of the NAND array itself, and its busy time.
    pub fn nand_stats(&self) -> NandStats {
        self.nand.stats()
    }

    /// The array below.
    pub fn nand(&self) -> &Nand<M> {
        &self.nand
    }

    /// The array below, for what is no flash operation.
    pub fn nand_mut(&mut self) -> &mut Nand<M> {
        &mut self.nand
    }

    /// Whether the drive has reached its end of life and refuses writes.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Blocks out of service.
    pub fn lost_blocks(&self) -> u32 {
        self.lost_blocks
    }

    /// Blocks that may still fail before the drive becomes read-only.
    pub fn spare_blocks(&self) -> u32 {
        let geometry = &self.config.geometry;
        let data = self.l2p.len().div_ceil(geometry.pages_per_block as usize) as u32;
        let working = self.config.working_blocks() * geometry.plane_count();
        (geometry.blocks() - self.lost_blocks).saturating_sub(data + working)
    }

    /// Erase counts over the blocks in service.
    pub fn wear(&self) -> Wear {
        let (mut least, mut most, mut sum, mut n) = (u32::MAX, 0, 0u64, 0u64);
        for b in 0..self.config.geometry.blocks() {
            let header = self.nand.header(BlockNo(b));
            if !header.bad {
                least = least.min(header.erases);
                most = most.max(header.erases);
                sum += header.erases as u64;
                n += 1;
            }
        }
        Wear { least: least.min(most), most, mean: sum as f64 / n.max(1) as f64 }
    }

    /// Time has come to `now`: earlier work of planes and buses need not be remembered any more.
    #[inline]
    pub fn pass(&mut self, now: Nanos) {
        self.nand.pass(now);
    }

    /// Reads a logical page, asked at `now`; returns its content and when it has arrived. A page that was
    /// never written, or trimmed, is all zeros and takes no time at the flash. The host's reads
    /// ([`Cause::Host`]) go before whatever their plane has not begun; others take idle time.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`], [`FlashError::Unreadable`], errors of the medium.
    #[inline]
    pub fn read(&mut self, now: Nanos, lpa: Lpa, cause: Cause) -> Result<(Page, Nanos), FlashError> {
        let l = self.index(lpa)?;
        self.catch_up(now)?;
        let Some(ppa) = self.l2p[l as usize].checked_sub(1) else { return Ok((Page::ZERO, now)) };
        self.counters.read_pages[cause as usize] += 1;
        let (page, holds, done) = self.nand.fetch(now, Ppa(ppa), l, cause == Cause::Host)?;
        self.confirm(l, ppa, holds)?;
        self.busy_until = self.busy_until.max(done);
        Ok((page, done))
    }

    /// Writes a logical page, asked at `now`; returns when the cells hold it. Where a plane has run low on
    /// free blocks, a bounded part of its gc follows the write; only a drive without any free page makes a
    /// write wait for gc.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`]; [`FlashError::ReadOnly`] at the end of life; errors of the medium.
    #[inline]
    pub fn write(&mut self, now: Nanos, lpa: Lpa, page: Page, cause: Cause) -> Result<Nanos, FlashError> {
        let l = self.index(lpa)?;
        self.writable()?;
        self.catch_up(now)?;
        let stream = self.stream_of(cause, self.l2p[l as usize] != 0);
        loop {
            let plane = self.next_plane(now, stream)?;
            let done = self.append(now, plane, stream, l, &page, cause)?;
            if self.gc_wanted(plane) {
                self.gc_step(now, plane, gc::Effort::Share)?;
            }
            if let Some(done) = done {
                self.busy_until = self.busy_until.max(done);
                return Ok(done);
            }
        }
    }

    /// When the program of a page of the host's would be done that is ready at `now`, after `before` others
    /// that are not issued yet: in the plane whose turn it would be, after what that has to do. Gc is not
    /// thought of.
    pub fn program_end(&self, now: Nanos, before: usize) -> Nanos {
        let planes = self.order.len();
        let at = (self.cursors[Stream::Host as usize] as usize + before) % planes;
        let round = self.config.timing.program * (before / planes) as u64;
        self.nand.program_end(now + round, self.order[at])
    }

    /// The content of a logical page, taking no time and not counted: for checks, and for merges inside the
    /// drive whose flash read has been accounted for elsewhere.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`], errors of the medium.
    pub fn peek(&self, lpa: Lpa) -> Result<Page, FlashError> {
        let l = self.index(lpa)?;
        let Some(ppa) = self.l2p[l as usize].checked_sub(1) else { return Ok(Page::ZERO) };
        let (page, oob) = self.nand.peek(Ppa(ppa))?;
        self.confirm(l, ppa, oob.lpa)?;
        Ok(page)
    }

    /// Whether a logical page holds something; false beyond the drive's end.
    pub fn is_mapped(&self, lpa: Lpa) -> bool {
        self.l2p.get(lpa.0 as usize).is_some_and(|&p| p != 0)
    }

    /// The flash page that holds a logical page, if any does.
    pub fn location(&self, lpa: Lpa) -> Option<Ppa> {
        self.l2p.get(lpa.0 as usize)?.checked_sub(1).map(Ppa)
    }

    /// Erased blocks in service that no stream has opened, over all planes.
    pub fn free_blocks(&self) -> u32 {
        self.planes.iter().map(|p| p.free.len()).sum()
    }

    /// Drops the content of `n` logical pages from `lpa` on: they read as zeros until written again. Changes
    /// the map only, so it takes no time at the flash; if the map is then lost ([`Ftl::power_cycle`]),
    /// trimmed pages whose old copies have not been erased are mapped again, with undefined content.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`]; [`FlashError::ReadOnly`] at the end of life.
    pub fn trim(&mut self, lpa: Lpa, n: u64) -> Result<(), FlashError> {
        let first = self.range(lpa, n)?;
        self.writable()?;
        for l in first..first + n as u32 {
            self.unmap(l);
        }
        Ok(())
    }

    fn index(&self, lpa: Lpa) -> Result<u32, FlashError> {
        if lpa.0 < self.l2p.len() as u64 { Ok(lpa.0 as u32) } else { self.range(lpa, 1) }
    }

    fn range(&self, first: Lpa, pages: u64) -> Result<u32, FlashError> {
        let capacity = self.capacity_pages();
        if first.0 > capacity || pages > capacity - first.0 {
            return Err(FlashError::OutOfRange { first, pages, capacity });
        }
        Ok(first.0 as u32)
    }

    fn writable(&self) -> Result<(), FlashError> {
        if self.read_only { Err(FlashError::ReadOnly { lost_blocks: self.lost_blocks }) } else { Ok(()) }
    }

    /// The page that was read says itself what it holds: a wrong map is found at once.
    #[inline]
    fn confirm(&self, l: u32, ppa: u32, holds: u32) -> Result<(), FlashError> {
        let owner = self.owner(ppa, holds);
        if owner == l {
            return Ok(());
        }
        Err(FlashError::Corrupt(format!("flash page {ppa} should hold page {l} but says {owner}")))
    }

    /// Points `l` to the page `ppa` of `block`, which has just been programmed; its former copy becomes
    /// stale.
    #[inline]
    fn map(&mut self, l: u32, block: u32, ppa: u32) {
        let old = std::mem::replace(&mut self.l2p[l as usize], ppa + 1);
        if !self.p2l.is_empty() {
            self.p2l[ppa as usize] = l + 1;
        }
        self.live.set(ppa);
        self.valid.add(block, 1);
        if old == 0 {
            self.mapped += 1;
        } else {
            self.make_stale(old - 1);
        }
    }

    fn unmap(&mut self, l: u32) {
        let old = std::mem::take(&mut self.l2p[l as usize]);
        if old != 0 {
            self.mapped -= 1;
            self.make_stale(old - 1);
        }
    }

    #[inline]
    fn make_stale(&mut self, ppa: u32) {
        let (block, page) = self.config.geometry.split(Ppa(ppa));
        self.live.clear(ppa);
        self.valid.sub(block, 1);
        if !self.p2l.is_empty() {
            self.p2l[ppa as usize] = 0;
        }
        self.nand.forget(block, page);
    }
}
