//! [`InodeTable`]: the nodes in memory, by number, and which of them to let go.
//!
//! ```text
//!   pages: number / 64 --> 64 nodes       numbers in use lie close together, so that the pages' own index stays in the
//!                                         processor's caches; a page without nodes goes
//!   clock: number, number, free, ...      a node knows its place
//! ```
//!
//! A clock hand passes over nodes without users: one that was looked up since the hand's last visit gets a second
//! chance, the next goes (an approximation of LRU, as Linux's inode list).

use super::node::Node;
use crate::attr::Ino;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Nodes to a page.
const PAGE: usize = 64;

/// Neighbours by number.
struct Page {
    nodes: [Option<Arc<Node>>; PAGE],
    held: usize,
}

/// See the module.
#[derive(Default)]
pub(super) struct InodeTable {
    pages: FxHashMap<u64, Box<Page>>,
    clock: Vec<Option<Ino>>,
    free: Vec<u32>,
    hand: usize,
}

fn place(ino: Ino) -> (u64, usize) {
    (ino.0 / PAGE as u64, (ino.0 % PAGE as u64) as usize)
}

impl InodeTable {
    fn look(&self, ino: Ino) -> Option<&Arc<Node>> {
        let (page, at) = place(ino);
        self.pages.get(&page)?.nodes[at].as_ref()
    }

    pub(super) fn get(&self, ino: Ino) -> Option<&Arc<Node>> {
        let node = self.look(ino);
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
        let on_clock = match self.free.pop() {
            Some(at) => at,
            None => {
                self.clock.push(None);
                (self.clock.len() - 1) as u32
            }
        };
        self.clock[on_clock as usize] = Some(ino);
        node.on_clock.store(on_clock, Relaxed);
        let (page, at) = place(ino);
        let empty = || Box::new(Page { nodes: [const { None }; PAGE], held: 0 });
        let page = self.pages.entry(page).or_insert_with(empty);
        let old = page.nodes[at].replace(node);
        assert!(old.is_none(), "{ino} was created while it is in use");
        page.held += 1;
    }

    pub(super) fn remove(&mut self, ino: Ino) -> Option<Arc<Node>> {
        let (page, at) = place(ino);
        let Entry::Occupied(mut page) = self.pages.entry(page) else { return None };
        let node = page.get_mut().nodes[at].take()?;
        page.get_mut().held -= 1;
        if page.get().held == 0 {
            page.remove();
        }
        let on_clock = node.on_clock.load(Relaxed);
        self.clock[on_clock as usize] = None;
        self.free.push(on_clock);
        Some(node)
    }

    pub(super) fn len(&self) -> usize {
        self.clock.len() - self.free.len()
    }

    /// A node without users to let go, if the hand meets one within `steps`.
    pub(super) fn victim(&mut self, steps: usize) -> Option<Arc<Node>> {
        for _ in 0..steps.min(2 * self.clock.len()) {
            let at = self.hand % self.clock.len();
            self.hand = at + 1;
            if let Some(ino) = self.clock[at]
                && let Some(node) = self.look(ino)
                && node.users() == 0
                && !node.referenced.swap(false, Relaxed)
            {
                return self.remove(ino);
            }
        }
        None
    }

    /// All nodes, by number.
    pub(super) fn all(&self) -> Vec<Arc<Node>> {
        let mut all: Vec<_> = self.pages.values().flat_map(|p| p.nodes.iter().flatten()).cloned().collect();
        all.sort_by_key(|n| n.ino());
        all
    }
}
