//! A file's tree of pointers.
//!
//! ```text
//!   height 0    root = the only data block (page 0)
//!   height 1    root node ──> 512 data blocks
//!   height h    root node ──> 512 nodes of height h - 1          pointer 0 = hole
//! ```
//!
//! Pointers are loaded when they are needed, a run at a time; nothing is kept. New nodes are written whole
//! before any pointer leads to them; pointers in existing nodes change in place, in the transaction of
//! whoever maps.
//!
//! Source: PMFS section 3.1; reference/baselines.md section 7.1.

use crate::fs::Pmfs;
use crate::journal::Edit;
use crate::layout::inode::Tree;
use crate::layout::{FANOUT, MAX_HEIGHT};
use granary_device::Structure;
use granary_fs::{FsError, Result};
use granary_pm::bytes::{put_u64, u64_at};
use granary_pm::{BLOCK, Batch, Block, From, corrupt};
use granary_units::{PAGE_SIZE, Page};
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;

const WHAT: Structure = Structure::DataPointer;
/// Pointers that need no memory of their own: those of a step of a directory search.
const INLINE: usize = 16;

/// Pointers as they follow each other.
pub type Blocks = SmallVec<[u64; INLINE]>;

/// Callback of a walk: block, its file page and its height; returns whether to go on below.
type Visit<'a> = dyn FnMut(u64, u64, u8) -> Result<bool> + 'a;

/// File pages below one pointer of a node of height `height`.
fn reach(height: u8) -> u64 {
    FANOUT.pow(height as u32 - 1)
}

/// File pages that a tree of this height can map.
pub fn capacity(height: u8) -> u64 {
    FANOUT.pow(height as u32)
}

/// Changes to a tree that nothing on media shows yet.
#[derive(Default)]
pub struct Mapping {
    /// The tree afterwards.
    pub tree: Tree,
    /// New nodes.
    nodes: BTreeMap<u64, Block>,
    /// Pointers in existing nodes, by address.
    pointers: BTreeMap<u64, u64>,
    /// Pointers known from media, by address.
    known: BTreeMap<u64, u64>,
}

impl Mapping {
    /// No changes to this tree yet.
    pub fn new(tree: Tree) -> Mapping {
        Mapping { tree, ..Mapping::default() }
    }

    /// Nodes that were allocated.
    pub fn node_blocks(&self) -> impl Iterator<Item = u64> + '_ {
        self.nodes.keys().copied()
    }

    /// Runs of pointers that change, each at most `limit` pointers: (address, new values).
    pub fn runs(&self, limit: usize) -> Vec<(u64, Vec<u8>)> {
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for (&addr, value) in &self.pointers {
            match runs.last_mut() {
                Some((start, bytes))
                    if *start + bytes.len() as u64 == addr
                        && addr % BLOCK != 0
                        && bytes.len() < limit * 8 =>
                {
                    bytes.extend(value.to_le_bytes());
                }
                _ => runs.push((addr, value.to_le_bytes().to_vec())),
            }
        }
        runs
    }

    /// Data blocks that the pointers of these edits, which come from [`Mapping::runs`], make reachable.
    pub fn below(&self, edits: &[Edit]) -> u64 {
        let pointers = edits.iter().flat_map(|e| (0..e.new.len()).step_by(8).map(|at| u64_at(&e.new, at)));
        pointers.map(|block| self.data_below(block)).sum()
    }

    fn data_below(&self, block: u64) -> u64 {
        match self.nodes.get(&block) {
            None => u64::from(block != 0),
            Some(node) => (0..PAGE_SIZE).step_by(8).map(|at| self.data_below(u64_at(&node[..], at))).sum(),
        }
    }

    /// The new nodes, by block.
    pub fn new_nodes(&self) -> impl Iterator<Item = (u64, &Page)> {
        self.nodes.iter().map(|(block, node)| (*block, node.page()))
    }

    /// Writes the new nodes.
    pub fn write_nodes(&self, b: &mut Batch<'_>) -> Result<()> {
        for (block, node) in &self.nodes {
            b.stream_page(*block, node.page(), WHAT)?;
        }
        Ok(())
    }
}

