//! [`Hints`]: what need not be looked for in a page of a directory.
//!
//! ```text
//!   search ──> load the page (the drive is asked, and its time passes, as in PMFS) ──> same content as when it was last
//!              parsed? ── hashes of its names, its largest room ──> neither: on to the next page, without parsing it again
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
/// Hints that are kept; then all are forgotten. With their content they take at most 256 MiB.
const MOST: usize = 1 << 16;

struct Hint {
    page: Page,
    /// Hashes of the names, sorted.
    names: Vec<u32>,
    /// The largest room in or behind an entry.
    room: usize,
}

/// See the module.
#[derive(Default)]
pub struct Hints(Mutex<FxHashMap<u64, Hint>>);

fn hash(name: &[u8]) -> u32 {
    let mut h = FxHasher::default();
    h.write(name);
    (h.finish() >> 32) as u32
}

impl Hint {
    fn of(page: &Page, bytes: &[u8; PAGE_SIZE]) -> Result<Hint> {
        let (mut names, mut room, mut at) = (Vec::new(), 0, 0);
        while at < PAGE_SIZE {
            let d = parse(bytes, at)?;
            if d.ino != 0 {
                names.push(hash(d.name));
            }
            room = room.max(d.len - d.used());
            at += d.len;
        }
        names.sort_unstable();
        Ok(Hint { page: page.clone(), names, room })
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
    /// Whether the page of a directory may have what is wanted; false is certain.
    ///
    /// # Errors
    /// A page that is no directory's.
    pub fn may_have(&self, block: u64, page: &Page, wanted: Wanted) -> Result<bool> {
        // A page that repeats a word is no directory's: the search will say so.
        let Some(bytes) = page.as_bytes() else { return Ok(true) };
        let mut hints = self.0.lock();
        if hints.len() >= MOST {
            hints.clear();
        }
        let same = |h: &Hint| h.page.as_bytes().is_some_and(|known| std::ptr::eq(known, bytes));
        if !hints.get(&block).is_some_and(same) {
            hints.insert(block, Hint::of(page, bytes)?);
        }
        let hint = &hints[&block];
        Ok(match wanted {
            Wanted::Name(h) => hint.names.binary_search(&h).is_ok(),
            Wanted::Room(need) => hint.room >= need,
        })
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

    #[test]
    fn a_changed_page_is_parsed_anew() {
        let hints = Hints::default();
        let mut p = page(&["a", "b"]);
        let has = |p: &Page, n: &str| hints.may_have(5, p, Wanted::name(n.as_bytes())).expect("a directory");
        assert!(has(&p, "a") && has(&p, "b") && !has(&p, "c"));
        // In place, as the drive changes it: not in place, for the hint holds the old content.
        p.write(64 + 12, Payload::Bytes(b"c"));
        assert!(has(&p, "c") && !has(&p, "b"));
    }

    #[test]
    fn room_is_the_largest_gap() {
        let hints = Hints::default();
        let p = page(&["a", "b"]);
        let rest = PAGE_SIZE - 64 - 16;
        assert!(hints.may_have(1, &p, Wanted::Room(rest)).expect("a directory"));
        assert!(!hints.may_have(1, &p, Wanted::Room(rest + 1)).expect("a directory"));
    }
}
