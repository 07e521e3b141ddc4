//! Changing a tree: nodes are made where paths part, and go when they are empty.

use super::{Change, Children, FANOUT, HOLE, HrTree, NIL, Node, Root, slot_of, span};
use crate::unit::{Unit, Word};

impl HrTree {
    /// Makes `unit` what a block is. New nodes take their numbers from `numbers`, of which
    /// [`super::MOST_NEW`] are enough. Returns the unit that was there and what changed.
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

    pub(super) fn unit_at(&mut self, leaf: usize, block: u64) -> &mut Unit {
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

    /// The level 0 node for a block, made where it is missing (`NIL`: the root itself is the unit); `None`
    /// for a hole in a hole.
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

    pub(super) fn insert(&mut self, number: u64, level: u8, first: u64) -> usize {
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
}
