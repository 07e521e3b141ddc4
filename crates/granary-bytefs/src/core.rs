//! [`Core`]: what all operations share: the drive, the caches, the allocators, the journal.

use crate::groups::Groups;
use crate::journal::{Bitmap, DataJournal, Journal, TxTable};
use crate::layout::{Geometry, INODES_PER_BLOCK, bitmap, orphan};
use crate::node::DirtyList;
use crate::options::MountOptions;
use crate::space::{Claim, Run, Space, Taken};
use granary_device::{Port, Structure, Ticket};
use granary_fs::{FsError, Result};
use granary_kit::{Block, BlockCache};
use granary_sim::{Kicker, cpu_id, sync};
use granary_units::Lpa;
use parking_lot::{Mutex, RwLock};
use std::sync::{Arc, OnceLock};

/// The places of the orphan table.
pub struct Orphans {
    /// Its block, always in memory.
    pub block: Arc<Block>,
    free: Mutex<Vec<u32>>,
}

impl Orphans {
    /// With the block's filled places taken.
    pub fn new(block: Arc<Block>) -> Orphans {
        let free = block.with(|b| (0..orphan::PLACES).rev().filter(|&n| orphan::get(b, n) == 0).collect());
        Orphans { block, free: Mutex::new(free) }
    }

    /// A free place, if any.
    pub fn take(&self) -> Option<u32> {
        self.free.lock().pop()
    }

    /// Gives a place back once its entry is gone.
    pub fn give(&self, place: u32) {
        self.free.lock().push(place);
    }
}

/// A mounted file system without its daemon.
pub struct Core {
    /// The drive.
    pub port: Port,
    /// The areas.
    pub geometry: Geometry,
    /// How it was mounted.
    pub options: MountOptions,
    /// Metadata blocks in host memory.
    pub cache: BlockCache,
    /// Free blocks.
    pub space: Space,
    /// Free inodes.
    pub inodes: Mutex<Groups>,
    /// The inode bitmap as the committed groups left it; all blocks stay in memory. Leaders of groups change
    /// it.
    pub inode_bitmap: RwLock<Vec<Arc<Block>>>,
    /// The block bitmap.
    pub block_bitmap: RwLock<Vec<Arc<Block>>>,
    /// The orphan table.
    pub orphans: Orphans,
    /// Line locks.
    pub locks: TxTable,
    /// Seal and commit order.
    pub journal: Journal,
    /// File data in transactions.
    pub data_journal: DataJournal,
    /// Lines that one transaction can have at most.
    pub most_lines: usize,
    /// A dirty page with fewer lines goes by byte.
    pub threshold: u32,
    /// Inodes with attributes that only memory knows.
    pub dirty: Mutex<DirtyList>,
    /// Held by a `sync` while it puts attributes on media, so that another does not return before they are
    /// there.
    pub syncing: sync::Mutex<()>,
    /// The file system was not unmounted properly, the last time or earlier: blocks beyond a file's end may
    /// hold anything.
    pub loose: bool,
    /// Bitmaps or the orphan table mean nothing: files can be read, and nothing may change.
    pub blind: bool,
    /// Held while the file system grows.
    pub growing: sync::Mutex<()>,
    /// Wakes the commit daemon, once it runs.
    pub committer: OnceLock<Kicker>,
    /// Held while withheld blocks become free, so that whoever needs them waits.
    pub releasing: sync::Mutex<()>,
}

impl Core {
    /// Calls `f` for each block of a bitmap that bits `from..from + len` lie in, with the part in that block.
    pub fn bitmap_parts(&self, which: Bitmap, from: u64, len: u64, mut f: impl FnMut(&Arc<Block>, u64, u64)) {
        let blocks = match which {
            Bitmap::Inodes => self.inode_bitmap.read(),
            Bitmap::Blocks => self.block_bitmap.read(),
        };
        let (mut at, end) = (from, from + len);
        while at < end {
            let inside = at % bitmap::BITS_PER_BLOCK;
            let n = (bitmap::BITS_PER_BLOCK - inside).min(end - at);
            f(&blocks[(at / bitmap::BITS_PER_BLOCK) as usize], inside, n);
            at += n;
        }
    }

