//! Inodes that come into memory, and the attributes that they show.

use crate::fs::Spfs;
use crate::layout::alone::{self, Alone};
use crate::layout::inode::Identity;
use crate::node::{Node, Residence, of};
use crate::tier::Tier;
use granary_fs::{Attr, FileKind, FsError, Ino, Inode, Result};
use granary_pm::{BLOCK, corrupt};
use granary_vfs::NodeRef;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

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
        let lower = {
            let children = self.children.lock();
            // A handle of what has another number until the unmount.
            if children.above(ino.0) != ino.0 {
                return Err(FsError::Stale);
            }
            children.below(ino.0)
        };
        let node = match lower {
            None if alone::is(ino.0) => Arc::new(self.alone_node(ino)?),
            lower => Arc::new(self.new_node(self.lower.node(lower.map_or(ino, Ino))?)?),
        };
        node.adopted.store(adopt, Relaxed);
        self.nodes.lock().insert(ino.0, node.clone());
        Ok(node)
    }

    /// A file that is in persistent memory alone.
    fn alone_node(&self, ino: Ino) -> Result<Node> {
        let first = Identity { ino: ino.0, generation: 0 };
        let of = self.index.lock().range(first..).next().map(|(of, _)| *of).filter(|of| of.ino == ino.0);
        let of = of.ok_or(FsError::Stale)?;
        let (number, inode) = self.store.find(of)?.ok_or(FsError::Stale)?;
        let alone = Alone::load(&self.store.pm, number)?
            .map_err(|_| corrupt(format!("the name in inode {number} is damaged")))?;
        let mut tier = Tier::new(number, &inode, inode.last.is_none());
        tier.alone = Some((of, alone));
        Ok(Node::alone(Residence::Tiered(Box::new(tier))))
    }

    fn new_node(&self, below: NodeRef) -> Result<Node> {
        let state = match below.kind() {
            // Where nothing is tiered the table need not be asked.
            FileKind::File if !self.index.lock().is_empty() => {
                match self.store.find(self.identity(&below))? {
                    Some((number, inode)) => {
                        Residence::Tiered(Box::new(Tier::new(number, &inode, inode.last.is_none())))
                    }
                    None => Residence::Bypass,
                }
            }
            _ => Residence::Bypass,
        };
        Ok(Node::new(below, state))
    }

    /// A node that was made below a moment ago.
    pub(crate) fn made(&self, below: NodeRef) -> Arc<Node> {
        let ino = below.ino();
        let node = Arc::new(Node::new(below, Residence::Bypass));
        node.adopted.store(true, Relaxed);
        self.nodes.lock().insert(ino.0, node.clone());
        node
    }

    /// The attributes of a file in this state.
    ///
    /// # Errors
    /// `Stale`: it has left memory.
    pub(crate) fn attr(&self, node: &Node, state: &Residence) -> Result<Attr> {
        if let Residence::Tiered(t) = state
            && let Some((_, alone)) = &t.alone
        {
            let new = Attr::new(FileKind::File, alone.mode, t.ctime);
            return Ok(Attr {
                uid: alone.uid,
                gid: alone.gid,
                nlink: alone.place.is_some().into(),
                size: t.size,
                // As if it had no holes: in sectors.
                blocks: t.size.div_ceil(BLOCK) * (BLOCK / 512),
                atime: alone.atime,
                mtime: t.mtime,
                ..new
            });
        }
        let mut attr = self.lower.stat(&node.below()?).attr;
        if let Residence::Tiered(t) = state {
            attr.blocks = t.sectors(attr.blocks);
            attr.size = t.size;
            attr.mtime = t.mtime;
            attr.ctime = attr.ctime.max(t.ctime);
        }
        Ok(attr)
    }

    /// After a call that changed an inode below: its attributes are as there, but for an access time that is
    /// later here.
    pub(crate) fn follow(&self, inode: &Inode) -> Result<()> {
        let node = of(inode);
        self.follow_as(inode, &node.read());
        Ok(())
    }

    /// The same for who holds the state.
    pub(crate) fn follow_as(&self, inode: &Inode, state: &Residence) {
        let Ok(attr) = self.attr(of(inode), state) else { return };
        inode.update(|a| {
            let atime = a.atime.max(attr.atime);
            *a = attr;
            a.atime = atime;
        });
    }
}
