//! [`Buffers`]: a file's blocks in memory, over its map.
//!
//! ```text
//!   regular file    only dirty pages, on their way to a log (clean ones are in the page cache of the vfs)
//!   directory, ifile, cpfile, sufile, DAT     blocks that were used, clean or dirty
//! ```

use crate::layout::BlockBytes;
use crate::tree::{Blocks, Tree};
use granary_device::Structure;
use granary_fs::Result;
use granary_units::Page;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
pub(crate) struct Buffers {
    pub ino: u64,
    pub tree: Tree,
    pub pages: BTreeMap<u64, Page>,
    pub dirty: BTreeSet<u64>,
    /// Structure of its content in the counters.
    pub what: Structure,
    /// Key and pointer of the block that was mapped last: where the next one's pointer is looked for.
    pub last: (u64, u64),
}

impl Buffers {
    pub fn new(ino: u64, tree: Tree, what: Structure) -> Buffers {
        Buffers { ino, tree, pages: BTreeMap::new(), dirty: BTreeSet::new(), what, last: (0, 0) }
    }

    /// A block, read where it is not here; a hole is zeros.
    pub fn block(&mut self, index: u64, from: &mut dyn Blocks) -> Result<&mut Page> {
        match self.pages.entry(index) {
            Entry::Occupied(page) => Ok(page.into_mut()),
            Entry::Vacant(place) => {
                let page = match self.tree.lookup(index, from)? {
                    Some(ptr) => from.load(ptr, self.what)?,
                    None => Page::ZERO,
                };
                Ok(place.insert(page))
            }
        }
    }

    /// The same to be changed: it is dirty afterwards.
    pub fn change(&mut self, index: u64, from: &mut dyn Blocks) -> Result<&mut BlockBytes> {
        self.block(index, from)?;
        self.dirty.insert(index);
        Ok(self.block(index, from)?.bytes_mut())
    }

    /// A block with this content, dirty.
    pub fn put(&mut self, index: u64, page: Page) {
        self.pages.insert(index, page);
        self.dirty.insert(index);
    }

    /// Whether a log has to have something of it.
    pub fn is_dirty(&self) -> bool {
        self.tree.dirty || !self.dirty.is_empty()
    }

    /// Lets go of clean blocks and nodes; how many blocks.
    pub fn evict(&mut self) {
        let dirty = &self.dirty;
        self.pages.retain(|index, _| dirty.contains(index));
        self.tree.evict();
    }
}
