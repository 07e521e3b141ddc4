//! [`Life`] of [`F2fs`]: mount, inodes in memory, unmount.

use crate::fs::F2fs;
use crate::layout::node::{MAX_FILE_SIZE, ROOT_INO};
use crate::node::{Unsynced, node};
use granary_fs::{CachePolicy, Call, Entrance, Features, Ino, Inode, Life, Loaded, Quirks, Result};
use std::sync::atomic::Ordering::Relaxed;

/// Most hard links (F2FS_LINK_MAX is 2^32 - 1; ours leaves room for the count itself).
pub(crate) const LINK_MAX: u32 = u32::MAX - 1;

impl Life for F2fs {
    granary_fs::file_system_lacks!(opened, closed, drop_clean, process_ended, memory, attach);

    fn name(&self) -> &'static str {
        "f2fs"
    }

    fn features(&self) -> Features {
        Features {
            cache: CachePolicy::ALL,
            entrance: Entrance::Kernel,
            max_file_size: MAX_FILE_SIZE,
            max_links: LINK_MAX,
            many_subdirs: false,
            direct_io: true,
            quirks: Quirks::NONE,
        }
    }

    fn root(&self) -> Ino {
        Ino(ROOT_INO as u64)
    }

    fn load_inode(&self, _call: &Call<'_>, ino: Ino) -> Result<Loaded> {
        Ok(self.load(ino)?.loaded())
    }

    fn evict(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.end_inode(inode)
    }

    fn release(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        let left = {
            let s = node(inode).state.lock();
            s.dirty || s.unsynced != Unsynced::default()
        };
        if left && !self.broken.load(Relaxed) { self.unload(node(inode)) } else { Ok(()) }
    }

    fn drop_caches(&self, _call: &Call<'_>) {
        self.nodes.drop_clean();
        self.dents.drop_clean();
        self.tables.drop_clean();
    }

    fn sync(&self, _call: &Call<'_>) -> Result<()> {
        self.sync_all()
    }

    fn unmount(&self, _call: &Call<'_>) -> Result<()> {
        let daemons = std::mem::take(&mut *self.daemons.lock());
        daemons.into_iter().for_each(granary_sim::Daemon::stop);
        self.checkpoint(true)?;
        if self.options.discard {
            self.discard_some(usize::MAX, 1);
        }
        Ok(())
    }

    fn check(&self, _call: &Call<'_>) -> Result<Vec<String>> {
        self.check_all()
    }
}
