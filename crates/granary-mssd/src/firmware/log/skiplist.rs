//! [`SkipList`]: the second layer of the log index, one per 16 MB partition, ordered by page.
//!
//! ```text
//!   words:  | head tower | payload | link | payload | link | link | link | payload | link | ...
//!             node 0       node 8           node 10                        node 14
//!   link = key of the target << 16 | word number of the target
//! ```
//!
//! A node is one word of payload and as many links as it is tall, at its place in one array. A link carries its target's
//! key, so a search touches only the nodes that it moves to; the array of a partition (at most 4096 pages, 38 KiB) fits
//! the fast caches. Heights are geometric with p = 1/4: 2.33 words, 9.3 B, for each page.
//!
//! A list that grows to 256 keys gets an *express* table, one 16-bit node number for each possible key (8 KiB): finding a key
//! then takes one step instead of a dozen cache misses. The links keep the order, for traversal and for what comes
//! next.
//!
//! Invariants: the express table, where it exists, names exactly the nodes of the list; every level is strictly ascending; a node is on all levels below its height; freed nodes are reused for
//! nodes of the same height. It does *not* know what the payload means.
//!
//! Source: Pugh, "Skip lists: a probabilistic alternative to balanced trees" (1990); ByteFS section 4.3.

/// Tallest tower: 4^6 = 4096 pages.
const MAX_HEIGHT: usize = 7;
const NIL: u32 = u32::MAX;
const HEAD: usize = 0;
/// Keys are below this.
const KEYS: usize = 4096;
/// Keys from which on a list has an express table: its 8 KiB are then at most 32 B for each key.
const EXPRESS: u16 = 256;

/// A place in the list; valid until its key is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node(u16);

/// An ordered map from 12-bit keys to 32-bit payloads.
pub struct SkipList {
    words: Vec<u32>,
    /// Heads of the lists of freed nodes, by height - 1.
    free: [u32; MAX_HEIGHT],
    /// Node of each key, `HEAD` for none.
    express: Option<Box<[u16; KEYS]>>,
    height: u8,
    len: u16,
}

fn key_of(link: u32) -> u32 {
    link >> 16
}

fn node_of(link: u32) -> usize {
    (link & 0xffff) as usize
}

impl SkipList {
    /// An empty list.
    pub fn new() -> SkipList {
        let mut words = Vec::with_capacity(16);
        words.push(0);
        words.extend([NIL; MAX_HEIGHT]);
        SkipList { words, free: [NIL; MAX_HEIGHT], express: None, height: 1, len: 0 }
    }

    /// Number of keys.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory taken.
    pub fn memory(&self) -> usize {
        let express = if self.express.is_some() { KEYS * 2 } else { 0 };
        self.words.capacity() * 4 + express + size_of::<SkipList>()
    }

    /// The node of `key`.
    #[inline]
    pub fn find(&self, key: u16) -> Option<Node> {
        if let Some(express) = &self.express {
            let node = express[key as usize];
            return (node as usize != HEAD).then_some(Node(node));
        }
        self.search(key)
    }

    fn search(&self, key: u16) -> Option<Node> {
        let key = key as u32;
        let words = &self.words[..];
        let mut at = HEAD;
        for level in (0..self.height as usize).rev() {
            loop {
                let link = words[at + 1 + level];
                if key_of(link) < key {
                    at = node_of(link);
                } else if key_of(link) == key {
                    return Some(Node(link as u16));
                } else {
                    break;
                }
            }
        }
        None
    }

    /// The first key not below `key`, with its node.
    pub fn at_or_after(&self, key: u16) -> Option<(u16, Node)> {
        let link = self.words[self.before(key, &mut [0; MAX_HEIGHT]) + 1];
        (link != NIL).then(|| (key_of(link) as u16, Node(link as u16)))
    }

    /// The last node below `key` on each level; returns the one on the lowest.
    fn before(&self, key: u16, path: &mut [u16; MAX_HEIGHT]) -> usize {
        let mut at = HEAD;
        for level in (0..self.height as usize).rev() {
            while key_of(self.words[at + 1 + level]) < key as u32 {
                at = node_of(self.words[at + 1 + level]);
            }
            path[level] = at as u16;
        }
        at
    }

    /// The payload of a node.
    #[inline]
    pub fn payload(&self, node: Node) -> u32 {
        self.words[node.0 as usize]
    }

    /// Changes the payload of a node.
    #[inline]
    pub fn set_payload(&mut self, node: Node, payload: u32) {
        self.words[node.0 as usize] = payload;
    }

