//! Coming and going.

use crate::fs::Spfs;
use crate::layout::CLEAN;
use crate::node::{self, Node};
use crate::promote::MAX_SIZE;
use granary_device::Structure;
use granary_fs::{CachePolicy, Call, Features, Ino, Inode, Life, Loaded, Quirks, Result};
use std::sync::Arc;

impl Spfs {
    fn stop_daemon(&self) {
        let daemon = self.daemon.lock().take();
        if let Some(daemon) = daemon {
            daemon.stop();
        }
    }

    /// Unmounts without demoting anything, whatever the options say.
    ///
    /// # Errors
    /// The devices', the lower file system's.
    pub fn leave(&self, call: &Call<'_>) -> Result<()> {
        self.stop_daemon();
        if self.read_only {
            return self.lower.vfs().unmount();
        }
        self.purge(call)?;
        self.part(&self.kernel())?;
        // "Clean" means that no mount recovers anything. So nothing below may come back after it: a name that
        // a file here has taken.
        self.lower.sync(&call.as_root())?;
        let (store, pm) = (&self.store, &self.store.pm);
        store.clusters.write_bitmap(pm, &store.sb)?;
        let mut b = pm.batch();
        b.put_u64(CLEAN, 1, Structure::Superblock)?;
        b.fence()?;
        self.lower.vfs().unmount()
    }
}

impl Life for Spfs {
    granary_fs::file_system_lacks!(opened, closed, attach);

    fn name(&self) -> &'static str {
        self.name
    }

    fn features(&self) -> Features {
        let lower = self.lower.features();
        Features {
            // Pages are in the lower vfs's cache, or in persistent memory.
            cache: CachePolicy::NONE,
            direct_io: true,
            max_file_size: lower.max_file_size.min(MAX_SIZE),
            quirks: Quirks {
                zero_beyond_end: true,
                zeroes_edges: true,
                watches_close: lower.quirks.watches_close,
                ..Quirks::NONE
            },
            ..lower
        }
    }

    fn root(&self) -> Ino {
        self.lower.root().ino()
    }

    fn load_inode(&self, _: &Call<'_>, ino: Ino) -> Result<Loaded> {
        let _loading = self.loading.read();
        let node = self.load_node(ino, true)?;
        let attr = {
            let state = node.read();
            self.attr(&node, &state)?
        };
        Ok(Loaded { attr, private: Arc::new(node) })
    }

    fn evict(&self, _: &Call<'_>, inode: &Inode) -> Result<()> {
        self.retire(inode.ino(), inode.private::<Arc<Node>>(), true)
    }

    fn release(&self, _: &Call<'_>, inode: &Inode) -> Result<()> {
        self.retire(inode.ino(), inode.private::<Arc<Node>>(), false)
    }

    fn process_ended(&self, _: &Call<'_>, process: u32) {
        self.lower.vfs().process_ended(process);
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.lower.vfs().fs().memory();
        all.push(("nvm.in_use", self.in_use()));
        all
    }

    fn drop_caches(&self, _: &Call<'_>) {
        self.lower.vfs().drop_caches();
    }

    fn drop_clean(&self, call: &Call<'_>, inode: &Inode) {
        // A file in persistent memory alone has nothing below.
        if let Ok(below) = node::below(inode) {
            self.lower.let_go(&call.as_root(), &below);
        }
    }

    fn sync(&self, call: &Call<'_>) -> Result<()> {
        self.lower.sync(&call.as_root())?;
        self.purge(call)
    }

    fn unmount(&self, call: &Call<'_>) -> Result<()> {
        self.stop_daemon();
        // A file that cannot go below stays here, whole and known: the error is told at the end.
        let demotes = self.options.demote_at_unmount && !self.read_only;
        let demoted = if demotes { self.demote_all() } else { Ok(()) };
        self.leave(call).and(demoted)
    }

    fn check(&self, call: &Call<'_>) -> Result<Vec<String>> {
        self.findings(call)
    }
}
