//! [`InodeTable`]: the nodes in memory, by number, and which of them to let go.
//!
//! A clock hand passes over nodes without users: one that was looked up since the hand's last visit gets a second
//! chance, the next goes (an approximation of LRU, as Linux's inode list).

use super::node::Node;
use crate::attr::Ino;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// See the module.
#[derive(Default)]
pub(super) struct InodeTable {
    index: FxHashMap<Ino, u32>,
    nodes: Vec<Option<Arc<Node>>>,
    free: Vec<u32>,
    hand: usize,
}

impl InodeTable {
    pub(super) fn get(&self, ino: Ino) -> Option<&Arc<Node>> {
        let at = *self.index.get(&ino)?;
        let node = self.nodes[at as usize].as_ref();
        if let Some(n) = node
            && !n.referenced.load(Relaxed)
        {
            n.referenced.store(true, Relaxed);
        }
        node
    }

    /// # Panics
    /// Where the number is taken: a file system created an inode whose number is in use.
    pub(super) fn insert(&mut self, node: Arc<Node>) {
        let ino = node.ino();
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.nodes.push(None);
                (self.nodes.len() - 1) as u32
            }
        };
        self.nodes[at as usize] = Some(node);
        let old = self.index.insert(ino, at);
        assert!(old.is_none(), "{ino} was created while it is in use");
    }

    pub(super) fn remove(&mut self, ino: Ino) -> Option<Arc<Node>> {
        let at = self.index.remove(&ino)?;
        self.free.push(at);
        self.nodes[at as usize].take()
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// A node without users to let go, if the hand meets one within `steps`.
    pub(super) fn victim(&mut self, steps: usize) -> Option<Arc<Node>> {
        for _ in 0..steps.min(2 * self.nodes.len()) {
            let at = self.hand % self.nodes.len();
            self.hand = at + 1;
            if let Some(node) = &self.nodes[at]
                && node.users() == 0
                && !node.referenced.swap(false, Relaxed)
            {
                let ino = node.ino();
                return self.remove(ino);
            }
        }
        None
    }

    /// All nodes, by number.
    pub(super) fn all(&self) -> Vec<Arc<Node>> {
        let mut all: Vec<_> = self.nodes.iter().flatten().cloned().collect();
        all.sort_by_key(|n| n.ino());
        all
    }
}
