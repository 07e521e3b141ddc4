//! Extended attributes: in the inode while they fit there, else in one block, as the kernel does.
//!
//! ```text
//!   inode 256 B: ... | 98 B of attributes        a set: inode, and where the block is concerned: block, bitmap,
//!        └─ xattr block 4064 B                            descriptor                            one handle
//! ```
//!
//! An attribute lies wholly in one of the two. Beyond both there is ENOSPC. It does *not* share blocks between inodes,
//! nor keep large values in inodes of their own (`ea_inode`).

use crate::Ext4;
use crate::alloc::{Purpose, Wanted};
use crate::file::owner;
use crate::journal::Handle;
use crate::layout::inode::{EXTENTS, XATTR_ROOM};
use crate::layout::{corrupt, xattr};
use crate::node::{Node, number, show_blocks};
use granary_mssd::Structure;
use granary_units::Lpa;
use granary_vfs::{Block, Cx, FsError, Inode, Result, xattr_string};
use std::sync::Arc;

/// Credits: inode, block, bitmap and descriptor of a block that comes or goes.
const XATTR: u32 = 12;

impl Ext4 {
    /// The inode's own attributes, and those in its block.
    fn xattrs(&self, inode: &Inode) -> Result<(Vec<u8>, Vec<u8>)> {
        let (own, lba) = {
            let s = inode.private::<Node>().state.lock();
            (s.xattrs.clone(), s.xattr_block)
        };
        let other = match lba {
            0 => Vec::new(),
            lba => self.xattr_block(lba)?.with(|b| xattr::read(b, number(inode.ino())))?,
        };
        Ok((own, other))
    }

    fn xattr_block(&self, lba: u64) -> Result<Arc<Block>> {
        if lba >= self.groups.geo.blocks {
            return Err(corrupt(format!("extended attributes at {lba}, outside")));
        }
        self.cache.get(Lpa(lba), Structure::Inode)
    }

    pub(crate) fn get_xattr(&self, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let (own, other) = self.xattrs(inode)?;
        let value = xattr_string::get(&own, name).or_else(|| xattr_string::get(&other, name));
        Ok(value.map(<[u8]>::to_vec))
    }

    pub(crate) fn list_xattrs(&self, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        let (own, other) = self.xattrs(inode)?;
        let mut names = xattr_string::names(&own);
        names.extend(xattr_string::names(&other));
        Ok(names)
    }

    pub(crate) fn set_xattr(
        &self,
        cx: &Cx<'_>,
        inode: &Inode,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        let (own, other) = self.xattrs(inode)?;
        let (own, other) = (xattr_string::set(&own, name, None), xattr_string::set(&other, name, None));
        let place = |string: &[u8]| xattr_string::set(string, name, value);
        let (own, other) = match value.map(|v| xattr_string::entry_len(name, v)) {
            None => (own, other),
            Some(len) if own.len() + len <= XATTR_ROOM => (place(&own), other),
            Some(len) if other.len() + len <= xattr::ROOM => (own, place(&other)),
            Some(_) => return Err(FsError::NoSpace),
        };
        let node = inode.private::<Node>();
        self.transaction(XATTR, |h| {
            let lba = node.state.lock().xattr_block;
            match (lba, other.is_empty()) {
                (0, true) => {}
                (_, true) => self.free_xattr_block(h, node)?,
                (0, false) => {
                    // A short symbolic link has no tree to look into.
                    let has_tree = node.state.lock().flags & EXTENTS != 0;
                    let goal = if has_tree { self.goal(owner(inode), 0)? } else { 0 };
                    let wanted = Wanted {
                        ino: number(inode.ino()),
                        logical: 0,
                        len: 1,
                        file_blocks: 1,
                        goal,
                        purpose: Purpose::Meta,
                    };
                    let (lba, _) = self.groups.allocate(h, &wanted)?;
                    let block = self.cache.fresh(Lpa(lba), Structure::Inode);
                    h.change(&block, |b| xattr::write(b, number(inode.ino()), &other));
                    let mut s = node.state.lock();
                    s.xattr_block = lba;
                    s.blocks += 1;
                }
                (lba, false) => {
                    let block = self.xattr_block(lba)?;
                    h.change(&block, |b| xattr::write(b, number(inode.ino()), &other));
                }
            }
            {
                let mut s = node.state.lock();
                s.xattrs.clone_from(&own);
                show_blocks(inode, &s);
            }
            inode.update(|a| a.ctime = cx.time);
            self.mark_inode(h, inode)
        })
    }

    /// Frees the block of attributes, if any. The caller marks the inode.
    pub(crate) fn free_xattr_block(&self, h: &mut Handle<'_>, node: &Node) -> Result<()> {
        let lba = node.state.lock().xattr_block;
        if lba != 0 {
            self.groups.free_meta(h, lba, 1)?;
            let mut s = node.state.lock();
            s.xattr_block = 0;
            s.blocks -= 1;
        }
        Ok(())
    }
}
