//! [`Tree`]: a B+tree on persistent memory in the manner of FAST&FAIR: an entry moves up a node by ordered
//! stores, and a split is seen by sibling pointers before its parent knows.
//!
//! ```text
//!   node, 512 B   0 level 4 | 4 entries 4 | 8 right sibling 8 | 16 leftmost child 8 | 24 zero 8
//!                 32 entries of 16: key 8, value 8
//!   leaf          key: first cluster + 1; value: clusters in the upper half, first cluster of the data in
//!                 the lower
//!   above         value: byte address of the child whose keys begin there
//! ```
//!
//! Eight nodes are in a cluster. Its root is in host memory: a file system with files would keep it in their
//! inodes.
//!
//! Source: Hwang et al., "Endurable Transient Inconsistency in Byte-Addressable Persistent B+-Tree", FAST
//! 2018: nodes of 512 B, shifting (Algorithm 1), split (Algorithm 2). Its lock-free reads are not needed
//! here.

use crate::store::Store;
use granary_device::Structure;
use granary_fs::{FsError, Result};
use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};
use granary_pm::{BLOCK, corrupt};
use granary_units::LINE_SIZE;

/// Bytes of a node (FAST&FAIR's).
const NODE: usize = 512;
const HEAD: usize = 32;
const ENTRY: usize = 16;
const ENTRIES: usize = (NODE - HEAD) / ENTRY;
const WHAT: Structure = Structure::DataPointer;

/// See the module.
pub struct Tree {
    root: u64,
    /// Places for nodes in the cluster that was taken last.
    places: Vec<u64>,
}

/// A node in host memory.
struct Node {
    at: u64,
    level: u32,
    sibling: u64,
    leftmost: u64,
    entries: Vec<(u64, u64)>,
}

impl Node {
    /// Loads a node: its head, then as many lines as its entries take.
    fn load(store: &Store, at: u64) -> Result<Node> {
        let mut b = [0; NODE];
        store.pm.load(at, &mut b[..LINE_SIZE], WHAT)?;
        let count = u32_at(&b, 4) as usize;
        if count > ENTRIES {
            return Err(corrupt(format!("a node of a tree has {count} entries")));
        }
        let end = (HEAD + count * ENTRY).next_multiple_of(LINE_SIZE);
        if end > LINE_SIZE {
            store.pm.load(at + LINE_SIZE as u64, &mut b[LINE_SIZE..end], WHAT)?;
        }
        let entry = |i: usize| (u64_at(&b, HEAD + i * ENTRY), u64_at(&b, HEAD + i * ENTRY + 8));
        let entries = (0..count).map(entry).collect();
        Ok(Node { at, level: u32_at(&b, 0), sibling: u64_at(&b, 8), leftmost: u64_at(&b, 16), entries })
    }

    fn bytes(&self) -> [u8; NODE] {
        let mut b = [0; NODE];
        put_u32(&mut b, 0, self.level);
        put_u32(&mut b, 4, self.entries.len() as u32);
        put_u64(&mut b, 8, self.sibling);
        put_u64(&mut b, 16, self.leftmost);
        for (i, (key, value)) in self.entries.iter().enumerate() {
            put_u64(&mut b, HEAD + i * ENTRY, *key);
            put_u64(&mut b, HEAD + i * ENTRY + 8, *value);
        }
        b
    }

    /// Where a key's entry, or the child that has it, is; 0 of a node above: the leftmost.
    fn position(&self, key: u64) -> usize {
        self.entries.partition_point(|(k, _)| *k <= key)
    }

    fn child(&self, key: u64) -> u64 {
        self.position(key).checked_sub(1).map_or(self.leftmost, |i| self.entries[i].1)
    }

