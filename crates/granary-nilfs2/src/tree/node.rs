//! [`Node`]: one node of a B-tree, with those of its children that are in memory.
//!
//! ```text
//!   block:  0 level 1 | children 2 | 0 .. 16 | keys 255 x 8 | pointers 255 x 8
//! ```

use super::Blocks;
use crate::layout::{BLOCK_SIZE, BlockBytes, corrupt, le16, le64, put16, put64};
use granary_device::Structure;
use granary_fs::Result;
use granary_units::Page;

/// Children of a node (Linux 6.1, NILFS_BTREE_NODE_NCHILDREN_MAX of 4 KiB).
pub(crate) const CHILDREN: usize = (BLOCK_SIZE - KEYS) / 16;
const KEYS: usize = 16;
const PTRS: usize = KEYS + 8 * CHILDREN;
/// More levels than any file needs.
const MOST_LEVELS: u8 = 12;

/// See the module.
pub(crate) struct Node {
    /// 1 is the lowest: its pointers are to blocks.
    pub level: u8,
    pub keys: Vec<u64>,
    pub ptrs: Vec<u64>,
    kids: Vec<Option<Box<Node>>>,
    pub dirty: bool,
}

impl Node {
    /// A node of these entries.
    ///
    /// # Errors
    /// `Corrupt` where they do not ascend, or the level is impossible.
    pub fn new(level: u8, keys: Vec<u64>, ptrs: Vec<u64>) -> Result<Node> {
        let ascending = keys.windows(2).all(|w| w[0] < w[1]);
        if !(1..=MOST_LEVELS).contains(&level) || !ascending || level > 1 && keys.is_empty() {
            return Err(corrupt(format!("a B-tree node of level {level} with {} children", keys.len())));
        }
        let kids = if level > 1 { keys.iter().map(|_| None).collect() } else { Vec::new() };
        Ok(Node { level, keys, ptrs, kids, dirty: false })
    }

