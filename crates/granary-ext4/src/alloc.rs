//! Allocation of blocks and inodes.
//!
//! ```text
//!   bitmap on media      blocks allocated in the running transaction's view; journalled
//!   view in memory       bitmap, plus blocks freed by a transaction that has not committed, plus
//!                        preallocations: blocks that the search must not touch
//!   Space                free = zero bits of all bitmaps; delayed = promised to dirty pages; spare = for
//!                        extents
//! ```
//!
//! Invariants: a block freed in transaction T is found by no search before T has committed (else a power loss
//! could show new data in an old file); `free - delayed - spare` never becomes negative, so a promise can be
//! kept.
//!
//! The model has these policies of mballoc: locality groups (512-block runs per CPU for files up to 64 KiB),
//! one preallocated window per larger file, and a goal next to the file's last block. Data begins in the
//! second group of the flex group. Not modelled: buddy order lists, stripe alignment, multiple windows per
//! file.
//!
//! Source: reference/baselines.md section 3.1; behaviour of Linux 6.1 mballoc.c, ialloc.c.

mod bits;
mod blocks;
mod inodes;
mod prealloc;

pub(crate) use bits::{clear_range, find_run, get, set_range};
pub(crate) use blocks::{Purpose, Wanted};

use crate::geometry::Geometry;
use crate::journal::Handle;
use crate::layout::group::{BLOCK_UNINIT, DESCRIPTORS_PER_BLOCK, GroupDesc, INODE_UNINIT};
use crate::layout::{BLOCK_SIZE, BlockBytes};
use granary_device::Structure;
use granary_fs::{FsError, Result};
use granary_kit::{Block, BlockCache};
use granary_units::Lpa;
use parking_lot::Mutex;
use prealloc::{FilePrealloc, Run};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Blocks of the file system that are free, promised, and kept back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Space {
    pub free: u64,
    pub delayed: u64,
    /// Kept for extent blocks of delayed writes: min(2 %, 4096), the kernel's `s_resv_clusters`.
    pub spare: u64,
}

impl Space {
    /// Blocks that a caller can still get.
    pub fn available(&self) -> u64 {
        self.free.saturating_sub(self.delayed + self.spare)
    }
}

/// A group in memory.
struct GroupState {
    desc: GroupDesc,
    view: Option<Box<BlockBytes>>,
    /// Zero bits of the view (of the bitmap while there is no view).
    view_free: u32,
    /// No free run of the view is longer.
    longest: u32,
    /// No inode below is free, most likely.
    inode_hint: u32,
}

/// Sums over a flex group, for the directory placement.
#[derive(Default)]
struct Flex {
    free_blocks: AtomicU64,
    free_inodes: AtomicU64,
    dirs: AtomicU64,
}

/// All groups of a mounted file system.
pub(crate) struct Groups {
    pub geo: Geometry,
    cache: Arc<BlockCache>,
    descriptors: Vec<Arc<Block>>,
    groups: Vec<Mutex<GroupState>>,
    flex: Vec<Flex>,
    space: Mutex<Space>,
    /// Blocks freed by transactions that have not committed.
    pending: AtomicU64,
    locality: Vec<Mutex<Option<Run>>>,
    file_preallocs: Mutex<BTreeMap<u32, FilePrealloc>>,
}

impl Groups {
    /// Takes the descriptors over from their blocks (which it keeps).
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn load(
        geo: Geometry,
        cache: Arc<BlockCache>,
        descriptors: Vec<Arc<Block>>,
        cpus: usize,
    ) -> Result<Groups> {
        let mut groups = Vec::with_capacity(geo.groups as usize);
        let flex: Vec<Flex> = (0..geo.flex_groups()).map(|_| Flex::default()).collect();
        let mut free = 0;
        for g in 0..geo.groups {
            let desc = descriptors[(g / DESCRIPTORS_PER_BLOCK) as usize].with(|b| GroupDesc::parse(b, g))?;
            check_desc(&geo, g, &desc)?;
            let f = &flex[(g / geo.flex) as usize];
            f.free_blocks.fetch_add(desc.free_blocks.get() as u64, Relaxed);
            f.free_inodes.fetch_add(desc.free_inodes.get() as u64, Relaxed);
            f.dirs.fetch_add(desc.used_dirs.get() as u64, Relaxed);
            free += desc.free_blocks.get() as u64;
            let state = GroupState {
                view_free: desc.free_blocks.get(),
                longest: u32::MAX,
                inode_hint: 0,
                view: None,
                desc,
            };
            groups.push(Mutex::new(state));
        }
        let spare = (geo.blocks / 50).min(4096);
        Ok(Groups {
            geo,
            cache,
            descriptors,
            groups,
            flex,
            space: Mutex::new(Space { free, delayed: 0, spare }),
            pending: AtomicU64::new(0),
            locality: (0..cpus.max(1)).map(|_| Mutex::new(None)).collect(),
            file_preallocs: Mutex::default(),
        })
    }

