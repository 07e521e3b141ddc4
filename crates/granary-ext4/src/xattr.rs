//! Extended attributes: in the inode while they fit there, else in one block, as the kernel does.
//!
//! ```text
//!   inode 256 B: ... | 98 B of attributes        a set: inode, and where the block is concerned: block,
//!                                                bitmap,
//!        └─ xattr block 4064 B                            descriptor, the block before     one handle
//!             └─ shared with every inode that has the same string
//! ```
//!
//! A new string is looked for among the blocks that are known ([`crate::mbcache`]); one that is there gets a
//! user more. Else an inode that has its block alone writes into it, any other takes a new one. So the string
//! of a block with several users never changes, and the last user frees it. All of that under `Ext4::shared`,
//! which is taken within a handle.
//!
//! An attribute lies wholly in one of the two. Beyond both there is ENOSPC. It does *not* keep large values
//! in inodes of their own (`ea_inode`). A block that cannot be read is left where an inode leaves it, and
//! stays marked in use: `check` finds it.

use crate::alloc::{Purpose, Wanted};
use crate::file::owner;
use crate::fs::Ext4;
use crate::journal::Handle;
use crate::layout::inode::{EXTENTS, XATTR_ROOM};
use crate::layout::{corrupt, xattr};
use crate::mbcache::Known;
use crate::node::{Node, number, show_blocks};
use granary_device::Structure;
use granary_fs::{Attributes, Call, FsError, Inode, Result, SetAttr};
use granary_kit::{Block, xattr_string};
use granary_sim::costs;
use granary_units::Lpa;
use std::sync::Arc;

/// Credits: inode, the block before and the block after; bitmap and descriptor of each.
const XATTR: u32 = 12;

impl Ext4 {
    /// The inode's own attributes, and those in its block.
    fn xattrs(&self, inode: &Inode) -> Result<(Vec<u8>, Vec<u8>)> {
        let (own, lba) = {
            let s = inode.private::<Node>().state.lock();
            (s.xattrs.clone(), s.xattr_block)
        };
        if lba == 0 {
            return Ok((own, Vec::new()));
        }
        let mut known = self.shared.lock();
        let (_, other) = self.xattr_block(lba, number(inode.ino()))?;
        known.add(lba, &other.string);
        Ok((own, other.string))
    }

    /// An attribute block and its content, read for inode `ino`.
    fn xattr_block(&self, lba: u64, ino: u32) -> Result<(Arc<Block>, xattr::Shared)> {
        if lba >= self.groups.geo.blocks {
            return Err(corrupt(format!("extended attributes at {lba}, outside")));
        }
        let block = self.cache.get(Lpa(lba), Structure::Inode)?;
        let says = block.with(|b| xattr::read(b, lba, ino))?;
        Ok((block, says))
    }

    /// Gives the inode a block with `string` (none where it is empty). The caller marks the inode.
    fn place_xattrs(&self, h: &mut Handle<'_>, inode: &Inode, string: &[u8]) -> Result<()> {
        let (node, ino) = (inode.private::<Node>(), number(inode.ino()));
        if string.is_empty() {
            return self.free_xattr_block(h, inode);
        }
        let mut known = self.shared.lock();
        let old = node.state.lock().xattr_block;
        let new = if let Some((lba, block, users)) = self.same_xattrs(&mut known, old, string) {
            h.change(&block, |b| xattr::write(b, lba, users + 1, string));
            lba
        } else if let Some(block) = self.own_xattr_block(old, ino)? {
            h.change(&block, |b| xattr::write(b, old, 1, string));
            known.add(old, string);
            return Ok(());
        } else {
            // A short symbolic link has no tree to look into.
            let has_tree = node.state.lock().flags & EXTENTS != 0;
            let goal = if has_tree { self.goal(owner(inode), 0)? } else { 0 };
            let wanted = Wanted { ino, logical: 0, len: 1, file_blocks: 1, goal, purpose: Purpose::Meta };
            let (lba, _) = self.groups.allocate(h, &wanted)?;
            let block = self.cache.fresh(Lpa(lba), Structure::Inode);
            h.change(&block, |b| xattr::write(b, lba, 1, string));
            known.add(lba, string);
            lba
        };
        if old != 0 {
            self.leave_xattr_block(h, &mut known, old, ino)?;
        }
        let mut s = node.state.lock();
        s.xattr_block = new;
        s.blocks += u64::from(old == 0); // counted by each of its users, as in the kernel
        Ok(())
    }

