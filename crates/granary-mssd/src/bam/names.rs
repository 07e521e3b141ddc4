//! [`Names`]: pages with more than one name, which REMAP keep makes.
//!
//! ```text
//!   keep 4 -> 9, then 9 -> 7             map of the FTL           names
//!   read 4, read 9, read 7 = the page    l2p[7] = p, p2l[p] = 7   4 -> 7   9 -> 7
//!   write or trim of 4                                            9 -> 7
//!   write or trim of 7, then             l2p[9] = p, p2l[p] = 9   -          the newest of the older names
//!                                                                            has it now
//!   BAM_RESET                                                     -          older names end, they read
//!                                                                            as zeros
//! ```
//!
//! The newest name is the one that the maps know; every older name leads there through this table. So the P2L
//! table keeps one entry for each flash page, and gc of the flash moves a page with all its names without
//! knowing of them.
//!
//! Invariants: no name leads to a name in this table; the map has nothing under an older name; the map has
//! the page under the newest one.
//!
//! 12 B each, all persistent memory. On an image:
//!
//! ```text
//!   0         8            4096
//!   | names 8 | zeros ...  | name 0 | name 1 | ...
//!                            12 B each: older name 4 | newest name 4 | serial number 4
//! ```
//!
//! Serial numbers say the order in which names became older ones; the places in the table do not.
//!
//! Source: PebbleSSD section 4.2.1 ("copies the content of the mapping table entries"), of which a file
//! system needs that a page keeps its old name until the checkpoint that names the new one is safe.

use super::NONE;
use crate::saved::layout::{BAM_NAME, BAM_NAMES, Layout};
use granary_device::BamName;
use granary_redo::files::DRAM;
use granary_redo::redo::Redo;
use granary_redo::region::Region as DramFile;
use granary_redo::{ImageError, long, word};
use granary_units::Lpa;
use rustc_hash::FxHashMap;

/// Names read at once.
const AT_ONCE: u64 = 1 << 14;

/// An older name.
#[derive(Clone, Copy)]
struct Name {
    src: u32,
    dst: u32,
    serial: u32,
}

/// See the module.
#[derive(Clone, Default)]
pub struct Names {
    table: Vec<Name>,
    most: usize,
    /// Of each older name, its place.
    place: FxHashMap<u32, u32>,
    /// Of each newest name, the older ones, in the order in which they became that.
    older: FxHashMap<u32, Vec<u32>>,
    serial: u32,
    redo: Option<Redo>,
}

/// The role of a logical page among the names of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The only name of its page, or of none.
    Alone,
    /// An older name of the page whose newest name is this.
    Older(Lpa),
    /// The newest name of a page, which has this one before it.
    Newest(Lpa),
}

impl Names {
    /// An empty table of this many names.
    pub fn new(most: u32) -> Names {
        Names { most: most as usize, ..Names::default() }
    }

