//! [`Hints`]: parts of a directory's pages that a search can skip.
//!
//! ```text
//!   search ──> plan: content of the next pages at their last parse, and the pages that may have a match
//!                index: hash of a name -> its page;  room: page -> its largest room
//!          ──> load them up to the first that may (the drive is asked, and its time passes, as in PMFS)
//!                all still hold that content: only the last is searched, at the entries that may match
//!                one does not: learn it (parse what differs, change the index by that), ask anew
//! ```
//!
//! PMFS searches a directory entry by entry. The loads charge the modelled machine for that search. The hints
//! save the time of the machine that simulates: n entries for each of n names. Results and modelled time are
//! the same with and without hints.
//!
//! Invariant: a hint is only believed for the very content that it was made from. The hint keeps that content
//! alive, so that no other can lie at its address.

use crate::layout::dentry::parse;
use granary_fs::Result;
use granary_units::{PAGE_SIZE, Page};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;
use std::sync::Arc;

/// Blocks of the smallest directory that gets hints: smaller ones are searched as fast as looked up.
pub const WORTH: u64 = 4;
/// Pages that are known; then all are forgotten. With their content they take at most 300 MiB.
const MOST: usize = 1 << 16;
/// Pages that are planned together.
pub const STEP: usize = 16;
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

/// Content of neighbouring pages when they were last parsed. Unknown pages have no bytes here
/// ([`Page::ZERO`]), which no directory has: a comparison finds that they have changed.
pub type Contents = Arc<[Page; STEP]>;

/// Hints for a directory.
#[derive(Default)]
struct Dir {
    /// The content that each page was parsed with; alive, so that nothing else comes to lie at its address.
    contents: Vec<Contents>,
    /// The largest room in or behind an entry.
    room: Vec<u16>,
    /// The entries of each page, in their order.
    entries: Vec<Vec<Entry>>,
    index: FxHashMap<u32, At>,
}

/// Hints for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// Offset in the page.
    at: u16,
    /// Bytes in or behind it that are free.
    room: u16,
    /// Hash of its name; 0 where it is free, which is looked at in vain if a name has that hash.
    name: u32,
}

impl Entry {
    fn may_be(&self, wanted: Wanted) -> bool {
        match wanted {
            Wanted::Name(h) => self.name == h,
            Wanted::Room(need) => self.room as usize >= need,
        }
    }
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

/// Bytes that are compared at once.
const PIECE: usize = 64;

/// The first byte that differs, and the byte behind the last, as pieces have them.
fn difference(a: &[u8; PAGE_SIZE], b: &[u8; PAGE_SIZE]) -> (usize, usize) {
    let pieces = || a.as_chunks::<PIECE>().0.iter().zip(b.as_chunks::<PIECE>().0);
    let first = pieces().position(|(a, b)| a != b).unwrap_or(PAGE_SIZE / PIECE);
    let last = pieces().rposition(|(a, b)| a != b).map_or(0, |piece| piece + 1);
    (first * PIECE, last * PIECE)
}

/// The entries that begin at `at` and later, up to the one that begins at `end` or later and that `old` has,
/// too: they, and its number in `old`.
fn parse_from(
    bytes: &[u8; PAGE_SIZE],
    mut at: usize,
    end: usize,
    old: &[Entry],
) -> Result<(Vec<Entry>, usize)> {
    let mut new = Vec::new();
    while at < PAGE_SIZE {
        if at >= end
            && let Ok(i) = old.binary_search_by_key(&at, |e| e.at as usize)
        {
            return Ok((new, i));
        }
        let d = parse(bytes, at)?;
        let name = if d.ino == 0 || d.is_damaged() { 0 } else { hash(d.name) };
        new.push(Entry { at: at as u16, room: (d.len - d.used()) as u16, name });
        at += d.len;
    }
    Ok((new, old.len()))
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
        let mut entries = std::mem::take(&mut self.entries[page]);
        let old = self.contents[page / STEP][page % STEP].as_bytes();
        let (first, end) = old.map_or((0, PAGE_SIZE), |old| difference(old, bytes));
        // Entries that end before the first difference are as they were; so are those that begin behind the
        // last one.
        let front = entries.iter().skip(1).take_while(|next| next.at as usize <= first).count();
        let at = entries.get(front).map_or(0, |e| e.at as usize);
        let parsed = parse_from(bytes, at, end, &entries);
        let sound = parsed.is_ok();
        let (new, back) = parsed.unwrap_or((Vec::new(), entries.len()));
        let front = if sound { front } else { 0 };
        let gone: Vec<Entry> = entries.splice(front..back, new.iter().copied()).collect();
        for e in gone {
            if !entries.iter().any(|new| new.name == e.name) {
                self.leave(e.name, page as u32);
            }
        }
        for e in new {
            self.enter(e.name, page as u32);
        }
        let room = entries.iter().map(|e| e.room).max().unwrap_or(0);
        self.room[page] = room;
        self.entries[page] = entries;
        let known = if sound { content.clone() } else { Page::ZERO };
        Arc::make_mut(&mut self.contents[page / STEP])[page % STEP] = known;
        sound
    }

