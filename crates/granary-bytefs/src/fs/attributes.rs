//! [`Attributes`] of [`ByteFs`]: attributes.

use crate::ByteFs;
use granary_fs::{Attributes, Call, Inode, Result, SetAttr};

impl Attributes for ByteFs {
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.core.setattr(call, inode, set)
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        if !self.core.blind {
            self.core.touch_atime(inode, call.time);
        }
        Ok(())
    }

    fn getxattr(&self, _call: &Call<'_>, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.core.getxattr(inode, name)
    }

    fn setxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.core.setxattr(call, inode, name, value)
    }

    fn listxattr(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        self.core.listxattr(inode)
    }

    fn generation(&self, inode: &Inode) -> u32 {
        crate::node::node(inode).body.lock().generation
    }
}
