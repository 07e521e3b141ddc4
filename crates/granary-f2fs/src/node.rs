//! [`Node`]: F2FS's state of an inode in memory.
//!
//! ```text
//!   attr (vfs)      what stat shows
//!   state.attr      the same, to be written into the node by fsync or the next checkpoint (the kernel's
//!                   dirty inode)
//!   state.disksize  <= size: grows when data is on the drive, so that no size shows what was never written
//! ```

use crate::layout::node::{Extra, INLINE_DATA, INLINE_DENTRY};
use granary_fs::{Attr, Ino, Inode, Loaded};
use parking_lot::Mutex;
use std::sync::Arc;

/// The private part of an inode.
pub(crate) struct Node {
    pub ino: u32,
    pub state: Mutex<State>,
}

/// Parts of an inode's data that an fsync has still to make safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unsynced {
    /// A block got a new place: the node that points to it.
    pub moved: bool,
    /// A block was written in place: it may be in the drive's cache.
    pub in_place: bool,
}

/// See the module.
pub(crate) struct State {
    pub attr: Attr,
    /// `attr` or what follows is newer than the node.
    pub dirty: bool,
    /// ...and not only in time stamps: fdatasync writes it.
    pub dirty_data: bool,
    /// `attr` came into the node after this checkpoint, by its version: without a mark of fsync recovery does
    /// not take it from there.
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
