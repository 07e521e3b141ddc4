//! [`Life`] of [`OrchFs`]: inodes in memory, unmount.

use crate::fs::OrchFs;
use crate::geometry::{MAX_FILE_SIZE, MAX_LINKS};
use crate::layout::Area;
use crate::mkfs::ROOT;
use crate::node::node;
use crate::options::Partition;
use crate::unit::Unit;
use granary_fs::{Attr, CachePolicy, Call, Entrance, Features, Ino, Inode, Life, Loaded, Quirks, Result};
use std::sync::atomic::Ordering::Relaxed;

impl Life for OrchFs {
    granary_fs::file_system_lacks!(opened, closed, drop_clean, attach);

    fn name(&self) -> &'static str {
        match self.options.partition {
            Partition::Orchfs => "orchfs",
            Partition::Phfs => "phfs",
        }
    }

    fn features(&self) -> Features {
        Features {
            cache: CachePolicy::NONE,
            // A library in the program, which has the NVM mapped (section 4).
            entrance: Entrance::Direct,
            max_file_size: MAX_FILE_SIZE,
            max_links: MAX_LINKS,
            many_subdirs: false,
            direct_io: true,
            quirks: Quirks {
                zero_beyond_end: true,
                zeroes_edges: true,
                parallel_writes: true,
                ..Quirks::NONE
            },
        }
    }

    fn root(&self) -> Ino {
        Ino(ROOT)
    }

    fn load_inode(&self, _call: &Call<'_>, ino: Ino) -> Result<Loaded> {
        self.load_node(ino)
    }

    /// Frees an inode without links, and all that it has.
    fn evict(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        let process = call.process;
        let node = node(inode);
        let mut state = node.state.write();
        let mut tx = crate::tx::Tx::new(self);
        crate::mount::reach(node, &state, &mut |area, number| {
            if area != Area::Inode {
                tx.free(area, number);
            }
            Ok(())
        })?;
        tx.put_free_inode(node.ino.0);
        tx.commit_as_holder(node.ino.0, process)?;
        node.gone.store(true, Relaxed);
        {
            let mut victims = self.victims.lock();
            state
                .tree
                .range(0, u64::MAX)
                .for_each(|(block, _)| victims.touch(node.ino.0, block, &Unit::Hole));
        }
        *state = Default::default();
        self.nodes.lock().remove(&node.ino.0);
        inode.update(|a| *a = Attr { blocks: 0, ..*a });
        Ok(())
    }

    fn release(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        // A migration of one of its blocks ends first; none begins with this node any more.
        let node = node(inode);
        let _state = node.state.write();
        node.gone.store(true, Relaxed);
        self.nodes.lock().remove(&inode.ino().0);
        self.revoked.lock().remove(&inode.ino().0);
        Ok(())
    }

    fn process_ended(&self, _call: &Call<'_>, process: u32) {
        // A journal that cannot be digested now is digested by who needs one of its files, or by the unmount,
        // which says why it fails.
        let _ = OrchFs::process_ended(self, process);
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        std::iter::once(("orchfs.read_cache", self.engine.cache().bytes())).chain(self.space()).collect()
    }

    fn drop_caches(&self, _call: &Call<'_>) {
        self.engine.cache().clear();
    }

    fn sync(&self, _call: &Call<'_>) -> Result<()> {
        self.check_alive()?;
        self.pm.batch().fence()
    }

    fn unmount(&self, _call: &Call<'_>) -> Result<()> {
        let daemons = std::mem::take(&mut *self.daemons.lock());
        daemons.into_iter().for_each(granary_sim::Daemon::stop);
        self.engine.stop();
        self.check_alive()?;
        self.digest_all()?;
        let mut checkpoint = self.checkpoint.lock();
        checkpoint.clean = true;
        checkpoint.write(&self.pm)
    }

    fn check(&self, _call: &Call<'_>) -> Result<Vec<String>> {
        self.check_all()
    }
}
