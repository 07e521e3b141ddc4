//! One name, "..", and inodes coming into memory and leaving it.

use super::names::{Cached, Claim, Leaving};
use super::node::{Farewell, Node, NodeRef};
use super::{Vfs, perm};
use crate::posix::Access;
use granary_fs::{Call, Caller, Cred, FileKind, FsError, Ino, Result};
use std::sync::Arc;

/// Directories above another one, at most. Paths have 4,095 bytes, but a deeper one is reached step by step,
/// so this is a bound for circles only.
const DEEPEST: u32 = 1 << 20;

impl Vfs {
    /// The node of this number, loaded where it is not in memory.
    ///
    /// # Errors
    /// `Stale` where the inode is free; the file system's.
    pub fn node(&self, ino: Ino) -> Result<NodeRef> {
        self.node_for(&self.kernel(), ino)
    }

    fn node_for(&self, call: &Call<'_>, ino: Ino) -> Result<NodeRef> {
        loop {
            match self.names.claim(ino) {
                Claim::Node(node) => return Ok(node),
                Claim::Gone => return Err(FsError::Stale),
                Claim::Wait => self.names.wait(ino),
                Claim::Load => {
                    let max = self.features.max_file_size;
                    let loaded = self.fs.load_inode(call, ino).and_then(|loaded| match loaded.attr.size {
                        // An inode without names is in memory, or gone.
                        _ if loaded.attr.nlink == 0 => Err(FsError::Stale),
                        // Page numbers of the cache would not reach it.
                        size if loaded.attr.kind == FileKind::File && size > max => Err(FsError::Corrupt(
                            format!("{ino} has {size} bytes, at most {max} are possible"),
                        )),
                        _ => Ok(loaded),
                    });
                    return match loaded {
                        Ok(loaded) => {
                            let node = Node::new(&self.names, ino, loaded);
                            Ok(self.names.loaded(ino, Some(node)).expect("the node given"))
                        }
                        Err(e) => {
                            self.names.loaded(ino, None);
                            Err(e)
                        }
                    };
                }
            }
        }
    }

    /// The node of a number that a handle names: any number at all, of a file that was removed, or of none.
    ///
    /// # Errors
    /// `Stale` where there is no such file; the drive's.
    pub fn node_of_handle(&self, ino: Ino) -> Result<NodeRef> {
        let found = self.names.cached(ino).map_or_else(
            || {
                // A half-made inode has its number already, and nobody holds it yet.
                let _births = self.births.write();
                self.node(ino)
            },
            Ok,
        );
        match found {
            Ok(node) if node.is_orphan() => Err(FsError::Stale),
            // The place does not hold an inode.
            Err(FsError::Corrupt(_)) => Err(FsError::Stale),
            other => other,
        }
    }

    /// See [`granary_fs::Attributes::generation`].
    pub fn generation(&self, node: &NodeRef) -> u32 {
        self.fs.generation(node)
    }

    /// The node that `name` stands for in `dir`; "." and ".." are understood.
    ///
    /// # Errors
    /// `NotDir`; `Access` without search permission; `NameTooLong`; `NoEntry`; the file system's.
    pub fn lookup(&self, caller: &Caller, dir: &NodeRef, name: &[u8]) -> Result<NodeRef> {
        if !dir.is_dir() {
            return Err(FsError::NotDir);
        }
        let call = &self.call(caller);
        self.allow(call, dir, Access::EXEC)?;
        let found = match name {
            b"." => Some(dir.clone()),
            b".." => Some(self.parent(call, dir)?),
            _ => self.child(call, dir, name)?,
        };
        self.reap();
        found.ok_or(FsError::NoEntry)
    }

    /// Holds the node for one FUSE lookup that [`Vfs::forget`] gives back.
    pub fn remember(&self, node: &NodeRef) {
        node.remember();
    }

    /// Gives lookups back: of each node so many.
    pub fn forget(&self, nodes: impl Iterator<Item = (Ino, u64)>) {
        self.names.forget(nodes);
        self.reap();
    }

    /// How far the node of this number and this [`Node::generation`], which has lost its last name, has got:
    /// what it had is free only when it is gone.
    pub fn farewell(&self, ino: Ino, generation: u64) -> Farewell {
        self.names.farewell(ino, generation)
    }

    /// Gives all lookups of all nodes back: the kernel that held them is gone without a word.
    pub fn forget_all(&self) {
        self.forget(self.names.all().iter().map(|node| (node.ino(), u64::MAX)));
    }

