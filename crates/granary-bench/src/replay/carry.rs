//! Carries out one event of a trace.

use super::{PAGE, Replay, Run, Trouble};
use crate::recorded::POWER;
use granary_device::vendor::pebble::{BamNames, BamRead, BamReset, FsWrite, Remap, RemapKeep};
use granary_device::vendor::transactions::{Commit, Recover};
use granary_device::{Command, RemapRange, Streamed, Structure};
use granary_sim::rng::Stream;
use granary_trace::drive::{FileBlock, Op, Piece, Written};
use granary_units::{ByteAddr, Lpa, Nanos, Page, Payload};

impl Replay<'_> {
    pub(super) fn carry_out(&self, r: &mut Run, op: Op, now: Nanos, n: u64) -> Result<Nanos, Trouble> {
        let d = self.drive;
        Ok(match op {
            Op::Read(lpa, pages, what) => self.read(r, now, lpa, pages, what)?,
            Op::Write(lpa, written, what) => self.write(r, now, lpa, &written, (None, what), n)?,
            Op::FsWrite(lpa, written, block, what) => {
                self.write(r, now, lpa, &written, (Some(block), what), n)?
            }
            Op::Remap(src, dst, count) => {
                let [src, dst] = [self.whole(r, src, count)?, self.whole(r, dst, count)?];
                d.submit(now, Command::Vendor(&mut Remap { src, dst, count }))?
            }
            Op::RemapKeep(ranges) => {
                let mut placed = Vec::with_capacity(ranges.len());
                for RemapRange { src, dst, count } in ranges {
                    let [src, dst] = [self.whole(r, src, count)?, self.whole(r, dst, count)?];
                    placed.push(RemapRange { src, dst, count });
                }
                d.submit(now, Command::Vendor(&mut RemapKeep { ranges: placed.to_vec() }))?
            }
            Op::BamNames => d.submit(now, Command::Vendor(&mut BamNames::default()))?,
            Op::BamReset => d.submit(now, Command::Vendor(&mut BamReset))?,
            Op::BamRead(ino) => d.submit(now, Command::Vendor(&mut BamRead { ino, out: Vec::new() }))?,
            Op::Flush => d.submit(now, Command::Flush)?,
            Op::Trim(lpa, pages) => {
                let mut done = now;
                for (lpa, count) in self.place(r, lpa, pages)?.into_iter().flatten() {
                    done = done.max(d.submit(now, Command::Trim { lpa, count })?);
                }
                done
            }
            Op::Commit(tx) => d.submit(now, Command::Vendor(&mut Commit { tx }))?,
            Op::Recover => d.submit(now, Command::Vendor(&mut Recover))?,
            Op::Load(at, len, what) => {
                let at = self.bytes_at(r, at, len)?;
                r.bytes.resize(len as usize, 0);
                d.load(now, at, &mut r.bytes, what)?
            }
            Op::LoadPages(at, len, pages, what) => {
                let at = self.bytes_at(r, at, len)?;
                r.pages.clear();
                r.pages.resize(pages as usize, Page::ZERO);
                d.load_pages(now, at, len as usize, &mut r.pages, what)?
            }
            Op::Store(core, at, bytes, tx, what) => {
                let at = self.bytes_at(r, at, bytes.len() as u64)?;
                d.store_from(core, now, at, &bytes, tx, what)?
            }
            Op::FlushLines(at, len) => {
                let at = self.bytes_at(r, at, len)?;
                d.flush_lines(now, at, len as usize)?
            }
            Op::Stream(lpa, from, piece, what) => {
                let at = self.bytes_at(r, lpa.byte(), PAGE)?;
                let (lpa, from) = (at.lpa(), from as usize);
                let part = |p| Streamed::Part(p);
                match &piece {
                    Piece::Page(page) => d.stream(now, lpa, from, Streamed::Page(&page.0), what)?,
                    Piece::Bytes(b) => d.stream(now, lpa, from, part(Payload::Bytes(b)), what)?,
                    Piece::Fill(word, len) => {
                        let fill = Payload::Fill { word: *word, len: *len as usize };
                        d.stream(now, lpa, from, part(fill), what)?
                    }
                }
            }
            Op::Verify => d.verify(now)?,
            Op::Settle => d.settle(now)?,
            Op::Track(on) => {
                d.track_in_flight(on);
                now
            }
            Op::PowerFail(seed) => {
                d.power_fail(now, &mut Stream::new(seed, POWER));
                r.off = true;
                now
            }
            Op::PowerOn => {
                let on = d.power_on(now)?;
                r.off = false;
                on
            }
            Op::Mark(_) => now,
        })
    }

    pub(super) fn read(
        &self,
        r: &mut Run,
        now: Nanos,
        lpa: Lpa,
        pages: u64,
        what: Structure,
    ) -> Result<Nanos, Trouble> {
        let most = self.drive.info().max_transfer as u64;
        let mut done = now;
        for (lpa, count) in self.place(r, lpa, pages)?.into_iter().flatten() {
            for from in (0..count).step_by(most as usize) {
                r.pages.clear();
                r.pages.resize(most.min(count - from) as usize, Page::ZERO);
                let command = Command::Read { lpa: lpa.offset(from), out: &mut r.pages, what };
                done = done.max(self.drive.submit(now, command)?);
            }
        }
        Ok(done)
    }

    pub(super) fn write(
        &self,
        r: &mut Run,
        now: Nanos,
        lpa: Lpa,
        written: &Written,
        (file, what): (Option<FileBlock>, Structure),
        n: u64,
    ) -> Result<Nanos, Trouble> {
        let most = self.drive.info().max_transfer as u64;
        let (mut done, mut nth) = (now, 0);
        for (lpa, count) in self.place(r, lpa, written.count())?.into_iter().flatten() {
            for from in (0..count).step_by(most as usize) {
                let some = nth..nth + most.min(count - from);
                nth = some.end;
                r.pages.clear();
                match written {
                    Written::Pages(all) => {
                        let all = &all[some.start as usize..some.end as usize];
                        r.pages.extend(all.iter().map(|c| c.0.clone()));
                    }
                    Written::Unknown(_) => r.pages.extend(some.map(|i| Page::word(n << 8 | i))),
                }
                let (lpa, pages) = (lpa.offset(from), &r.pages[..]);
                let taken = match file {
                    None => self.drive.submit(now, Command::Write { lpa, pages, what })?,
                    Some(FileBlock { ino, offset, end }) => {
                        let offset = offset.saturating_add((nth - pages.len() as u64) as u32);
                        let end = end.of_page(nth as usize - 1, written.count() as usize);
                        let command = &mut FsWrite { lpa, pages: pages.to_vec(), ino, offset, end, what };
                        self.drive.submit(now, Command::Vendor(command))?
                    }
                };
                done = done.max(taken);
            }
        }
        Ok(done)
    }

    /// The pages of the drive for those of the trace: themselves, or where they are folded to, in up to two
    /// parts.
    pub(super) fn place(
        &self,
        r: &mut Run,
        lpa: Lpa,
        pages: u64,
    ) -> Result<[Option<(Lpa, u64)>; 2], Trouble> {
        let all = self.drive.info().pages;
        if lpa.0 < all && pages <= all - lpa.0 {
            return Ok([Some((lpa, pages)), None]);
        }
        if !self.wrap || pages > all {
            return Err(Trouble::Place(format!(
                "{pages} pages from page {} on lie beyond the drive's end ({all} pages of 4 KiB): --wrap folds them onto the \
                 drive, or take a larger one (--testbed, --set blocks_per_plane=N)",
                lpa.0
            )));
        }
        r.bent.wrapped += 1;
        let first = lpa.0 % all;
        let head = pages.min(all - first);
        Ok([Some((Lpa(first), head)), (pages > head).then_some((Lpa(0), pages - head))])
    }

    /// The same for the byte window: folded as a whole.
    pub(super) fn bytes_at(&self, r: &mut Run, at: ByteAddr, len: u64) -> Result<ByteAddr, Trouble> {
        let all = self.drive.info().pages * PAGE;
        if at.0 <= all && len <= all - at.0 {
            return Ok(at);
        }
        let pages = (at.in_page() as u64 + len).div_ceil(PAGE);
        Ok(self.whole(r, at.lpa(), pages)?.byte().offset(at.in_page() as u64))
    }

    /// The same for pages that must stay together: to the drive's beginning where they would come apart.
    pub(super) fn whole(&self, r: &mut Run, lpa: Lpa, pages: u64) -> Result<Lpa, Trouble> {
        Ok(match self.place(r, lpa, pages)? {
            [Some((lpa, n)), _] if n == pages => lpa,
            _ => Lpa(0),
        })
    }
}