    /// Takes blocks from the free lists, committing first where that is what frees some.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn take_blocks(&self, want: u64, goal: Option<u32>, claim: Claim) -> Result<Run> {
        loop {
            match self.space.take(cpu_id(self.options.cpus), want, goal, claim) {
                Taken::Run(run) => return Ok(run),
                Taken::Full => return Err(FsError::NoSpace),
                Taken::AfterCommit(seq) => {
                    self.commit_to(seq)?;
                    self.release_ripe()?;
                }
            }
        }
    }

    /// Takes an inode number from the free lists.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn take_inode(&self) -> Result<u32> {
        let mut inodes = self.inodes.lock();
        let taken = inodes.take(cpu_id(self.options.cpus), 1, None);
        let (ino, _) = taken.ok_or(FsError::NoSpace)?;
        let first = ino - ino % INODES_PER_BLOCK;
        let last = first + INODES_PER_BLOCK - 1;
        if inodes.all_free(first, ino - first) && inodes.all_free(ino + 1, last - ino) {
            // The only inode in its block: what is on media there is garbage and need not be read. Under the
            // lock, so that nobody else gets the block from media meanwhile.
            let lpa = self.geometry.inode_place(ino as u32).0;
            if self.cache.cached(lpa).is_none() {
                self.cache.fresh(lpa, Structure::Inode);
            }
        }
        Ok(ino as u32)
    }

    /// The table block of an inode; a miss reads its neighbours too.
    ///
    /// # Errors
    /// Of the drive.
    pub fn inode_block(&self, ino: u32) -> Result<Arc<Block>> {
        let (lpa, _) = self.geometry.inode_place(ino);
        if let Some(block) = self.cache.cached(lpa) {
            return Ok(block);
        }
        let ahead = self.options.inode_readahead.max(1);
        let (_, area) = self.geometry.table_block(ino as u64 / INODES_PER_BLOCK);
        let n = lpa.0 - area.start;
        let first = area.start + n - n % ahead;
        self.cache.get_window(lpa, first..(first + ahead).min(area.end), Structure::Inode)
    }

    /// Makes all transactions up to `seq` durable.
    ///
    /// # Errors
    /// Of the drive.
    pub fn commit_to(&self, seq: u64) -> Result<()> {
        if self.commit_only(seq)? {
            // Blocks that could not be made free stay withheld. A later call that needs the space tries
            // again, and reports the error.
            let _ = self.release_ripe();
        }
        Ok(())
    }

    /// The same without making withheld blocks free. Returns whether this task led a group.
    ///
    /// # Errors
    /// Of the drive.
    pub fn commit_only(&self, seq: u64) -> Result<bool> {
        self.journal.commit_to(&self.port, seq, |tx, bits| self.store_bits(tx, bits))
    }

    /// Makes withheld blocks free whose transactions are committed.
    ///
    /// # Errors
    /// Of the drive, from trimming.
    pub fn release_ripe(&self) -> Result<()> {
        let _one = self.releasing.lock();
        let runs = self.space.ripe(self.journal.committed());
        if let Err(e) = self.part_with(&runs) {
            self.space.withhold_again(runs);
            return Err(e);
        }
        self.journal.fatal(self.space.free_withheld(&runs))
    }

    /// Nothing may change these blocks any more but their next owner.
    fn part_with(&self, runs: &[Run]) -> Result<()> {
        self.journal.retire(&self.port, runs)?;
        if self.data_journal.has_any(runs.iter().copied()) {
            self.checkpoint_data(false)?;
        }
        if self.options.discard && !runs.is_empty() {
            let mut all = Ticket::NONE;
            for run in runs {
                all = all.and(self.port.trim(Lpa(run.lba as u64), run.len as u64)?);
            }
            // A trim in flight is not ordered with the new owner's writes.
            self.port.wait(all);
        }
        Ok(())
    }
}
