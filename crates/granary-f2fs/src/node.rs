//! [`Node`]: what F2FS keeps with an inode in memory, and its way to and from the inode's node block.
//!
//! ```text
//!   attr (vfs)      what stat shows
//!   state.attr      the same, to be written into the node by fsync or the next checkpoint (the kernel's dirty inode)
//!   state.disksize  <= size: grows when data is on the drive, so that no size shows what was never written
//! ```

use crate::cache::CachedBlock;
use crate::layout::node::{self, Extra, INLINE_DATA, INLINE_DENTRY};
use crate::{F2fs, Unsynced};
use granary_fs::{Attr, Ino, Inode, Loaded, Result};
use granary_sim::{costs, cpu};
use parking_lot::Mutex;
use std::sync::Arc;

/// The private part of an inode.
pub(crate) struct Node {
    pub ino: u32,
    pub state: Mutex<State>,
}

/// See the module.
pub(crate) struct State {
    pub attr: Attr,
    /// `attr` or what follows is newer than the node.
    pub dirty: bool,
    /// ...and not only in time stamps: fdatasync writes it.
    pub dirty_data: bool,
    /// `attr` came into the node after this checkpoint, by its version: without a mark of fsync recovery does not take it from there.
    pub settled: Option<u64>,
    /// Inline content may have been written that only the page cache has.
    pub may_be_dirty: bool,
    /// Data written since the last fsync.
    pub unsynced: Unsynced,
    /// Fsyncs that wait for their FLUSH.
    pub flushing: u32,
    pub disksize: u64,
    pub blocks: u64,
    pub inline: u8,
    pub advise: u8,
    pub depth: u32,
    pub parent: u32,
    /// The node of extended attributes; 0 = none.
    pub xattr: u32,
    pub generation: u32,
}

impl State {
    pub fn extra(&self) -> Extra {
        Extra {
            inline: self.inline,
            advise: self.advise,
            depth: self.depth,
            parent: self.parent,
            blocks: self.blocks,
            size: self.disksize,
            xattr: self.xattr,
            generation: self.generation,
        }
    }

    pub fn is_inline(&self) -> bool {
        self.inline & INLINE_DATA != 0
    }

    pub fn has_inline_dentries(&self) -> bool {
        self.inline & INLINE_DENTRY != 0
    }
}

/// The private part.
pub(crate) fn node(inode: &Inode) -> &Node {
    inode.private()
}

/// Our numbers have 32 bits.
pub(crate) fn number(ino: Ino) -> u32 {
    ino.0 as u32
}

impl Node {
    pub fn new(ino: u32, attr: Attr, x: &Extra) -> Arc<Node> {
        let state = State {
            attr,
            dirty: false,
            dirty_data: false,
            settled: None,
            may_be_dirty: false,
            unsynced: Unsynced::default(),
            flushing: 0,
            disksize: x.size,
            blocks: x.blocks,
            inline: x.inline,
            advise: x.advise,
            depth: x.depth,
            parent: x.parent,
            xattr: x.xattr,
            generation: x.generation,
        };
        Arc::new(Node { ino, state: Mutex::new(state) })
    }

    pub fn loaded(self: &Arc<Node>) -> Loaded {
        let attr = self.state.lock().attr;
        Loaded { attr, private: Arc::<Node>::clone(self) }
    }
}

impl F2fs {
    /// Reads an inode.
    pub(crate) fn load(&self, ino: Ino) -> Result<Arc<Node>> {
        if ino.0 > u32::MAX as u64 {
            return Err(granary_fs::FsError::Stale);
        }
        let ino = number(ino);
        let entry = self.inode_node(ino)?;
        cpu(costs().inode_read);
        let (attr, x) = entry.with(|b| node::decode(b, ino))?;
        let node = Node::new(ino, attr, &x);
        // What was settled before it left memory may be in no node with a mark.
        let late = entry.is_dirty() || self.nat.needs_inode_block(ino, false);
        let version = self.last.lock().version;
        let mut s = node.state.lock();
        s.unsynced = self.memory.lock().unsynced.remove(&ino).unwrap_or_default();
        s.settled = late.then_some(version);
        drop(s);
        Ok(node)
    }

    /// An inode leaves memory: its node gets the attributes, and what fsync has still to do is remembered.
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
            self.nodes.change(&entry, |b| node::encode(b, &s.attr, &s.extra()));
        }
        Ok(entry)
    }

    /// `attr.blocks` as stat counts: 512 B units.
    pub(crate) fn show_blocks(&self, inode: &Inode) {
        let blocks = node(inode).state.lock().blocks * 8;
        inode.update(|a| a.blocks = blocks);
    }
}
