//! [`Attributes`] of [`Nova`]: attributes.

use crate::Nova;
use crate::layout::entry;
use crate::layout::inode;
use crate::log::Pending;
use crate::namespace::node;
use crate::node::{AttrEntry, Body};
use granary_device::Structure;
use granary_fs::{Attributes, Call, FsError, Inode, Result, SetAttr};
use granary_pm::BLOCK;

impl Attributes for Nova {
    granary_fs::file_system_lacks!(xattrs);

    /// Changes attributes; with a smaller size, frees what lies beyond.
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        let node = node(inode);
        let mut st = node.state.write();
        let st = &mut *st;
        let old = inode.attr();
        let mut new = old;
        new.set(set, call.time);
        let cut = set.size.is_some_and(|s| s < old.size);
        // A page of the reserve only for what gives at least one back.
        let frees = match &st.body {
            Body::File(map) if cut => map.from(new.size.div_ceil(BLOCK)).next().is_some(),
            _ => false,
        };
        self.stores(|b| {
            let mut p = Pending::new(st);
            let e = entry::attr(p.epoch(st), &new, cut);
            match self.append(b, st, &mut p, inode.ino(), (&e, Structure::Inode, frees)) {
                Ok(addr) => {
                    self.commit(b, st, p)?;
                    self.attr_superseded(b, st)?;
                    self.link_superseded(b, st)?;
                    st.last_attr = AttrEntry { addr, flags: entry::attr_flags(&new, cut), size: new.size };
                }
                Err(FsError::NoSpace) if !frees => {
                    self.take_back(b, st, &p)?;
                    self.attributes_in_place(b, st, &new, cut)?;
                }
                Err(e) => return Err(e),
            }
            inode.update(|a| *a = new);
            if !cut {
                return b.write_back();
            }
            self.cut_file(b, inode, st, old.size, new.size)
        })?;
        self.clean_log(node, st)
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        // In place, and not waited for: the original, too, relaxes this one (`nova_dirty_inode`).
        inode.update(|a| a.accessed(call.time));
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
