//! [`NameCache`]: dentry and inode cache under one short lock.
//!
//! ```text
//!   an inode number:   unknown --load--> cached --no users, clock hand--> leaving --release--> unknown
//!                        (busy)                 \--no users, no links---> leaving --evict----> free
//! ```
//!
//! A number is *busy* while its inode is being loaded, released or evicted; who wants it waits. A freshly
//! created inode may take over the number of one whose eviction is about to return.
//!
//! Invariant: the lock is never held across a wait, and no [`NodeRef`] or last `Arc<Node>` is dropped under
//! it.

use super::acls::Which;
use super::dentries::{DentryTable, Hit};
use super::inodes::InodeTable;
use super::node::{Farewell, Node, NodeRef, drop_users};
use crate::Access;
use crate::gate::Gate;
use crate::vfs::perm;
use granary_fs::{Cred, FileKind, FsError, Ino, Result, changing_names};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct Names {
    dentries: DentryTable,
    inodes: InodeTable,
    busy: Vec<Ino>,
    orphans: Vec<Arc<Node>>,
    /// Write-back errors that nobody was told of, of inodes that have left memory.
    errors: FxHashMap<Ino, FsError>,
}

/// See the module.
pub(super) struct NameCache {
    names: Mutex<Names>,
    capacity: usize,
    keys: AtomicU64,
    /// A node waits to be evicted or released.
    due: AtomicBool,
    /// Opens when a number is no longer busy.
    idle: Gate,
}

/// Result of a look into the cache.
pub(super) enum Cached {
    /// Here it is.
    Node(NodeRef),
    /// The name stands for this inode, which is not in memory.
    Number(Ino),
    /// There is no such name.
    Absent,
    /// Not known here.
    Unknown,
}

/// Ways of a node out of memory. It is busy until [`NameCache::left`].
pub(super) enum Leaving {
    /// It has no links: free it.
    Evict(Arc<Node>),
    /// It was not used for long: let it go.
    Release(Arc<Node>),
}

/// Next step to get a node that is not cached.
pub(super) enum Claim {
    Node(NodeRef),
    /// It has lost its last link, and waits to be evicted.
    Gone,
    /// Somebody loads or releases it: wait, ask again.
    Wait,
    /// The caller is to load it; it is busy until [`NameCache::loaded`].
    Load,
}

impl NameCache {
    pub(super) fn new(dentries: usize, inodes: usize) -> Arc<NameCache> {
        Arc::new(NameCache {
            names: Mutex::new(Names {
                dentries: DentryTable::new(dentries),
                inodes: InodeTable::default(),
                busy: Vec::new(),
                orphans: Vec::new(),
                errors: FxHashMap::default(),
            }),
            capacity: inodes.max(1),
            keys: AtomicU64::new(0),
            due: AtomicBool::new(false),
            idle: Gate::default(),
        })
    }