    /// Puts an entry in its place: those behind move up first, the last one first, each line fenced before
    /// the one below it changes.
    fn put(&mut self, store: &Store, key: u64, value: u64) -> Result<()> {
        let at = self.position(key);
        self.entries.insert(at, (key, value));
        let mut b = store.pm.batch();
        let address = |i: usize| self.at + (HEAD + i * ENTRY) as u64;
        for i in (at..self.entries.len()).rev() {
            let (key, value) = self.entries[i];
            // The value first: an entry with the key of its neighbour is passed over by who reads meanwhile.
            b.put_u64(address(i) + 8, value, WHAT)?;
            b.put_u64(address(i), key, WHAT)?;
            if address(i).is_multiple_of(LINE_SIZE as u64) {
                b.fence()?;
            }
        }
        b.put_u32(self.at + 4, self.entries.len() as u32, WHAT)?;
        b.fence()
    }
}

impl Tree {
    /// An empty one.
    ///
    /// # Errors
    /// `NoSpace`; the device's.
    pub fn new(store: &Store) -> Result<Tree> {
        let mut tree = Tree { root: 0, places: Vec::new() };
        tree.root = tree.made(store, 0, 0, Vec::new(), 0)?;
        Ok(tree)
    }

    /// A new node, durable.
    fn made(
        &mut self,
        store: &Store,
        level: u32,
        leftmost: u64,
        entries: Vec<(u64, u64)>,
        sibling: u64,
    ) -> Result<u64> {
        if self.places.is_empty() {
            let (cluster, _) = store.clusters.data(1).ok_or(FsError::NoSpace)?;
            self.places = (0..BLOCK / NODE as u64).rev().map(|i| cluster * BLOCK + i * NODE as u64).collect();
        }
        let at = self.places.pop().ok_or(FsError::NoSpace)?;
        let node = Node { at, level, sibling, leftmost, entries };
        let mut b = store.pm.batch();
        b.put(at, &node.bytes(), WHAT)?;
        b.fence()?;
        Ok(at)
    }

    /// The last extent that begins at this cluster or before: its first cluster, clusters, first cluster of
    /// the data.
    ///
    /// # Errors
    /// `Corrupt`; the device's.
    pub fn find(&self, store: &Store, lcn: u32) -> Result<Option<(u32, u32, u32)>> {
        let key = u64::from(lcn) + 1;
        let mut node = Node::load(store, self.root)?;
        while node.level > 0 {
            node = Node::load(store, node.child(key))?;
        }
        let found = node.position(key).checked_sub(1).map(|i| node.entries[i]);
        Ok(found.map(|(key, value)| ((key - 1) as u32, (value >> 32) as u32, value as u32)))
    }

    /// Enters an extent: clusters, first cluster of the data.
    ///
    /// # Errors
    /// `NoSpace`; the device's.
    pub fn insert(&mut self, store: &Store, lcn: u32, (len, pcn): (u32, u32)) -> Result<()> {
        let (key, value) = (u64::from(lcn) + 1, u64::from(len) << 32 | u64::from(pcn));
        let mut path = vec![Node::load(store, self.root)?];
        while let Some(above) = path.last().filter(|node| node.level > 0) {
            let child = Node::load(store, above.child(key))?;
            path.push(child);
        }
        let (mut key, mut value) = (key, value);
        while let Some(mut node) = path.pop() {
            if node.entries.len() < ENTRIES {
                return node.put(store, key, value);
            }
            // The upper half goes to a new right sibling, which is seen by the node's pointer before its
            // parent knows.
            let mut upper = node.entries.split_off(ENTRIES / 2);
            let (first, leftmost) = match node.level {
                0 => (upper[0].0, 0),
                // The first of a node above becomes its leftmost child.
                _ => upper.remove(0),
            };
            let right = self.made(store, node.level, leftmost, upper, node.sibling)?;
            let mut b = store.pm.batch();
            b.put_u64(node.at + 8, right, WHAT)?;
            b.fence()?;
            b.put_u32(node.at + 4, node.entries.len() as u32, WHAT)?;
            b.fence()?;
            let mut half = if key < first { node } else { Node::load(store, right)? };
            half.put(store, key, value)?;
            let level = half.level;
            if path.is_empty() {
                let left = self.root;
                self.root = self.made(store, level + 1, left, vec![(first, right)], 0)?;
                return Ok(());
            }
            (key, value) = (first, right);
        }
        Ok(())
    }
}