    /// How many there is room for.
    pub fn most(&self) -> u64 {
        self.most as u64
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no page has two.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Whether `more` names fit.
    pub fn has_room_for(&self, more: u64) -> bool {
        let numbers = (u32::MAX - self.serial) as u64;
        more <= numbers && more <= (self.most - self.table.len()) as u64
    }

    /// Whether 90 % are in use.
    pub fn is_nearly_full(&self) -> bool {
        self.most > 0 && self.table.len() as u64 * 10 >= self.most as u64 * 9
    }

    /// The name under which the map has what is read under this one.
    #[inline]
    pub fn newest(&self, lpa: Lpa) -> Lpa {
        if self.table.is_empty() {
            return lpa;
        }
        self.place.get(&(lpa.0 as u32)).map_or(lpa, |&at| Lpa(self.table[at as usize].dst as u64))
    }

    /// The role of a page.
    pub fn role(&self, lpa: Lpa) -> Role {
        let l = lpa.0 as u32;
        if let Some(&at) = self.place.get(&l) {
            return Role::Older(Lpa(self.table[at as usize].dst as u64));
        }
        let last = self.older.get(&l).and_then(|all| all.last());
        last.map_or(Role::Alone, |&src| Role::Newest(Lpa(src as u64)))
    }

    /// All names of a page that has several, this one included; none of a page that has one.
    pub fn sharing(&self, lpa: Lpa) -> Vec<Lpa> {
        let newest = self.newest(lpa);
        let Some(older) = self.older.get(&(newest.0 as u32)) else { return Vec::new() };
        older.iter().map(|&l| Lpa(l as u64)).chain([newest]).collect()
    }

    /// `src`, which the map had the page under, is an older name of it from now on: the map has it under
    /// `dst`.
    pub fn rename(&mut self, src: Lpa, dst: Lpa) {
        self.lead(src, dst);
        let (src, dst) = (src.0 as u32, dst.0 as u32);
        let at = self.table.len() as u32;
        self.table.push(Name { src, dst, serial: self.serial });
        self.serial += 1;
        self.place.insert(src, at);
        self.older.entry(dst).or_default().push(src);
        self.save(at);
        self.save_count();
    }

    /// The map has what it had under `src` under `dst` now, which has no older names: those of `src` lead
    /// there.
    pub fn lead(&mut self, src: Lpa, dst: Lpa) {
        let Some(all) = self.older.remove(&(src.0 as u32)) else { return };
        for name in &all {
            let at = self.place[name];
            self.table[at as usize].dst = dst.0 as u32;
            self.save(at);
        }
        self.older.insert(dst.0 as u32, all);
    }

    /// An older name ends.
    pub fn end(&mut self, src: Lpa) {
        let src = src.0 as u32;
        let Some(at) = self.place.remove(&src) else { return };
        let dst = self.table[at as usize].dst;
        if let Some(all) = self.older.get_mut(&dst) {
            all.retain(|&name| name != src);
            if all.is_empty() {
                self.older.remove(&dst);
            }
        }
        self.table.swap_remove(at as usize);
        if let Some(moved) = self.table.get(at as usize) {
            self.place.insert(moved.src, at);
            self.save(at);
        }
        self.save_count();
    }

    /// All older names end.
    pub fn clear(&mut self) {
        if self.table.is_empty() {
            return;
        }
        self.table.clear();
        self.place.clear();
        self.older.clear();
        self.serial = 0;
        self.save_count();
    }

    /// Appends all names to `out`, in the order of the older ones.
    pub fn read(&self, out: &mut Vec<BamName>) {
        let from = out.len();
        out.extend(self.table.iter().map(|n| BamName { src: Lpa(n.src as u64), dst: Lpa(n.dst as u64) }));
        out[from..].sort_unstable_by_key(|n| n.src);
    }

    /// Internal consistency; `holds` says whether the map has anything under a page.
    pub fn check(&self, holds: impl Fn(Lpa) -> bool) -> Vec<String> {
        let mut bad = Vec::new();
        for (at, n) in self.table.iter().enumerate() {
            let listed = self.older.get(&n.dst).is_some_and(|all| all.contains(&n.src));
            if self.place.get(&n.src) != Some(&(at as u32)) || !listed || self.place.contains_key(&n.dst) {
                bad.push(format!("names: {} -> {} leads astray", n.src, n.dst));
            }
            if !holds(Lpa(n.dst as u64)) {
                bad.push(format!("names: {} leads to page {}, which has no content", n.src, n.dst));
            }
            if holds(Lpa(n.src as u64)) {
                bad.push(format!("names: {} leads to page {} and has content of its own", n.src, n.dst));
            }
        }
        let listed: usize = self.older.values().map(Vec::len).sum();
        if self.place.len() != self.table.len() || listed != self.table.len() || self.table.len() > self.most
        {
            bad.push(format!("names: {}, {} places, {listed} listed", self.table.len(), self.place.len()));
        }
        bad
    }

    /// The table that an image kept, of a drive of `pages` logical pages.
    ///
    /// # Errors
    /// [`ImageError::Damaged`], host errors.
    pub(super) fn load(most: u32, pages: u64, layout: &Layout, dram: &DramFile) -> Result<Names, ImageError> {
        let damaged = |why: String| ImageError::damaged(DRAM, format!("BAM: {why}"));
        let mut names = Names::new(most);
        if most == 0 {
            return Ok(names);
        }
        let mut head = [0; 8];
        dram.read(layout.names, &mut head)?;
        let count = long(&head, 0);
        if count > most as u64 {
            return Err(damaged(format!("{count} names, there can be {most}")));
        }
        let mut bytes = Vec::new();
        for first in (0..count).step_by(AT_ONCE as usize) {
            bytes.resize((AT_ONCE.min(count - first) * BAM_NAME) as usize, 0);
            dram.read(layout.names + BAM_NAMES + first * BAM_NAME, &mut bytes)?;
            for e in bytes.chunks_exact(BAM_NAME as usize) {
                let name = Name { src: word(e, 0), dst: word(e, 4), serial: word(e, 8) };
                let at = names.table.len() as u32;
                let far = name.src as u64 >= pages || name.dst as u64 >= pages || name.serial == NONE;
                if far || name.src == name.dst || names.place.insert(name.src, at).is_some() {
                    return Err(damaged(format!("name {at} is {} -> {}", name.src, name.dst)));
                }
                names.table.push(name);
                names.serial = names.serial.max(name.serial + 1);
            }
        }
        let mut order = names.table.clone();
        order.sort_by_key(|n| n.serial);
        for n in order {
            if names.place.contains_key(&n.dst) {
                return Err(damaged(format!("{} -> {} leads to an older name", n.src, n.dst)));
            }
            names.older.entry(n.dst).or_default().push(n.src);
        }
        names.redo = Some(Redo::new(layout.names));
        Ok(names)
    }

    /// An image keeps the table at another place.
    pub(super) fn rebase(&mut self, layout: &Layout) {
        if let Some(redo) = &mut self.redo {
            redo.rebase(layout.names);
        }
    }

    /// Changes not yet handed over, where an image keeps them.
    pub(super) fn redo(&mut self) -> Option<&mut Redo> {
        self.redo.as_mut()
    }

    fn save(&mut self, at: u32) {
        let Some(redo) = &mut self.redo else { return };
        let n = self.table[at as usize];
        let mut bytes = [0; BAM_NAME as usize];
        for (to, part) in bytes.chunks_exact_mut(4).zip([n.src, n.dst, n.serial]) {
            to.copy_from_slice(&part.to_le_bytes());
        }
        redo.put(BAM_NAMES + at as u64 * BAM_NAME, &bytes);
    }

    fn save_count(&mut self) {
        let count = self.table.len() as u64;
        if let Some(redo) = &mut self.redo {
            redo.put(0, &count.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(names: &Names) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        names.read(&mut out);
        out.iter().map(|n| (n.src.0, n.dst.0)).collect()
    }

    #[test]
    fn the_newest_of_the_older_names_follows_on_the_newest_one() {
        let mut n = Names::new(4);
        n.rename(Lpa(4), Lpa(9));
        n.rename(Lpa(9), Lpa(7));
        assert_eq!(pairs(&n), [(4, 7), (9, 7)]);
        assert_eq!((n.role(Lpa(7)), n.role(Lpa(4))), (Role::Newest(Lpa(9)), Role::Older(Lpa(7))));
        assert!(n.has_room_for(2) && !n.has_room_for(3));
        // 7 is written: the page is 9's.
        n.end(Lpa(9));
        n.lead(Lpa(7), Lpa(9));
        assert_eq!((pairs(&n), n.newest(Lpa(4)), n.role(Lpa(7))), (vec![(4, 9)], Lpa(9), Role::Alone));
        assert_eq!(n.check(|lpa| lpa == Lpa(9)), Vec::<String>::new());
        assert_eq!(n.check(|lpa| lpa == Lpa(4)).len(), 2, "no content under 9, some under 4");
        n.clear();
        assert!(n.is_empty() && n.role(Lpa(9)) == Role::Alone);
    }
}
