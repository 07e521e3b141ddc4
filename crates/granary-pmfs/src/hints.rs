//! [`Hints`]: what need not be looked for in a page of a directory.
//!
//! ```text
//!   search ──> load a run of pages (the drive is asked, and its time passes, as in PMFS)
//!              each: same content as when it was last parsed? else parse it, and change the index by what differs
//!              index: hash of a name -> its page;  room: page -> its largest room ──> only such pages are searched
//! ```
//!
//! PMFS searches a directory entry by entry. What that costs the modelled machine is charged by the loads; what it costs
//! the machine that simulates, n entries for each of n names, is saved here. Results and time are the same with and
//! without.
//!
//! Invariant: a hint is only believed for the very content that it was made from: it keeps that content alive, so that
//! no other can lie at its address.

use crate::layout::dentry::parse;
use granary_units::{PAGE_SIZE, Page};
use granary_vfs::Result;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;

/// Blocks of the smallest directory that gets hints: smaller ones are searched as fast as looked up.
pub const WORTH: u64 = 4;
/// Pages that are known; then all are forgotten. With their content they take at most 300 MiB.
const MOST: usize = 1 << 16;
/// No page.
const NONE: u32 = u32::MAX;

/// See the module. By the root of the directory's tree.
#[derive(Default)]
pub struct Hints(Mutex<All>);

#[derive(Default)]
struct All {
    dirs: FxHashMap<u64, Dir>,
    /// Pages that all of them know, at most.
    known: usize,
}

/// What is known of a directory.
#[derive(Default)]
struct Dir {
    /// Address of the content that each page was parsed with, 0 = not known; apart, for it is all that most searches look at.
    addr: Vec<usize>,
    /// The largest room in or behind an entry.
    room: Vec<u16>,
    pages: Vec<Known>,
    index: FxHashMap<u32, At>,
}

#[derive(Default)]
struct Known {
    /// Alive, so that nothing else comes to lie at its address.
    _content: Option<Page>,
    /// Hashes of the names, in the order of the entries.
    names: Vec<u32>,
}

/// Pages with a name of some hash.
#[derive(Clone, Copy)]
enum At {
    /// These; the second may be [`NONE`].
    Two(u32, u32),
    /// Perhaps any.
    Many,
}

fn hash(name: &[u8]) -> u32 {
    let mut h = FxHasher::default();
    h.write(name);
    (h.finish() >> 32) as u32
}

/// Hashes of the names in a page, and its largest room.
fn contents(bytes: &[u8; PAGE_SIZE]) -> Result<(Vec<u32>, u16)> {
    let (mut names, mut room, mut at) = (Vec::with_capacity(128), 0, 0);
    while at < PAGE_SIZE {
        let d = parse(bytes, at)?;
        if d.ino != 0 {
            names.push(hash(d.name));
        }
        room = room.max(d.len - d.used());
        at += d.len;
    }
    Ok((names, room as u16))
}

impl Dir {
    fn enter(&mut self, name: u32, page: u32) {
        let at = self.index.entry(name).or_insert(At::Two(page, NONE));
        *at = match *at {
            At::Two(a, b) if a == page || b == page => At::Two(a, b),
            At::Two(a, NONE) => At::Two(a, page),
            _ => At::Many,
        };
    }

    fn leave(&mut self, name: u32, page: u32) {
        match self.index.get(&name) {
            Some(At::Two(a, NONE)) if *a == page => drop(self.index.remove(&name)),
            Some(&At::Two(a, b)) if a == page => drop(self.index.insert(name, At::Two(b, NONE))),
            Some(&At::Two(a, b)) if b == page => drop(self.index.insert(name, At::Two(a, NONE))),
            _ => {}
        }
    }

    /// Takes note of the content of a page. False: it is not a directory's.
    fn learn(&mut self, page: usize, content: &Page, bytes: &[u8; PAGE_SIZE]) -> bool {
        let (names, room) = contents(bytes).unwrap_or_default();
        let sound = !names.is_empty() || room > 0;
        let old = std::mem::take(&mut self.pages[page].names);
        // Entries do not move: what changed lies between what both begin and end with.
        let same = |a: &&(u32, u32)| a.0 == a.1;
        let pairs: Vec<(u32, u32)> = old.iter().copied().zip(names.iter().copied()).collect();
        let front = pairs.iter().take_while(same).count();
        let ends = old[front..].iter().rev().zip(names[front..].iter().rev());
        let back = ends.take_while(|(a, b)| a == b).count();
        for gone in &old[front..old.len() - back] {
            if !names.contains(gone) {
                self.leave(*gone, page as u32);
            }
        }
        for come in &names[front..names.len() - back] {
            self.enter(*come, page as u32);
        }
        self.addr[page] = if sound { bytes.as_ptr().addr() } else { 0 };
        self.room[page] = room;
        self.pages[page] = Known { _content: sound.then(|| content.clone()), names };
        sound
    }
}

/// What is looked for.
#[derive(Clone, Copy)]
pub enum Wanted {
    /// An entry of the name with this hash.
    Name(u32),
    /// Room for so many bytes.
    Room(usize),
}