    /// The node of `key`, made with `payload` where it did not exist. `random` decides its height.
    pub fn find_or_insert(&mut self, key: u16, payload: u32, random: impl FnOnce() -> u64) -> Node {
        assert!((key as usize) < KEYS);
        if self.express.is_some()
            && let Some(node) = self.find(key)
        {
            return node;
        }
        let mut path = [HEAD as u16; MAX_HEIGHT];
        let at = self.before(key, &mut path);
        let link = self.words[at + 1];
        if key_of(link) == key as u32 {
            return Node(link as u16);
        }
        let height = (1 + random().trailing_zeros() as usize / 2).min(MAX_HEIGHT);
        self.height = self.height.max(height as u8);
        let node = self.allocate(height);
        self.words[node] = payload;
        for (level, &prev) in path.iter().enumerate().take(height) {
            let prev = prev as usize;
            self.words[node + 1 + level] = self.words[prev + 1 + level];
            self.words[prev + 1 + level] = (key as u32) << 16 | node as u32;
        }
        self.len += 1;
        match &mut self.express {
            Some(express) => express[key as usize] = node as u16,
            None if self.len == EXPRESS => self.build_express(),
            None => {}
        }
        Node(node as u16)
    }

    fn build_express(&mut self) {
        let mut express = Box::new([HEAD as u16; KEYS]);
        for (key, node) in self.iter() {
            express[key as usize] = node.0;
        }
        self.express = Some(express);
    }

    fn allocate(&mut self, height: usize) -> usize {
        let head = self.free[height - 1];
        if head != NIL {
            self.free[height - 1] = self.words[head as usize];
            return head as usize;
        }
        let node = self.words.len();
        assert!(node + height < 0xffff, "a partition's skip list outgrows its 16-bit links");
        if self.words.capacity() < node + 1 + height {
            // By a quarter, not by half: the index should be small.
            self.words.reserve_exact((node / 4).max(16));
        }
        self.words.extend(std::iter::repeat_n(NIL, 1 + height));
        node
    }

    /// Removes `key`; returns its payload.
    pub fn remove(&mut self, key: u16) -> Option<u32> {
        let mut path = [HEAD as u16; MAX_HEIGHT];
        let at = self.before(key, &mut path);
        let link = self.words[at + 1];
        if key_of(link) != key as u32 {
            return None;
        }
        let node = node_of(link);
        let mut height = 0;
        for (level, &prev) in path.iter().enumerate().take(self.height as usize) {
            let prev = prev as usize;
            if self.words[prev + 1 + level] == link {
                self.words[prev + 1 + level] = self.words[node + 1 + level];
                height = level + 1;
            }
        }
        let payload = self.words[node];
        self.words[node] = self.free[height - 1];
        self.free[height - 1] = node as u32;
        self.len -= 1;
        if let Some(express) = &mut self.express {
            express[key as usize] = HEAD as u16;
        }
        Some(payload)
    }

    /// All keys with their nodes, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Node)> + '_ {
        let mut link = self.words[HEAD + 1];
        std::iter::from_fn(move || {
            (link != NIL).then(|| {
                let this = (key_of(link) as u16, Node(link as u16));
                link = self.words[node_of(link) + 1];
                this
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;
    use std::collections::BTreeMap;

    #[test]
    fn behaves_like_an_ordered_map() {
        let mut rng = Stream::new(1, "skiplist");
        let mut list = SkipList::new();
        let mut map = BTreeMap::new();
        for step in 0..60_000u32 {
            // Grows to all 4096 keys, then shrinks again.
            let key = rng.below(4096) as u16;
            let grow = if step < 40_000 { 0.8 } else { 0.3 };
            if rng.chance(grow) {
                let node = list.find_or_insert(key, step, || rng.next_u64());
                let was = *map.entry(key).or_insert(step);
                assert_eq!(list.payload(node), was);
            } else {
                assert_eq!(list.remove(key), map.remove(&key));
            }
            let probe = rng.below(4096) as u16;
            assert_eq!(list.find(probe).map(|n| list.payload(n)), map.get(&probe).copied());
            assert_eq!(list.find(probe), list.search(probe), "express and links");
            let next = map.range(probe..).next().map(|(&k, &v)| (k, v));
            assert_eq!(list.at_or_after(probe).map(|(k, n)| (k, list.payload(n))), next);
            assert_eq!(list.len(), map.len());
        }
        let all: Vec<_> = list.iter().map(|(k, n)| (k, list.payload(n))).collect();
        assert_eq!(all, map.into_iter().collect::<Vec<_>>());
    }
}
