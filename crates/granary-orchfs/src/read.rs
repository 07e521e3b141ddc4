//! Reading: an SSD block's pages, NVM pages, or chunks over an SSD page.
//!
//! ```text
//!   S   the pages that are touched, from the SSD        A   loads
//!   O   plain page: a load; Upage: the SSD's page under the chunks, unless they have all that is asked for
//! ```
//!
//! Pages of the SSD that were read before come from host memory ([`crate::cache`]). The I/Os of all blocks of
//! a request are submitted to the engine's threads before any is waited for, and so is what is read ahead;
//! without the engine one follows the other, and nothing is read ahead.

use crate::engine::{Group, Read, Work};
use crate::fs::OrchFs;
use crate::geometry::{PAGE, PAGES, Pages, Part, parts};
use crate::layout::Area;
use crate::node::Node;
use crate::ranges::Use;
use crate::unit::Unit;
use granary_device::Structure;
use granary_fs::Result;
use granary_sim::{costs, cpu};
use granary_units::{Dest, Page, Payload};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Blocks that are read together at most.
const TOGETHER: usize = 32;

impl OrchFs {
    /// Reads `pos..pos + dest.len()`, which lies within the file.
    pub(crate) fn read_file(&self, node: &Node, pos: u64, mut dest: Dest<'_>) -> Result<()> {
        if dest.is_empty() {
            return Ok(());
        }
        self.check_lease(node.ino.0)?;
        self.last_call.store(granary_sim::now().0, Relaxed);
        let all: Vec<Part> = parts(pos, dest.len() as u64).collect();
        let _held = node.ranges.lock(all[0].block, all[all.len() - 1].block, Use::Read);
        let mut done = 0;
        for some in all.chunks(TOGETHER) {
            let units: Vec<Unit> = {
                let state = node.state.read();
                some.iter().map(|part| state.tree.get(part.block).clone()).collect()
            };
            let mut pages: Vec<Pages> = vec![Pages::default(); some.len()];
            self.read_ssd(&units, some, &mut pages)?;
            for ((unit, part), pages) in units.iter().zip(some).zip(&mut pages) {
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

    /// Reads what parts of blocks need of the SSD.
    pub(crate) fn read_ssd(&self, units: &[Unit], parts: &[Part], pages: &mut [Pages]) -> Result<()> {
        let (mut group, mut reads, mut ahead) = (Group::default(), Vec::new(), None);
        for (i, (unit, part)) in units.iter().zip(parts).enumerate() {
            let Some(base) = unit.base().filter(|base| !base.unwritten) else { continue };
            let first = base.block * PAGES as u64;
            let mut missing = Vec::new();
            for (page, from, to) in part.pages() {
                if matches!(unit, Unit::Over { slots, .. } if slots[page].header.covers(from, to)) {
                    continue;
                }
                match self.engine.cache().get(first + page as u64) {
                    Some((found, marked)) => {
                        cpu(costs().page);
                        pages[i][page] = found;
                        if marked {
                            ahead = Some(self.engine.cache().next_window(first + page as u64));
                        }
                    }
                    None => missing.push(page),
                }
            }
            let (Some(from), Some(to)) = (missing.first(), missing.last()) else { continue };
            ahead = self.engine.cache().window(first + *from as u64, first + *to as u64 + 1).or(ahead);
            let read = Arc::new(Read::new(base.block, missing));
            match self.options.engine {
                true => self.engine.submit(Work::Read(read.clone()), Some(&mut group)),
                false => self.engine.run(&Work::Read(read.clone()))?,
            }
            reads.push((i, read));
        }
        if let Some(window) = ahead.filter(|_| self.options.engine) {
            let end = window.end.min(self.layout.count(Area::Block) * PAGES as u64);
            self.engine.read_ahead(window.start, end.saturating_sub(window.start));
        }
        self.engine.wait(&group)?;
        reads.into_iter().for_each(|(i, read)| read.put_into(&mut pages[i]));
        Ok(())
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
        let mut pages = [Pages::default()];
        self.read_ssd(std::slice::from_ref(unit), &[part], &mut pages)?;
        let [mut pages] = pages;
        self.finish_read(unit, part, &mut pages)?;
        Ok(pages)
    }

    /// Bytes of an NVM page, in their place in a page.
    pub(crate) fn load(&self, page: u64, from: u16, to: u16) -> Result<Page> {
        let mut out = [Page::ZERO];
        let at = self.layout.at(Area::Page, page) + u64::from(from);
        self.pm.load_pages(at, (to - from) as usize, &mut out, Structure::Data)?;
        let [page] = out;
        Ok(page)
    }
}