    /// Reads one.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn parse(b: &BlockBytes, level: u8, first: u64) -> Result<Node> {
        let n = le16(b, 2) as usize;
        if b[0] != level || n == 0 || n > CHILDREN || le64(b, KEYS) < first {
            return Err(corrupt(format!("no B-tree node of level {level} from key {first} on")));
        }
        let words = |base: usize| (0..n).map(|i| le64(b, base + 8 * i)).collect();
        Node::new(level, words(KEYS), words(PTRS))
    }

    /// Its block.
    pub fn encode(&self) -> Page {
        let mut b = [0; BLOCK_SIZE];
        b[0] = self.level;
        put16(&mut b, 2, self.keys.len() as u16);
        self.keys.iter().enumerate().for_each(|(i, k)| put64(&mut b, KEYS + 8 * i, *k));
        self.ptrs.iter().enumerate().for_each(|(i, p)| put64(&mut b, PTRS + 8 * i, *p));
        Page::from_bytes(&b)
    }

    /// The entry that has `key`, or the last one before it.
    fn at(&self, key: u64) -> Option<usize> {
        self.keys.partition_point(|k| *k <= key).checked_sub(1)
    }

    fn kid(&mut self, i: usize, from: &mut dyn Blocks) -> Result<&mut Node> {
        let (level, first, ptr) = (self.level - 1, self.keys[i], self.ptrs[i]);
        let kid = &mut self.kids[i];
        if kid.is_none() {
            let page = from.load(ptr, Structure::DataPointer)?;
            *kid = Some(Box::new(page.with_bytes(|b| Node::parse(b, level, first))?));
        }
        kid.as_deref_mut().ok_or_else(|| corrupt("a B-tree lost a node"))
    }

    pub fn lookup(&mut self, key: u64, from: &mut dyn Blocks) -> Result<Option<u64>> {
        let Some(i) = self.at(key) else { return Ok(None) };
        match self.level {
            1 => Ok((self.keys[i] == key).then_some(self.ptrs[i])),
            _ => self.kid(i, from)?.lookup(key, from),
        }
    }

    pub fn next(&mut self, key: u64, from: &mut dyn Blocks) -> Result<Option<(u64, u64)>> {
        if self.level == 1 {
            let i = self.keys.partition_point(|k| *k < key);
            return Ok(self.keys.get(i).map(|k| (*k, self.ptrs[i])));
        }
        for i in self.at(key).unwrap_or(0)..self.keys.len() {
            if let Some(found) = self.kid(i, from)?.next(key, from)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Sets a pointer; overflow becomes a new right sibling. `made`: entries and nodes that came.
    pub fn set(&mut self, key: u64, ptr: u64, from: &mut dyn Blocks, made: &mut u64) -> Result<Option<Node>> {
        self.dirty = true;
        if self.level == 1 {
            match self.keys.binary_search(&key) {
                Ok(i) => self.ptrs[i] = ptr,
                Err(i) => {
                    self.keys.insert(i, key);
                    self.ptrs.insert(i, ptr);
                    *made += 1;
                    return Ok(self.split(i));
                }
            }
            return Ok(None);
        }
        let i = self.at(key).unwrap_or(0);
        let more = self.kid(i, from)?.set(key, ptr, from, made)?;
        self.keys[i] = self.keys[i].min(key);
        let Some(right) = more else { return Ok(None) };
        *made += 1;
        self.adopt(i + 1, right);
        Ok(self.split(i + 1))
    }

    fn adopt(&mut self, i: usize, kid: Node) {
        self.keys.insert(i, kid.keys[0]);
        self.ptrs.insert(i, 0);
        self.kids.insert(i, Some(Box::new(kid)));
    }

    /// The right part of a node that has too many entries since it got this one: that one alone where it is
    /// the last, else half. A node that is full of what lies behind a hole must not lose one entry for each
    /// that comes before them.
    fn split(&mut self, newest: usize) -> Option<Node> {
        if self.keys.len() <= CHILDREN {
            return None;
        }
        let at = if newest == CHILDREN { CHILDREN } else { self.keys.len() / 2 };
        let kids = if self.level > 1 { self.kids.split_off(at) } else { Vec::new() };
        Some(Node {
            level: self.level,
            keys: self.keys.split_off(at),
            ptrs: self.ptrs.split_off(at),
            kids,
            dirty: true,
        })
    }

    /// The root's entries move to a node below it, which gets a sibling where there is one.
    pub fn push_down(&mut self, right: Option<Node>) {
        let level = self.level + 1;
        let root = Node { level, keys: Vec::new(), ptrs: Vec::new(), kids: Vec::new(), dirty: true };
        let mut below = std::mem::replace(self, root);
        below.dirty = true;
        self.adopt(0, below);
        if let Some(right) = right {
            self.adopt(1, right);
        }
    }

    /// The root takes over the entries of its only child, where it has room; the child's pointer.
    pub fn pull_up(&mut self, from: &mut dyn Blocks) -> Result<Option<u64>> {
        if self.level == 1 {
            return Ok(None);
        }
        if self.keys.is_empty() {
            *self = Node { level: 1, keys: Vec::new(), ptrs: Vec::new(), kids: Vec::new(), dirty: true };
            return Ok(None);
        }
        if self.keys.len() > 1 || self.kid(0, from)?.keys.len() > super::ROOT_CHILDREN {
            return Ok(None);
        }
        let ptr = self.ptrs[0];
        if let Some(kid) = self.kids[0].take() {
            *self = *kid;
            self.dirty = true;
        }
        Ok(Some(ptr))
    }

    /// Reads all nodes that a cut at `key` needs.
    pub fn load_from(&mut self, key: u64, from: &mut dyn Blocks) -> Result<()> {
        if self.level > 1 {
            for i in self.at(key).unwrap_or(0)..self.keys.len() {
                self.kid(i, from)?.load_from(key, from)?;
            }
        }
        Ok(())
    }

    /// Removes entries from `key` on; all nodes are in memory. `gone`: entries and nodes.
    pub fn cut(&mut self, key: u64, freed: &mut Vec<u64>, gone: &mut u64) {
        let before = *gone;
        if self.level == 1 {
            let i = self.keys.partition_point(|k| *k < key);
            *gone += (self.keys.len() - i) as u64;
            self.keys.truncate(i);
            freed.extend(self.ptrs.drain(i..));
        } else {
            for i in (self.at(key).unwrap_or(0)..self.keys.len()).rev() {
                let Some(kid) = &mut self.kids[i] else { continue };
                kid.cut(key, freed, gone);
                if kid.keys.is_empty() {
                    *gone += 1;
                    freed.extend(Some(self.ptrs[i]).filter(|p| *p != 0));
                    self.keys.truncate(i);
                    self.ptrs.truncate(i);
                    self.kids.truncate(i);
                }
            }
        }
        self.dirty |= *gone > before;
    }

    /// Removes one entry, where it is, and the nodes that have nothing left; all nodes on the way are in
    /// memory. As [`Node::cut`].
    pub fn remove(&mut self, key: u64, freed: &mut Vec<u64>, gone: &mut u64) {
        let before = *gone;
        let Some(i) = self.at(key) else { return };
        if self.level == 1 {
            if self.keys[i] == key {
                self.keys.remove(i);
                freed.push(self.ptrs.remove(i));
                *gone += 1;
            }
        } else if let Some(kid) = &mut self.kids[i] {
            kid.remove(key, freed, gone);
            if kid.keys.is_empty() {
                *gone += 1;
                freed.extend(Some(self.ptrs[i]).filter(|p| *p != 0));
                self.keys.remove(i);
                self.ptrs.remove(i);
                self.kids.remove(i);
            }
        }
        self.dirty |= *gone > before;
    }

    pub fn place(&mut self, place: &mut dyn FnMut(&Node, u64) -> Result<u64>) -> Result<()> {
        for i in 0..self.kids.len() {
            if let Some(kid) = &mut self.kids[i]
                && kid.dirty
            {
                kid.place(place)?;
                kid.dirty = false;
                self.ptrs[i] = place(kid, self.ptrs[i])?;
            }
        }
        Ok(())
    }

    pub fn dirty_below(&self, all: &mut Vec<(u8, u64)>) {
        for kid in self.kids.iter().flatten().filter(|k| k.dirty) {
            kid.dirty_below(all);
            all.push((kid.level, kid.keys.first().copied().unwrap_or(0)));
        }
    }

    /// The pointer of the node of a lower level that has `key`; with `touch` it and what is above it become
    /// dirty.
    pub fn node_at(
        &mut self,
        level: u8,
        key: u64,
        touch: bool,
        from: &mut dyn Blocks,
    ) -> Result<Option<u64>> {
        let Some(i) = self.at(key) else { return Ok(None) };
        self.dirty |= touch;
        let ptr = self.ptrs[i];
        let here = self.level == level + 1;
        if here && !touch {
            return Ok(Some(ptr));
        }
        let kid = self.kid(i, from)?;
        if here {
            kid.dirty = true;
            return Ok(Some(ptr));
        }
        kid.node_at(level, key, touch, from)
    }

    pub fn walk(&mut self, from: &mut dyn Blocks, tell: &mut dyn FnMut(u8, u64, u64)) -> Result<()> {
        for i in 0..self.keys.len() {
            tell(self.level - 1, self.keys[i], self.ptrs[i]);
            if self.level > 1 {
                self.kid(i, from)?.walk(from, tell)?;
            }
        }
        Ok(())
    }

    pub fn evict(&mut self) {
        for kid in &mut self.kids {
            match kid {
                Some(k) if k.dirty => k.evict(),
                _ => *kid = None,
            }
        }
    }
}

#[cfg(test)]
mod tests;
