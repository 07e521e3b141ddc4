//! [`SkipList`]: the second layer of the log index, one per 16 MB partition, ordered by page.
//!
//! ```text
//!   words:  | head tower | payload | link | payload | link | link | link | payload | link | ...
//!             node 0       node 8           node 10                        node 14
//!   link = key of the target << 16 | word number of the target
//! ```
//!
//! A node is one word of payload and as many links as it is tall, at its place in one array. A link carries
//! its target's key, so a search touches only the nodes that it moves to; the array of a partition (38 KiB if
//! it held all 4096 pages) fits the fast caches. Heights are geometric with p = 1/4: 2.33 words, 9.3 B, for
//! each page.
//!
//! Invariants: every level is strictly ascending; a node is on all levels below its height; freed nodes are
//! reused for nodes of the same height. It does *not* know what the payload means.
//!
//! Source: Pugh, "Skip lists: a probabilistic alternative to balanced trees" (1990); ByteFS section 4.3.

/// Tallest tower: 4^6 = 4096 pages.
const MAX_HEIGHT: usize = 7;
const NIL: u32 = u32::MAX;
const HEAD: usize = 0;
/// An ordered map from 12-bit keys to 32-bit payloads.
#[derive(Clone)]
pub struct SkipList {
    words: Vec<u32>,
    /// Heads of the lists of freed nodes, by height - 1.
    free: [u32; MAX_HEIGHT],
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
        SkipList { words, free: [NIL; MAX_HEIGHT], height: 1, len: 0 }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory taken.
    pub fn memory(&self) -> usize {
        self.words.capacity() * 4
    }

    /// The payload of `key`.
    #[inline]
    pub fn find(&self, key: u16) -> Option<u32> {
        self.search(key).map(|node| self.words[node])
    }

    /// The node of `key`.
    fn search(&self, key: u16) -> Option<usize> {
        let key = key as u32;
        let words = &self.words[..];
        let mut at = HEAD;
        for level in (0..self.height as usize).rev() {
            loop {
                let link = words[at + 1 + level];
                if key_of(link) < key {
                    at = node_of(link);
                } else if key_of(link) == key {
                    return Some(node_of(link));
                } else {
                    break;
                }
            }
        }
        None
    }

    /// The first key not below `key`.
    pub fn at_or_after(&self, key: u16) -> Option<u16> {
        let link = self.words[self.before(key, &mut [0; MAX_HEIGHT]) + 1];
        (link != NIL).then(|| key_of(link) as u16)
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

    /// Changes the payload of a key that the list has.
    pub fn set(&mut self, key: u16, payload: u32) {
        if let Some(node) = self.search(key) {
            self.words[node] = payload;
        }
    }

    /// Adds a key that the list does not have. `random` decides its height.
    pub fn insert(&mut self, key: u16, payload: u32, random: impl FnOnce() -> u64) {
        let mut path = [HEAD as u16; MAX_HEIGHT];
        self.before(key, &mut path);
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
        Some(payload)
    }

    /// All keys with their payloads, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        let mut link = self.words[HEAD + 1];
        std::iter::from_fn(move || {
            (link != NIL).then(|| {
                let (key, node) = (key_of(link) as u16, node_of(link));
                link = self.words[node + 1];
                (key, self.words[node])
            })
        })
    }
}
