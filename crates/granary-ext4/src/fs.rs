//! [`Ext4`] as the vfs sees it: the traits of [`granary_fs::FileSystem`] over the operations of the other modules.

mod attributes;
mod data;
mod life;
mod names;
mod space;

use crate::Ext4;
use crate::layout::superblock::{DIRTY, Superblock};
use granary_device::Structure;
use granary_fs::Result;
use granary_units::{Lpa, Page};

/// Most hard links (EXT4_LINK_MAX); a directory that would have more stops counting (namei.rs).
pub(crate) const LINK_MAX: u32 = 65000;

impl Ext4 {
    /// Writes the superblock past the journal, as mount and unmount do.
    pub(crate) fn write_superblock(&self, state: u32) -> Result<()> {
        let free_blocks = self.groups.space().free;
        let free_inodes = self.groups.free_inodes() as u32;
        let page = self.superblock.change(|b| {
            let mut sb = Superblock::parse(b)?;
            sb.state = state.into();
            sb.free_blocks = free_blocks.into();
            sb.free_inodes = free_inodes.into();
            if state == DIRTY {
                sb.mounts = sb.mounts.get().wrapping_add(1).into();
            }
            sb.store(b);
            Ok::<_, granary_fs::FsError>(Page::from_bytes(b))
        })?;
        self.port.write(Lpa(0), &[page], Structure::Superblock)?;
        self.journal.flush()
    }
}
