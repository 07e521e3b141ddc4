//! [`Life`] of [`ByteFs`]: mount, inodes in memory, unmount.

use crate::check;
use crate::fs::ByteFs;
use crate::layout::superblock::{CLEAN, CLEAN_LOOSE};
use crate::mkfs::ROOT;
use crate::node::node;
use crate::options::DataMode;
use crate::supers::{check_copies, write_superblock};
use granary_fs::{CachePolicy, Call, Entrance, Features, Ino, Inode, Life, Loaded, Quirks, Result};
use zerocopy::little_endian::U32;

impl Life for ByteFs {
    granary_fs::file_system_lacks!(opened, closed, drop_clean, process_ended, memory, attach);

    fn name(&self) -> &'static str {
        self.core.options.variant.name()
    }

    fn features(&self) -> Features {
        let journaled = self.core.options.data == DataMode::Journal;
        Features {
            cache: CachePolicy::ALL,
            entrance: Entrance::Kernel,
            max_file_size: i64::MAX as u64,
            max_links: u32::MAX - 1,
            many_subdirs: false,
            direct_io: true,
            quirks: Quirks {
                reserves_worst_case: true,
                writes_through: journaled,
                zeroes_edges: journaled,
                ..Quirks::NONE
            },
        }
    }

    fn root(&self) -> Ino {
        Ino(ROOT as u64)
    }

    fn load_inode(&self, _call: &Call<'_>, ino: Ino) -> Result<Loaded> {
        self.core.load(ino)
    }

    fn evict(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.core.evict(inode)
    }

    fn release(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        let core = &*self.core;
        core.unreserve_from(&mut node(inode).body.lock(), 0);
        core.persist(node(inode))
    }

    fn drop_caches(&self, _call: &Call<'_>) {
        self.core.cache.drop_clean();
    }

    fn sync(&self, _call: &Call<'_>) -> Result<()> {
        if self.core.blind { Ok(()) } else { self.core.sync() }
    }

    fn unmount(&self, _call: &Call<'_>) -> Result<()> {
        let daemon = self.committer.lock().take();
        if let Some(daemon) = daemon {
            daemon.stop();
        }
        if self.core.blind {
            return Ok(());
        }
        self.core.sync()?;
        // Lines that the redo log has put where they belong may still be on their way.
        self.core.port.verify()?;
        let mut sb = *self.superblock.lock();
        sb.state = U32::new(if self.core.loose { CLEAN_LOOSE } else { CLEAN });
        sb.next_tx = U32::new(self.core.journal.next_tx().max(1));
        write_superblock(&self.core.port, &sb)?;
        *self.superblock.lock() = sb;
        Ok(self.core.port.flush()?)
    }

    fn check(&self, _call: &Call<'_>) -> Result<Vec<String>> {
        let mut bad = check::check(&self.core)?;
        bad.extend(self.from_copy.iter().map(|n| {
            format!(
                "block 0: the superblock was damaged; the file system was mounted with its copy in block {n}"
            )
        }));
        let sb = *self.superblock.lock();
        bad.extend(check_copies(&self.core.port, &sb));
        if self.core.options.variant.write_log() {
            bad.extend(self.core.data_journal.check(&self.core.port)?);
        }
        Ok(bad)
    }
}
