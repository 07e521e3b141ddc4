//! A directory in memory: its names, the order of listing, and the room in its pages.
//!
//! Changes are reported as records for the pages on the NVM ([`crate::layout::dentry`]); they count with
//! their group.

use crate::layout::Area;
use crate::layout::dentry::{self, Dentry, UNIT, UNITS};
use crate::record::Record;
use granary_fs::Result;
use granary_pm::corrupt;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// An entry, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedDentry {
    /// Its content.
    pub dentry: Dentry,
    /// The NVM page.
    pub page: u64,
    /// Its first unit there.
    pub unit: usize,
}

/// A page of a directory.
#[derive(Clone, Debug)]
struct Room {
    page: u64,
    /// Bit n: unit n is taken.
    taken: u128,
}

impl Room {
    fn find(&self, units: usize) -> Option<usize> {
        // Bit n of `starts`: units n to n + units - 1 are free.
        let mut starts = !self.taken;
        for i in 1..units {
            starts &= !self.taken >> i;
        }
        // No entry crosses the end of the page.
        let at = (starts & (u128::MAX >> (units - 1))).trailing_zeros() as usize;
        (at + units <= UNITS).then_some(at)
    }
}

fn mask(unit: usize, units: usize) -> u128 {
    ((1u128 << units) - 1) << unit
}

/// See the module.
#[derive(Debug, Default)]
pub struct Dir {
    by_name: FxHashMap<Vec<u8>, u64>,
    by_cookie: BTreeMap<u64, CachedDentry>,
    rooms: Vec<Room>,
    /// No page before this one has room for an entry of one unit.
    full: usize,
    last: u64,
    /// The parent's inode.
    pub parent: u64,
}

/// Where a new name is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DentryPlace {
    /// Page and unit.
    Here(u64, usize),
    /// No page has room for it.
    NewPage,
}

impl Dir {
    /// An empty one.
    pub fn new(parent: u64) -> Dir {
        Dir { parent, ..Dir::default() }
    }

    /// The directory whose pages these are, in order: (page, content, its inode).
    ///
    /// # Errors
    /// `Corrupt` where pages hold no entries, or a name twice.
    pub fn load(parent: u64, pages: &[(u64, Vec<u8>)]) -> Result<Dir> {
        let mut dir = Dir { parent, ..Dir::default() };
        for (page, content) in pages {
            let (mut room, mut unit) = (Room { page: *page, taken: 1 }, 1);
            while unit < UNITS {
                let Some((dentry, units)) = dentry::parse(content, unit)? else {
                    unit += 1;
                    continue;
                };
                room.taken |= mask(unit, units);
                dir.last = dir.last.max(dentry.cookie);
                let cookie = dentry.cookie;
                let entry = CachedDentry { dentry, page: *page, unit };
                if dir.by_name.insert(entry.dentry.name.clone(), cookie).is_some()
                    || dir.by_cookie.insert(cookie, entry).is_some()
                {
                    return Err(corrupt("a directory has a name, or a place in its order, twice"));
                }
                unit += units;
            }
            dir.rooms.push(room);
        }
        Ok(dir)
    }

    /// The entry of a name.
    pub fn get(&self, name: &[u8]) -> Option<&CachedDentry> {
        self.by_name.get(name).map(|cookie| &self.by_cookie[cookie])
    }

    /// Entries behind a place in the order of listing.
    pub fn after(&self, cookie: u64) -> impl Iterator<Item = &CachedDentry> {
        self.by_cookie.range(cookie.saturating_add(1)..).map(|(_, entry)| entry)
    }