    /// Free, promised, kept back.
    pub fn space(&self) -> Space {
        *self.space.lock()
    }

    /// Free inodes in all.
    pub fn free_inodes(&self) -> u64 {
        self.flex.iter().map(|f| f.free_inodes.load(Relaxed)).sum()
    }

    /// Whether a commit would give blocks back.
    pub fn has_pending(&self) -> bool {
        self.pending.load(Relaxed) > 0
    }

    /// The descriptor of a group as it is now.
    pub fn desc(&self, group: u32) -> GroupDesc {
        self.groups[group as usize].lock().desc
    }

    /// The group's view, where it is in memory.
    pub fn view(&self, group: u32) -> Option<Box<BlockBytes>> {
        self.groups[group as usize].lock().view.clone()
    }

    /// Promises `n` blocks to dirty pages.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn promise(&self, n: u64) -> Result<()> {
        let mut s = self.space.lock();
        if s.available() < n {
            return Err(FsError::NoSpace);
        }
        s.delayed += n;
        Ok(())
    }

    /// Takes a promise of `n` blocks back.
    pub fn unpromise(&self, n: u64) {
        self.space.lock().delayed -= n;
    }

    /// Changes a group's descriptor in memory and in its block.
    fn change_desc(&self, h: &mut Handle<'_>, group: u32, change: impl FnOnce(&mut GroupDesc)) {
        let block = &self.descriptors[(group / DESCRIPTORS_PER_BLOCK) as usize];
        h.change(block, |b| {
            let mut s = self.groups[group as usize].lock();
            change(&mut s.desc);
            s.desc.store(b, group);
        });
    }

    /// The block of a group's block bitmap (`inodes` false) or inode bitmap; made up where it was never
    /// written.
    fn bitmap(&self, group: u32, inodes: bool) -> Result<Arc<Block>> {
        let lpa = {
            let mut s = self.groups[group as usize].lock();
            let (lpa, flag) = match inodes {
                false => (Lpa(s.desc.block_bitmap.get()), BLOCK_UNINIT),
                true => (Lpa(s.desc.inode_bitmap.get()), INODE_UNINIT),
            };
            if s.desc.flags.get() & flag != 0 {
                s.desc.flags = (s.desc.flags.get() & !flag).into();
                let block = self.cache.fresh(lpa, Structure::Bitmap);
                block.change(|b| if inodes { self.empty_inodes(b) } else { self.empty_blocks(group, b) });
                return Ok(block);
            }
            lpa
        };
        self.cache.get(lpa, Structure::Bitmap)
    }

    /// The block bitmap of a group that holds nothing but its superblock copy.
    pub fn empty_blocks(&self, group: u32, bitmap: &mut BlockBytes) {
        empty_blocks(&self.geo, group, bitmap);
    }

    fn empty_inodes(&self, bitmap: &mut BlockBytes) {
        empty_inodes(&self.geo, bitmap);
    }
}

/// The block bitmap of a group that holds nothing but its superblock copy; blocks beyond the end count as
/// used.
pub(crate) fn empty_blocks(geo: &Geometry, group: u32, bitmap: &mut BlockBytes) {
    bitmap.fill(0);
    set_range(bitmap, 0, geo.copy_blocks(group));
    let len = geo.group_len(group);
    set_range(bitmap, len, (BLOCK_SIZE * 8) as u32 - len);
}

/// The inode bitmap of a group without inodes; inodes beyond the group's number count as used.
pub(crate) fn empty_inodes(geo: &Geometry, bitmap: &mut BlockBytes) {
    bitmap.fill(0);
    let n = geo.inodes_per_group;
    set_range(bitmap, n, (BLOCK_SIZE * 8) as u32 - n);
}

/// Takes `n` from a count. Counts of damaged media may be too low.
fn less(count: &AtomicU64, n: u64) {
    let _ = count.fetch_update(Relaxed, Relaxed, |count| Some(count.saturating_sub(n)));
}

fn check_desc(geo: &Geometry, group: u32, d: &GroupDesc) -> Result<()> {
    let inside = |first: u64, n: u64| first > 0 && first + n <= geo.blocks;
    let places = inside(d.block_bitmap.get(), 1)
        && inside(d.inode_bitmap.get(), 1)
        && inside(d.inode_table.get(), geo.itable_blocks() as u64);
    let counts = d.free_blocks.get() <= geo.group_len(group)
        && d.free_inodes.get() <= geo.inodes_per_group
        && d.itable_unused.get() <= geo.inodes_per_group
        && d.used_dirs.get() <= geo.inodes_per_group - d.free_inodes.get();
    if places && counts {
        return Ok(());
    }
    Err(crate::layout::corrupt(format!("descriptor of group {group} is impossible: {d:?}")))
}
