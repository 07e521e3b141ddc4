//! Directories: entries in blocks, searched from the first on.
//!
//! ```text
//!   block 0   | "." | ".." | a | bb (its length covers what was freed behind it) | ...
//!   block 1   | ccc | free ............................................................ |
//!   insert    into the first entry with room behind it: that one is cut, the new one takes the rest
//!   remove    the one before grows over it; the first of a block becomes free
//! ```
//!
//! Every change is at most two pieces of bytes, put under undo by the caller. Positions of readdir are byte offsets:
//! entries never move. Source: PMFS section 3.1; reference/baselines.md section 7.1 (linear lists, first match).

use crate::hints::{WORTH, Wanted};
use crate::journal::Edit;
use crate::layout::dentry::{Dentry, HEADER, bytes, needs, parse};
use crate::layout::inode::Tree;
use crate::{Node, Pmfs};
use granary_mssd::Structure;
use granary_pm::bytes::put_u16;
use granary_pm::{BLOCK, corrupt};
use granary_units::{PAGE_SIZE, Page};
use granary_vfs::{FileKind, Result};
use std::ops::ControlFlow;

/// Blocks loaded at once while a directory is searched.
const STEP: u64 = 16;

fn edit(addr: u64, old: Vec<u8>, new: Vec<u8>) -> Edit {
    Edit { addr, old, new, what: Structure::Dentry }
}

/// Where an entry lies.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Address on media.
    pub addr: u64,
    /// Bytes to the next.
    pub len: usize,
    /// The entry before it in its block: (address, length).
    pub before: Option<(u64, usize)>,
    /// What it stands for.
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
        /// Its address, what it needs, its length.
        addr: u64,
        used: usize,
        len: usize,
    },
}

/// What a scan calls with each entry: offset in the directory, block, entry, (offset, length) of the one before in the block.
type Visit<'a, T> = dyn FnMut(u64, u64, &Dentry<'_>, Option<(usize, usize)>) -> ControlFlow<T> + 'a;

impl Pmfs {
    /// Calls `visit` with each entry from byte `from` on: (offset in the directory, block, entry, the one before).
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
        let end = size / BLOCK;
        let wanted = wanted.filter(|_| end >= WORTH);
        let mut page = from / BLOCK;
        let mut pages = [const { Page::ZERO }; STEP as usize];
        while page < end {
            let blocks = self.blocks(tree, page, (end - page).min(STEP))?;
            for run in blocks.chunk_by(|a, b| a + 1 == *b) {
                if run[0] == 0 {
                    return Err(corrupt(format!("a directory has no page {page}")));
                }
                let out = &mut pages[..run.len()];
                self.pm.load_pages(run[0] * BLOCK, run.len() * PAGE_SIZE, out, Structure::Dentry)?;
                let may = wanted.map_or(u32::MAX, |w| self.hints.may_have(tree.root, page, out, w));
                for (n, (block, content)) in run.iter().zip(out.iter()).enumerate() {
                    if may >> n & 1 == 0 {
                        page += 1;
                        continue;
                    }
                    let word;
                    let bytes = match content.as_bytes() {
                        Some(bytes) => bytes,
                        None => {
                            word = content.to_bytes();
                            &word
                        }
                    };
                    let (mut at, mut before) = (0, None);
                    while at < PAGE_SIZE {
                        let d = parse(bytes, at)?;
                        let offset = page * BLOCK + at as u64;
                        if offset >= from
                            && let ControlFlow::Break(found) = visit(offset, *block, &d, before)
                        {
                            return Ok(Some(found));
                        }
                        before = Some((at, d.len));
                        at += d.len;
                    }
                    page += 1;
                }
            }
        }
        Ok(None)
    }

    /// The entry of this name.
    pub(crate) fn find(&self, tree: Tree, size: u64, name: &[u8]) -> Result<Option<Place>> {
        self.search(tree, size, 0, Some(Wanted::name(name)), &mut |_, block, d, before| {
            if d.ino == 0 || d.name != name {
                return ControlFlow::Continue(());
            }
            let base = block * BLOCK;
            let before = before.map(|(at, len)| (base + at as u64, len));
            let addr = base + d.at as u64;
            ControlFlow::Break(Place { addr, len: d.len, before, ino: d.ino })
        })
    }

    /// Room for an entry of `need` bytes; none in the place `gone`, which is about to be removed.
    pub(crate) fn room(
        &self,
        tree: Tree,
        size: u64,
        need: usize,
        gone: Option<&Place>,
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
        // What a free area holds need not be put back, but the header of a free entry must.
        let old = match cut {
            Some(_) => Vec::new(),
            None => {
                let mut old = vec![0; HEADER];
                self.pm.load(addr, &mut old, Structure::Dentry)?;
                old
            }
        };
        let mut edits = vec![edit(addr, old, new)];
        if let Some((addr, used, len)) = cut {
            let word = |n: usize| (n as u16).to_le_bytes().to_vec();
            edits.push(edit(addr + 8, word(len), word(used)));
        }
        Ok(edits)
    }

    /// The edit that removes an entry.
    pub(crate) fn removal(&self, place: &Place) -> Edit {
        match place.before {
            Some((addr, len)) => {
                let new = (len + place.len) as u16;
                edit(addr + 8, (len as u16).to_le_bytes().to_vec(), new.to_le_bytes().to_vec())
            }
            None => edit(place.addr, place.ino.to_le_bytes().to_vec(), vec![0; 8]),
        }
    }

    /// The edit that lets an entry stand for another inode.
    pub(crate) fn redirection(&self, place: &Place, ino: u64, kind: FileKind) -> Result<Edit> {
        let mut old = vec![0; HEADER];
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
    pub(crate) fn lone_entry(ino: u64, kind: FileKind, name: &[u8]) -> Vec<u8> {
        let mut b = bytes(ino, PAGE_SIZE, kind, name);
        put_u16(&mut b, 8, PAGE_SIZE as u16);
        b
    }

    /// The place of ".." in a directory.
    pub(crate) fn dotdot(&self, node: &Node) -> Result<Place> {
        let tree = *node.tree.read();
        let place = self.find(tree, BLOCK, b"..")?;
        place.ok_or_else(|| corrupt(format!("{}: a directory without \"..\"", node.ino)))
    }

    /// Bytes that an entry for `name` needs.
    pub(crate) fn entry_need(name: &[u8]) -> usize {
        needs(name.len())
    }
}
