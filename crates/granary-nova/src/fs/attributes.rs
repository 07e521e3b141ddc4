//! [`Attributes`] of [`Nova`]: attributes.

use crate::Nova;
use crate::layout::inode;
use crate::namespace::node;
use granary_device::Structure;
use granary_fs::{Attributes, Call, Inode, Result, SetAttr};

impl Attributes for Nova {
    granary_fs::file_system_lacks!(xattrs);

    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.set_attributes(call, inode, node(inode), set)
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        // In place, and not waited for: the original, too, relaxes this one (`nova_dirty_inode`).
        inode.update(|a| a.atime = call.time);
        let st = node(inode).state.read();
        let mut b = self.pm.batch();
        b.put_u64(st.slot + inode::ATIME, call.time.0 as u64, Structure::Inode)?;
        // The epoch says that the time is newer than the log's: it must not arrive beside an older one.
        b.fence()?;
        b.put_u32(st.slot + inode::ATIME_EPOCH, st.epoch, Structure::Inode)?;
        b.write_back()
    }

    fn generation(&self, inode: &Inode) -> u32 {
        node(inode).generation
    }
}
