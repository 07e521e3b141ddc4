//! The extent tree: logical blocks of a file to physical ones.
//!
//! ```text
//!   root in the inode (4 entries) ── [index block (340)] ── leaf block (340): logical -> physical, length
//! ```
//!
//! Operations work on the blocks themselves, through the block cache; nothing is kept beside the tree. Every step
//! (insert, split of one node, growth of the root, removal of one extent) leaves a valid tree, so that running out
//! of space between steps harms nothing. Callers hold `Node::map` exclusively to change and shared to walk below
//! the root; a tree without inner nodes is read under the short state lock alone.
//!
//! A neighbour that continues an extent, of the same kind, is merged with it, up to 32768 blocks (unwritten: 32767).
//! Unwritten are reserved and zeroed blocks, and with `data = "writeback"`, where the commit does not wait for data, all new
//! ones; in ordered mode the data of a hole is on the drive before the transaction that maps it commits.
//! A tree of one leaf whose extents fit into the inode is folded into it. Not here: shrinking a deeper root before it is
//! empty (the kernel does not, either).

use crate::alloc::{Purpose, Wanted};
use crate::fs::Ext4;
use crate::journal::Handle;
use crate::layout::extent::{self as node_bytes, ExtentEntry, MAX_LEN, ROOT_MAX};
use crate::layout::inode::ROOT_SIZE;
use crate::layout::{BLOCKS_PER_GROUP, corrupt};
use crate::node::Node;
use granary_device::Structure;
use granary_fs::Result;
use granary_kit::Block;
use granary_sim::costs;
use granary_units::Lpa;
use std::sync::Arc;

/// What a logical block maps to, and for how many blocks from it on that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// Physical blocks from `start` on; unwritten ones read as zeros.
    Mapped { start: u64, len: u32, unwritten: bool },
    /// Nothing.
    Hole { len: u32 },
}

/// Whose tree: the node and what allocation has to know.
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

