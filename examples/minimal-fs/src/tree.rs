//! The tree in memory, as bytes, and its check. As bytes it is JSON behind its length, and then the pages.

use granary_units::{PAGE_SIZE, Page};
use granary_vfs::{Attr, FileKind, FsError, Inode, Result, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// At most so many bytes are a node without what it holds, an entry without its name, a page, and a byte of a name.
pub(crate) const NODE: u64 = 1024;
pub(crate) const ENTRY: u64 = 96;
pub(crate) const PAGE: u64 = PAGE_SIZE as u64 + 48;
pub(crate) const LETTER: u64 = 4;
pub(crate) const ROOT: u64 = 1;

#[derive(Serialize, Deserialize)]
pub(crate) struct Node {
    /// With the size that media have: less than the inode's where bytes are still in the page cache.
    pub(crate) attr: Attr,
    pub(crate) generation: u32,
    pub(crate) parent: u64,
    pub(crate) target: Vec<u8>,
    /// By position: name and inode number. The last position that was given.
    pub(crate) entries: BTreeMap<u64, (Vec<u8>, u64)>,
    pub(crate) last: u64,
    #[serde(skip)]
    pub(crate) pages: BTreeMap<u64, Page>,
}

impl Node {
    pub(crate) fn new(attr: Attr, generation: u32, parent: u64, target: &[u8]) -> Node {
        let (entries, pages, target) = (BTreeMap::new(), BTreeMap::new(), target.to_vec());
        Node { attr, generation, parent, target, entries, last: 0, pages }
    }

    fn bytes(&self) -> u64 {
        let names = self.entries.values().map(|(name, _)| ENTRY + LETTER * name.len() as u64).sum::<u64>();
        NODE + LETTER * self.target.len() as u64 + names + PAGE * self.pages.len() as u64
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Tree {
    pub(crate) nodes: BTreeMap<u64, Node>,
    /// The next inode number: none is used twice.
    pub(crate) next: u64,
    /// Bytes that it may have.
    #[serde(skip)]
    pub(crate) room: u64,
    /// Media have another tree.
    #[serde(skip)]
    pub(crate) changed: bool,
}

impl Tree {
    pub(crate) fn empty(room: u64) -> Tree {
        let root = Node::new(Attr::new(FileKind::Dir, 0o755, Time(0)), 0, ROOT, &[]);
        Tree { nodes: BTreeMap::from([(ROOT, root)]), next: ROOT + 1, room, changed: true }
    }

    pub(crate) fn node(&mut self, inode: &Inode) -> Result<&mut Node> {
        self.nodes.get_mut(&inode.ino().0).ok_or(FsError::Stale)
    }

    pub(crate) fn free(&self) -> u64 {
        self.room.saturating_sub(NODE + self.nodes.values().map(Node::bytes).sum::<u64>())
    }

    pub(crate) fn fits(&self, more: u64) -> Result<()> {
        if more == 0 || more <= self.free() { Ok(()) } else { Err(FsError::NoSpace) }
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let places = self.nodes.iter().flat_map(|(ino, n)| n.pages.keys().map(move |at| (*ino, *at)));
        let text = serde_json::to_vec(&(self, places.collect::<Vec<_>>())).map_err(corrupt)?;
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text);
        let pages = self.nodes.values().flat_map(|n| n.pages.values());
        pages.for_each(|page| bytes.extend(page.to_bytes()));
        if bytes.len() as u64 <= self.room { Ok(bytes) } else { Err(FsError::NoSpace) }
    }

    pub(crate) fn decode(bytes: &[u8], room: u64) -> Result<Tree> {
        let short = || corrupt("it ends early");
        let (len, rest) = bytes.split_first_chunk().ok_or_else(short)?;
        let (text, rest) = rest.split_at_checked(u64::from_le_bytes(*len) as usize).ok_or_else(short)?;
        let (tree, places): (Tree, Vec<(u64, u64)>) = serde_json::from_slice(text).map_err(corrupt)?;
        let mut tree = Tree { room, ..tree };
        for ((ino, at), page) in places.into_iter().zip(rest.as_chunks().0) {
            let node = tree.nodes.get_mut(&ino).ok_or_else(|| corrupt("a page of no file"))?;
            node.pages.insert(at, Page::from_bytes(page));
        }
        // Who had these open is gone.
        tree.nodes.retain(|_, n| n.attr.nlink > 0);
        Ok(tree)
    }

    /// One sentence per violation.
    pub(crate) fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut links = BTreeMap::from([(ROOT, 2)]);
        for (&dir, node) in &self.nodes {
            for (name, ino) in node.entries.values() {
                let child = self.nodes.get(ino);
                let is_dir = child.is_some_and(|n| n.attr.kind == FileKind::Dir);
                if child.is_none_or(|n| is_dir && n.parent != dir) {
                    wrong.push(format!("{} in inode {dir} leads astray", granary_vfs::quoted(name)));
                }
                *links.entry(*ino).or_default() += 1 + u32::from(is_dir);
                *links.entry(dir).or_default() += u32::from(is_dir);
            }
        }
        for (ino, node) in &self.nodes {
            let (said, found) = (node.attr.nlink, links.get(ino).copied().unwrap_or(0));
            if said != found || *ino >= self.next {
                wrong.push(format!("inode {ino} of {} says {said} links and has {found}", self.next));
            }
        }
        wrong
    }
}

pub(crate) fn corrupt(why: impl std::fmt::Display) -> FsError {
    FsError::Corrupt(format!("the tree: {why}"))
}
