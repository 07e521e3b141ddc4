//! The HRtree in memory: which unit each block of a file is (OrchFS section 3.5).
//!
//! ```text
//!   root -> level 2 -> level 1 -> level 0 <-> level 0 <-> ...      64 children each, 6 bits of the block's
//!                                                                  number
//!                                 | 64 units |  | 64 units |       level 0 nodes are chained in ascending
//!                                                                  order
//! ```
//!
//! A node of level n covers 64^(n+1) blocks from its first one on. Paths are compressed: a child may be of
//! any lower level, as long as the blocks that it covers lie within what the parent's slot covers. A file of
//! one block has no node at all: the root is the unit. A range is read with one descent, then along the
//! chain.
//!
//! Invariants: no node is empty; a child covers a part of what its slot covers; the chain has every level 0
//! node, ascending. Each node has a number, which is that of its image on the NVM; what a change makes of
//! them is told by [`HrTree::set`].
//!
//! It does *not* store anything: whoever changes it writes the images.

mod change;
mod load;

use crate::unit::{Unit, Word};

/// Bits of a block's number for each level.
const BITS: u32 = 6;
/// Children of a node.
pub const FANOUT: usize = 1 << BITS;
/// Level of the highest node that there can be: 7 levels of 6 bits (released code).
pub const TOP: u8 = 6;
/// Nodes that one [`HrTree::set`] makes at most: a leaf's node, one where two paths part, one above a lone
/// unit.
pub const MOST_NEW: usize = 3;

const HOLE: Unit = Unit::Hole;
const NIL: usize = usize::MAX;

enum Children {
    Nodes(Box<[usize; FANOUT]>),
    Units(Box<[Unit; FANOUT]>),
}

struct Node {
    number: u64,
    level: u8,
    first: u64,
    used: u8,
    children: Children,
    parent: usize,
    before: usize,
    behind: usize,
}

/// Changes of nodes by one change of the tree, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The root is another word.
    Root(Word),
    /// A node is new; its image follows from [`HrTree::image`].
    Made(u64),
    /// A child of a node is another word.
    Child {
        /// The node.
        node: u64,
        /// Which.
        slot: usize,
        /// The word.
        word: Word,
    },
    /// A node is gone.
    Gone(u64),
}

/// A node as it is to lie on the NVM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its level.
    pub level: u8,
    /// First block that it covers.
    pub first: u64,
    /// Its children.
    pub children: Box<[Word; FANOUT]>,
}

/// See the module.
#[derive(Default)]
pub struct HrTree {
    nodes: Vec<Option<Node>>,
    unused: Vec<usize>,
    root: Root,
    units: u64,
}

#[derive(Default)]
enum Root {
    /// Block 0 is all there may be.
    Unit(Unit),
    Node(usize),
    #[default]
    Empty,
}

fn span(level: u8) -> u64 {
    1 << (BITS * (u32::from(level) + 1))
}

fn slot_of(level: u8, block: u64) -> usize {
    (block >> (BITS * u32::from(level))) as usize % FANOUT
}

impl HrTree {
    fn node(&self, at: usize) -> &Node {
        self.nodes[at].as_ref().expect("a node that is linked exists")
    }

    fn node_mut(&mut self, at: usize) -> &mut Node {
        self.nodes[at].as_mut().expect("a node that is linked exists")
    }

    fn covers(&self, at: usize, block: u64) -> bool {
        let node = self.node(at);
        node.first <= block && block - node.first < span(node.level)
    }

    /// The word of the root.
    pub fn root(&self) -> Word {
        match &self.root {
            Root::Empty => Word::None,
            Root::Unit(unit) => unit.word(),
            Root::Node(at) => Word::Index(self.node(*at).number),
        }
    }

    /// Blocks that are no holes.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// The level 0 node that covers a block.
    fn descend(&self, block: u64) -> Option<usize> {
        let Root::Node(mut at) = self.root else { return None };
        loop {
            if !self.covers(at, block) {
                return None;
            }
            let node = self.node(at);
            match &node.children {
                Children::Units(_) => return Some(at),
                Children::Nodes(children) => match children[slot_of(node.level, block)] {
                    NIL => return None,
                    child => at = child,
                },
            }
        }
    }

    /// The unit of a block.
    pub fn get(&self, block: u64) -> &Unit {
        if let Root::Unit(unit) = &self.root {
            return if block == 0 { unit } else { &HOLE };
        }
        match self.descend(block).map(|at| &self.node(at).children) {
            Some(Children::Units(units)) => &units[block as usize % FANOUT],
            _ => &HOLE,
        }
    }

    /// A unit for changes that leave its word as it is.
    pub fn get_mut(&mut self, block: u64) -> Option<&mut Unit> {
        let Some(at) = self.descend(block) else {
            return match &mut self.root {
                Root::Unit(unit) if block == 0 => Some(unit),
                _ => None,
            };
        };
        match &mut self.node_mut(at).children {
            Children::Units(units) => Some(&mut units[block as usize % FANOUT]),
            Children::Nodes(_) => None,
        }
    }

    /// The first level 0 node with blocks at or behind this one.
    fn first_leaf(&self, block: u64) -> usize {
        if let Some(at) = self.descend(block) {
            return at;
        }
        let Root::Node(mut at) = self.root else { return NIL };
        // The last node before the block, whose neighbour in the chain is the first one behind it.
        let mut best = NIL;
        loop {
            let node = self.node(at);
            if node.first >= block {
                let mut first = at;
                while let Children::Nodes(children) = &self.node(first).children {
                    first = *children.iter().find(|child| **child != NIL).expect("no node is empty");
                }
                return first;
            }
            let Children::Nodes(children) = &node.children else { return node.behind };
            let past = block - node.first >= span(node.level);
            let slot = if past { FANOUT - 1 } else { slot_of(node.level, block) };
            if let Some(next) = children[slot + 1..].iter().find(|child| **child != NIL) {
                best = *next;
            }
            match children[..=slot].iter().rev().find(|child| **child != NIL) {
                Some(child) => at = *child,
                None => return self.lowest(best),
            }
        }
    }

    fn lowest(&self, mut at: usize) -> usize {
        while at != NIL
            && let Children::Nodes(children) = &self.node(at).children
        {
            at = *children.iter().find(|child| **child != NIL).expect("no node is empty");
        }
        at
    }

    /// The units of `first..end` that are no holes, ascending: one descent, then along the chain.
    pub fn range(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, &Unit)> {
        let lone = match &self.root {
            Root::Unit(unit) if first == 0 && end > 0 => Some((0, unit)),
            _ => None,
        };
        let mut leaf = if first < end { self.first_leaf(first) } else { NIL };
        let mut at = 0;
        let chain = std::iter::from_fn(move || {
            while leaf != NIL {
                let node = self.node(leaf);
                let Children::Units(units) = &node.children else { return None };
                while at < FANOUT {
                    let block = node.first + at as u64;
                    at += 1;
                    if block >= end {
                        return None;
                    }
                    if block >= first && units[at - 1] != HOLE {
                        return Some((block, &units[at - 1]));
                    }
                }
                (leaf, at) = (node.behind, 0);
            }
            None
        });
        lone.into_iter().chain(chain)
    }
}

#[cfg(test)]
#[path = "hrtree_tests.rs"]
mod tests;
