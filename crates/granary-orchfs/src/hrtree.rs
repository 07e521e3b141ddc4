//! The HRtree in memory: which unit each block of a file is (OrchFS section 3.5).
//!
//! ```text
//!   root -> level 2 -> level 1 -> level 0 <-> level 0 <-> ...      64 children each, 6 bits of the block's number
//!                                 | 64 units |  | 64 units |       level 0 nodes are chained in ascending order
//! ```
//!
//! A node of level n covers 64^(n+1) blocks from its first one on. Paths are compressed: a child may be of any lower level, as long
//! as the blocks that it covers lie within what the parent's slot covers. A file of one block has no node at all: the root is the unit.
//! A range is read with one descent, then along the chain.
//!
//! Invariants: no node is empty; a child covers a part of what its slot covers; the chain has every level 0 node, ascending. Each
//! node has a number, which is that of its image on the NVM; what a change makes of them is told by [`HrTree::set`].
//!
//! It does *not* store anything: whoever changes it writes the images.

use crate::unit::{Unit, Word};
use granary_pm::corrupt;
use granary_vfs::Result;

/// Bits of a block's number for each level.
const BITS: u32 = 6;
/// Children of a node.
pub const FANOUT: usize = 1 << BITS;
/// Level of the highest node that there can be: 7 levels of 6 bits (released code).
pub const TOP: u8 = 6;
/// Nodes that one [`HrTree::set`] makes at most: a leaf's node, one where two paths part, one above a lone unit.
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

