//! [`ByteFs`]: the file system as the vfs sees it.

use crate::check;
use crate::core::Core;
use crate::layout::Superblock;
use crate::layout::superblock::{CLEAN, CLEAN_LOOSE};
use crate::mkfs::ROOT;
use crate::mount::RecoveryReport;
use crate::node::node;
use crate::options::DataMode;
use crate::supers::{check_copies, write_superblock};
use granary_sim::cpu;
use granary_sim::{Daemon, Signal};
use granary_units::{Dest, Page, Payload};
use granary_vfs::{
    Allocate, Created, Cx, DirEntry, DirtyPage, Features, FileKind, FileSystem, FsError, Ino, Inode, Loaded,
    NewNode, Rename, Result, SetAttr, StatFs, Time, WriteBackCause,
};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::U32;

/// What the journal did since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions sealed.
    pub transactions: u64,
    /// Transactions committed.
    pub committed: u64,
    /// Group commits that committed them.
    pub groups: u64,
    /// Transactions that waited for another's lines.
    pub conflicts: u64,
    /// Transactions that are storing their lines now.
    pub ongoing: u64,
    /// Metadata blocks in host memory.
    pub cached_blocks: u64,
    /// Blocks promised to pages that have none yet.
    pub reserved_blocks: u64,
}

/// A mounted ByteFS.
pub struct ByteFs {
    core: Arc<Core>,
    superblock: Mutex<Superblock>,
    report: RecoveryReport,
    /// The copy of the superblock that the mount had to use.
    from_copy: Option<u64>,
    committer: Mutex<Option<Daemon>>,
}

impl ByteFs {
    /// Starts the commit daemon.
    pub(crate) fn start(
        core: Core,
        superblock: Superblock,
        report: RecoveryReport,
        from_copy: Option<u64>,
    ) -> Arc<ByteFs> {
        let core = Arc::new(core);
        let (its, interval) = (Arc::clone(&core), core.options.commit_interval);
        let committer = Daemon::start("bytefs-commit", move |stopper| {
            while stopper.pause(interval) != Signal::Stop {
                // A failure has stopped the journal; whoever writes next learns it.
                let done = its.commit_to(its.journal.sealed()).and_then(|()| its.checkpoint_data(false));
                if done.is_err() {
                    return;
                }
            }
        });
        let _ = core.committer.set(committer.kicker());
        Arc::new(ByteFs {
            core,
            superblock: Mutex::new(superblock),
            report,
            from_copy,
            committer: Mutex::new(Some(committer)),
        })
    }

    /// In how many pieces every regular file lies on the drive, by what its inode says.
    ///
    /// # Errors
    /// Damaged inodes, the drive's.
    pub fn contiguity(&self) -> Result<Vec<crate::Contiguity>> {
        self.core.contiguity()
    }

    /// What the mount had to recover.
    pub fn recovery(&self) -> RecoveryReport {
        self.report
    }

    /// The file system's UUID.
    pub fn uuid(&self) -> [u8; 16] {
        self.superblock.lock().uuid
    }

    /// What the journal did.
    pub fn stats(&self) -> Stats {
        let journal = &self.core.journal;
        Stats {
            transactions: journal.sealed(),
            committed: journal.committed(),
            groups: journal.groups(),
            conflicts: self.core.locks.conflicts(),
            ongoing: self.core.locks.ongoing() as u64,
            reserved_blocks: self.core.space.reserved(),
            cached_blocks: self.core.cache.len() as u64,
        }
    }
}

