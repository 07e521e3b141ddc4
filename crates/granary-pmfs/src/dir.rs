//! Directories: entries in blocks, searched from the first on.
//!
//! ```text
//!   block 0   | "." | ".." | a | bb (its length covers what was freed behind it) | ...
//!   block 1   | ccc | free ............................................................ |
//!   insert    into the first entry with room behind it: that one is cut, the new one takes the rest
//!   remove    the one before grows over it; the first of a block becomes free
//! ```
//!
//! Every change is at most two pieces of bytes, put under undo by the caller. Positions of readdir are byte
//! offsets: entries never move. Source: PMFS section 3.1; reference/baselines.md section 7.1 (linear lists,
//! first match).

mod load;

use crate::fs::{Node, Pmfs};
use crate::hints::{STEP, WORTH, Wanted};
use crate::journal::Edit;
use crate::layout::Bytes;
use crate::layout::dentry::{Dentry, HEADER, bytes, needs, parse};
use crate::layout::inode::Tree;
use granary_device::Structure;
use granary_fs::{FileKind, FsError, Result};
use granary_pm::bytes::put_u16;
use granary_pm::{BLOCK, corrupt};
use granary_sim::{costs, cpu};
use granary_units::{Lpa, PAGE_SIZE, Page};
use smallvec::smallvec;
use std::ops::{ControlFlow, Range};

fn no_page(page: u64) -> FsError {
    corrupt(format!("a directory has no page {page}"))
}

/// The bits of these pages of a step.
fn bits(pages: Range<usize>) -> u32 {
    pages.fold(0, |bits, page| bits | 1 << page)
}

/// Calls `visit` with each entry of a page from byte `from` of the directory on.
fn visit_page<T>(
    page: u64,
    block: u64,
    content: &Page,
    from: u64,
    visit: &mut Visit<'_, T>,
) -> Result<Option<T>> {
    content.with_bytes(|bytes| {
        let (mut at, mut before) = (0, None);
        while at < PAGE_SIZE {
            let d = parse(bytes, at)?;
            let offset = page * BLOCK + at as u64;
            if offset >= from
                && let ControlFlow::Break(found) = visit(offset, block, &d, before)
            {
                return Ok(Some(found));
            }
            before = Some((at, d.len));
            at += d.len;
        }
        Ok(None)
    })
}

fn edit(addr: u64, old: Bytes, new: Bytes) -> Edit {
    Edit { addr, old, new, what: Structure::Dentry }
}

/// Where an entry lies.
#[derive(Clone, Copy, Debug)]
pub struct DentryPlace {
    /// Address on media.
    pub addr: u64,
    /// Bytes to the next.
    pub len: usize,
    /// The entry before it in its block: (address, length).
    pub before: Option<(u64, usize)>,
    /// Number of its inode.
    pub ino: u64,
}

/// Room for a new entry.
pub enum Room {
    /// In a free entry.
    Free {
        /// Its address and length.
        addr: u64,
        len: usize,
    },
    /// Behind what an entry needs itself.
    Behind {
        /// Its address, its needed bytes, its length.
        addr: u64,
        used: usize,
        len: usize,
    },
}

/// Callback of a scan for each entry: offset in the directory, block, entry, (offset, length) of the one
/// before in the block.
type Visit<'a, T> = dyn FnMut(u64, u64, &Dentry<'_>, Option<(usize, usize)>) -> ControlFlow<T> + 'a;

impl Pmfs {
    /// Calls `visit` with each entry from byte `from` on: (offset in the directory, block, entry, the one
    /// before).
    pub(crate) fn scan<T>(
        &self,
        tree: Tree,
        size: u64,
        from: u64,
        visit: &mut Visit<'_, T>,
    ) -> Result<Option<T>> {
        self.search(tree, size, from, None, visit)
    }

    /// [`Pmfs::scan`] that passes over pages without what is `wanted`, once they are loaded.
    fn search<T>(
        &self,
        tree: Tree,
        size: u64,
        from: u64,
        wanted: Option<Wanted>,
        visit: &mut Visit<'_, T>,
    ) -> Result<Option<T>> {
        if self.dentries.is_some() && wanted.is_some() {
            cpu(costs().dentry_hash);
        }
        let end = size / BLOCK;
        let wanted = wanted.filter(|_| end >= WORTH);
        let mut page = from / BLOCK;
        while page < end {
            let blocks = self.blocks(tree, page, (end - page).min(STEP as u64))?;
            let found = match wanted {
                Some(wanted) if page.is_multiple_of(STEP as u64) => {
                    self.search_known(tree.root, page, &blocks, wanted, visit)?
                }
                _ => self.search_all(page, &blocks, from, visit)?,
            };
            if found.is_some() {
                return Ok(found);
            }
            page += blocks.len() as u64;
        }
        Ok(None)
    }

