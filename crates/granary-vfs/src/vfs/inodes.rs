//! [`InodeTable`]: the nodes in memory, by number, and which of them to let go.
//!
//! ```text
//!   pages: number / 64 --> 64 nodes       numbers in use lie close together, so that the pages' own index
//!                                         stays in the
//!                                         processor's caches; a page without nodes goes
//!   clock: number, number, free, ...      a node knows its place
//! ```
//!
//! A clock hand passes over nodes without users: one that was looked up since the hand's last visit gets a
//! second chance, the next goes (an approximation of LRU, as Linux's inode list).

use super::node::Node;
use granary_fs::Ino;
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

#[cfg(test)]
mod tests {
    use super::super::names::NameCache;
    use super::*;
    use granary_fs::{Attr, FileKind, Loaded, Time};
    use granary_sim::rng::Stream;
    use std::collections::BTreeMap;

    /// Numbers close together and far apart come, go and are let go of; what the table holds is what a plain
    /// map holds.
    #[test]
    fn the_table_is_a_map_and_lets_go_of_what_it_holds() {
        let home = NameCache::new(1, 1);
        let (mut table, mut map) = (InodeTable::default(), BTreeMap::new());
        let (mut rng, mut let_go) = (Stream::new(1, "inodes"), 0);
        for step in 0..20_000 {
            let ino = Ino(if rng.chance(0.5) { rng.below(300) } else { rng.below(300) << 40 });
            match rng.below(4) {
                0 => assert_eq!(table.remove(ino).map(|n| n.key), map.remove(&ino.0)),
                1 if step % 8 == 0 => {
                    if let Some(gone) = table.victim(500) {
                        assert_eq!(map.remove(&gone.ino().0), Some(gone.key));
                        let_go += 1;
                    }
                }
                _ if !map.contains_key(&ino.0) => {
                    let attr = Attr::new(FileKind::File, 0o644, Time(0));
                    let node = Node::new(&home, ino, Loaded { attr, private: Arc::new(()) });
                    map.insert(ino.0, node.key);
                    table.insert(node);
                }
                _ => {}
            }
            assert_eq!(table.get(ino).map(|n| n.key), map.get(&ino.0).copied());
            assert_eq!(table.len(), map.len());
        }
        assert!(let_go > 100, "{let_go}");
        let held: Vec<_> = table.all().iter().map(|n| (n.ino().0, n.key)).collect();
        assert_eq!(held, map.into_iter().collect::<Vec<_>>());
        assert!(table.pages.values().all(|p| p.held == p.nodes.iter().flatten().count() && p.held > 0));
    }
}