    /// The block `lba` (0 = none) where inode `ino` is its only user.
    fn own_xattr_block(&self, lba: u64, ino: u32) -> Result<Option<Arc<Block>>> {
        if lba == 0 {
            return Ok(None);
        }
        let (block, says) = self.xattr_block(lba, ino)?;
        Ok((says.users == 1).then_some(block))
    }

    /// A block other than `own` that holds `string` and has room for a user more: where, itself, its users.
    fn same_xattrs(&self, known: &mut Known, own: u64, string: &[u8]) -> Option<(u64, Arc<Block>, u32)> {
        for lba in known.candidates(string).into_iter().filter(|lba| *lba != own) {
            match self.xattr_block(lba, 0) {
                Ok((block, says)) if says.string == string && says.users < xattr::MAX_USERS => {
                    return Some((lba, block, says.users));
                }
                Ok(_) => {}
                // Damaged, or of before blocks were shared: never asked for again.
                Err(_) => known.remove(lba),
            }
        }
        None
    }

    /// A block has a user less, and is freed by its last.
    fn leave_xattr_block(&self, h: &mut Handle<'_>, known: &mut Known, lba: u64, ino: u32) -> Result<()> {
        let (block, says) = match self.xattr_block(lba, ino) {
            Ok(found) => found,
            // The other users of this block are not known: it stays, and `check` tells. An inode can be
            // removed nevertheless.
            Err(_) => {
                known.remove(lba);
                return Ok(());
            }
        };
        if says.users > 1 {
            h.change(&block, |b| xattr::write(b, lba, says.users - 1, &says.string));
            return Ok(());
        }
        known.remove(lba);
        self.groups.free_meta(h, lba, 1)
    }

    /// The inode leaves its block of attributes, if it has one. The caller marks the inode.
    pub(crate) fn free_xattr_block(&self, h: &mut Handle<'_>, inode: &Inode) -> Result<()> {
        let node = inode.private::<Node>();
        let lba = node.state.lock().xattr_block;
        if lba == 0 {
            return Ok(());
        }
        self.leave_xattr_block(h, &mut self.shared.lock(), lba, number(inode.ino()))?;
        let mut s = node.state.lock();
        s.xattr_block = 0;
        s.blocks -= 1;
        Ok(())
    }
}

impl Attributes for Ext4 {
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.set_attributes(call, inode, set)
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        inode.update(|a| a.accessed(call.time));
        self.journal.run(2, |h| self.mark_inode(h, inode))
    }

    fn getxattr(&self, _call: &Call<'_>, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let (own, other) = self.xattrs(inode)?;
        let value = xattr_string::get(&own, name).or_else(|| xattr_string::get(&other, name));
        Ok(value.map(<[u8]>::to_vec))
    }

    fn setxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        let (own, before) = self.xattrs(inode)?;
        let (own, other) = (xattr_string::set(&own, name, None), xattr_string::set(&before, name, None));
        let place = |string: &[u8]| xattr_string::set(string, name, value);
        let (own, other) = match value.map(|v| xattr_string::entry_len(name, v)) {
            None => (own, other),
            Some(len) if own.len() + len <= XATTR_ROOM => (place(&own), other),
            Some(len) if other.len() + len <= xattr::ROOM => (own, place(&other)),
            Some(_) => return Err(FsError::NoSpace),
        };
        let other = xattr_string::ordered(&other);
        let node = inode.private::<Node>();
        self.transaction(XATTR, |h| {
            h.work(costs().xattr_update);
            if other != before {
                self.place_xattrs(h, inode, &other)?;
            }
            {
                let mut s = node.state.lock();
                s.xattrs.clone_from(&own);
                show_blocks(inode, &s);
            }
            inode.update(|a| a.changed(call.time));
            self.mark_inode(h, inode)
        })
    }

    fn listxattr(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        let (own, other) = self.xattrs(inode)?;
        let mut names = xattr_string::names(&own);
        names.extend(xattr_string::names(&other));
        Ok(names)
    }

    fn generation(&self, inode: &Inode) -> u32 {
        inode.private::<Node>().state.lock().generation
    }
}