impl FileSystem for ByteFs {
    fn name(&self) -> &'static str {
        self.core.options.variant.name()
    }

    fn features(&self) -> Features {
        Features {
            page_cache: true,
            max_file_size: i64::MAX as u64,
            max_links: u32::MAX - 1,
            many_subdirs: false,
        }
    }

    fn root(&self) -> Ino {
        Ino(ROOT as u64)
    }

    fn load_inode(&self, ino: Ino) -> Result<Loaded> {
        self.core.load(ino)
    }

    fn generation(&self, inode: &Inode) -> u32 {
        crate::node::node(inode).body.lock().generation
    }

    fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        let dir = node(dir);
        self.core.load_dir(dir, false)?;
        let found = self.core.find(dir, name)?;
        cpu(self.core.search_work(dir, found.is_some()));
        Ok(found.map(|f| Ino(f.ino as u64)))
    }

    fn readdir(&self, dir: &Inode, from: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.core.list(node(dir), from, emit)
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        self.core.dir_slots(node(dir))
    }

    fn parent(&self, dir: &Inode) -> Result<Ino> {
        match node(dir).kind {
            FileKind::Dir => Ok(Ino(node(dir).body.lock().parent as u64)),
            _ => Err(FsError::NotDir),
        }
    }

    fn is_empty_dir(&self, dir: &Inode) -> Result<bool> {
        let dir = node(dir);
        self.core.load_dir(dir, false)?;
        Ok(dir.body.lock().dir.as_ref().is_none_or(|d| d.len() == 0))
    }

    fn readlink(&self, inode: &Inode) -> Result<Vec<u8>> {
        self.core.readlink(inode)
    }

    fn create(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        self.core.create(cx, dir, name, new)
    }

    fn create_unnamed(&self, cx: &Cx<'_>, _dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        self.core.create_unnamed(cx, new)
    }

    fn link(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.core.link(cx, dir, name, inode)
    }

    fn unlink(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.core.unlink(cx, dir, name, inode)
    }

    fn rename(&self, cx: &Cx<'_>, rename: &Rename<'_>) -> Result<()> {
        self.core.rename(cx, rename)
    }

    fn setattr(&self, cx: &Cx<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.core.setattr(cx, inode, set)
    }

    fn touch_atime(&self, inode: &Inode, time: Time) -> Result<()> {
        if !self.core.blind {
            self.core.touch_atime(inode, time);
        }
        Ok(())
    }

    fn evict(&self, inode: &Inode) -> Result<()> {
        self.core.evict(inode)
    }

    fn release(&self, inode: &Inode) -> Result<()> {
        self.core.release(inode)
    }

    fn read_pages(&self, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        self.core.read_pages(inode, first, out)
    }

    fn reserve(&self, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.core.reserve(inode, pos, len)
    }

    fn wrote(&self, cx: &Cx<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.core.wrote(cx, inode, pos, len);
        Ok(())
    }

    fn write_pages(&self, inode: &Inode, pages: &[DirtyPage], _: WriteBackCause) -> Result<()> {
        self.core.write_pages(inode, pages)
    }

    fn read_direct(&self, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        self.core.read_direct(inode, pos, dest)
    }

    fn write_direct(&self, cx: &Cx<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        self.core.write_direct(cx, inode, pos, data)
    }

    fn fallocate(&self, cx: &Cx<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.core.fallocate(cx, inode, how, pos, len)
    }

    fn seek_data(&self, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        Ok(self.core.seek_data(inode, pos))
    }

    fn seek_hole(&self, inode: &Inode, pos: u64) -> Result<u64> {
        Ok(self.core.seek_hole(inode, pos))
    }

    fn getxattr(&self, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.core.getxattr(inode, name)
    }

    fn setxattr(&self, cx: &Cx<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.core.setxattr(cx, inode, name, value)
    }

    fn listxattr(&self, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        self.core.listxattr(inode)
    }

    fn drop_caches(&self) {
        self.core.cache.drop_clean();
    }

    fn reserves_worst_case(&self) -> bool {
        true
    }

    fn writes_through(&self) -> bool {
        self.core.options.data == DataMode::Journal
    }

    fn zeroes_edges(&self) -> bool {
        self.core.options.data == DataMode::Journal
    }

    fn fsync(&self, inode: &Inode, data_only: bool) -> Result<()> {
        self.core.fsync(inode, data_only)
    }

    fn sync(&self) -> Result<()> {
        if self.core.blind { Ok(()) } else { self.core.sync() }
    }

    fn trim(&self, blocks: Range<u64>, least: u64) -> Result<u64> {
        self.core.trim_free(blocks, least)
    }

    fn statfs(&self) -> Result<StatFs> {
        let g = &self.core.geometry;
        let free_inodes = self.core.inodes.lock().free();
        Ok(StatFs {
            blocks: g.data_blocks(),
            free_blocks: self.core.space.free(),
            reserved_blocks: self.core.space.kept(),
            inodes: g.inodes() - 1,
            free_inodes,
        })
    }

    fn grow(&self, blocks: u64) -> Result<()> {
        self.core.grow(&self.superblock, blocks)
    }

    fn unmount(&self) -> Result<()> {
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

    fn check(&self) -> Result<Vec<String>> {
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