impl Pmfs {
    /// A pointer, if it leads to where data and nodes lie, or nowhere.
    pub(crate) fn checked(&self, block: u64) -> Result<u64> {
        if block == 0 || self.is_data(block) {
            Ok(block)
        } else {
            Err(corrupt(format!("a pointer leads to block {block}")))
        }
    }

    fn pointer(&self, addr: u64) -> Result<u64> {
        let mut b = [0; 8];
        self.pm.load(addr, &mut b, WHAT)?;
        self.checked(u64_at(&b, 0))
    }

    /// The blocks (0 = hole) of the pages from `page` on: at least one, at most `most`, as one node of
    /// pointers has them.
    pub(crate) fn blocks(&self, tree: Tree, page: u64, most: u64) -> Result<Blocks> {
        let most = most.max(1);
        if tree.root == 0 || page >= capacity(tree.height) {
            return Ok(smallvec![0; most as usize]);
        }
        let mut node = self.checked(tree.root)?;
        if tree.height == 0 {
            return Ok(smallvec![node]);
        }
        for height in (2..=tree.height).rev() {
            let index = page / reach(height) % FANOUT;
            node = self.pointer(node * BLOCK + index * 8)?;
            if node == 0 {
                let hole = reach(height) - page % reach(height);
                return Ok(smallvec![0; most.min(hole) as usize]);
            }
        }
        let index = page % FANOUT;
        let n = most.min(FANOUT - index) as usize;
        let mut bytes: SmallVec<[u8; INLINE * 8]> = smallvec![0; n * 8];
        self.pm.load(node * BLOCK + index * 8, &mut bytes, WHAT)?;
        let blocks: Blocks = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        blocks.iter().try_for_each(|block| self.checked(*block).map(drop))?;
        Ok(blocks)
    }

    /// The first page from `from` on, before `end`, that has a block.
    pub(crate) fn next_mapped(&self, tree: Tree, from: u64, end: u64) -> Result<Option<u64>> {
        if tree.root == 0 || from >= capacity(tree.height) {
            return Ok(None);
        }
        self.next_below(self.checked(tree.root)?, (0, tree.height), from, end)
    }