    /// Searches the directory pages from `page` on, which lie in these blocks, from byte `from` of the
    /// directory on.
    fn search_all<T>(
        &self,
        mut page: u64,
        blocks: &[u64],
        from: u64,
        visit: &mut Visit<'_, T>,
    ) -> Result<Option<T>> {
        let mut pages = [const { Page::ZERO }; STEP];
        for run in blocks.chunk_by(|a, b| a + 1 == *b) {
            if run[0] == 0 {
                return Err(no_page(page));
            }
            let out = &mut pages[..run.len()];
            self.load_dir(run[0], out)?;
            for (block, content) in run.iter().zip(out.iter()) {
                if let Some(found) = visit_page(page, *block, content, from, visit)? {
                    return Ok(Some(found));
                }
                page += 1;
            }
        }
        Ok(None)
    }

    /// Searches the pages from `first` on, which lie in these blocks, for what is wanted: each run of blocks
    /// is loaded, but only pages that may have it are looked at.
    fn search_known<T>(
        &self,
        root: u64,
        first: u64,
        blocks: &[u64],
        wanted: Wanted,
        visit: &mut Visit<'_, T>,
    ) -> Result<Option<T>> {
        let mut fresh = [const { Page::ZERO }; STEP];
        let mut runs = [(Lpa(0), 0); STEP];
        let mut at = 0;
        while at < blocks.len() {
            let (known, may) = self.hints.plan(root, first, blocks.len(), wanted);
            // Up to the first run that may have it: the others behind that may not be needed.
            let (mut count, mut end) = (0, at);
            for run in blocks[at..].chunk_by(|a, b| a + 1 == *b) {
                if run[0] == 0 {
                    break;
                }
                runs[count] = (Lpa(run[0]), run.len());
                (count, end) = (count + 1, end + run.len());
                if may & bits(end - run.len()..end) != 0 {
                    break;
                }
            }
            if count == 0 {
                return Err(no_page(first + at as u64));
            }
            let (loaded, changed) = self.load_dir_known(&runs[..count], &known[at..end], &mut fresh)?;
            at += runs[..loaded].iter().map(|(_, n)| n).sum::<usize>();
            let last = at - runs[loaded - 1].1..at;
            for i in last.clone() {
                let is_new = changed >> (i - last.start) & 1 == 1;
                let content = if is_new { &fresh[i - last.start] } else { &known[i] };
                let page = first + i as u64;
                let look = match is_new {
                    true => self.hints.learn(root, page, content, wanted),
                    false => may >> i & 1 == 1,
                };
                if look
                    && let Some(found) = self.visit_known(root, page, blocks[i], content, wanted, visit)?
                {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// Calls `visit` with the entries of a page that may be what is wanted.
    fn visit_known<T>(
        &self,
        root: u64,
        page: u64,
        block: u64,
        content: &Page,
        wanted: Wanted,
        visit: &mut Visit<'_, T>,
    ) -> Result<Option<T>> {
        let mut from = 0;
        while let Ok(next) = self.hints.candidate(root, page, content, wanted, from) {
            let Some(c) = next else { return Ok(None) };
            let seen = content.with_bytes(|bytes| {
                parse(bytes, c.at).map(|d| visit(page * BLOCK + c.at as u64, block, &d, c.before))
            })?;
            if let ControlFlow::Break(found) = seen {
                return Ok(Some(found));
            }
            from = c.number + 1;
        }
        visit_page(page, block, content, 0, visit)
    }

    /// The entry of this name.
    pub(crate) fn find(&self, tree: Tree, size: u64, name: &[u8]) -> Result<Option<DentryPlace>> {
        self.search(tree, size, 0, Some(Wanted::name(name)), &mut |_, block, d, before| {
            if d.ino == 0 || d.name != name {
                return ControlFlow::Continue(());
            }
            let base = block * BLOCK;
            let before = before.map(|(at, len)| (base + at as u64, len));
            let addr = base + d.at as u64;
            ControlFlow::Break(DentryPlace { addr, len: d.len, before, ino: d.ino })
        })
    }

    /// Room for an entry of `need` bytes; none in the place `gone`, which is about to be removed.
    pub(crate) fn room(
        &self,
        tree: Tree,
        size: u64,
        need: usize,
        gone: Option<&DentryPlace>,
    ) -> Result<Option<Room>> {
        let taken = |addr: u64| {
            gone.is_some_and(|g| g.addr == addr || g.before.is_some_and(|(before, _)| before == addr))
        };
        self.search(tree, size, 0, Some(Wanted::Room(need)), &mut |_, block, d, _| {
            let (addr, used) = (block * BLOCK + d.at as u64, d.used());
            if taken(addr) || d.len - used < need {
                ControlFlow::Continue(())
            } else if d.ino == 0 {
                ControlFlow::Break(Room::Free { addr, len: d.len })
            } else {
                ControlFlow::Break(Room::Behind { addr, used, len: d.len })
            }
        })
    }

    /// The edits that put an entry into `room`.
    pub(crate) fn insertion(&self, room: &Room, ino: u64, kind: FileKind, name: &[u8]) -> Result<Vec<Edit>> {
        let (addr, len, cut) = match *room {
            Room::Free { addr, len } => (addr, len, None),
            Room::Behind { addr, used, len } => (addr + used as u64, len - used, Some((addr, used, len))),
        };
        let new = bytes(ino, len, kind, name);
        // The old content of a free area need not be put back, but the header of a free entry must.
        let old = match cut {
            Some(_) => Bytes::new(),
            None => {
                let mut old: Bytes = smallvec![0; HEADER];
                self.pm.load(addr, &mut old, Structure::Dentry)?;
                old
            }
        };
        let mut edits = vec![edit(addr, old, new)];
        if let Some((addr, used, len)) = cut {
            let word = |n: usize| Bytes::from_slice(&(n as u16).to_le_bytes());
            edits.push(edit(addr + 8, word(len), word(used)));
        }
        Ok(edits)
    }

    /// The edit that removes an entry.
    pub(crate) fn removal(&self, place: &DentryPlace) -> Edit {
        match place.before {
            Some((addr, len)) => {
                let word = |n: usize| Bytes::from_slice(&(n as u16).to_le_bytes());
                edit(addr + 8, word(len), word(len + place.len))
            }
            None => edit(place.addr, Bytes::from_slice(&place.ino.to_le_bytes()), smallvec![0; 8]),
        }
    }

    /// The edit that lets an entry stand for another inode.
    pub(crate) fn redirection(&self, place: &DentryPlace, ino: u64, kind: FileKind) -> Result<Edit> {
        let mut old: Bytes = smallvec![0; HEADER];
        self.pm.load(place.addr, &mut old, Structure::Dentry)?;
        let mut new = old.clone();
        new[..8].copy_from_slice(&ino.to_le_bytes());
        new[11] = kind.code();
        Ok(edit(place.addr, old, new))
    }

    /// The first bytes of a new directory's block.
    pub(crate) fn first_entries(ino: u64, parent: u64) -> [u8; 32] {
        let mut b = [0; 32];
        b[..16].copy_from_slice(&bytes(ino, 16, FileKind::Dir, b"."));
        b[16..].copy_from_slice(&bytes(parent, PAGE_SIZE - 16, FileKind::Dir, b".."));
        b
    }

    /// The bytes of an entry that fills a new block.
    pub(crate) fn lone_entry(ino: u64, kind: FileKind, name: &[u8]) -> Bytes {
        let mut b = bytes(ino, PAGE_SIZE, kind, name);
        put_u16(&mut b, 8, PAGE_SIZE as u16);
        b
    }

    /// The place of ".." in a directory.
    pub(crate) fn dotdot(&self, node: &Node) -> Result<DentryPlace> {
        let tree = *node.tree.read();
        let place = self.find(tree, BLOCK, b"..")?;
        place.ok_or_else(|| corrupt(format!("{}: a directory without \"..\"", node.ino)))
    }

    /// Bytes that an entry for `name` needs.
    pub(crate) fn entry_need(name: &[u8]) -> usize {
        needs(name.len())
    }
}