impl Wanted {
    /// An entry of this name.
    pub fn name(name: &[u8]) -> Wanted {
        Wanted::Name(hash(name))
    }
}

impl Hints {
    /// Which of the pages from `first` on (at most 32) of the directory with this root may have what is wanted: bit n for
    /// page `first + n`. A bit that is not set is certain. Pages that are no directory's have it set: the search will say so.
    pub fn may_have(&self, root: u64, first: u64, run: &[Page], wanted: Wanted) -> u32 {
        assert!(run.len() <= 32, "{} pages", run.len());
        let mut all = self.0.lock();
        if all.known >= MOST {
            *all = All::default();
        }
        let all = &mut *all;
        let dir = all.dirs.entry(root).or_default();
        let (first, end) = (first as usize, first as usize + run.len());
        if dir.addr.len() < end {
            all.known += end - dir.addr.len();
            dir.addr.resize(end, 0);
            dir.room.resize(end, 0);
            dir.pages.resize_with(end, Known::default);
        }
        let mut unsound = 0;
        for (n, page) in run.iter().enumerate() {
            let bytes = page.as_bytes();
            let known = bytes.is_some_and(|b| dir.addr[first + n] == b.as_ptr().addr());
            if !known && !bytes.is_some_and(|b| dir.learn(first + n, page, b)) {
                unsound |= 1 << n;
            }
        }
        let bit =
            |page: u32| (page as usize).checked_sub(first).filter(|n| *n < run.len()).map_or(0, |n| 1 << n);
        let of = |has: &dyn Fn(usize) -> bool| {
            (0..run.len()).fold(0, |bits, n| bits | u32::from(has(first + n)) << n)
        };
        unsound
            | match wanted {
                Wanted::Room(need) => of(&|page| dir.room[page] as usize >= need),
                Wanted::Name(h) => match dir.index.get(&h) {
                    None => 0,
                    Some(At::Two(a, b)) => bit(*a) | bit(*b),
                    Some(At::Many) => of(&|page| dir.pages[page].names.contains(&h)),
                },
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::dentry::bytes;
    use granary_units::Payload;
    use granary_vfs::FileKind;

    fn page(names: &[&str]) -> Page {
        let mut b = [0u8; PAGE_SIZE];
        let mut at = 0;
        for (i, name) in names.iter().enumerate() {
            let len = if i + 1 == names.len() { PAGE_SIZE - at } else { 64 };
            let e = bytes(7, len, FileKind::File, name.as_bytes());
            b[at..at + e.len()].copy_from_slice(&e);
            at += 64;
        }
        Page::from_bytes(&b)
    }

    fn has(hints: &Hints, run: &[Page], name: &str) -> u32 {
        hints.may_have(5, 8, run, Wanted::name(name.as_bytes()))
    }

    #[test]
    fn a_changed_page_is_parsed_anew() {
        let hints = Hints::default();
        let mut p = [page(&["a", "b"])];
        assert_eq!(["a", "b", "c"].map(|n| has(&hints, &p, n)), [1, 1, 0]);
        // In place, as the drive changes it: not in place, for the hint holds the old content.
        p[0].write(64 + 12, Payload::Bytes(b"c"));
        assert_eq!(["a", "b", "c"].map(|n| has(&hints, &p, n)), [1, 0, 1]);
    }

    #[test]
    fn a_name_is_found_wherever_it_went() {
        let hints = Hints::default();
        let all = [page(&["a", "b"]), page(&["b", "c", "d"]), page(&["e", "b", "b"]), page(&["f"])];
        assert_eq!(["a", "b", "c", "f", "x"].map(|n| has(&hints, &all, n)), [1, 7, 2, 8, 0]);
        // One of two equal names goes, the other stays; a name moves; a page loses what it had in the middle.
        let moved = [page(&["b"]), page(&["b", "d"]), page(&["e", "b"]), page(&["f", "a", "c"])];
        assert_eq!(["a", "b", "c", "d", "e"].map(|n| has(&hints, &moved, n)), [8, 7, 8, 2, 4]);
        let back = [moved[0].clone(), page(&["x"]), page(&["y"]), moved[3].clone()];
        assert_eq!(["b", "d", "e", "x", "y"].map(|n| has(&hints, &back, n)), [1, 0, 0, 2, 4]);
    }

    #[test]
    fn room_is_the_largest_gap() {
        let hints = Hints::default();
        let p = [page(&["a", "b"])];
        let rest = PAGE_SIZE - 64 - 16;
        assert_eq!(hints.may_have(1, 0, &p, Wanted::Room(rest)), 1);
        assert_eq!(hints.may_have(1, 0, &p, Wanted::Room(rest + 1)), 0);
    }

    #[test]
    fn a_page_that_is_no_directorys_is_left_to_the_search() {
        let hints = Hints::default();
        let run = [page(&["a"]), Page::from_bytes(&[9; PAGE_SIZE]), Page::ZERO];
        assert_eq!(has(&hints, &run, "nobody"), 0b110);
        assert_eq!(has(&hints, &run, "a"), 0b111);
    }
}
