//! [`Node`]: an inode in memory: its lower node, and which state its file is in.

use crate::Spfs;
use crate::layout::inode::Identity;
use crate::profiler::Profile;
use crate::tier::Tier;
use granary_sim::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use granary_vfs::{Attr, FileKind, FsError, Ino, Inode, NodeRef, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Who serves a file.
pub enum State {
    /// The lower file system.
    Bypass,
    /// Persistent memory, where it has something.
    Tiered(Box<Tier>),
}

/// See the module.
pub struct Node {
    /// The lower node, until the inode leaves memory.
    below: Mutex<Option<NodeRef>>,
    /// Whose the file is; held shared by what reads it, or writes below; exclusively by what changes persistent memory.
    state: RwLock<State>,
    /// How many want the state now: a demotion in the background makes room for them.
    wanted: AtomicU32,
    pub(crate) profile: Mutex<Profile>,
    /// Something of it was changed below that no fsync has made durable.
    pub(crate) dirty: AtomicBool,
    /// The vfs has it.
    pub(crate) adopted: AtomicBool,
}

impl Node {
    pub(crate) fn new(below: NodeRef, state: State) -> Node {
        Node {
            below: Mutex::new(Some(below)),
            state: RwLock::new(state),
            wanted: AtomicU32::new(0),
            profile: Mutex::default(),
            // What was changed before it was loaded may not be durable either.
            dirty: AtomicBool::new(true),
            adopted: AtomicBool::new(false),
        }
    }

    /// The lower node.
    pub(crate) fn below(&self) -> Result<NodeRef> {
        self.below.lock().clone().ok_or(FsError::Stale)
    }

    /// Lets go of the lower node.
    pub(crate) fn let_go(&self) {
        let node = self.below.lock().take();
        drop(node);
    }

    /// The state, shared.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.wanted.fetch_add(1, Relaxed);
        let guard = self.state.read();
        self.wanted.fetch_sub(1, Relaxed);
        guard
    }

    /// The state, exclusively.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.wanted.fetch_add(1, Relaxed);
        let guard = self.state.write();
        self.wanted.fetch_sub(1, Relaxed);
        guard
    }

    /// The state, shared, unless it is held exclusively.
    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, State>> {
        self.state.try_read()
    }

    /// Whether somebody waits for the state.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed) > 0
    }

    /// Something of it was changed below.
    pub(crate) fn touch(&self) {
        self.dirty.store(true, Relaxed);
    }
}

/// The node of an inode.
pub fn of(inode: &Inode) -> &Node {
    inode.private::<Arc<Node>>()
}

/// The lower node of an inode.
pub fn below(inode: &Inode) -> Result<NodeRef> {
    of(inode).below()
}

impl Spfs {
    /// Which file this is below.
    pub(crate) fn identity(&self, node: &NodeRef) -> Identity {
        Identity { ino: node.ino().0, generation: self.lower.generation(node) }
    }

    /// Loads an inode. `adopt`: for the vfs.
    pub(crate) fn load_node(&self, ino: Ino, adopt: bool) -> Result<Arc<Node>> {
        if let Some(node) = self.cached(ino) {
            node.adopted.fetch_or(adopt, Relaxed);
            return Ok(node);
        }
        let below = self.lower.node(ino)?;
        let node = Arc::new(self.new_node(below)?);
        node.adopted.store(adopt, Relaxed);
        self.nodes.lock().insert(ino.0, node.clone());
        Ok(node)
    }

    fn new_node(&self, below: NodeRef) -> Result<Node> {
        let state = match below.kind() {
            // Where nothing is tiered the table need not be asked.
            FileKind::File if !self.index.lock().is_empty() => {
                match self.store.find(self.identity(&below))? {
                    Some((number, inode)) => {
                        State::Tiered(Box::new(Tier::new(number, &inode, inode.last.is_none())))
                    }
                    None => State::Bypass,
                }
            }
            _ => State::Bypass,
        };
        Ok(Node::new(below, state))
    }

    /// A node that was made below a moment ago.
    pub(crate) fn made(&self, below: NodeRef) -> Arc<Node> {
        let ino = below.ino();
        let node = Arc::new(Node::new(below, State::Bypass));
        node.adopted.store(true, Relaxed);
        self.nodes.lock().insert(ino.0, node.clone());
        node
    }

    /// The attributes of a file in this state.
    pub(crate) fn attr(&self, below: &NodeRef, state: &State) -> Attr {
        let mut attr = self.lower.stat(below).attr;
        if let State::Tiered(t) = state {
            attr.size = t.size;
            attr.mtime = t.mtime;
            attr.ctime = attr.ctime.max(t.ctime);
        }
        attr
    }

    /// After a call that changed an inode below: its attributes are as there, but for an access time that is later here.
    pub(crate) fn follow(&self, inode: &Inode) -> Result<()> {
        let node = of(inode);
        let state = node.read();
        self.follow_as(inode, &node.below()?, &state);
        Ok(())
    }

    /// The same for who holds the state.
    pub(crate) fn follow_as(&self, inode: &Inode, below: &NodeRef, state: &State) {
        let attr = self.attr(below, state);
        inode.update(|a| {
            let atime = a.atime.max(attr.atime);
            *a = attr;
            a.atime = atime;
        });
    }
}