/// Makes the part `from..to` of extent `index` an unwritten one or a written one. False = no room for what the extent falls
/// into.
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

    /// What logical block `key` maps to.
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

    /// Enters an extent where nothing is mapped. Tree blocks come from near `e.start`. The caller marks the inode.
    ///
    /// # Errors
    /// `NoSpace` where a tree block is needed and there is none: the tree is valid, the extent not in it.
    pub(crate) fn insert_extent(&self, h: &mut Handle<'_>, owner: Owner<'_>, e: ExtentEntry) -> Result<()> {
        h.work(costs().extent_update);
        self.enter_extent(h, owner, e)?;
        self.fold(h, owner);
        Ok(())
    }

    /// Takes the entries of the only leaf into the inode where they fit, and frees the leaf: as `ext4_ext_try_to_merge_up`, which
    /// the kernel calls where an extent has come or changed its kind (and not where one goes or is cut for a hole), and
    /// which gives up, too, where the handle has no room for it. Nor does an error that comes before anything is changed
    /// matter: the tree is as good with its leaf.
    fn fold(&self, h: &mut Handle<'_>, owner: Owner<'_>) {
        /// Bitmap, descriptor, and what the caller still has to change.
        const ROOM: u32 = 16;
        let only = owner.view(&At::Root, |b| {
            (node_bytes::depth(b) == 1 && node_bytes::count(b) == 1).then(|| node_bytes::entry(b, 0))
        });
        let Some(entry) = only.filter(|_| h.room() >= ROOM) else { return };
        let Ok(leaf) = self.child(entry, 0).map(At::Block) else { return };
        if owner.view(&leaf, node_bytes::count) > ROOT_MAX as usize
            || self.groups.free_meta(h, entry.start, 1).is_err()
        {
            return;
        }
        let mut entries = owner.view(&leaf, |b| b.to_vec());
        owner.edit(h, &At::Root, |b| {
            node_bytes::init(b, ROOT_MAX, 0);
            node_bytes::split(&mut entries, 0, b);
        });
        owner.node.state.lock().blocks -= 1;
    }

    fn enter_extent(&self, h: &mut Handle<'_>, owner: Owner<'_>, e: ExtentEntry) -> Result<()> {
        loop {
            let mut path = self.path(owner, e.key)?;
            let leaf = path.last().expect("a path has a leaf");
            // A copy of the entries decides, so that a full leaf is not marked changed for nothing.
            let fits = owner.view(&leaf.at, |b| {
                !node_bytes::full(b) || {
                    let mut copy = b.to_vec();
                    put(&mut copy, leaf.index, e)
                }
            });
            if !fits {
                match self.room_behind(owner, &path)? {
                    Some(next) => path = next,
                    None => {
                        self.make_room(h, owner, &path, e)?;
                        continue;
                    }
                }
            }
            let leaf = path.last().expect("a path has a leaf");
            owner.edit(h, &leaf.at, |b| put(b, leaf.index, e));
            if leaf.index.is_none() {
                // The leaf begins earlier now: so do the entries that lead to it.
                for s in path[..path.len() - 1].iter().rev() {
                    let i = s.index.expect("inner nodes are entered by an entry");
                    let entry = owner.view(&s.at, |b| node_bytes::entry(b, i));
                    if entry.key > e.key {
                        owner.edit(h, &s.at, |b| node_bytes::set(b, i, ExtentEntry { key: e.key, ..entry }));
                    }
                }
            }
            return Ok(());
        }
    }

    /// What would come last into a full leaf may come first into the next one, where that has room: the path to it
    /// (`ext4_ext_insert_extent`).
    fn room_behind(&self, owner: Owner<'_>, path: &[Step]) -> Result<Option<Vec<Step>>> {
        let [above @ .., leaf] = path else { return Ok(None) };
        if leaf.index.is_none_or(|i| i + 1 < owner.view(&leaf.at, node_bytes::count)) {
            return Ok(None);
        }
        let behind = |s: &Step| {
            let i = s.index.expect("inner nodes are entered by an entry") + 1;
            owner.view(&s.at, |b| (i < node_bytes::count(b)).then(|| node_bytes::entry(b, i).key))
        };
        let Some(key) = above.iter().rev().find_map(behind) else { return Ok(None) };
        let mut next = self.path(owner, key)?;
        let leaf = next.last_mut().expect("a path has a leaf");
        leaf.index = None;
        Ok((!owner.view(&leaf.at, node_bytes::full)).then_some(next))
    }

    /// One step towards room in the leaf: splits the topmost full node whose parent has room, or grows the root. As in the
    /// kernel (`ext4_ext_split`) a new node takes what lies behind the place where `e` comes, or is cut, be that much or
    /// nothing: files that are written from front to back have full leaves, others many.
    fn make_room(&self, h: &mut Handle<'_>, owner: Owner<'_>, path: &[Step], e: ExtentEntry) -> Result<()> {
        let roomy = path[..path.len() - 1].iter().rposition(|s| !owner.view(&s.at, node_bytes::full));
        let wanted = Wanted {
            ino: owner.ino,
            logical: e.key,
            len: 1,
            file_blocks: 0,
            goal: e.start,
            purpose: Purpose::Extent,
        };
        let (lpa, _) = self.groups.allocate(h, &wanted)?;
        let new = self.cache.fresh(Lpa(lpa), Structure::DataPointer);
        match roomy {
            None => {
                let old = owner.view(&At::Root, |b| b.to_vec());
                let depth = node_bytes::depth(&old);
                h.change(&new, |b| {
                    node_bytes::init(b, node_bytes::BLOCK_MAX, depth);
                    node_bytes::split(&mut old.clone(), 0, b);
                });
                owner.edit(h, &At::Root, |b| {
                    node_bytes::init(b, ROOT_MAX, depth + 1);
                    let key = node_bytes::entry(&old, 0).key;
                    node_bytes::insert(b, 0, ExtentEntry { key, len: 0, start: lpa, unwritten: false });
                });
            }
            Some(p) => {
                let full = &path[p + 1];
                let mut rest = vec![0; crate::layout::BLOCK_SIZE];
                let key = owner.edit(h, &full.at, |b| {
                    let (n, i) = (node_bytes::count(b), full.index.unwrap_or(0));
                    // An inner node is never empty, and an extent that is cut stays with its parts.
                    let stays = node_bytes::depth(b) == 0 && node_bytes::entry(b, i).key != e.key;
                    let from = if i + 1 < n || stays { i + 1 } else { i };
                    node_bytes::init(&mut rest, node_bytes::BLOCK_MAX, node_bytes::depth(b));
                    node_bytes::split(b, from, &mut rest);
                    if from < n { node_bytes::entry(&rest, 0).key } else { e.key }
                });
                h.change(&new, |b| b.copy_from_slice(&rest));
                let parent = path[p].index.expect("inner nodes are entered by an entry");
                owner.edit(h, &path[p].at, |b| {
                    node_bytes::insert(
                        b,
                        parent + 1,
                        ExtentEntry { key, len: 0, start: lpa, unwritten: false },
                    )
                });
            }
        }
        owner.node.state.lock().blocks += 1;
        Ok(())
    }

    /// Frees what is mapped from logical block `from` on, last extent first, as far as the handle's credits go.
    /// Returns whether there is more. The caller marks the inode.
    pub(crate) fn remove_extents(&self, h: &mut Handle<'_>, owner: Owner<'_>, from: u32) -> Result<bool> {
        loop {
            // One step changes bitmap and descriptor of at most two groups, a node, its parent and the inode; what
            // the caller does after the last step, another inode, its bitmap and descriptor, and the superblock.
            if h.room() < 16 {
                return Ok(true);
            }
            let mut parents: Vec<At> = Vec::new();
            let mut at = At::Root;
            let (n, depth) = loop {
                let (n, depth, last) = owner.view(&at, |b| {
                    let n = node_bytes::count(b);
                    (n, node_bytes::depth(b), n.checked_sub(1).map(|i| node_bytes::entry(b, i)))
                });
                let Some(e) = last.filter(|_| depth > 0) else { break (n, depth) };
                parents.push(std::mem::replace(&mut at, At::Block(self.child(e, depth - 1)?)));
            };
            if n == 0 {
                let At::Block(block) = &at else {
                    if depth > 0 {
                        owner.edit(h, &At::Root, |b| node_bytes::init(b, ROOT_MAX, 0));
                    }
                    return Ok(false);
                };
                self.groups.free_meta(h, block.lpa().0, 1)?;
                owner.node.state.lock().blocks -= 1;
                let parent = parents.last().expect("a block has a parent");
                owner.edit(h, parent, |b| node_bytes::remove(b, node_bytes::count(b) - 1));
                continue;
            }
            let e = owner.view(&at, |b| node_bytes::entry(b, n - 1));
            if e.key + e.len <= from {
                return Ok(false);
            }
            let keep = from.saturating_sub(e.key);
            let (start, len) = (e.start + keep as u64, e.len - keep);
            match owner.meta {
                true => self.groups.free_meta(h, start, len)?,
                false => self.groups.free(h, start, len)?,
            }
            {
                // A damaged inode may count too few.
                let mut state = owner.node.state.lock();
                state.blocks = state.blocks.saturating_sub(len as u64);
            }
            h.work(costs().extent_update);
            owner.edit(h, &at, |b| match keep {
                0 => node_bytes::remove(b, n - 1),
                _ => node_bytes::set(b, n - 1, ExtentEntry { len: keep, ..e }),
            });
        }
    }

    /// Unmaps the last mapped part of `from..to` that lies in one extent; returns it and where the search goes on (the
    /// part's beginning), or `None` where nothing is mapped there. The caller frees the blocks and marks the inode.
    ///
    /// # Errors
    /// `NoSpace` where an extent is cut in two and the second half has no place, with nothing changed.
    pub(crate) fn unmap_last(
        &self,
        h: &mut Handle<'_>,
        owner: Owner<'_>,
        from: u32,
        to: u32,
    ) -> Result<Option<ExtentEntry>> {
        let mut to = to;
        let (path, index, e) = loop {
            if from >= to {
                return Ok(None);
            }
            let path = self.path(owner, to - 1)?;
            let leaf = path.last().expect("a path has a leaf");
            match leaf.index {
                Some(i) => {
                    let e = owner.view(&leaf.at, |b| node_bytes::entry(b, i));
                    break (path, i, e);
                }
                // An empty leaf, or one that begins later: go on before what leads here.
                None => {
                    let first = path[..path.len() - 1].iter().rev().find_map(|s| {
                        let i = s.index.filter(|i| *i > 0)?;
                        Some(owner.view(&s.at, |b| node_bytes::entry(b, i)).key)
                    });
                    match first {
                        Some(key) if key < to => to = key,
                        _ => return Ok(None),
                    }
                }
            }
        };
        let (start, end) = (e.key.max(from), (e.key + e.len).min(to));
        if start >= end {
            return Ok(None);
        }
        let leaf = &path.last().expect("a path has a leaf").at;
        let behind = e.part(end, e.key + e.len);
        let part = e.part(start, end);
        match (start - e.key, behind.len) {
            (0, 0) => {
                let left = owner.edit(h, leaf, |b| {
                    node_bytes::remove(b, index);
                    node_bytes::count(b)
                });
                if left == 0 {
                    self.drop_leaf(h, owner, &path)?;
                }
            }
            (0, _) => owner.edit(h, leaf, |b| node_bytes::set(b, index, behind)),
            (before, 0) => {
                owner.edit(h, leaf, |b| node_bytes::set(b, index, ExtentEntry { len: before, ..e }))
            }
            (before, _) => {
                owner.edit(h, leaf, |b| node_bytes::set(b, index, ExtentEntry { len: before, ..e }));
                if let Err(error) = self.enter_extent(h, owner, behind) {
                    // The tree may have grown meanwhile: look again where the first half is.
                    let path = self.path(owner, e.key)?;
                    let leaf = path.last().expect("a path has a leaf");
                    if let Some(i) = leaf.index {
                        owner.edit(h, &leaf.at, |b| node_bytes::set(b, i, e));
                    }
                    return Err(error);
                }
            }
        }
        Ok(Some(part))
    }

    /// What is mapped of `from..to` holds data from now on. The caller marks the inode.
    ///
    /// # Errors
    /// `NoSpace` where an extent falls into parts that need a tree block and there is none: the tree is valid, what comes
    /// from there on still unwritten.
    pub(crate) fn mark_written(
        &self,
        h: &mut Handle<'_>,
        owner: Owner<'_>,
        from: u32,
        to: u32,
    ) -> Result<()> {
        let mut at = from;
        while at < to {
            at = match self.map_locked(owner.node, at)? {
                Mapping::Hole { len } | Mapping::Mapped { len, unwritten: false, .. } => {
                    at.saturating_add(len)
                }
                Mapping::Mapped { len, unwritten: true, .. } => {
                    self.mark_part(h, owner, at, to.min(at.saturating_add(len)), false)?
                }
            };
        }
        Ok(())
    }

    /// The part `from..to` of one extent is unwritten or written from now on, or its beginning is: where that ends. The
    /// caller marks the inode.
    ///
    /// # Errors
    /// `NoSpace` where a tree block is needed and there is none: the extent is as it was.
    pub(crate) fn mark_part(
        &self,
        h: &mut Handle<'_>,
        owner: Owner<'_>,
        from: u32,
        to: u32,
        unwritten: bool,
    ) -> Result<u32> {
        let to = if unwritten { to.min(from.saturating_add(MAX_LEN - 1)) } else { to };
        loop {
            let path = self.path(owner, from)?;
            let leaf = path.last().expect("a path has a leaf");
            let i = leaf.index.expect("it is mapped");
            // A copy decides, as in enter_extent.
            let (e, changed) = owner.view(&leaf.at, |b| {
                let mut copy = b.to_vec();
                let fits = set_kind(&mut copy, i, from, to, unwritten);
                (node_bytes::entry(b, i), fits.then_some(copy))
            });
            let Some(copy) = changed else {
                self.make_room(h, owner, &path, e)?;
                continue;
            };
            owner.edit(h, &leaf.at, |b| b.copy_from_slice(&copy));
            self.fold(h, owner);
            return Ok(to);
        }
    }

    /// The extent that maps logical block `key`, whole. The caller holds the tree.
    pub(crate) fn extent_at(&self, owner: Owner<'_>, key: u32) -> Result<Option<ExtentEntry>> {
        let path = self.path(owner, key)?;
        let leaf = path.last().expect("a path has a leaf");
        let found = leaf.index.map(|i| owner.view(&leaf.at, |b| node_bytes::entry(b, i)));
        Ok(found.filter(|e| key - e.key < e.len))
    }

    /// Frees an empty leaf where its parent has others. (An empty one that stays is harmless: truncation frees it.)
    fn drop_leaf(&self, h: &mut Handle<'_>, owner: Owner<'_>, path: &[Step]) -> Result<()> {
        let [.., parent, leaf] = path else { return Ok(()) };
        let (At::Block(block), Some(i)) = (&leaf.at, parent.index) else { return Ok(()) };
        if owner.view(&parent.at, node_bytes::count) < 2 {
            return Ok(());
        }
        self.groups.free_meta(h, block.lpa().0, 1)?;
        owner.node.state.lock().blocks -= 1;
        owner.edit(h, &parent.at, |b| node_bytes::remove(b, i));
        Ok(())
    }

    /// Where new blocks of a file would be best: behind the last extent before them, else in the data groups of the
    /// inode's flex group (files leave its first group to directories and metadata).
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
