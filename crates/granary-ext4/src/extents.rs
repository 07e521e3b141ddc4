//! The extent tree: logical blocks of a file to physical ones.
//!
//! ```text
//!   root in the inode (4 entries) ── [index block (340)] ── leaf block (340): logical -> physical, length
//! ```
//!
//! Operations work on the blocks themselves, through the block cache; nothing is kept beside the tree. Every
//! step (insert, split of one node, growth of the root, removal of one extent) leaves a valid tree, so that
//! running out of space between steps harms nothing. Callers hold `Node::map` exclusively to change and
//! shared to walk below the root; a tree without inner nodes is read under the short state lock alone.
//!
//! A neighbour that continues an extent, of the same kind, is merged with it, up to 32768 blocks
//! (unwritten: 32767). Unwritten are reserved and zeroed blocks, and with `data = "writeback"`, where the
//! commit does not wait for data, all new ones; in ordered mode the data of a hole is on the drive before the
//! transaction that maps it commits. A tree of one leaf whose extents fit into the inode is folded into it.
//! Not here: shrinking a deeper root before it is empty (the kernel does not, either).

mod insert;
mod mark;
mod remove;

use crate::fs::Ext4;
use crate::journal::Handle;
use crate::layout::extent::{self as node_bytes, ExtentEntry, MAX_LEN};
use crate::layout::inode::ROOT_SIZE;
use crate::layout::{BLOCKS_PER_GROUP, corrupt};
use crate::node::Node;
use granary_device::Structure;
use granary_fs::Result;
use granary_kit::Block;
use granary_units::Lpa;
use std::sync::Arc;

/// The mapping of a logical block, and the number of blocks from it on for which it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// Physical blocks from `start` on; unwritten ones read as zeros.
    Mapped { start: u64, len: u32, unwritten: bool },
    /// Nothing.
    Hole { len: u32 },
}

/// Owner of a tree: the node and the inputs of allocation.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub node: &'a Node,
    pub ino: u32,
    /// Directories and links: their blocks are journalled, so freeing them revokes.
    pub meta: bool,
}

/// A tree node on the way down.
enum At {
    Root,
    Block(Arc<Block>),
}

struct Step {
    at: At,
    /// Entry followed, or in a leaf the last one at or before the key.
    index: Option<usize>,
}

impl Owner<'_> {
    fn view<T>(&self, at: &At, f: impl FnOnce(&[u8]) -> T) -> T {
        match at {
            At::Root => f(&self.node.state.lock().root),
            At::Block(b) => b.with(|bytes| f(bytes)),
        }
    }

    /// Changes a node. The root is part of the inode, which the caller marks when it is done.
    fn edit<T>(&self, h: &mut Handle<'_>, at: &At, f: impl FnOnce(&mut [u8]) -> T) -> T {
        match at {
            At::Root => f(&mut self.node.state.lock().root),
            At::Block(b) => h.change(b, |bytes| f(bytes)),
        }
    }
}

/// Looks for `key` in a node: the entry at or before it, and the key after that.
fn step(bytes: &[u8], key: u32) -> (Option<ExtentEntry>, u32, u16) {
    let i = node_bytes::search(bytes, key);
    let after = i.map_or(0, |i| i + 1);
    let bound = if after < node_bytes::count(bytes) { node_bytes::entry(bytes, after).key } else { u32::MAX };
    (i.map(|i| node_bytes::entry(bytes, i)), bound, node_bytes::depth(bytes))
}

fn mapping(found: Option<ExtentEntry>, bound: u32, key: u32) -> Mapping {
    match found {
        Some(e) if key - e.key < e.len => {
            let rest = e.part(key, e.key + e.len);
            Mapping::Mapped { start: rest.start, len: rest.len, unwritten: e.unwritten }
        }
        _ => Mapping::Hole { len: bound - key },
    }
}

/// Most blocks of an extent like this one.
fn longest(e: ExtentEntry) -> u32 {
    if e.unwritten { MAX_LEN - 1 } else { MAX_LEN }
}

/// Whether `a` is continued by `b`, logically and physically.
fn joins(a: ExtentEntry, b: ExtentEntry) -> bool {
    let touch = a.key + a.len == b.key && a.start + a.len as u64 == b.start;
    touch && a.unwritten == b.unwritten && a.len + b.len <= longest(a)
}

/// Makes the part `from..to` of extent `index` an unwritten one or a written one. False = no room for what
/// the extent falls into.
fn set_kind(leaf: &mut [u8], index: usize, from: u32, to: u32, unwritten: bool) -> bool {
    let e = node_bytes::entry(leaf, index);
    let end = e.key + e.len;
    node_bytes::remove(leaf, index);
    let parts = [e.part(e.key, from), ExtentEntry { unwritten, ..e.part(from, to) }, e.part(to, end)];
    parts.into_iter().filter(|p| p.len > 0).all(|p| put(leaf, node_bytes::search(leaf, p.key), p))
}

/// Puts an extent into a leaf after entry `index`, merging where it continues a neighbour. False = no room.
fn put(leaf: &mut [u8], index: Option<usize>, e: ExtentEntry) -> bool {
    let next = index.map_or(0, |i| i + 1);
    let right =
        (next < node_bytes::count(leaf)).then(|| node_bytes::entry(leaf, next)).filter(|r| joins(e, *r));
    let left = index.map(|i| (i, node_bytes::entry(leaf, i))).filter(|(_, l)| joins(*l, e));
    match (left, right) {
        (Some((i, l)), Some(r)) if l.len + e.len + r.len <= longest(e) => {
            node_bytes::set(leaf, i, ExtentEntry { len: l.len + e.len + r.len, ..l });
            node_bytes::remove(leaf, next);
        }
        (Some((i, l)), _) => node_bytes::set(leaf, i, ExtentEntry { len: l.len + e.len, ..l }),
        (None, Some(r)) => node_bytes::set(leaf, next, ExtentEntry { len: e.len + r.len, ..e }),
        (None, None) if node_bytes::full(leaf) => return false,
        (None, None) => node_bytes::insert(leaf, next, e),
    }
    true
}

