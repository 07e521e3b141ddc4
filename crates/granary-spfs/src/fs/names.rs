//! Names are the lower file system's.

use crate::Spfs;
use crate::node::{self, Node, below};
use granary_vfs::{Created, Inode, Loaded, NodeRef, Result};
use std::sync::Arc;

impl Spfs {
    fn below(&self, inode: &Inode) -> Result<NodeRef> {
        below(inode)
    }

    fn created(&self, below: NodeRef) -> Created {
        let (ino, attr) = (below.ino(), self.lower.stat(&below).attr);
        let private: Arc<Node> = self.made(below);
        Created { ino, loaded: Loaded { attr, private: Arc::new(private) } }
    }

    /// Names of these inodes were changed below.
    fn renamed(&self, inodes: &[&Inode]) -> Result<()> {
        inodes.iter().try_for_each(|inode| {
            node::of(inode).touch();
            self.follow(inode)
        })
    }
}

granary_vfs::names_of_lower!(Spfs);