    /// The last place in that order.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// How many names there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.by_cookie.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_cookie.is_empty()
    }

    /// Its first page; 0: none.
    pub fn first_page(&self) -> u64 {
        self.rooms.first().map_or(0, |room| room.page)
    }

    /// How many pages there are.
    pub fn pages(&self) -> usize {
        self.rooms.len()
    }

    /// Their numbers.
    pub fn page_numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.rooms.iter().map(|room| room.page)
    }

    /// Where an entry of this name can go.
    pub fn place(&self, name: &[u8]) -> DentryPlace {
        let units = dentry::units(name);
        let found = self.rooms[self.full..].iter().find_map(|room| Some((room.page, room.find(units)?)));
        found.map_or(DentryPlace::NewPage, |(page, unit)| DentryPlace::Here(page, unit))
    }

    /// A new last page, and the record that leads to it where it is not the first (which the inode leads to).
    pub fn add_page(&mut self, page: u64) -> Option<Record> {
        let before = self.rooms.last().map(|room| room.page);
        self.rooms.push(Room { page, taken: 1 });
        before.map(|before| next_record(before, page))
    }

    /// Enters a name at its place; returns the record.
    pub fn insert(
        &mut self,
        (page, unit): (u64, usize),
        name: &[u8],
        ino: u64,
        kind: granary_fs::FileKind,
    ) -> Record {
        self.last += 1;
        let dentry = Dentry { ino, cookie: self.last, kind, name: name.to_vec() };
        let record =
            Record { area: Area::Page, number: page, at: unit * UNIT, bytes: dentry::bytes(&dentry) };
        let units = dentry::units(name);
        let at = self.rooms.iter().position(|room| room.page == page).expect("a place is in a page of it");
        self.rooms[at].taken |= mask(unit, units);
        while self.rooms.get(self.full).is_some_and(|room| room.taken == u128::MAX) {
            self.full += 1;
        }
        self.by_name.insert(name.to_vec(), self.last);
        self.by_cookie.insert(self.last, CachedDentry { dentry, page, unit });
        record
    }

    /// Lets a name stand for another inode; returns the record.
    pub fn redirect(&mut self, name: &[u8], ino: u64, kind: granary_fs::FileKind) -> Option<Record> {
        let entry = self.by_cookie.get_mut(self.by_name.get(name)?)?;
        (entry.dentry.ino, entry.dentry.kind) = (ino, kind);
        let bytes = dentry::bytes(&entry.dentry);
        Some(Record { area: Area::Page, number: entry.page, at: entry.unit * UNIT, bytes })
    }

    /// Takes a name away: the records, and the page that is not needed any more. Where that is the first one,
    /// the inode leads elsewhere.
    pub fn remove(&mut self, name: &[u8]) -> Option<(Vec<Record>, Option<u64>)> {
        let entry = self.by_cookie.remove(&self.by_name.remove(name)?)?;
        let at = self.rooms.iter().position(|room| room.page == entry.page)?;
        self.rooms[at].taken &= !mask(entry.unit, dentry::units(name));
        self.full = self.full.min(at);
        // All of it: whoever loads the page looks at each unit.
        let zeros = vec![0; dentry::units(name) * UNIT];
        let record = Record { area: Area::Page, number: entry.page, at: entry.unit * UNIT, bytes: zeros };
        if self.rooms[at].taken != 1 {
            return Some((vec![record], None));
        }
        let next = self.rooms.get(at + 1).map_or(0, |room| room.page);
        self.rooms.remove(at);
        let link = (at > 0).then(|| next_record(self.rooms[at - 1].page, next));
        Some((link.into_iter().collect(), Some(entry.page)))
    }
}

fn next_record(page: u64, next: u64) -> Record {
    Record { area: Area::Page, number: page, at: dentry::NEXT, bytes: next.to_le_bytes().to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_fs::FileKind;
    use granary_sim::rng::Stream;

    #[test]
    fn a_directory_is_what_its_records_made_of_its_pages() {
        let mut random = Stream::new(5, "directory");
        let (mut dir, mut pages) = (Dir { parent: 1, ..Dir::default() }, BTreeMap::<u64, Vec<u8>>::new());
        let mut names: Vec<Vec<u8>> = Vec::new();
        let apply = |pages: &mut BTreeMap<u64, Vec<u8>>, record: &Record| {
            let page = pages.get_mut(&record.number).expect("a page of it");
            page[record.at..record.at + record.bytes.len()].copy_from_slice(&record.bytes);
        };
        for step in 0..4_000u64 {
            let grows = if step < 2_000 { 0.7 } else { 0.3 };
            if random.chance(grows) {
                let mut name = format!("{step}-").into_bytes();
                name.resize(name.len() + random.below(240) as usize, b'x');
                let place = match dir.place(&name) {
                    DentryPlace::Here(page, unit) => (page, unit),
                    DentryPlace::NewPage => {
                        let mut page = dentry::page_head(9, 0).to_vec();
                        page.resize(4096, 0);
                        pages.insert(step + 1, page);
                        if let Some(record) = dir.add_page(step + 1) {
                            apply(&mut pages, &record);
                        }
                        (step + 1, 1)
                    }
                };
                apply(&mut pages, &dir.insert(place, &name, step + 1, FileKind::File));
                names.push(name);
            } else if !names.is_empty() {
                let name = names.swap_remove(random.below(names.len() as u64) as usize);
                let (records, gone) = dir.remove(&name).expect("it is there");
                if let Some(gone) = gone {
                    pages.remove(&gone);
                }
                records.iter().for_each(|record| apply(&mut pages, record));
            }
            if step % 400 == 0 || step == 3_999 {
                let (mut chain, mut at) = (Vec::new(), dir.first_page());
                while at != 0 {
                    let content = pages[&at].clone();
                    let next = granary_pm::bytes::u64_at(&content, dentry::NEXT);
                    chain.push((at, content));
                    at = next;
                }
                assert_eq!(chain.len(), pages.len());
                let loaded = Dir::load(1, &chain).expect("it is one");
                assert_eq!(loaded.by_cookie, dir.by_cookie);
                assert_eq!(loaded.len(), names.len());
                assert!(
                    loaded.rooms.iter().zip(&dir.rooms).all(|(a, b)| a.taken == b.taken && a.page == b.page)
                );
            }
        }
        assert!(dir.pages() > 2);
    }
}
