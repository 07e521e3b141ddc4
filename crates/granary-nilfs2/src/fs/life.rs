//! [`Life`] of [`Nilfs2`]: mount, inodes in memory, unmount.

use crate::layout::ROOT_INO;
use crate::layout::superblock::CLEAN;
use crate::log::Kind;
use crate::{Held, LINK_MAX, MAX_FILE_SIZE, Nilfs2};
use granary_fs::{
    CachePolicy, Call, DirtyPages, Entrance, Features, Ino, Inode, Life, Loaded, Quirks, Result,
};
use std::sync::{Arc, Weak};

impl Life for Nilfs2 {
    granary_fs::file_system_lacks!(opened, closed, drop_clean, process_ended, memory);

    fn name(&self) -> &'static str {
        "nilfs2"
    }

    fn features(&self) -> Features {
        Features {
            cache: CachePolicy::ALL,
            entrance: Entrance::Kernel,
            max_file_size: MAX_FILE_SIZE,
            max_links: LINK_MAX,
            many_subdirs: false,
            direct_io: false,
            quirks: Quirks::NONE,
        }
    }

    fn attach(&self, pages: Weak<dyn DirtyPages>) {
        *self.pages.lock() = Some(pages);
    }

    fn root(&self) -> Ino {
        Ino(ROOT_INO)
    }

    fn load_inode(&self, _call: &Call<'_>, ino: Ino) -> Result<Loaded> {
        let mut s = self.state.lock();
        let node = s.node(ino.0, &self.media)?;
        node.held = true;
        let (mut attr, generation) = (node.attr, node.generation);
        attr.size = attr.size.max(node.media_size);
        Ok(Loaded { attr, private: Arc::new(Held { ino: ino.0, generation }) })
    }

    fn evict(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        if self.options.cp.is_some() { Ok(()) } else { self.end_inode(inode) }
    }

    fn release(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        let ino = inode.private::<Held>().ino;
        let mut s = self.state.lock();
        let Some(node) = s.nodes.get_mut(&ino) else { return Ok(()) };
        node.held = false;
        if node.is_dirty() || s.dirty.contains(&ino) {
            s.unheld.insert(ino);
        } else {
            s.nodes.remove(&ino);
        }
        Ok(())
    }

    fn drop_caches(&self, _call: &Call<'_>) {
        self.state.lock().evict(0);
    }

    fn sync(&self, _call: &Call<'_>) -> Result<()> {
        self.working()?;
        if self.options.cp.is_none() {
            self.construct_if(&mut |s| s.dirty_since.map(|_| Kind::Full))?;
        }
        self.flush()
    }

    fn unmount(&self, call: &Call<'_>) -> Result<()> {
        let daemons = std::mem::take(&mut *self.daemons.lock());
        daemons.into_iter().for_each(granary_sim::Daemon::stop);
        if self.options.cp.is_some() {
            return Ok(());
        }
        self.sync(call)?;
        self.write_super(CLEAN)
    }

    fn check(&self, _call: &Call<'_>) -> Result<Vec<String>> {
        self.check_all()
    }
}