/// What a change did to the nodes, in its order.
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

    /// Makes `unit` what a block is. New nodes take their numbers from `numbers`, of which [`MOST_NEW`] are enough. Returns the unit
    /// that was there and what changed.
    ///
    /// # Panics
    /// Where `numbers` runs out: the caller reserves first.
    pub fn set(&mut self, block: u64, unit: Unit, numbers: &mut Vec<u64>) -> (Unit, Vec<Change>) {
        let mut changes = Vec::new();
        let is_hole = unit == HOLE;
        let old = match self.place(block, is_hole, numbers, &mut changes) {
            None => Unit::Hole,
            Some(place) => std::mem::replace(self.unit_at(place, block), unit.clone()),
        };
        match (old == HOLE, is_hole) {
            (true, false) => self.units += 1,
            (false, true) => self.units -= 1,
            _ => {}
        }
        if let Some(leaf) = self.descend(block) {
            let (number, changed) = (self.node(leaf).number, old.word() != unit.word());
            if changed {
                changes.push(Change::Child {
                    node: number,
                    slot: block as usize % FANOUT,
                    word: unit.word(),
                });
            }
            match (old == HOLE, is_hole) {
                (true, false) => self.node_mut(leaf).used += 1,
                (false, true) => {
                    self.node_mut(leaf).used -= 1;
                    self.prune(leaf, &mut changes);
                }
                _ => {}
            }
        } else if block == 0 && !matches!(self.root, Root::Node(_)) {
            if is_hole {
                self.root = Root::Empty;
            }
            if old.word() != unit.word() {
                changes.push(Change::Root(unit.word()));
            }
        }
        (old, changes)
    }

    fn unit_at(&mut self, leaf: usize, block: u64) -> &mut Unit {
        if leaf == NIL {
            if !matches!(self.root, Root::Unit(_)) {
                self.root = Root::Unit(Unit::Hole);
            }
            let Root::Unit(unit) = &mut self.root else { unreachable!() };
            return unit;
        }
        match &mut self.node_mut(leaf).children {
            Children::Units(units) => &mut units[block as usize % FANOUT],
            Children::Nodes(_) => unreachable!("descents end at level 0"),
        }
    }

    /// The level 0 node for a block, made where it is missing (`NIL`: the root itself is the unit); `None` for a hole in a hole.
    fn place(
        &mut self,
        block: u64,
        is_hole: bool,
        numbers: &mut Vec<u64>,
        changes: &mut Vec<Change>,
    ) -> Option<usize> {
        let Root::Node(root) = self.root else {
            let lone = matches!(self.root, Root::Unit(_));
            if block == 0 {
                return (lone || !is_hole).then_some(NIL);
            }
            if is_hole {
                return None;
            }
            // Nodes from now on; the lone unit moves into the first.
            let old = std::mem::take(&mut self.root);
            let leaf = self.make(0, if lone { 0 } else { block / span(0) * span(0) }, numbers, changes);
            self.root = Root::Node(leaf);
            changes.push(Change::Root(Word::Index(self.node(leaf).number)));
            if let Root::Unit(unit) = old {
                let word = unit.word();
                *self.unit_at(leaf, 0) = unit;
                let node = self.node_mut(leaf);
                node.used = 1;
                changes.push(Change::Child { node: node.number, slot: 0, word });
            }
            return self.place(block, is_hole, numbers, changes);
        };
        if let Some(leaf) = self.descend(block) {
            return Some(leaf);
        }
        if is_hole {
            return None;
        }
        // The lowest node that covers the block; `NIL`: not even the root does.
        let (mut above, mut at) = (NIL, root);
        while at != NIL && self.covers(at, block) {
            let node = self.node(at);
            let Children::Nodes(children) = &node.children else { return Some(at) };
            (above, at) = (at, children[slot_of(node.level, block)]);
        }
        let leaf = self.make(0, block / span(0) * span(0), numbers, changes);
        if at == NIL {
            self.adopt(above, leaf, changes);
        } else {
            // Two paths part here: a node of the lowest level that covers both.
            let mut level = self.node(at).level + 1;
            while self.node(at).first / span(level) != block / span(level) {
                level += 1;
            }
            let first = block / span(level) * span(level);
            let fork = self.make(level, first, numbers, changes);
            match above {
                NIL => {
                    self.root = Root::Node(fork);
                    changes.push(Change::Root(Word::Index(self.node(fork).number)));
                }
                above => self.replace(above, fork, changes),
            }
            self.adopt(fork, at, changes);
            self.adopt(fork, leaf, changes);
        }
        self.chain(leaf);
        Some(leaf)
    }

    fn make(&mut self, level: u8, first: u64, numbers: &mut Vec<u64>, changes: &mut Vec<Change>) -> usize {
        let number = numbers.pop().expect("numbers of nodes are reserved before a change");
        changes.push(Change::Made(number));
        self.insert(number, level, first)
    }

    fn insert(&mut self, number: u64, level: u8, first: u64) -> usize {
        let children = match level {
            0 => Children::Units(Box::new(std::array::from_fn(|_| Unit::Hole))),
            _ => Children::Nodes(Box::new([NIL; FANOUT])),
        };
        let node = Node { number, level, first, used: 0, children, parent: NIL, before: NIL, behind: NIL };
        match self.unused.pop() {
            Some(at) => {
                self.nodes[at] = Some(node);
                at
            }
            None => {
                self.nodes.push(Some(node));
                self.nodes.len() - 1
            }
        }
    }

    /// Puts a node into an empty slot of another.
    fn adopt(&mut self, parent: usize, child: usize, changes: &mut Vec<Change>) {
        self.node_mut(parent).used += 1;
        self.replace(parent, child, changes);
    }

    fn replace(&mut self, parent: usize, child: usize, changes: &mut Vec<Change>) {
        let (first, number) = (self.node(child).first, self.node(child).number);
        self.node_mut(child).parent = parent;
        let node = self.node_mut(parent);
        let slot = slot_of(node.level, first);
        if let Children::Nodes(children) = &mut node.children {
            children[slot] = child;
        }
        changes.push(Change::Child { node: node.number, slot, word: Word::Index(number) });
    }

    /// Takes a new level 0 node into the chain, next to its neighbours in the tree.
    fn chain(&mut self, leaf: usize) {
        let behind = self.neighbour_behind(leaf);
        let before = match behind {
            NIL => self.neighbour_before(leaf),
            behind => self.node(behind).before,
        };
        (self.node_mut(leaf).before, self.node_mut(leaf).behind) = (before, behind);
        if before != NIL {
            self.node_mut(before).behind = leaf;
        }
        if behind != NIL {
            self.node_mut(behind).before = leaf;
        }
    }

    fn neighbour_behind(&self, leaf: usize) -> usize {
        let mut at = leaf;
        while self.node(at).parent != NIL {
            let parent = self.node(self.node(at).parent);
            if let Children::Nodes(children) = &parent.children {
                let slot = slot_of(parent.level, self.node(at).first);
                if let Some(next) = children[slot + 1..].iter().find(|child| **child != NIL) {
                    return self.lowest(*next);
                }
            }
            at = self.node(at).parent;
        }
        NIL
    }

    fn neighbour_before(&self, leaf: usize) -> usize {
        let mut at = leaf;
        while self.node(at).parent != NIL {
            let parent = self.node(self.node(at).parent);
            if let Children::Nodes(children) = &parent.children {
                let slot = slot_of(parent.level, self.node(at).first);
                if let Some(next) = children[..slot].iter().rev().find(|child| **child != NIL) {
                    let mut last = *next;
                    while let Children::Nodes(children) = &self.node(last).children {
                        last = *children.iter().rev().find(|child| **child != NIL).expect("no node is empty");
                    }
                    return last;
                }
            }
            at = self.node(at).parent;
        }
        NIL
    }

    /// Takes empty nodes away, from a level 0 node upwards.
    fn prune(&mut self, leaf: usize, changes: &mut Vec<Change>) {
        let mut at = leaf;
        while self.node(at).used == 0 {
            let node = self.nodes[at].take().expect("a node that is linked exists");
            self.unused.push(at);
            if node.before != NIL {
                self.node_mut(node.before).behind = node.behind;
            }
            if node.behind != NIL {
                self.node_mut(node.behind).before = node.before;
            }
            changes.push(Change::Gone(node.number));
            if node.parent == NIL {
                self.root = Root::Empty;
                changes.push(Change::Root(Word::None));
                return;
            }
            let parent = self.node_mut(node.parent);
            let slot = slot_of(parent.level, node.first);
            if let Children::Nodes(children) = &mut parent.children {
                children[slot] = NIL;
            }
            parent.used -= 1;
            changes.push(Change::Child { node: parent.number, slot, word: Word::None });
            at = node.parent;
        }
    }

    /// The node of this number, as it is to lie on the NVM. (Looks at all: for nodes that are new, which are few.)
    pub fn image(&self, number: u64) -> Option<Image> {
        let node = self.nodes.iter().rev().flatten().find(|node| node.number == number)?;
        let children = match &node.children {
            Children::Units(units) => std::array::from_fn(|i| units[i].word()),
            Children::Nodes(nodes) => std::array::from_fn(|i| match nodes[i] {
                NIL => Word::None,
                child => Word::Index(self.node(child).number),
            }),
        };
        Some(Image { level: node.level, first: node.first, children: Box::new(children) })
    }

    /// The numbers of all nodes.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.nodes.iter().flatten().map(|node| node.number)
    }

    /// Makes the tree whose root is this word. `node` reads a node's image, `unit` what a leaf's word names.
    ///
    /// # Errors
    /// `Corrupt` where the nodes are no tree; those of the readers.
    pub fn load(
        root: Word,
        node: &mut dyn FnMut(u64) -> Result<Image>,
        unit: &mut dyn FnMut(Word) -> Result<Unit>,
    ) -> Result<HrTree> {
        let mut tree = HrTree::default();
        match root {
            Word::None => {}
            Word::Index(number) => {
                let mut last = NIL;
                let at = tree.load_node(number, None, &mut last, node, unit)?;
                tree.root = Root::Node(at);
            }
            word => {
                tree.root = Root::Unit(unit(word)?);
                tree.units = 1;
            }
        }
        Ok(tree)
    }

    fn load_node(
        &mut self,
        number: u64,
        within: Option<(u8, u64, u64)>,
        last: &mut usize,
        node: &mut dyn FnMut(u64) -> Result<Image>,
        unit: &mut dyn FnMut(Word) -> Result<Unit>,
    ) -> Result<usize> {
        let image = node(number)?;
        let sound = image.level <= TOP && image.first.is_multiple_of(span(image.level));
        let fits = within.is_none_or(|(level, first, len)| {
            image.level < level && image.first >= first && image.first - first < len
        });
        if !sound || !fits {
            return Err(corrupt(format!(
                "index node {number} says level {} from block {} on",
                image.level, image.first
            )));
        }
        let at = self.insert(number, image.level, image.first);
        if image.level == 0 {
            (self.node_mut(at).before, self.node_mut(at).behind) = (*last, NIL);
            if *last != NIL {
                self.node_mut(*last).behind = at;
            }
            *last = at;
        }
        for (slot, word) in image.children.iter().enumerate() {
            let first = image.first + slot as u64 * (span(image.level) / FANOUT as u64);
            match (*word, image.level) {
                (Word::None, _) => continue,
                (Word::Index(child), 1..) => {
                    let within = Some((image.level, first, span(image.level) / FANOUT as u64));
                    let child = self.load_node(child, within, last, node, unit)?;
                    self.node_mut(child).parent = at;
                    if let Children::Nodes(children) = &mut self.node_mut(at).children {
                        children[slot] = child;
                    }
                }
                (Word::Index(_), 0) | (_, 1..) => {
                    return Err(corrupt(format!(
                        "index node {number} has {word:?} at level {}",
                        image.level
                    )));
                }
                (word, 0) => {
                    let unit = unit(word)?;
                    *self.unit_at(at, first) = unit;
                    self.units += 1;
                }
            }
            self.node_mut(at).used += 1;
        }
        if self.node(at).used == 0 {
            return Err(corrupt(format!("index node {number} has no child")));
        }
        Ok(at)
    }
}

#[cfg(test)]
#[path = "hrtree_tests.rs"]
mod tests;
