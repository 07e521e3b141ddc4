//! [`Attributes`] of [`Nilfs2`]. The kernel's has no extended attributes either.

use crate::{Held, Nilfs2};
use granary_fs::{Attributes, Call, Inode, Result, SetAttr};

impl Attributes for Nilfs2 {
    granary_fs::file_system_lacks!(xattrs);

    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.set_attributes(call, inode, set)
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        if self.options.cp.is_none() {
            inode.update(|a| a.atime = call.time);
            // Readers do not wait for logs: the next one has it, or the one after.
            self.state.lock().note(inode);
            self.kick();
        }
        Ok(())
    }

    fn generation(&self, inode: &Inode) -> u32 {
        inode.private::<Held>().generation
    }
}
