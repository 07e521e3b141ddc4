//! Filling a drive at once: the state after a long sequential write, without the time that it takes.
//!
//! ```text
//!   a row:  one erased block of each plane             order[0]: l    l+P   l+2P ...
//!                                                      order[1]: l+1  l+P+1 l+2P+1 ...      P planes
//! ```
//!
//! Sequential writes to unmapped pages go round the planes and fill one block of each at the same pace. A
//! whole such row is entered into the tables block by block. All else (the ends of the range, pages that are
//! mapped already, open blocks, gc at work) is written page by page, and its reservations of time are undone
//! afterwards.
//!
//! Invariant: the drive's state (map, live pages, block states, free lists, OOB, counters, busy times) is the
//! one that [`Ftl::write`] of each page in turn leads to; only the reservations in time are not there.
//!
//! It does *not* take part in measurements: preconditioning only.

use super::Ftl;
use super::alloc::Stream;
use super::gc::WEAR_LOOK;
use crate::counters::Cause;
use crate::error::FlashError;
use crate::medium::{BlockNo, Medium, Oob};
use granary_units::{Lpa, Nanos, Page};

impl<M: Medium> Ftl<M> {
    /// Writes the `n` logical pages from `first` on, in order, with what `content` says of each; takes no
    /// simulated time. Leaves the same state as [`Ftl::write`] of each of them in turn, at a few nanoseconds
    /// of wall time a page where they are unmapped. `content` may be called in another order, and is not
    /// called for pages of a medium that keeps no content ([`crate::NoData`]).
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`]; [`FlashError::ReadOnly`] at the end of life; errors of the medium, after
    /// which a drive has to be powered up anew.
    pub fn fill_sequential(
        &mut self,
        first: Lpa,
        n: u64,
        cause: Cause,
        mut content: impl FnMut(Lpa) -> Page,
    ) -> Result<(), FlashError> {
        let first = self.range(first, n)?;
        self.writable()?;
        let row = self.planes.len() as u32 * self.config.geometry.pages_per_block;
        // Rows are filled only where nothing is.
        let stream = self.stream_of(cause, false);
        self.without_time(|ftl| {
            let (mut l, end) = (first as u64, first as u64 + n);
            while l < end {
                if end - l >= row as u64 && ftl.can_fill_row(l as u32, row, stream) {
                    ftl.fill_row(l as u32, cause, stream, &mut content)?;
                    l += row as u64;
                } else {
                    ftl.write(Nanos::ZERO, Lpa(l), content(Lpa(l)), cause)?;
                    l += 1;
                }
            }
            Ok(())
        })
    }

    /// Does `work` and then forgets the time that it reserved on planes and buses; its counts stay. The
    /// instants that calls within return mean nothing. For preconditioning.
    pub fn without_time<T>(&mut self, work: impl FnOnce(&mut Ftl<M>) -> T) -> T {
        let (before, busy_until) = (self.nand.reservations(), self.busy_until);
        // Reservations need not be remembered for a moment.
        let now = self.nand.pass(Nanos::MAX);
        let done = work(self);
        self.nand.rewind(&before);
        self.nand.pass(now);
        self.busy_until = busy_until;
        for plane in &mut self.planes {
            if let Some(job) = &mut plane.job {
                job.forget_time();
            }
        }
        done
    }

    /// Whether writes to the pages `l..l + row` would fill one fresh block of each plane and nothing else.
    fn can_fill_row(&self, l: u32, row: u32, stream: Stream) -> bool {
        if self.cursors[stream as usize] != 0 || self.planes[0].open[stream as usize].is_open() {
            return false;
        }
        let unmapped = || self.l2p[l as usize..(l + row) as usize].iter().all(|&p| p == 0);
        let quiet = |p: &super::alloc::Plane| {
            !p.open[stream as usize].is_open()
                && p.free.len() > self.config.gc_start + 1
                && p.job.is_none()
                && !p.collecting
                && p.retiring.is_empty()
                && (p.erases_unlooked < WEAR_LOOK || !self.levels)
        };
        !self.nand.has_faults() && unmapped() && self.planes.iter().all(quiet)
    }

    fn fill_row(
        &mut self,
        l: u32,
        cause: Cause,
        stream: Stream,
        content: &mut impl FnMut(Lpa) -> Page,
    ) -> Result<(), FlashError> {
        let n = self.config.geometry.pages_per_block;
        let planes = self.planes.len() as u32;
        let row = planes as u64 * n as u64;
        let before = self.seq;
        self.seq += row;
        for k in 0..planes {
            let plane = self.order[k as usize];
            let block = self.planes[plane as usize].free.pop().expect("a quiet plane has free blocks");
            let first = Oob { lpa: l + k, seq: before + 1 + k as u64 };
            let mut content = |lpa: u32| content(Lpa(lpa as u64));
            self.nand.program_block(BlockNo(block), first, planes, &mut content)?;
            let from = block * n;
            let entries = self.l2p[(l + k) as usize..].iter_mut().step_by(planes as usize);
            for (entry, ppa) in entries.zip(from..from + n) {
                *entry = ppa + 1;
            }
            if !self.p2l.is_empty() {
                let entries = &mut self.p2l[from as usize..(from + n) as usize];
                entries.iter_mut().zip((l + k + 1..).step_by(planes as usize)).for_each(|(p, l)| *p = l);
            }
            self.live.set_range(from, n);
            self.valid.fill(block, n);
            self.close(block, stream);
            if let Some(youngest) = self.youngest.get_mut(block as usize) {
                // Writing page by page closes the blocks in the last round of the row.
                *youngest = before + row - planes as u64 + k as u64 + 1;
            }
            self.mapped += n as u64;
            self.counters.program_pages[cause as usize] += n as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FtlConfig, GcPolicy, Geometry, NandTiming, Striping};
    use crate::medium::{NoData, RamMedium};
    use granary_sim::rng::Stream as Random;
    use granary_units::{Bytes, Ppa};

    fn config(channels: u32, planes: u32, blocks_per_plane: u32, pages_per_block: u32) -> FtlConfig {
        let geometry = Geometry { channels, ways: 2, dies: 1, planes, blocks_per_plane, pages_per_block };
        let timing = NandTiming {
            read: Nanos::from_micros(40),
            program: Nanos::from_micros(60),
            erase: Nanos::from_millis(2),
            channel_bandwidth: Bytes(400_000_000),
        };
        FtlConfig::new(geometry, timing)
    }

    fn no_data(c: &FtlConfig) -> Ftl<NoData> {
        let medium = NoData::new(c.geometry.blocks(), c.geometry.pages_per_block);
        Ftl::with_medium(c, medium).expect("drive")
    }

    fn content(l: Lpa) -> Page {
        Page::word(l.0 ^ 0x5eed)
    }

    fn written<M: Medium>(ftl: &mut Ftl<M>, first: u64, n: u64) {
        for l in first..first + n {
            ftl.write(Nanos::ZERO, Lpa(l), content(Lpa(l)), Cause::Host).expect("write");
        }
    }

    #[track_caller]
    fn same<M: Medium>(a: &Ftl<M>, b: &Ftl<M>) {
        assert_eq!((&a.l2p, &a.p2l), (&b.l2p, &b.p2l));
        assert_eq!((a.seq, a.cursors, a.mapped, a.counters), (b.seq, b.cursors, b.mapped, b.counters));
        assert_eq!(a.youngest, b.youngest);
        assert_eq!(a.nand_stats(), b.nand_stats());
        assert_eq!(a.wear(), b.wear());
        for (p, q) in a.planes.iter().zip(&b.planes) {
            let free = |p: &super::super::alloc::Plane| {
                let mut all: Vec<u32> = p.free.iter().collect();
                all.sort_unstable();
                all
            };
            assert_eq!(free(p), free(q));
            assert_eq!(format!("{:?}", p.open), format!("{:?}", q.open));
        }
        for block in 0..a.config.geometry.blocks() {
            assert_eq!(a.valid.get(block), b.valid.get(block));
            assert_eq!(a.valid.is_candidate(block), b.valid.is_candidate(block));
            let header = a.nand.header(BlockNo(block));
            assert_eq!(header, b.nand.header(BlockNo(block)));
            for page in 0..header.programmed {
                let ppa = Ppa(block * a.config.geometry.pages_per_block + page);
                assert_eq!(a.nand.peek(ppa).expect("peek"), b.nand.peek(ppa).expect("peek"));
            }
        }
        a.check().expect("consistent");
    }

    fn overwrite<M: Medium>(ftl: &mut Ftl<M>, seed: u64, n: u64) {
        let mut rng = Random::new(seed, "overwrite");
        for i in 0..n {
            let l = Lpa(rng.below(ftl.capacity_pages()));
            ftl.write(Nanos::ZERO, l, Page::word(i), Cause::Host).expect("write");
        }
    }

    /// From an erased drive, from one in the middle of its life, whole drives and ranges with ragged ends.
    #[test]
    fn filling_leads_to_the_state_of_writing() {
        let mut other = config(2, 2, 24, 16);
        other.striping = Striping::try_from("PWCD".to_owned()).expect("an order");
        (other.gc_policy, other.log_stream) = (GcPolicy::CostBenefit, true);
        for c in [config(2, 1, 32, 8), config(4, 2, 20, 64), config(3, 1, 40, 13), other] {
            let pages = Ftl::new(&c).expect("drive").capacity_pages();
            for (first, n, before) in
                [(0, pages, 0), (5, pages / 2, 100), (0, pages, 100), (7, 0, 0), (0, pages, 3 * pages)]
            {
                let (mut by_fill, mut by_write) =
                    (Ftl::new(&c).expect("drive"), Ftl::new(&c).expect("drive"));
                if before == 100 {
                    by_fill.keep_p2l();
                    by_write.keep_p2l();
                }
                overwrite(&mut by_fill, 1, before);
                overwrite(&mut by_write, 1, before);
                by_fill.fill_sequential(Lpa(first), n, Cause::Host, content).expect("fill");
                written(&mut by_write, first, n);
                same(&by_fill, &by_write);
                overwrite(&mut by_fill, 2, 2 * pages);
                overwrite(&mut by_write, 2, 2 * pages);
                same(&by_fill, &by_write);
            }
        }
    }

    #[test]
    fn a_drive_without_data_has_the_map_of_one_with_data() {
        let c = config(2, 2, 32, 16);
        let mut ram = Ftl::new(&c).expect("drive");
        let (mut filled, mut written_to) = (no_data(&c), no_data(&c));
        let pages = ram.capacity_pages();
        filled.fill_sequential(Lpa(0), pages, Cause::Host, |_| Page::ZERO).expect("fill");
        written(&mut written_to, 0, pages);
        same(&filled, &written_to);
        written(&mut ram, 0, pages);
        overwrite(&mut ram, 3, 3 * pages);
        overwrite(&mut filled, 3, 3 * pages);
        assert_eq!((&ram.l2p, ram.seq, ram.counters), (&filled.l2p, filled.seq, filled.counters));
        // The power-up scan finds it again.
        let map = filled.l2p.clone();
        filled.power_cycle(Nanos::ZERO, false).expect("scan");
        assert_eq!(filled.l2p, map);
        filled.check().expect("consistent");
        overwrite(&mut filled, 4, pages);
        filled.check().expect("consistent");
    }

    #[test]
    fn filling_takes_no_time() {
        let c = config(2, 1, 32, 8);
        let mut ftl = Ftl::new(&c).expect("drive");
        ftl.write(Nanos(5), Lpa(0), Page::word(1), Cause::Host).expect("write");
        let mut fresh: Ftl<RamMedium> = ftl.clone();
        ftl.fill_sequential(Lpa(1), ftl.capacity_pages() - 1, Cause::Host, content).expect("fill");
        let at = Nanos(7);
        let read = |f: &mut Ftl| f.read(at, Lpa(0), Cause::Host).expect("read").1;
        assert_eq!(read(&mut ftl), read(&mut fresh));
        assert!(ftl.fill_sequential(Lpa(1), ftl.capacity_pages(), Cause::Host, content).is_err());
    }
}
