//! Reading: an SSD block's pages, NVM pages, or chunks over an SSD page.
//!
//! ```text
//!   S   the pages that are touched, from the SSD        A   loads
//!   O   plain page: a load; Upage: the SSD's page under the chunks, unless they have all that is asked for
//! ```
//!
//! Pages of the SSD that were read before come from host memory ([`crate::cache`]). Commands to the SSD are submitted for all blocks of a request before any is waited for; loads from the NVM follow meanwhile.

use crate::OrchFs;
use crate::geometry::{PAGE, PAGES, Part, parts};
use crate::layout::Area;
use crate::node::Node;
use crate::unit::Unit;
use granary_device::{Structure, Ticket};
use granary_sim::{costs, cpu};
use granary_units::{Dest, Lpa, Page, Payload};
use granary_vfs::Result;
use std::sync::atomic::Ordering::Relaxed;

/// Blocks that are read together at most.
const TOGETHER: usize = 32;

/// The pages of a block.
pub type Pages = [Page; PAGES];

impl OrchFs {
    /// Reads `pos..pos + dest.len()`, which lies within the file.
    pub(crate) fn read_file(&self, node: &Node, pos: u64, mut dest: Dest<'_>) -> Result<()> {
        if dest.is_empty() {
            return Ok(());
        }
        self.check_lease(node.ino.0)?;
        self.last_call.store(granary_sim::now().0, Relaxed);
        let all: Vec<Part> = parts(pos, dest.len() as u64).collect();
        let _held = node.ranges.lock(all[0].block, all[all.len() - 1].block, false);
        let mut done = 0;
        for some in all.chunks(TOGETHER) {
            let units: Vec<Unit> = {
                let state = node.state.read();
                some.iter().map(|part| state.tree.get(part.block).clone()).collect()
            };
            let mut pages: Vec<Pages> = vec![Pages::default(); some.len()];
            let mut ticket = Ticket::NONE;
            for ((unit, part), pages) in units.iter().zip(some).zip(&mut pages) {
                ticket = ticket.and(self.start_read(unit, *part, pages)?);
            }
            self.ssd.wait(ticket);
            for ((unit, part), pages) in units.iter().zip(some).zip(&mut pages) {
                self.keep_pages(unit, *part, pages);
                self.finish_read(unit, *part, pages)?;
                for (page, from, to) in part.pages() {
                    let len = (to - from) as usize;
                    dest.part(done, len).copy_from(&pages[page], from as usize);
                    done += len;
                }
            }
        }
        Ok(())
    }

    /// Starts reading what a part of a block needs of the SSD; in `pages` once it is waited for.
    pub(crate) fn start_read(&self, unit: &Unit, part: Part, pages: &mut Pages) -> Result<Ticket> {
        let Some(base) = unit.base().filter(|base| !base.unwritten) else { return Ok(Ticket::NONE) };
        let needed: Vec<usize> = part
            .pages()
            .filter(|(page, from, to)| match unit {
                Unit::Over { slots, .. } => !slots[*page].header.covers(*from, *to),
                _ => true,
            })
            .map(|(page, ..)| page)
            .filter(|page| match self.cache.get(base.block * PAGES as u64 + *page as u64) {
                Some(found) => {
                    cpu(costs().page);
                    pages[*page] = found;
                    false
                }
                None => true,
            })
            .collect();
        let mut ticket = Ticket::NONE;
        for run in needed.chunk_by(|a, b| a + 1 == *b) {
            let lpa = Lpa(base.block * PAGES as u64 + run[0] as u64);
            let out = &mut pages[run[0]..=run[run.len() - 1]];
            ticket = ticket.and(self.ssd.submit_read(lpa, out, Structure::Data)?);
        }
        Ok(ticket)
    }

    /// Keeps what came from the SSD. The caller still holds the block's range.
    fn keep_pages(&self, unit: &Unit, part: Part, pages: &Pages) {
        let Some(base) = unit.base().filter(|base| !base.unwritten) else { return };
        for (page, from, to) in part.pages() {
            if !matches!(unit, Unit::Over { slots, .. } if slots[page].header.covers(from, to)) {
                self.cache.put(base.block * PAGES as u64 + page as u64, &pages[page]);
            }
        }
    }

    /// Puts into `pages` what the NVM has of a part of a block.
    pub(crate) fn finish_read(&self, unit: &Unit, part: Part, pages: &mut Pages) -> Result<()> {
        for (page, from, to) in part.pages() {
            match unit {
                Unit::Append { pages: numbers, .. } if numbers[page] != 0 => {
                    pages[page] = self.load(numbers[page], from, to)?;
                }
                Unit::Over { slots, .. } => {
                    let slot = &slots[page];
                    if slot.header.covers(from, to) {
                        pages[page] =
                            if slot.page == 0 { Page::ZERO } else { self.load(slot.page, from, to)? };
                        continue;
                    }
                    for (f, t) in slot.header.chunks() {
                        let (f, t) = (f.max(from), t.min(to));
                        if f < t {
                            let chunk = self.load(slot.page, f, t)?;
                            let bytes = chunk.to_bytes();
                            pages[page].write(f as usize, Payload::Bytes(&bytes[f as usize..t as usize]));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The whole block.
    pub(crate) fn read_block(&self, unit: &Unit) -> Result<Pages> {
        let part = Part { block: 0, from: 0, to: (PAGE * PAGES as u64) as u32 };
        let mut pages = Pages::default();
        let ticket = self.start_read(unit, part, &mut pages)?;
        self.ssd.wait(ticket);
        self.finish_read(unit, part, &mut pages)?;
        Ok(pages)
    }

    /// Bytes of an NVM page, in their place in a page.
    fn load(&self, page: u64, from: u16, to: u16) -> Result<Page> {
        let mut out = [Page::ZERO];
        let at = self.layout.at(Area::Page, page) + u64::from(from);
        self.pm.load_pages(at, (to - from) as usize, &mut out, Structure::Data)?;
        let [page] = out;
        Ok(page)
    }
}
