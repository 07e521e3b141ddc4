//! The tree in memory, as bytes, and its check.

use granary_fs::{Attr, FileKind, FsError, Inode, Result, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const SIZE: u64 = granary_units::PAGE_SIZE as u64;
/// At most so many bytes are a page, a node with its target, or 14 entries. A tree has a node, so that it
/// always takes less.
pub const PIECE: u64 = SIZE + 128;
pub const ENTRY: u64 = PIECE / 14;
pub const ROOT: u64 = 1;

#[derive(Serialize, Deserialize)]
pub struct Node {
    pub attr: Attr,
    pub parent: u64,
    pub target: Vec<u8>,
    /// By position, which follows from the name: name and inode number.
    pub entries: BTreeMap<u64, (Vec<u8>, u64)>,
    pub pages: BTreeMap<u64, Vec<u8>>,
}

#[derive(Serialize, Deserialize)]
pub struct Tree {
    pub nodes: BTreeMap<u64, Node>,
    /// The last inode number that was given: none is used twice.
    pub last: u64,
    /// Bytes that it may have, with the header before it.
    #[serde(skip)]
    pub room: u64,
}

/// Where a name may be in its directory: the first free one.
fn positions(name: &[u8]) -> std::ops::Range<u64> {
    let first = u64::from(crc32c::crc32c(name)) << 16;
    first + 1..first + (1 << 16)
}

impl Tree {
    pub fn node(&mut self, inode: &Inode) -> Result<&mut Node> {
        self.nodes.get_mut(&inode.ino().0).ok_or(FsError::Stale)
    }

    /// Changes attributes, in memory and in the tree.
    pub fn change<T>(&mut self, inode: &Inode, change: impl FnOnce(&mut Attr) -> T) -> Result<()> {
        let node = self.node(inode)?;
        inode.update(change);
        inode.update(|a| a.blocks = node.pages.len() as u64 * (SIZE / 512));
        node.attr = inode.attr();
        Ok(())
    }

    pub fn find(&mut self, dir: &Inode, name: &[u8]) -> Result<Option<(u64, u64)>> {
        let mut all = self.node(dir)?.entries.range(positions(name));
        Ok(all.find(|(_, (n, _))| n == name).map(|(at, (_, ino))| (*at, *ino)))
    }

    /// Says what a name in a directory stands for from now on, and how many more directories that has.
    pub fn set(&mut self, now: Time, (dir, name): (&Inode, &[u8]), to: Option<u64>, dirs: i32) -> Result<()> {
        let (old, entries) = (self.find(dir, name)?, &mut self.node(dir)?.entries);
        old.map(|(at, _)| entries.remove(&at));
        if let Some(ino) = to {
            let at = positions(name).find(|at| !entries.contains_key(at)).ok_or(FsError::NoSpace)?;
            entries.insert(at, (name.to_vec(), ino));
            self.nodes.get_mut(&ino).ok_or(FsError::Stale)?.parent = dir.ino().0;
        }
        self.change(dir, |a| {
            a.modified(now);
            a.nlink = a.nlink.saturating_add_signed(dirs);
        })
    }

    pub fn free(&self) -> u64 {
        let of = |n: &Node| PIECE * (1 + n.pages.len()) as u64 + ENTRY * n.entries.len() as u64;
        self.room.saturating_sub(self.nodes.values().map(of).sum())
    }

    pub fn fits(&self, more: u64) -> Result<()> {
        if more <= self.free() { Ok(()) } else { Err(FsError::NoSpace) }
    }

    pub fn encode(&self) -> Result<Vec<u8>> {
        postcard::to_allocvec(self).map_err(|e| FsError::Corrupt(e.to_string()))
    }

    pub fn decode(bytes: &[u8], room: u64) -> Result<Tree> {
        let tree = postcard::from_bytes(bytes);
        let mut tree = Tree { room, ..tree.map_err(|e| FsError::Corrupt(format!("no tree is whole: {e}")))? };
        // The programs that had these open are gone.
        tree.nodes.retain(|_, n| n.attr.nlink > 0);
        Ok(tree)
    }

    /// One sentence per violation.
    pub fn check(&self) -> Vec<String> {
        let links = self.nodes.iter().map(|(i, n)| (*i, i64::from(n.attr.nlink) - 2 * i64::from(*i == ROOT)));
        let mut left: BTreeMap<u64, i64> = links.collect();
        for (dir, ino) in self.nodes.iter().flat_map(|(n, d)| d.entries.values().map(move |e| (*n, e.1))) {
            let is_dir =
                self.nodes.get(&ino).is_some_and(|n| n.attr.kind == FileKind::Dir && n.parent == dir);
            *left.entry(ino).or_default() -= 1 + i64::from(is_dir);
            *left.entry(dir).or_default() -= i64::from(is_dir);
        }
        let wrong = left.into_iter().filter(|(ino, left)| *left != 0 || *ino > self.last);
        wrong.map(|(ino, left)| format!("inode {ino} of {} has {left} links too many", self.last)).collect()
    }
}
