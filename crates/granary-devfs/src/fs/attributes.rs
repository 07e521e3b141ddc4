//! [`Attributes`] of [`DevFs`]: attributes.

use crate::DevFs;
use crate::command::Op;
use granary_fs::{Attributes, Call, Inode, Result, SetAttr};

impl Attributes for DevFs {
    granary_fs::file_system_lacks!(xattrs);

    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.change(call, Op::SetAttr, &[inode], |fs| fs.setattr(call, inode, set))
    }

    /// A part of the read: no command of its own.
    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.cores.run(|| self.inner.touch_atime(call, inode))
    }

    fn generation(&self, inode: &Inode) -> u32 {
        self.inner.generation(inode)
    }
}
