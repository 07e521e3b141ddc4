//! An inode's way to and from its node block.

use crate::cache::CachedBlock;
use crate::fs::F2fs;
use crate::layout::node as block;
use crate::node::{Node, Unsynced, node, number};
use granary_fs::{Ino, Inode, Result};
use granary_sim::{costs, cpu};
use std::sync::Arc;

impl F2fs {
    /// Reads an inode.
    pub(crate) fn load(&self, ino: Ino) -> Result<Arc<Node>> {
        if ino.0 > u32::MAX as u64 {
            return Err(granary_fs::FsError::Stale);
        }
        let ino = number(ino);
        let entry = self.inode_node(ino)?;
        cpu(costs().inode_read);
        let (attr, x) = entry.with(|b| block::decode(b, ino))?;
        let node = Node::new(ino, attr, &x);
        // Changes that were settled before it left memory may be in no node with a mark.
        let late = entry.is_dirty() || self.nat.needs_inode_block(ino, false);
        let version = self.last.lock().version;
        let mut s = node.state.lock();
        s.unsynced = self.memory.lock().unsynced.remove(&ino).unwrap_or_default();
        s.settled = late.then_some(version);
        drop(s);
        Ok(node)
    }

    /// An inode leaves memory: its node gets the attributes, and the remaining work of fsync is remembered.
    pub(crate) fn unload(&self, node: &Node) -> Result<()> {
        let _op = self.checkpoint_lock.read();
        self.settle_inode(node)?;
        let unsynced = node.state.lock().unsynced;
        if unsynced != Unsynced::default() {
            self.memory.lock().unsynced.insert(node.ino, unsynced);
        }
        Ok(())
    }

    /// Remembers that the attributes changed (`data`: more than time stamps): the node gets them later.
    pub(crate) fn mark_inode(&self, inode: &Inode, data: bool) {
        if data {
            self.spoil(node(inode).ino);
        }
        self.mark_grown(inode, data);
    }

    /// The same where all that changed are blocks and size because data was written.
    pub(crate) fn mark_grown(&self, inode: &Inode, data: bool) {
        let node = node(inode);
        let attr = inode.attr();
        let was = {
            let mut s = node.state.lock();
            s.attr = attr;
            s.dirty_data |= data;
            std::mem::replace(&mut s.dirty, true)
        };
        if !was {
            self.dirty_inodes.lock().insert(node.ino, inode.share_private());
        }
    }

    /// Writes an inode's attributes into its node in memory, where they are newer. Returns the node.
    pub(crate) fn settle_inode(&self, node: &Node) -> Result<Arc<CachedBlock>> {
        let entry = self.inode_node(node.ino)?;
        self.dirty_inodes.lock().remove(&node.ino);
        let mut s = node.state.lock();
        if std::mem::take(&mut s.dirty) {
            s.dirty_data = false;
            s.settled = Some(self.last.lock().version);
            self.nodes.change(&entry, |b| block::encode(b, &s.attr, &s.extra()));
        }
        Ok(entry)
    }

    /// `attr.blocks` as stat counts: 512 B units.
    pub(crate) fn show_blocks(&self, inode: &Inode) {
        let blocks = node(inode).state.lock().blocks * 8;
        inode.update(|a| a.blocks = blocks);
    }
}