    /// The same, below a block that begins at page `base` and has this height.
    fn next_below(&self, block: u64, (base, height): (u64, u8), from: u64, end: u64) -> Result<Option<u64>> {
        if height == 0 {
            return Ok((base >= from && base < end).then_some(base));
        }
        let node = self.pm.load_block(block, WHAT)?;
        for i in from.saturating_sub(base) / reach(height)..FANOUT {
            let (child, start) = (self.checked(u64_at(&node[..], i as usize * 8))?, base + i * reach(height));
            if start >= end {
                break;
            }
            if child != 0
                && let Some(page) = self.next_below(child, (start, height - 1), from, end)?
            {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// A new node, allocated.
    fn new_node(&self, m: &mut Mapping) -> Result<u64> {
        let (block, _) = self.free.take(0, 1, From::Below, false).ok_or(FsError::NoSpace)?;
        m.nodes.insert(block, Block::new(Page::ZERO));
        Ok(block)
    }

    fn get(&self, m: &mut Mapping, addr: u64) -> Result<u64> {
        if let Some(node) = m.nodes.get(&(addr / BLOCK)) {
            return Ok(u64_at(&node[..], (addr % BLOCK) as usize));
        }
        if let Some(value) = m.pointers.get(&addr).or_else(|| m.known.get(&addr)) {
            return Ok(*value);
        }
        let value = self.pointer(addr)?;
        m.known.insert(addr, value);
        Ok(value)
    }

    fn set(&self, m: &mut Mapping, addr: u64, value: u64) {
        match m.nodes.get_mut(&(addr / BLOCK)) {
            Some(node) => put_u64(&mut node[..], (addr % BLOCK) as usize, value),
            None => {
                m.pointers.insert(addr, value);
            }
        }
    }

    /// Maps holes: page `first + i` to `blocks[i]`. Allocates nodes, changes nothing on media.
    ///
    /// # Errors
    /// `NoSpace`; the nodes allocated so far are in `m`.
    pub(crate) fn map(&self, m: &mut Mapping, first: u64, blocks: &[u64]) -> Result<()> {
        for (i, block) in blocks.iter().enumerate() {
            let page = first + i as u64;
            while page >= capacity(m.tree.height) {
                if m.tree.height == MAX_HEIGHT {
                    return Err(FsError::TooBig);
                }
                if m.tree.root != 0 {
                    let node = self.new_node(m)?;
                    self.set(m, node * BLOCK, m.tree.root);
                    m.tree.root = node;
                }
                m.tree.height += 1;
            }
            if m.tree.height == 0 {
                m.tree.root = *block;
                continue;
            }
            if m.tree.root == 0 {
                m.tree.root = self.new_node(m)?;
            }
            let mut node = m.tree.root;
            for height in (2..=m.tree.height).rev() {
                let addr = node * BLOCK + page / reach(height) % FANOUT * 8;
                node = match self.get(m, addr)? {
                    0 => {
                        let new = self.new_node(m)?;
                        self.set(m, addr, new);
                        new
                    }
                    child => child,
                };
            }
            self.set(m, node * BLOCK + page % FANOUT * 8, *block);
        }
        Ok(())
    }

    /// Calls `visit` for every block of the tree: (block, file page it begins at, height; 0 = data). It says
    /// whether what is below is to be visited.
    ///
    /// # Errors
    /// `Corrupt` for a pointer to what holds no data, and where the tree comes back to a node: so a walk
    /// ends.
    pub(crate) fn walk(&self, tree: Tree, visit: &mut Visit<'_>) -> Result<()> {
        if tree.root == 0 {
            return Ok(());
        }
        self.checked(tree.root)?;
        self.walk_node(&mut FxHashSet::default(), (tree.root, 0, tree.height), visit)
    }

    /// The same, from one block on; `seen` has the nodes visited so far.
    fn walk_node(
        &self,
        seen: &mut FxHashSet<u64>,
        (block, page, height): (u64, u64, u8),
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        if !visit(block, page, height)? || height == 0 {
            return Ok(());
        }
        if !seen.insert(block) {
            return Err(corrupt(format!("a tree comes back to its node in block {block}")));
        }
        let node = self.pm.load_block(block, WHAT)?;
        let children = node.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        for (i, child) in (0..FANOUT).zip(children).filter(|(_, child)| *child != 0) {
            let below = (self.checked(child)?, page + i * reach(height), height - 1);
            self.walk_node(seen, below, visit)?;
        }
        Ok(())
    }

    /// Takes everything from file page `from` on out of the tree, in place: pointers become 0, freed blocks
    /// are collected. Returns the tree left. Repeating it after a power failure is harmless.
    pub(crate) fn cut_tree(
        &self,
        b: &mut Batch<'_>,
        tree: Tree,
        from: u64,
        freed: &mut Vec<(u64, bool)>,
    ) -> Result<Tree> {
        if tree.root == 0 || from >= capacity(tree.height) {
            return Ok(tree);
        }
        if from == 0 {
            self.walk(tree, &mut |block, _, height| {
                freed.push((block, height == 0));
                Ok(true)
            })?;
            return Ok(Tree::default());
        }
        // `from` > 0: the height is at least 1 and the root keeps its first pointer.
        let root = (self.checked(tree.root)?, 0, tree.height);
        self.cut_node(b, &mut FxHashSet::default(), root, from, freed)?;
        Ok(tree)
    }

    fn cut_node(
        &self,
        b: &mut Batch<'_>,
        seen: &mut FxHashSet<u64>,
        (block, page, height): (u64, u64, u8),
        from: u64,
        freed: &mut Vec<(u64, bool)>,
    ) -> Result<()> {
        let node = self.pm.load_block(block, WHAT)?;
        let first = (from - page) / reach(height);
        for i in first..FANOUT {
            let child = self.checked(u64_at(&node[..], i as usize * 8))?;
            let start = page + i * reach(height);
            if child == 0 {
                continue;
            }
            if start < from {
                self.cut_node(b, seen, (child, start, height - 1), from, freed)?;
                continue;
            }
            self.walk_node(seen, (child, start, height - 1), &mut |block, _, height| {
                freed.push((block, height == 0));
                Ok(true)
            })?;
            b.put_u64(block * BLOCK + i * 8, 0, WHAT)?;
        }
        Ok(())
    }
}
