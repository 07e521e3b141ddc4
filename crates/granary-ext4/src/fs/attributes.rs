//! [`Attributes`] of [`Ext4`]: attributes.

use crate::Ext4;
use crate::node::Node;
use granary_fs::{Attributes, Call, Inode, Result, SetAttr};

impl Attributes for Ext4 {
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.set_attributes(call, inode, set)
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        inode.update(|a| a.atime = call.time);
        self.journal.run(2, |h| self.mark_inode(h, inode))
    }

    fn getxattr(&self, _call: &Call<'_>, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_xattr(inode, name)
    }

    fn setxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.set_xattr(call, inode, name, value)
    }

    fn listxattr(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        self.list_xattrs(inode)
    }

    fn generation(&self, inode: &Inode) -> u32 {
        inode.private::<Node>().state.lock().generation
    }
}
