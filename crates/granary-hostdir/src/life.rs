//! The mount, and inodes coming and going.

use crate::errno::error;
use crate::{HostDir, of};
use granary_fs::{CachePolicy, Call, Entrance, Features, FileKind, Ino, Inode, Life, Loaded, Quirks, Result};

impl Life for HostDir {
    granary_fs::file_system_lacks!(opened, closed, process_ended, memory, attach, drop_caches);

    fn name(&self) -> &'static str {
        "hostdir"
    }

    /// How large files and how many links may be, the host says when it has enough.
    fn features(&self) -> Features {
        Features {
            cache: CachePolicy::NONE,
            entrance: Entrance::Kernel,
            max_file_size: i64::MAX as u64,
            max_links: u32::MAX,
            many_subdirs: true,
            direct_io: true,
            quirks: Quirks { zero_beyond_end: true, zeroes_edges: true, ..Quirks::NONE },
        }
    }

    fn root(&self) -> Ino {
        self.root.number()
    }

    fn drop_clean(&self, _call: &Call<'_>, inode: &Inode) {
        if inode.view(|a| a.kind) == FileKind::File
            && let Ok(file) = of(inode).bytes(false)
        {
            let _ = rustix::fs::fadvise(&*file, 0, None, rustix::fs::Advice::DontNeed);
        }
    }

    fn load_inode(&self, _call: &Call<'_>, ino: Ino) -> Result<Loaded> {
        let host = self.table.host(ino)?;
        host.enter()?;
        Ok(Loaded { attr: host.attr()?, private: host })
    }

    /// The host frees it with its last descriptor; its number may come again from then on, so the table
    /// forgets it first.
    fn evict(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        let host = of(inode);
        self.table.forget(&host);
        host.close();
        Ok(())
    }

    fn release(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        of(inode).leave();
        Ok(())
    }

    fn sync(&self, _call: &Call<'_>) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        rustix::fs::syncfs(self.root.directory()?).map_err(error)
    }

    fn unmount(&self, call: &Call<'_>) -> Result<()> {
        self.sync(call)?;
        self.table.clear(&self.root);
        Ok(())
    }

    /// Checks nothing: the media are a matter for the host's own fsck.
    fn check(&self, _call: &Call<'_>) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}
