//! [`Attributes`] of [`F2fs`]: attributes.

use crate::F2fs;
use crate::node::node;
use granary_fs::{Attributes, Call, Inode, Result, SetAttr};

impl Attributes for F2fs {
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.set_attributes(call, inode, set)
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        inode.update(|a| a.atime = call.time);
        self.mark_inode(inode, false);
        Ok(())
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
        node(inode).state.lock().generation
    }
}
