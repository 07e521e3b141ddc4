//! A tree and its images on the NVM.

use super::{Children, FANOUT, HrTree, Image, NIL, Root, TOP, span};
use crate::unit::{Unit, Word};
use granary_fs::Result;
use granary_pm::corrupt;

impl HrTree {
    /// The node of this number, as it is to lie on the NVM. (Looks at all: for nodes that are new, which are
    /// few.)
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
