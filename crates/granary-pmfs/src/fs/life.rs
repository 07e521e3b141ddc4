//! [`Life`] of [`Pmfs`]: mount, inodes in memory, unmount.

use crate::layout::inode::{PLACE, generation, links, parse};
use crate::mount::write_super;
use crate::{MAX_FILE_SIZE, Pmfs};
use granary_device::Structure;
use granary_fs::{
    CachePolicy, Call, Entrance, Features, FileKind, FsError, Ino, Inode, Life, Loaded, Quirks, Result,
};
use granary_pm::BLOCK;

impl Life for Pmfs {
    granary_fs::file_system_lacks!(opened, closed, drop_clean, process_ended, memory, attach, drop_caches);

    fn name(&self) -> &'static str {
        "pmfs"
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
        Ino(1)
    }

    fn load_inode(&self, _call: &Call<'_>, ino: Ino) -> Result<Loaded> {
        let addr = self.inode_addr(ino)?;
        let mut place = [0; PLACE as usize];
        self.pm.load(addr, &mut place[..80], Structure::Inode)?;
        if links(&place) == 0 {
            return Err(FsError::Stale);
        }
        let (attr, tree) = parse(&place, ino)?;
        self.checked(tree.root)?;
        if attr.size > MAX_FILE_SIZE || (attr.kind == FileKind::Symlink && attr.size >= BLOCK) {
            return Err(granary_pm::corrupt(format!("{ino}: a size of {}", attr.size)));
        }
        let parent = if attr.kind == FileKind::Dir {
            let dotdot = self.find(tree, attr.size.min(BLOCK), b"..")?;
            dotdot.ok_or_else(|| granary_pm::corrupt(format!("{ino}: a directory without \"..\"")))?.ino
        } else {
            0
        };
        Ok(self.loaded((ino, generation(&place)), addr, attr, tree, parent))
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
        self.pm.settle()?;
        // An error of the drive has left a removal or a cut undone: the next mount finishes it.
        if self.working().is_err() || !self.list.lock().is_empty() {
            return Ok(());
        }
        let Some(saved) = self.save_lists()? else {
            // No block is free for the lists: the next mount scans.
            return Ok(());
        };
        let mut sb = self.superblock;
        (sb.clean, sb.saved) = (true, saved);
        write_super(&self.pm.bare(), &sb)
    }

    fn check(&self, _call: &Call<'_>) -> Result<Vec<String>> {
        self.check_all()
    }
}
