//! [`Life`] of [`Ext4`]: mount, inodes in memory, unmount.

use crate::fs::Ext4;
use crate::layout::MAX_FILE_SIZE;
use crate::layout::inode::ROOT_INO;
use crate::layout::superblock::{CLEAN, CLEAN_LOOSE, DIRTY, Superblock};
use crate::options::DataMode;
use granary_device::Structure;
use granary_fs::{
    CachePolicy, Call, DirtyPages, Entrance, Features, Ino, Inode, Life, Loaded, Quirks, Result,
};
use granary_units::{Lpa, Page};
use std::sync::Weak;

/// Most hard links (EXT4_LINK_MAX); a directory that would have more stops counting (namei.rs).
pub(crate) const LINK_MAX: u32 = 65000;

impl Life for Ext4 {
    granary_fs::file_system_lacks!(opened, closed, drop_clean, process_ended, memory);

    fn name(&self) -> &'static str {
        "ext4"
    }

    fn features(&self) -> Features {
        let journalled = self.options.data == DataMode::Journal;
        Features {
            cache: CachePolicy::ALL,
            entrance: Entrance::Kernel,
            max_file_size: MAX_FILE_SIZE,
            max_links: LINK_MAX,
            many_subdirs: true,
            // `ext4_should_use_dio`: journalled data has to pass through the journal.
            direct_io: !journalled,
            quirks: Quirks {
                flush_before_replace: self.options.auto_da_alloc,
                watches_close: true,
                writes_through: journalled,
                punches_last_page: true,
                ..Quirks::NONE
            },
        }
    }

    fn attach(&self, pages: Weak<dyn DirtyPages>) {
        *self.pages.lock() = Some(pages);
    }

    fn root(&self) -> Ino {
        Ino(ROOT_INO as u64)
    }

    fn load_inode(&self, _call: &Call<'_>, ino: Ino) -> Result<Loaded> {
        self.load(ino)
    }

    fn evict(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.end_inode(inode)
    }

    fn release(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.groups.discard(inode.ino().0 as u32);
        self.drop_promises(inode, 0);
        Ok(())
    }

    fn drop_caches(&self, _call: &Call<'_>) {
        self.cache.drop_clean();
    }

    fn sync(&self, _call: &Call<'_>) -> Result<()> {
        self.journal.sync()
    }

    fn unmount(&self, _call: &Call<'_>) -> Result<()> {
        self.journal.shut_down()?;
        self.journal.stop();
        for daemon in std::mem::take(&mut *self.daemons.lock()) {
            daemon.stop();
        }
        self.write_superblock(if self.loose { CLEAN_LOOSE } else { CLEAN })
    }

    fn check(&self, _call: &Call<'_>) -> Result<Vec<String>> {
        self.check_all()
    }
}

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