    /// The node that `name` stands for in `dir`, if any. Permission was checked; `dir` is not locked.
    pub(crate) fn child(&self, call: &Call<'_>, dir: &NodeRef, name: &[u8]) -> Result<Option<NodeRef>> {
        match self.names.child(dir, name) {
            Cached::Node(node) => Ok(Some(node)),
            Cached::Absent => Ok(None),
            Cached::Number(_) | Cached::Unknown => {
                let _shared = dir.rwsem.read();
                self.child_locked(call, dir, name)
            }
        }
    }

    /// Walks down cached directories: see [`super::names::NameCache::walk`].
    pub(crate) fn walk_cached(
        &self,
        cred: &Cred,
        dir: &NodeRef,
        path: &[u8],
        at: &mut usize,
        count: &mut u64,
    ) -> Result<Option<NodeRef>> {
        self.names.walk(cred, dir, path, at, count)
    }

    /// Like [`Vfs::child`]; `dir` is locked, so that the answer stays true.
    pub(super) fn child_locked(
        &self,
        call: &Call<'_>,
        dir: &NodeRef,
        name: &[u8],
    ) -> Result<Option<NodeRef>> {
        perm::check_name(name)?;
        if dir.is_orphan() {
            return Err(FsError::NoEntry);
        }
        let ino = match self.names.child(dir, name) {
            Cached::Node(node) => return Ok(Some(node)),
            Cached::Absent => return Ok(None),
            Cached::Number(ino) => ino,
            Cached::Unknown => {
                let found = self.fs.lookup(call, dir, name)?;
                self.names.set(dir, name, found);
                match found {
                    Some(ino) => ino,
                    None => return Ok(None),
                }
            }
        };
        let node = self.node_for(call, ino).map_err(|e| match e {
            FsError::Stale => {
                let name = granary_fs::quoted(name);
                FsError::Corrupt(format!("{name} in {} leads to {ino}, which is not in use", dir.ino()))
            }
            other => other,
        })?;
        if node.is_dir() && node.parent().is_none() {
            node.set_parent(Some(dir.clone()));
        }
        Ok(Some(node))
    }

    /// The directory above `dir`; the root's is the root.
    pub(crate) fn parent(&self, call: &Call<'_>, dir: &NodeRef) -> Result<NodeRef> {
        if dir.is(&self.root) {
            return Ok(dir.clone());
        }
        if let Some(parent) = dir.parent() {
            return Ok(parent);
        }
        let parent = self.node_for(call, self.fs.parent(call, dir)?)?;
        dir.set_parent(Some(parent.clone()));
        Ok(parent)
    }

    /// Whether `above` is `below` or an ancestor of it. The rename lock is held.
    ///
    /// # Errors
    /// `Corrupt` where directories lead round in a circle, as they may on damaged media; the file system's.
    pub(super) fn is_at_or_above(&self, call: &Call<'_>, above: &NodeRef, below: &NodeRef) -> Result<bool> {
        let mut at = below.clone();
        for _ in 0..DEEPEST {
            if at.is(above) {
                return Ok(true);
            }
            if at.is(&self.root) {
                return Ok(false);
            }
            at = self.parent(call, &at)?;
        }
        Err(FsError::Corrupt(format!("directory {} is not below the root; run fsck", below.ino().0)))
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `Invalid` where it is none; the file system's.
    pub fn readlink(&self, caller: &Caller, node: &NodeRef) -> Result<Vec<u8>> {
        if node.kind() != FileKind::Symlink {
            return Err(FsError::Invalid);
        }
        let call = &self.call(caller);
        let target = {
            let _shared = node.rwsem.read();
            self.fs.readlink(call, node)?
        };
        self.touch_atime(call, node);
        Ok(target)
    }

    /// Evicts orphans and lets go of the least recently used inodes. To be called at the end of calls,
    /// without locks.
    #[inline]
    pub fn reap(&self) {
        if self.names.is_due() {
            self.reap_all();
        }
    }

    #[cold]
    fn reap_all(&self) {
        while let Some(leaving) = self.names.next_leaving() {
            let node = match leaving {
                Leaving::Evict(node) => {
                    self.cache.drop_all(&node);
                    // As in Linux nobody can be told: fsck finds space that is not freed now.
                    let _ = self.fs.evict(&self.kernel(), &node);
                    node
                }
                Leaving::Release(node) => {
                    self.release(&node);
                    node
                }
            };
            node.set_parent(None);
            self.names.left(&node);
        }
    }

    pub(super) fn release(&self, node: &Arc<Node>) {
        // An error is the node's to remember, and kept when it has left: the next `fsync` tells it.
        let _ = self.write_back(&self.kernel(), node, 0..u64::MAX, granary_fs::WriteBackCause::Background);
        self.cache.drop_all(node);
        if let Err(e) = self.fs.release(&self.kernel(), node) {
            node.remember_error(&e);
        }
    }
}
