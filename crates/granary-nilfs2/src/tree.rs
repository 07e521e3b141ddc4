//! [`Tree`]: the map of a file, block number to pointer.
//!
//! ```text
//!   up to block 5         direct: six pointers in the inode
//!   else                  root in the inode, 3 children -> nodes of 255 children -> ...
//!                         -> level 1: pointers to blocks
//! ```
//!
//! Pointers are virtual block numbers, or addresses in DAT's own map. A node that changes makes all above it
//! dirty: the next log gives it a new place, which its parent has to know. Nodes are read when they are
//! needed and stay until [`Tree::evict`]. Appending leaves full nodes behind (the kernel's carries entries to
//! the left sibling, with the same result). Only truncation removes entries, and the end of checkpoints
//! removes those of the cpfile. So few nodes are less than half full and none are merged.
//!
//! Invariants: keys ascend; a dirty node's parent is dirty and in memory; pointer 0 is a node that never was
//! on media. Source: reference/nilfs2.md section 5.1.

pub(crate) mod node;

use crate::layout::inode::MAP;
use crate::layout::{corrupt, le16, le64, put16, put64};
use granary_device::Structure;
use granary_fs::Result;
use granary_units::Page;
use node::Node;

/// Pointers of a direct map.
pub(crate) const DIRECT: usize = 6;
/// Children of the root.
pub(crate) const ROOT_CHILDREN: usize = 3;

/// Reads blocks by pointer.
pub(crate) trait Blocks {
    /// The block that a pointer names.
    fn load(&mut self, ptr: u64, what: Structure) -> Result<Page>;
}

enum Root {
    Direct([u64; DIRECT]),
    Node(Node),
}

/// See the module.
pub(crate) struct Tree {
    root: Root,
    /// The root or something below changed since the last log.
    pub dirty: bool,
    /// Blocks and nodes.
    pub count: u64,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { root: Root::Direct([0; DIRECT]), dirty: false, count: 0 }
    }
}

