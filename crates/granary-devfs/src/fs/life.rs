//! [`Life`] of [`DevFs`]: mount, inodes in memory, unmount.

use crate::DevFs;
use crate::memory::Kind;
use crate::objects::Work;
use granary_fs::{Call, Features, Ino, Inode, Life, Loaded, Result};
use granary_sim::{costs, cpu};

impl Life for DevFs {
    granary_fs::file_system_lacks!(process_ended, attach, drop_caches, drop_clean);

    fn name(&self) -> &'static str {
        self.name
    }

    fn features(&self) -> Features {
        Features { entrance: self.entrance, ..self.inner.features() }
    }

    fn root(&self) -> Ino {
        self.inner.root()
    }

    fn load_inode(&self, call: &Call<'_>, ino: Ino) -> Result<Loaded> {
        self.cores.run(|| self.inner.load_inode(call, ino))
    }

    fn evict(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.cores.run(|| self.files.locked(&[inode], || self.inner.evict(call, inode)))?;
        self.objects.lock().forget(inode.ino().0);
        Ok(())
    }

    /// The vfs lets go of it; the drive's memory does not.
    fn release(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.inner.release(call, inode)
    }

    fn opened(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        let (ino, is_dir) = (inode.ino().0, super::is_dir(inode));
        self.cores.run(|| self.objects(|o| o.open(ino, is_dir)))
    }

    fn closed(&self, _call: &Call<'_>, inode: &Inode) {
        self.cores.run(|| {
            let work = self.objects.lock().close(inode.ino().0);
            if work != Work::default() {
                cpu(work.cost(costs()));
            }
        });
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let stats = self.memory_stats();
        let kinds = Kind::ALL.into_iter().map(|kind| (kind.name(), stats.ledger.bytes(kind)));
        let host = [
            ("host.dentry", stats.host_dentries * Kind::Dentry.bytes()),
            ("host.inode", stats.host_inodes * Kind::InodeHost.bytes()),
            ("device.most", stats.most),
            ("device.flush_set_most", self.log_stats().most_bytes),
        ];
        kinds.chain(host).filter(|(_, bytes)| *bytes > 0).collect()
    }

    fn sync(&self, call: &Call<'_>) -> Result<()> {
        self.cores.run(|| self.inner.sync(call))
    }

    fn unmount(&self, call: &Call<'_>) -> Result<()> {
        self.cores.run(|| self.inner.unmount(call))
    }

    fn check(&self, call: &Call<'_>) -> Result<Vec<String>> {
        let mut found = self.inner.check(call)?;
        let (said, counted) = self.recount();
        if said != counted {
            found.push(format!(
                "the ledger says {said} bytes of the drive's memory, the objects have {counted}"
            ));
        }
        Ok(found)
    }
}