    pub(super) fn next_key(&self) -> u64 {
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    /// The cache's knowledge of `name` in `dir`.
    pub(super) fn child(&self, dir: &Node, name: &[u8]) -> Cached {
        let names = &mut *self.names.lock();
        match names.dentries.get(dir.key, name) {
            Hit::Unknown => Cached::Unknown,
            Hit::Absent => Cached::Absent,
            Hit::Present(ino) => {
                let Some(node) = names.inodes.get(ino) else { return Cached::Number(ino) };
                Node::prefetch(node);
                Cached::Node(NodeRef::new(node))
            }
        }
    }

    /// Walks from `dir` down `path` from `*at` on as far as the cache knows the way, but not into the last
    /// component, a symbolic link, or "..". Counts the components. `None`: not a step.
    pub(super) fn walk(
        &self,
        cred: &Cred,
        dir: &NodeRef,
        path: &[u8],
        at: &mut usize,
        count: &mut u64,
    ) -> Result<Option<NodeRef>> {
        let guard = &mut *self.names.lock();
        let Names { dentries, inodes, .. } = guard;
        let mut here = dir.arc();
        loop {
            let (name, next) = perm::component(path, *at);
            if next == path.len() {
                dentries.prefetch(here.key, name);
                break;
            }
            if !here.has_no_acl(Which::Access) && !here.view(|a| perm::mode_decides(cred, a)) {
                // A list may decide, which cannot be read here.
                break;
            }
            if !here.view(|a| perm::permits(cred, a, Access::EXEC)) {
                return Err(FsError::Access);
            }
            if name != b"." {
                let Hit::Present(ino) = dentries.get(here.key, name) else { break };
                let Some(node) = inodes.get(ino) else { break };
                match node.kind() {
                    FileKind::Dir => here = node,
                    FileKind::Symlink => break,
                    _ => return Err(FsError::NotDir),
                }
            }
            *at = next;
            *count += 1;
        }
        Ok(if Arc::ptr_eq(here, dir.arc()) { None } else { Some(NodeRef::new(here)) })
    }

    /// `name` in `dir` now stands for `target`, or for nothing. The directory is locked.
    pub(super) fn set(&self, dir: &Node, name: &[u8], target: Option<Ino>) {
        changing_names(|| self.names.lock().dentries.set(dir.key, name, target));
    }

    /// Two names change at once.
    pub(super) fn set_two(&self, a: (&Node, &[u8], Option<Ino>), b: (&Node, &[u8], Option<Ino>)) {
        changing_names(|| {
            let mut names = self.names.lock();
            names.dentries.set(a.0.key, a.1, a.2);
            names.dentries.set(b.0.key, b.1, b.2);
        });
    }

    /// A node was created as `name` in `dir`.
    ///
    /// # Errors
    /// `Corrupt` where its number is in use.
    pub(super) fn created(&self, dir: &Node, name: &[u8], node: Arc<Node>) -> Result<NodeRef> {
        changing_names(|| {
            let mut names = self.names.lock();
            names.must_be_free(node.ino())?;
            names.dentries.set(dir.key, name, Some(node.ino()));
            Ok(self.insert(&mut names, node))
        })
    }

    /// A node was created without a name.
    ///
    /// # Errors
    /// `Corrupt` where its number is in use.
    pub(super) fn created_unnamed(&self, node: Arc<Node>) -> Result<NodeRef> {
        let mut names = self.names.lock();
        names.must_be_free(node.ino())?;
        Ok(self.insert(&mut names, node))
    }

    fn insert(&self, names: &mut Names, node: Arc<Node>) -> NodeRef {
        let user = NodeRef::new(&node);
        names.inodes.insert(node);
        if names.inodes.len() > self.capacity {
            self.due.store(true, Ordering::Relaxed);
        }
        user
    }

    /// The node of this number where it is in memory.
    pub(super) fn cached(&self, ino: Ino) -> Option<NodeRef> {
        self.names.lock().inodes.get(ino).map(NodeRef::new)
    }

    /// Asks for a node.
    pub(super) fn claim(&self, ino: Ino) -> Claim {
        let mut names = self.names.lock();
        if let Some(node) = names.inodes.get(ino) {
            return Claim::Node(NodeRef::new(node));
        }
        // It has no links, so nothing that is sound leads to it. The task that asks may be the one that
        // evicts it later.
        if names.orphans.iter().any(|node| node.ino() == ino) {
            return Claim::Gone;
        }
        if names.busy.contains(&ino) {
            return Claim::Wait;
        }
        names.busy.push(ino);
        Claim::Load
    }

    /// Waits until a claimed number may be asked for again.
    pub(super) fn wait(&self, ino: Ino) {
        self.idle.wait_while(|| {
            let names = self.names.lock();
            names.busy.contains(&ino) && names.inodes.get(ino).is_none()
        });
    }

    /// Ends a [`Claim::Load`].
    pub(super) fn loaded(&self, ino: Ino, node: Option<Arc<Node>>) -> Option<NodeRef> {
        let user = {
            let mut names = self.names.lock();
            names.unbusy(ino);
            if let Some(node) = &node
                && let Some(error) = names.errors.remove(&ino)
            {
                node.remember_error(&error);
            }
            // On damaged media a new file may have got the number meanwhile.
            let there = names.inodes.get(ino).map(NodeRef::new);
            node.map(|n| there.unwrap_or_else(|| self.insert(&mut names, n)))
        };
        self.idle.open();
        user
    }

    /// The last user of a node without links went.
    pub(super) fn orphaned(&self, node: &Arc<Node>) {
        let mut names = self.names.lock();
        let ours = names.inodes.get(node.ino()).is_some_and(|n| Arc::ptr_eq(n, node));
        if ours && node.users() == 0 {
            let gone = names.inodes.remove(node.ino()).expect("just found");
            names.busy.push(gone.ino());
            names.orphans.push(gone);
            self.due.store(true, Ordering::Relaxed);
        }
    }

    /// Whether [`NameCache::next_leaving`] has something.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    /// The next node that must leave memory.
    pub(super) fn next_leaving(&self) -> Option<Leaving> {
        /// Nodes to look at per call: bounds the time under the lock where all are in use.
        const STEPS: usize = 256;
        let mut names = self.names.lock();
        if !names.orphans.is_empty() {
            return Some(Leaving::Evict(names.orphans.remove(0)));
        }
        if names.inodes.len() > self.capacity
            && let Some(node) = names.inodes.victim(STEPS)
        {
            names.busy.push(node.ino());
            return Some(if node.is_orphan() { Leaving::Evict(node) } else { Leaving::Release(node) });
        }
        self.due.store(false, Ordering::Relaxed);
        None
    }

    /// Forgets all names; the nodes stay.
    pub(super) fn forget_names(&self) {
        self.names.lock().dentries.clear();
    }

    /// Nodes without users, by number.
    pub(super) fn unused(&self) -> Vec<Ino> {
        let all = self.names.lock().inodes.all();
        all.iter().filter(|n| n.users() == 0).map(|n| n.ino()).collect()
    }

    /// Makes a node leave memory, where nobody uses it and it has links.
    pub(super) fn leave(&self, ino: Ino) -> Option<Leaving> {
        let mut names = self.names.lock();
        names.inodes.get(ino).filter(|n| n.users() == 0 && !n.is_orphan())?;
        let node = names.inodes.remove(ino)?;
        names.busy.push(ino);
        Some(Leaving::Release(node))
    }

    /// A leaving node is gone. A write-back error that nobody was told of waits until the inode is loaded
    /// again. An inode without links has nobody to be told.
    pub(super) fn left(&self, node: &Node) {
        let (ino, error) = (node.ino(), node.take_error().filter(|_| !node.is_orphan()));
        let mut names = self.names.lock();
        if let Some(error) = error {
            names.errors.insert(ino, error);
        }
        names.unbusy(ino);
        drop(names);
        self.idle.open();
    }

    /// Takes the errors of inodes that have left memory; one of them, if there are any.
    pub(super) fn take_error(&self) -> Option<FsError> {
        std::mem::take(&mut self.names.lock().errors).into_values().next()
    }

    /// Gives lookups of a FUSE kernel back, of each node so many, all under one lock.
    pub(super) fn forget(&self, nodes: impl Iterator<Item = (Ino, u64)>) {
        let mut last = Vec::new();
        {
            let names = self.names.lock();
            let held = nodes.filter_map(|(ino, n)| names.inodes.get(ino).filter(|node| node.forget(n)));
            last.extend(held.cloned());
        }
        last.iter().for_each(|node| drop_users(node, 1));
    }

    /// How far a node without links has got.
    pub(super) fn farewell(&self, ino: Ino, key: u64) -> Farewell {
        let names = self.names.lock();
        match names.inodes.get(ino) {
            Some(node) if node.key == key && node.is_known() => Farewell::Held,
            Some(node) if node.key == key => Farewell::Leaving,
            None if names.busy.contains(&ino) => Farewell::Leaving,
            _ => Farewell::Gone,
        }
    }

    /// All nodes in memory, by number.
    pub(super) fn all(&self) -> Vec<Arc<Node>> {
        self.names.lock().inodes.all()
    }

    /// Takes a node out that leaves because of an unmount.
    pub(super) fn take(&self, ino: Ino) -> Option<Arc<Node>> {
        self.names.lock().inodes.remove(ino)
    }
}

impl Names {
    /// On damaged media a file system may give an inode away that is in use.
    fn must_be_free(&self, ino: Ino) -> Result<()> {
        if self.inodes.get(ino).is_none() {
            return Ok(());
        }
        Err(FsError::Corrupt(format!("{ino} is in use, and was free for a new file")))
    }

    fn unbusy(&mut self, ino: Ino) {
        if let Some(i) = self.busy.iter().position(|&b| b == ino) {
            self.busy.swap_remove(i);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_fs::{Attr, FileKind, Loaded, Time};

    /// On damaged media a name may lead to it: a task that follows the name would wait for itself.
    #[test]
    fn nobody_waits_for_an_inode_without_links() {
        let home = NameCache::new(8, 8);
        let attr = Attr { nlink: 0, ..Attr::new(FileKind::File, 0o644, Time(0)) };
        let node = Node::new(&home, Ino(5), Loaded { attr, private: Arc::new(()) });
        drop(home.created_unnamed(node).expect("the number is free"));
        assert!(matches!(home.claim(Ino(5)), Claim::Gone));
        let Some(Leaving::Evict(node)) = home.next_leaving() else { panic!("it waits to be evicted") };
        home.left(&node);
        assert!(matches!(home.claim(Ino(5)), Claim::Load), "free");
    }
}
