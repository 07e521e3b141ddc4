//! [`Life`] of [`Nova`]: mount, inodes in memory, unmount.

use crate::Nova;
use crate::mount::write_super;
use crate::replay::MAX_FILE_SIZE;
use granary_fs::{CachePolicy, Call, Entrance, Features, FsError, Ino, Inode, Life, Loaded, Quirks, Result};

impl Life for Nova {
    granary_fs::file_system_lacks!(opened, closed, drop_clean, process_ended, memory, attach, drop_caches);

    fn name(&self) -> &'static str {
        "nova"
    }

    fn features(&self) -> Features {
        Features {
            cache: CachePolicy::NONE,
            entrance: Entrance::Kernel,
            max_file_size: MAX_FILE_SIZE,
            max_links: 65000,
            many_subdirs: false,
            direct_io: true,
            quirks: Quirks { zero_beyond_end: true, ..Quirks::NONE },
        }
    }

    fn root(&self) -> Ino {
        self.root_ino()
    }

    fn load_inode(&self, _call: &Call<'_>, ino: Ino) -> Result<Loaded> {
        let slot = self.slot(ino)?;
        let r = self.replay(ino, slot, true)?.ok_or(FsError::Stale)?;
        Ok(self.loaded((ino, r.generation), r.attr, r.state, r.parent))
    }

    fn evict(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.evict_node(inode)
    }

    fn release(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.nodes.lock().remove(&inode.ino().0);
        Ok(())
    }

    fn sync(&self, _call: &Call<'_>) -> Result<()> {
        self.pm.batch().fence()
    }

    fn unmount(&self, _call: &Call<'_>) -> Result<()> {
        self.pm.batch().fence()?;
        let Some(saved) = self.save_lists()? else {
            // No block is free for the lists: the next mount scans.
            return Ok(());
        };
        let mut sb = self.superblock;
        (sb.clean, sb.saved) = (true, saved);
        write_super(&self.pm, &sb)
    }

    fn check(&self, _call: &Call<'_>) -> Result<Vec<String>> {
        self.check_all()
    }
}