    /// Which of the `n` pages from `first` on may have what is wanted, going by what they held.
    fn may_have(&self, first: usize, n: usize, wanted: Wanted) -> u32 {
        let bit = |page: u32| (page as usize).checked_sub(first).filter(|i| *i < n).map_or(0, |i| 1 << i);
        match wanted {
            Wanted::Room(need) => {
                let room = self.room[first..first + n].iter().enumerate();
                room.fold(0, |bits, (i, room)| bits | u32::from(*room as usize >= need) << i)
            }
            Wanted::Name(h) => match self.index.get(&h) {
                None => 0,
                Some(At::Two(a, b)) => bit(*a) | bit(*b),
                Some(At::Many) => {
                    let has = |entries: &Vec<Entry>| entries.iter().any(|e| e.name == h);
                    let pages = self.entries[first..first + n].iter().enumerate();
                    pages.fold(0, |bits, (i, entries)| bits | u32::from(has(entries)) << i)
                }
            },
        }
    }
}

/// Targets of a search.
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

impl All {
    /// The directory with this root, with room for the pages before `end`.
    fn dir(&mut self, root: u64, end: usize) -> &mut Dir {
        let dir = self.dirs.entry(root).or_default();
        if dir.room.len() < end {
            let end = end.next_multiple_of(STEP);
            self.known += end - dir.room.len();
            dir.room.resize(end, 0);
            dir.entries.resize_with(end, Vec::new);
            dir.contents.resize_with(end / STEP, || Arc::new([const { Page::ZERO }; STEP]));
        }
        dir
    }
}

impl Hints {
    /// The hints for `n` pages from `first` on, which is a multiple of [`STEP`], of the directory with this
    /// root: their content when parsed, and the pages that may have a match (bit i for page `first + i`). A
    /// bit that is not set is certain, as long as the page holds that content.
    pub fn plan(&self, root: u64, first: u64, n: usize, wanted: Wanted) -> (Contents, u32) {
        let first = first as usize;
        assert!(first.is_multiple_of(STEP) && n <= STEP, "{n} pages from {first} on");
        let mut all = self.0.lock();
        if all.known >= MOST {
            *all = All::default();
        }
        let dir = all.dir(root, first + n);
        (Arc::clone(&dir.contents[first / STEP]), dir.may_have(first, n, wanted))
    }

    /// Takes note of what a page holds. Whether it may have what is wanted: true for a page that is no
    /// directory's, the search will say so.
    pub fn learn(&self, root: u64, page: u64, content: &Page, wanted: Wanted) -> bool {
        let page = page as usize;
        let mut all = self.0.lock();
        let dir = all.dir(root, page + 1);
        let sound = !content.is_word() && content.with_bytes(|bytes| dir.learn(page, content, bytes));
        !sound || dir.may_have(page, 1, wanted) != 0
    }

    /// The entries of a page with this content, from number `from` on, of which the first that may be what is
    /// wanted: its number and offset, and offset and length of the one before it. An error: that content is
    /// not known.
    pub fn candidate(
        &self,
        root: u64,
        page: u64,
        content: &Page,
        wanted: Wanted,
        from: usize,
    ) -> std::result::Result<Option<Candidate>, Unknown> {
        let page = page as usize;
        let mut all = self.0.lock();
        let dir = all.dir(root, page + 1);
        let known = &dir.contents[page / STEP][page % STEP];
        if !known.is_same(content) {
            return Err(Unknown);
        }
        let entries = &dir.entries[page];
        let found = entries.iter().enumerate().skip(from).find(|(_, e)| e.may_be(wanted));
        Ok(found.map(|(number, e)| {
            let before = number.checked_sub(1).map(|i| entries[i].at as usize);
            Candidate { number, at: e.at as usize, before: before.map(|at| (at, e.at as usize - at)) }
        }))
    }
}

/// An entry that may be what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// How many come before it in its page.
    pub number: usize,
    /// Its offset in the page.
    pub at: usize,
    /// Offset and length of the one before it.
    pub before: Option<(usize, usize)>,
}

/// Not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown;

#[cfg(test)]
mod tests;
