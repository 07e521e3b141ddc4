//! An inode in memory: its HRtree, a directory's entries, a link's target, its extended attributes.
//!
//! Invariant: the state in memory is the one on the NVM with the journals replayed. It changes under `state`,
//! held from before a group is built until the group counts.

use crate::dir::Dir;
use crate::hrtree::HrTree;
use crate::layout::inode;
use crate::options::RangeKind;
use crate::ranges::RangeLock;
use granary_fs::{Attr, Ino, Inode};
use granary_sim::sync::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Extended attributes by name.
pub type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

/// See the module.
pub struct Node {
    /// Its number.
    pub ino: Ino,
    /// Tells lives of the number apart.
    pub generation: u32,
    /// Changeable state.
    pub state: RwLock<NodeState>,
    /// Size of the file, for tasks that have only this part of the inode.
    pub size: AtomicU64,
    /// It has left memory, or is free: `state` counts no more.
    pub gone: AtomicBool,
    /// Held while an undo slot has old bytes of it.
    pub undoing: Mutex<()>,
    /// Number of the last undo slot whose write counts.
    pub undo: AtomicU64,
    /// Which blocks somebody is reading or writing.
    pub ranges: RangeLock,
}

impl Node {
    /// One with an empty state.
    pub fn new(ino: Ino, generation: u32, size: u64, ranges: RangeKind) -> Node {
        Node {
            ino,
            generation,
            state: RwLock::new(NodeState::default()),
            size: AtomicU64::new(size),
            gone: AtomicBool::new(false),
            undoing: Mutex::default(),
            undo: AtomicU64::default(),
            ranges: RangeLock::new(ranges),
        }
    }

    /// Whether it has left memory, or is free.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }
}

/// Changeable state of an inode beside its attributes.
#[derive(Default)]
pub struct NodeState {
    /// Units of its blocks.
    pub tree: HrTree,
    /// Space of the units, in pages of 4 KiB.
    pub space: u64,
    /// The entries of a directory.
    pub dir: Option<Dir>,
    /// The target of a symbolic link.
    pub target: Vec<u8>,
    /// NVM pages of a target that is too long for the inode.
    pub target_pages: Vec<u64>,
    /// Extended attributes.
    pub attributes: Attributes,
    /// Their NVM pages.
    pub attribute_pages: Vec<u64>,
}

impl NodeState {
    /// The entries of a directory.
    pub fn dir(&self) -> &Dir {
        self.dir.as_ref().expect("the vfs asks only directories for names")
    }

    /// The same, to change.
    pub fn dir_mut(&mut self) -> &mut Dir {
        self.dir.as_mut().expect("the vfs asks only directories for names")
    }

    /// The inode on the NVM, with this state.
    pub fn inode(&self, node: &Node) -> inode::Inode {
        let (first, parent) = match &self.dir {
            Some(dir) => (dir.first_page(), dir.parent),
            None => (self.target_pages.first().copied().unwrap_or(0), 0),
        };
        let is_inline = self.target_pages.is_empty();
        inode::Inode {
            number: node.ino.0,
            generation: node.generation,
            root: self.tree.root().encode(),
            first,
            attributes: self.attribute_pages.first().copied().unwrap_or(0),
            parent,
            undo: node.undo.load(Relaxed),
            target: if is_inline { self.target.clone() } else { Vec::new() },
        }
    }

    /// Space of all that it has, in units of 512 B.
    pub fn blocks(&self) -> u64 {
        let own =
            self.attribute_pages.len() + self.target_pages.len() + self.dir.as_ref().map_or(0, Dir::pages);
        (self.space + own as u64) * 8
    }
}

/// The file system's part of an inode.
pub fn node(inode: &Inode) -> &Node {
    inode.private()
}

/// The attributes with the space that the state takes.
pub fn with_blocks(attr: Attr, state: &NodeState) -> Attr {
    Attr { blocks: state.blocks(), ..attr }
}
