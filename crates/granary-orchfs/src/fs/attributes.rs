//! [`Attributes`] of [`OrchFs`]: attributes.

use crate::OrchFs;
use crate::node::node;
use crate::tx::Tx;
use granary_fs::{Attr, Attributes, Call, Inode, Result, SetAttr};

impl Attributes for OrchFs {
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.set_attributes(call, inode, set)
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        let node = node(inode);
        let state = node.state.write();
        let attr = Attr { atime: call.time, ..inode.attr() };
        let mut tx = Tx::new(self);
        tx.put_inode(node, &state, &attr);
        tx.commit(call.process)?;
        inode.update(|a| a.atime = call.time);
        Ok(())
    }

    fn getxattr(&self, _call: &Call<'_>, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(node(inode).state.read().attributes.get(name).cloned())
    }

    fn setxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.set_xattr(call, inode, name, value)
    }

    fn listxattr(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        Ok(node(inode).state.read().attributes.keys().cloned().collect())
    }

    fn generation(&self, inode: &Inode) -> u32 {
        node(inode).generation
    }
}
