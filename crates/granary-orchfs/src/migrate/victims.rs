//! [`Victims`]: which block migrates next.

use crate::unit::Unit;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A block in the list.
#[derive(Clone, Copy)]
struct Place {
    when: u64,
    is_over: bool,
    pages: u64,
}

/// Blocks with NVM pages, by when they were written last: those without an SSD block (A), which need one, and
/// those with (O).
#[derive(Default)]
pub struct Victims {
    next: u64,
    append: BTreeMap<u64, (u64, u64)>,
    over: BTreeMap<u64, (u64, u64)>,
    of: FxHashMap<(u64, u64), Place>,
    append_pages: u64,
    over_pages: u64,
}

impl Victims {
    fn list(&mut self, is_over: bool) -> (&mut BTreeMap<u64, (u64, u64)>, &mut u64) {
        match is_over {
            true => (&mut self.over, &mut self.over_pages),
            false => (&mut self.append, &mut self.append_pages),
        }
    }

    /// A block was written: it has this unit now.
    pub fn touch(&mut self, ino: u64, block: u64, unit: &Unit) {
        if let Some(old) = self.of.remove(&(ino, block)) {
            let (order, pages) = self.list(old.is_over);
            order.remove(&old.when);
            *pages -= old.pages;
        }
        let pages = unit.nvm_pages().count() as u64;
        if pages > 0 {
            self.next += 1;
            let place = Place { when: self.next, is_over: unit.base().is_some(), pages };
            self.of.insert((ino, block), place);
            let (order, sum) = self.list(place.is_over);
            order.insert(place.when, (ino, block));
            *sum += pages;
        }
    }

    /// NVM pages of all blocks: without an SSD block, with one.
    pub fn pages(&self) -> (u64, u64) {
        (self.append_pages, self.over_pages)
    }

    /// Those that come first behind `after`: (when, inode, block). `over`: only those that need no SSD block.
    pub fn oldest(&self, after: u64, count: usize, over: bool) -> Vec<(u64, u64, u64)> {
        let behind = |order: &BTreeMap<u64, (u64, u64)>| -> Vec<(u64, u64, u64)> {
            order.range(after + 1..).take(count).map(|(when, (ino, block))| (*when, *ino, *block)).collect()
        };
        let mut all = behind(&self.over);
        if !over {
            all.extend(behind(&self.append));
            all.sort_unstable();
            all.truncate(count);
        }
        all
    }
}
