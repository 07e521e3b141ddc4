//! Extended attributes: in the inode's 200 B, and the rest in a node.
//!
//! ```text
//!   set   string of all attributes -> inode [-> node, made where it is needed, freed where not]
//!         one operation
//!   fsync inode and node, marked; recovery takes the last marked copy of each (recover.rs)
//! ```
//!
//! Beyond the two (4248 B) there is E2BIG, as in the kernel. Directories' fsync is a checkpoint anyway. A
//! node that is freed is one that the inode does not name any more: recovery frees it, too.
//!
//! Source: the kernel's fs/f2fs/xattr.c (`read_all_xattrs`, `write_all_xattrs`).

use crate::cache::CachedBlock;
use crate::fs::F2fs;
use crate::layout::node::{Footer, XATTR_PLACE};
use crate::layout::xattr;
use crate::node::{Node, node};
use granary_fs::{Attributes, Call, FsError, Inode, Result, SetAttr};
use granary_kit::xattr_string;
use granary_sim::{costs, cpu};
use std::sync::Arc;

impl F2fs {
    /// All attributes of an inode.
    fn xattrs(&self, own: &Node) -> Result<Vec<u8>> {
        let other = self.xattr_node(own)?.map(|e| e.snapshot().to_bytes());
        self.inode_node(own.ino)?.with(|b| xattr::read(b, other.as_ref(), own.ino))
    }

    pub(crate) fn xattr_node(&self, own: &Node) -> Result<Option<Arc<CachedBlock>>> {
        let nid = own.state.lock().xattr;
        if nid == 0 { Ok(None) } else { self.node(own.ino, nid).map(Some) }
    }

    /// Makes or frees the node, as needed; returns it. Under the inode lock.
    pub(crate) fn place_xattrs(&self, own: &Node, needed: bool) -> Result<Option<Arc<CachedBlock>>> {
        let _grow = self.grow_lock(own.ino);
        match (self.xattr_node(own)?, needed) {
            (None, true) => {
                let flags = self.inode_node(own.ino)?.with(Footer::read).flags;
                let (nid, entry) = self.make_node(own, XATTR_PLACE, flags)?;
                own.state.lock().xattr = nid;
                Ok(Some(entry))
            }
            (Some(entry), false) => {
                let nid = entry.key.1;
                drop(entry);
                self.free_node(own.ino, nid)?;
                let mut s = own.state.lock();
                s.xattr = 0;
                s.blocks = s.blocks.saturating_sub(1);
                Ok(None)
            }
            (entry, _) => Ok(entry),
        }
    }
}

impl Attributes for F2fs {
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.set_attributes(call, inode, set)
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        inode.update(|a| a.accessed(call.time));
        self.mark_inode(inode, false);
        Ok(())
    }

    fn getxattr(&self, _call: &Call<'_>, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let string = self.xattrs(node(inode))?;
        Ok(xattr_string::get(&string, name).map(<[u8]>::to_vec))
    }

    fn setxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        let own = node(inode);
        {
            let _op = self.op()?;
            let _lock = self.inode_lock(own.ino);
            let string = xattr_string::set(&self.xattrs(own)?, name, value);
            if string.len() > xattr::ROOM {
                return Err(FsError::TooLong);
            }
            let before = own.state.lock().blocks;
            let placed = self.place_xattrs(own, xattr::needs_node(&string));
            self.counted(inode, before);
            if let Some(other) = placed? {
                self.nodes.change(&other, |b| xattr::write_node(b, &string));
            }
            let entry = self.inode_node(own.ino)?;
            self.nodes.change(&entry, |b| xattr::write_inline(b, own.ino, &string));
            inode.update(|a| a.changed(call.time));
            self.mark_inode(inode, true);
        }
        cpu(costs().xattr_update);
        Ok(())
    }

    fn listxattr(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        Ok(xattr_string::names(&self.xattrs(node(inode))?))
    }

    fn generation(&self, inode: &Inode) -> u32 {
        node(inode).state.lock().generation
    }
}
