//! [`Attributes`] of [`Pmfs`]: attributes.

use crate::{Pmfs, node};
use granary_device::Structure;
use granary_fs::{Attributes, Call, Inode, Result, SetAttr};

impl Attributes for Pmfs {
    granary_fs::file_system_lacks!(xattrs);

    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.set_attributes(call, inode, set)
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        // In place, eight bytes, without a fence (`pmfs_dirty_inode`).
        inode.update(|a| a.atime = call.time);
        self.stores(|b| {
            b.put_u64(node(inode).addr + 16, call.time.0 as u64, Structure::Inode)?;
            b.write_back()
        })
    }

    fn generation(&self, inode: &Inode) -> u32 {
        node(inode).generation
    }
}