impl Tree {
    /// The root from an inode.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn parse(map: &[u8; MAP], count: u64) -> Result<Tree> {
        let root = match map[0] {
            0 => {
                let mut ptrs = [0; DIRECT];
                ptrs.iter_mut().enumerate().for_each(|(i, p)| *p = le64(map, 8 + 8 * i));
                Root::Direct(ptrs)
            }
            1 => {
                let n = le16(map, 2) as usize;
                if n > ROOT_CHILDREN {
                    return Err(corrupt(format!("a B-tree's root with {n} children")));
                }
                let word = |base: usize| (0..n).map(|i| le64(map, base + 8 * i)).collect();
                Root::Node(Node::new(map[1], word(8), word(32))?)
            }
            other => return Err(corrupt(format!("a map of kind {other}"))),
        };
        Ok(Tree { root, dirty: false, count })
    }

    /// The root for an inode.
    pub fn encode(&self) -> [u8; MAP] {
        let mut map = [0; MAP];
        match &self.root {
            Root::Direct(ptrs) => ptrs.iter().enumerate().for_each(|(i, p)| put64(&mut map, 8 + 8 * i, *p)),
            Root::Node(n) => {
                (map[0], map[1]) = (1, n.level);
                put16(&mut map, 2, n.keys.len() as u16);
                n.keys.iter().enumerate().for_each(|(i, k)| put64(&mut map, 8 + 8 * i, *k));
                n.ptrs.iter().enumerate().for_each(|(i, p)| put64(&mut map, 32 + 8 * i, *p));
            }
        }
        map
    }

    /// Levels of nodes below the root.
    #[cfg(test)]
    pub fn height(&self) -> u64 {
        match &self.root {
            Root::Direct(_) => 0,
            Root::Node(n) => n.level as u64 - 1,
        }
    }

    /// The pointer of a block.
    pub fn lookup(&mut self, key: u64, from: &mut dyn Blocks) -> Result<Option<u64>> {
        match &mut self.root {
            Root::Direct(ptrs) => {
                Ok(ptrs.get(key as usize).copied().filter(|p| *p != 0 && key < DIRECT as u64))
            }
            Root::Node(n) => n.lookup(key, from),
        }
    }

    /// Gives a block a pointer, whether it had one or not.
    pub fn set(&mut self, key: u64, ptr: u64, from: &mut dyn Blocks) -> Result<()> {
        self.dirty = true;
        if let Root::Direct(ptrs) = &mut self.root {
            if key < DIRECT as u64 {
                self.count += u64::from(ptrs[key as usize] == 0);
                ptrs[key as usize] = ptr;
                return Ok(());
            }
            let all: Vec<(u64, u64)> = (0..).zip(*ptrs).filter(|(_, p)| *p != 0).collect();
            let (keys, values) = all.into_iter().unzip();
            let mut n = Node::new(1, keys, values)?;
            n.dirty = true;
            self.root = Root::Node(n);
        }
        let Root::Node(root) = &mut self.root else { return Ok(()) };
        let mut made = 0;
        // A conversion may have left more in the root than it has room for: `insert` splits by the size of a
        // node, not of a root.
        let more = root.set(key, ptr, from, &mut made)?;
        self.count += made;
        if let Some(right) = more {
            self.count += 1;
            root.push_down(Some(right));
            self.count += 1;
        } else if root.keys.len() > ROOT_CHILDREN {
            root.push_down(None);
            self.count += 1;
        }
        Ok(())
    }

    /// The first block at or after `key`, and its pointer.
    pub fn next(&mut self, key: u64, from: &mut dyn Blocks) -> Result<Option<(u64, u64)>> {
        match &mut self.root {
            Root::Direct(ptrs) => {
                let all = ptrs.iter().enumerate().map(|(i, p)| (i as u64, *p));
                Ok(all.into_iter().find(|(i, p)| *i >= key && *p != 0))
            }
            Root::Node(n) => n.next(key, from),
        }
    }

    /// Removes all blocks from `key` on; the pointers that nobody needs any more, nodes' too. After an error
    /// nothing has changed.
    pub fn cut(&mut self, key: u64, from: &mut dyn Blocks) -> Result<Vec<u64>> {
        let mut freed = Vec::new();
        match &mut self.root {
            Root::Direct(ptrs) => {
                for p in ptrs.iter_mut().skip(key.min(DIRECT as u64) as usize).filter(|p| **p != 0) {
                    freed.push(std::mem::take(p));
                }
                self.count -= freed.len() as u64;
                self.dirty |= !freed.is_empty();
            }
            Root::Node(root) => {
                root.load_from(key, from)?;
                let mut gone = 0;
                root.cut(key, &mut freed, &mut gone);
                self.count = self.count.saturating_sub(gone);
                self.dirty |= gone > 0;
                if gone > 0 {
                    self.shrink(from, &mut freed);
                }
            }
        }
        Ok(freed)
    }

    /// Makes a block a hole; returns the pointers that nobody needs any more, nodes' too. After an error
    /// nothing has changed.
    pub fn remove(&mut self, key: u64, from: &mut dyn Blocks) -> Result<Vec<u64>> {
        let mut freed = Vec::new();
        // The lookup brings all nodes that the removal meets into memory.
        if self.lookup(key, from)?.is_none() {
            return Ok(freed);
        }
        let mut gone = 0;
        match &mut self.root {
            Root::Direct(ptrs) => {
                freed.push(std::mem::take(&mut ptrs[key as usize]));
                gone = 1;
            }
            Root::Node(root) => root.remove(key, &mut freed, &mut gone),
        }
        self.count = self.count.saturating_sub(gone);
        self.dirty = true;
        self.shrink(from, &mut freed);
        Ok(freed)
    }

    /// Lower roots where that suffices, and the node can be read.
    fn shrink(&mut self, from: &mut dyn Blocks, freed: &mut Vec<u64>) {
        let Root::Node(root) = &mut self.root else { return };
        while let Ok(Some(ptr)) = root.pull_up(from) {
            freed.extend((ptr != 0).then_some(ptr));
            self.count = self.count.saturating_sub(1);
        }
        if root.level == 1 && root.keys.last().is_none_or(|k| *k < DIRECT as u64) {
            let mut ptrs = [0; DIRECT];
            root.keys.iter().zip(&root.ptrs).for_each(|(k, p)| ptrs[*k as usize] = *p);
            self.root = Root::Direct(ptrs);
        }
    }

    /// Every dirty node, children first: `place` is given its bytes, level, first key and old pointer, and
    /// says the new one. They are clean afterwards.
    pub fn place_nodes(&mut self, place: &mut dyn FnMut(&Node, u64) -> Result<u64>) -> Result<()> {
        self.dirty = false;
        match &mut self.root {
            Root::Direct(_) => Ok(()),
            Root::Node(n) => {
                n.dirty = false;
                n.place(place)
            }
        }
    }

    /// Level and first key of every dirty node, in the order of [`Tree::place_nodes`].
    pub fn dirty_nodes(&self) -> Vec<(u8, u64)> {
        let mut all = Vec::new();
        if let Root::Node(n) = &self.root {
            n.dirty_below(&mut all);
        }
        all
    }

    /// The pointer of the node of this level that has `key`.
    pub fn node_at(&mut self, level: u8, key: u64, from: &mut dyn Blocks) -> Result<Option<u64>> {
        match &mut self.root {
            Root::Node(n) if level < n.level => n.node_at(level, key, false, from),
            _ => Ok(None),
        }
    }

    /// Makes that node dirty.
    pub fn touch(&mut self, level: u8, key: u64, from: &mut dyn Blocks) -> Result<()> {
        if let Root::Node(n) = &mut self.root
            && level < n.level
        {
            self.dirty = true;
            n.node_at(level, key, true, from)?;
        }
        Ok(())
    }

    /// Tells of every pointer: level (0: blocks), key, pointer.
    pub fn walk(&mut self, from: &mut dyn Blocks, tell: &mut dyn FnMut(u8, u64, u64)) -> Result<()> {
        match &mut self.root {
            Root::Direct(ptrs) => {
                (0..).zip(ptrs.iter()).filter(|(_, p)| **p != 0).for_each(|(k, p)| tell(0, k, *p));
                Ok(())
            }
            Root::Node(n) => n.walk(from, tell),
        }
    }

    /// Lets go of clean nodes.
    pub fn evict(&mut self) {
        if let Root::Node(n) = &mut self.root {
            n.evict();
        }
    }
}