impl Ext4 {
    fn child(&self, e: ExtentEntry, depth: u16) -> Result<Arc<Block>> {
        if e.start == 0 || e.start >= self.groups.geo.blocks {
            return Err(corrupt(format!("extent block at {}", e.start)));
        }
        let block = self.cache.get(Lpa(e.start), Structure::DataPointer)?;
        block.verify(|b| node_bytes::validate(b, Some(depth)))?;
        // Another inode's node, of another depth, may be there.
        block.with(|b| node_bytes::validate_header(b, Some(depth)))?;
        Ok(block)
    }

    /// The mapping of logical block `key`.
    pub(crate) fn map_block(&self, node: &Node, key: u32) -> Result<Mapping> {
        let flat = {
            let s = node.state.lock();
            let (found, bound, depth) = step(&s.root, key);
            (depth == 0).then(|| mapping(found, bound, key))
        };
        let mapped = match flat {
            Some(m) => m,
            None => {
                let _walk = node.map.read();
                self.map_locked(node, key)?
            }
        };
        if let Mapping::Mapped { start, len, .. } = mapped
            && (start == 0 || start + len as u64 > self.groups.geo.blocks)
        {
            return Err(corrupt(format!("an extent maps to blocks {start}+{len}")));
        }
        Ok(mapped)
    }

    fn map_locked(&self, node: &Node, key: u32) -> Result<Mapping> {
        let (mut found, mut bound, mut depth) = step(&node.state.lock().root, key);
        while depth > 0 {
            let Some(e) = found else { return Ok(Mapping::Hole { len: bound - key }) };
            depth -= 1;
            let block = self.child(e, depth)?;
            let (f, b, _) = block.with(|b| step(b, key));
            (found, bound) = (f, b.min(bound));
        }
        Ok(mapping(found, bound, key))
    }

    /// The nodes from the root to the leaf for `key`.
    fn path(&self, owner: Owner<'_>, key: u32) -> Result<Vec<Step>> {
        let mut path = Vec::with_capacity(2);
        let mut at = At::Root;
        loop {
            let (index, entry, depth) = owner.view(&at, |b| {
                let depth = node_bytes::depth(b);
                let found = node_bytes::search(b, key);
                let index = if depth > 0 { Some(found.unwrap_or(0)) } else { found };
                let entry = index.filter(|i| *i < node_bytes::count(b)).map(|i| node_bytes::entry(b, i));
                (index, entry, depth)
            });
            path.push(Step { at, index });
            if depth == 0 {
                return Ok(path);
            }
            let e = entry.ok_or_else(|| corrupt("an inner extent node is empty"))?;
            at = At::Block(self.child(e, depth - 1)?);
        }
    }

    /// The extent that maps logical block `key`, whole. The caller holds the tree.
    pub(crate) fn extent_at(&self, owner: Owner<'_>, key: u32) -> Result<Option<ExtentEntry>> {
        let path = self.path(owner, key)?;
        let leaf = path.last().expect("a path has a leaf");
        let found = leaf.index.map(|i| owner.view(&leaf.at, |b| node_bytes::entry(b, i)));
        Ok(found.filter(|e| key - e.key < e.len))
    }

    /// Where new blocks of a file would be best: behind the last extent before them, else in the data groups
    /// of the inode's flex group (files leave its first group to directories and metadata).
    pub(crate) fn goal(&self, owner: Owner<'_>, key: u32) -> Result<u64> {
        let path = self.path(owner, key)?;
        let leaf = path.last().expect("a path has a leaf");
        if let Some(i) = leaf.index {
            let e = owner.view(&leaf.at, |b| node_bytes::entry(b, i));
            return Ok(e.start + (key - e.key) as u64);
        }
        let geo = &self.groups.geo;
        let mut group = geo.inode_place(owner.ino).0 / geo.flex * geo.flex;
        if !owner.meta && geo.flex >= 4 && group + 1 < geo.groups {
            group += 1;
        }
        Ok(group as u64 * BLOCKS_PER_GROUP as u64)
    }

    /// Calls `extent` for each extent and `tree` for each block of the tree.
    pub(crate) fn walk_extents(
        &self,
        root: &[u8; ROOT_SIZE],
        extent: &mut dyn FnMut(ExtentEntry),
        tree: &mut dyn FnMut(u64),
    ) -> Result<()> {
        node_bytes::validate(root, None)?;
        let entries =
            |b: &[u8]| (0..node_bytes::count(b)).map(|i| node_bytes::entry(b, i)).collect::<Vec<_>>();
        let mut todo: Vec<(u16, Vec<ExtentEntry>)> = vec![(node_bytes::depth(root), entries(root))];
        while let Some((depth, list)) = todo.pop() {
            for e in list {
                if depth == 0 {
                    extent(e);
                } else {
                    tree(e.start);
                    let block = self.child(e, depth - 1)?;
                    todo.push((depth - 1, block.with(|b| entries(b))));
                }
            }
        }
        Ok(())
    }
}
