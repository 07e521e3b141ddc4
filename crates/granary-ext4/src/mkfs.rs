//! mkfs: the first state of the media.
//!
//! The whole drive is trimmed, so every block reads as zeros: inode tables need no writing (mke2fs with a
//! device whose discard zeroes does the same, and the kernel's lazy initialisation has nothing left to do).
//! Written are the superblock and descriptors with their sparse copies, the bitmaps of groups that hold
//! something, the root directory, the journal's inode and superblock. Groups that hold nothing are marked so
//! (BLOCK_UNINIT, INODE_UNINIT) and have no bitmaps yet.
//!
//! The journal lies in the middle of the device: in the flex group of the middle group, in whichever of its
//! first two groups has more free blocks (8 GiB: block 1081344, as measured).

use crate::alloc::{empty_blocks, empty_inodes, find_run, set_range};
use crate::geometry::{Geometry, journal_blocks};
use crate::layout::dirent;
use crate::layout::extent::{self, ExtentEntry};
use crate::layout::group::{BLOCK_UNINIT, DESCRIPTORS_PER_BLOCK, GroupDesc, INODE_UNINIT};
use crate::layout::inode::{
    EXTENTS, FIRST_INO, INODES_PER_BLOCK, JOURNAL_INO, ROOT_INO, ROOT_SIZE, RawInode,
};
use crate::layout::journal::LogSuper;
use crate::layout::superblock::{CLEAN, MAGIC, Superblock, VERSION};
use crate::layout::{BLOCK_SIZE, BLOCKS_PER_GROUP, BlockBytes};
use crate::options::MkfsOptions;
use granary_device::{Port, Structure, Ticket};
use granary_fs::{FileKind, FsError, Result};
use granary_units::{Lpa, Page};
use std::collections::BTreeMap;

/// The file system while it is made.
struct Plan {
    geo: Geometry,
    bitmaps: Vec<Box<BlockBytes>>,
    descs: Vec<GroupDesc>,
    blocks: BTreeMap<u64, (Structure, Box<BlockBytes>)>,
}

impl Plan {
    fn new(geo: Geometry) -> Plan {
        let bitmaps = (0..geo.groups)
            .map(|g| {
                let mut b = Box::new([0; BLOCK_SIZE]);
                empty_blocks(&geo, g, &mut b);
                b
            })
            .collect();
        let desc = GroupDesc { flags: (BLOCK_UNINIT | INODE_UNINIT).into(), ..GroupDesc::default() };
        Plan { geo, bitmaps, descs: vec![desc; geo.groups as usize], blocks: BTreeMap::new() }
    }

    /// Takes up to `want` blocks that lie together in `group` or later, at least `least`: (first, count).
    fn take(&mut self, group: u32, want: u32, least: u32) -> Result<(u64, u32)> {
        for g in (group..self.geo.groups).chain(0..group) {
            let bitmap = &mut self.bitmaps[g as usize];
            let (bit, len) = find_run(bitmap, 0, self.geo.group_len(g), want);
            if len >= least.max(1) {
                set_range(bitmap, bit, len);
                let desc = &mut self.descs[g as usize];
                desc.flags = (desc.flags.get() & !BLOCK_UNINIT).into();
                return Ok((self.geo.group_start(g) + bit as u64, len));
            }
        }
        Err(FsError::NoSpace)
    }

    fn free(&self, group: u32) -> u32 {
        self.bitmaps[group as usize].iter().map(|b| b.count_zeros()).sum()
    }

    /// A block to be written.
    fn block(&mut self, lpa: u64, what: Structure) -> &mut BlockBytes {
        &mut self.blocks.entry(lpa).or_insert_with(|| (what, Box::new([0; BLOCK_SIZE]))).1
    }

    /// Bitmaps and inode tables, packed at the start of their flex group.
    fn place_metadata(&mut self) -> Result<()> {
        let geo = self.geo;
        for f in 0..geo.flex_groups() {
            let (first, end) = (f * geo.flex, ((f + 1) * geo.flex).min(geo.groups));
            for g in first..end {
                self.descs[g as usize].block_bitmap = self.take(first, 1, 1)?.0.into();
            }
            for g in first..end {
                self.descs[g as usize].inode_bitmap = self.take(first, 1, 1)?.0.into();
            }
            for g in first..end {
                let n = geo.itable_blocks();
                self.descs[g as usize].inode_table = self.take(first, n, n)?.0.into();
            }
        }
        Ok(())
    }

    fn put_inode(&mut self, ino: u32, kind: FileKind, extents: &[ExtentEntry], blocks: u64, links: u32) {
        let (g, index) = self.geo.inode_place(ino);
        let lpa = self.descs[g as usize].inode_table.get() + (index / INODES_PER_BLOCK) as u64;
        let mut root = [0; ROOT_SIZE];
        let depth = extents.iter().any(|e| e.len == 0) as u16;
        extent::init(&mut root, extent::ROOT_MAX, depth);
        for (i, e) in extents.iter().enumerate() {
            extent::insert(&mut root, i, *e);
        }
        let raw = RawInode::at_mut(self.block(lpa, Structure::Inode), (index % INODES_PER_BLOCK) as usize);
        raw.mode = ((kind.code() as u16) << 12 | if kind == FileKind::Dir { 0o755 } else { 0o600 }).into();
        raw.links = links.into();
        raw.flags = EXTENTS.into();
        raw.blocks = blocks.into();
        raw.size = (blocks * BLOCK_SIZE as u64).into();
        raw.root = root;
        raw.seal(ino);
    }

    /// Journal blocks and inode; returns its first block.
    fn place_journal(&mut self, len: u32) -> Result<u64> {
        let geo = self.geo;
        let middle = geo.group_of(geo.blocks / 2);
        let start = if middle >= geo.flex { middle / geo.flex * geo.flex } else { middle.saturating_sub(1) };
        let next = (start + 1).min(geo.groups - 1);
        let mut group = if self.free(next) > self.free(start) { next } else { start };
        let (mut extents, mut done) = (Vec::new(), 0);
        while done < len {
            let (lpa, n) = self.take(group, len - done, 64.min(len - done))?;
            extents.push(ExtentEntry { key: done, len: n, start: lpa, unwritten: false });
            done += n;
            group = geo.group_of(lpa);
        }
        let first = extents[0].start;
        let mut blocks = len as u64;
        if extents.len() > extent::ROOT_MAX as usize {
            let (lpa, _) = self.take(group, 1, 1)?;
            let leaf = self.block(lpa, Structure::DataPointer);
            extent::init(leaf, extent::BLOCK_MAX, 0);
            if extents.len() > extent::BLOCK_MAX as usize {
                return Err(FsError::NoSpace);
            }
            for (i, e) in extents.iter().enumerate() {
                extent::insert(leaf, i, *e);
            }
            extents = vec![ExtentEntry { key: 0, len: 0, start: lpa, unwritten: false }];
            blocks += 1;
        }
        self.put_inode(JOURNAL_INO, FileKind::File, &extents, blocks, 1);
        let (g, index) = geo.inode_place(JOURNAL_INO);
        let lpa = self.descs[g as usize].inode_table.get() + (index / INODES_PER_BLOCK) as u64;
        let raw = RawInode::at_mut(self.block(lpa, Structure::Inode), (index % INODES_PER_BLOCK) as usize);
        raw.size = (len as u64 * BLOCK_SIZE as u64).into();
        raw.seal(JOURNAL_INO);
        Ok(first)
    }

    /// Inode bitmaps, counts, descriptors.
    fn finish(&mut self) {
        let geo = self.geo;
        let used_inodes = FIRST_INO - 1;
        for g in 0..geo.groups {
            let first = g == 0;
            let free = self.free(g);
            let desc = &mut self.descs[g as usize];
            desc.free_blocks = free.into();
            let inodes = geo.inodes_per_group - if first { used_inodes } else { 0 };
            (desc.free_inodes, desc.itable_unused) = (inodes.into(), inodes.into());
            desc.used_dirs = (first as u32).into();
            if first {
                desc.flags = (desc.flags.get() & !INODE_UNINIT).into();
            }
            let desc = *desc;
            if first {
                let bitmap = self.block(desc.inode_bitmap.get(), Structure::Bitmap);
                empty_inodes(&geo, bitmap);
                set_range(bitmap, 0, used_inodes);
            }
            if desc.flags.get() & BLOCK_UNINIT == 0 {
                let bitmap = self.bitmaps[g as usize].clone();
                *self.block(desc.block_bitmap.get(), Structure::Bitmap) = *bitmap;
            }
            let gd = 1 + (g / DESCRIPTORS_PER_BLOCK) as u64;
            desc.store(self.block(gd, Structure::Superblock), g);
        }
    }
}

/// Makes a file system: everything on the drive is lost.
///
/// # Errors
/// `NoSpace` where the drive is too small (about 8 MiB and the journal), `Invalid` for impossible options;
/// the drive's.
pub fn mkfs(port: &Port, options: &MkfsOptions) -> Result<()> {
    let drive_blocks = port.info().pages;
    let blocks = options.size.map_or(drive_blocks, |s| s.0 / BLOCK_SIZE as u64);
    let ratio = options.inode_ratio.0;
    if blocks > drive_blocks || blocks > u32::MAX as u64 || options.flex_groups == 0 || ratio < 1024 {
        return Err(FsError::Invalid);
    }
    if blocks < 1024 {
        return Err(FsError::NoSpace);
    }
    let geo = Geometry::plan(blocks, ratio, options.flex_groups);
    let journal =
        options.journal_size.map_or(journal_blocks(geo.blocks), |s| (s.0 / BLOCK_SIZE as u64) as u32);
    if journal < 1024 || journal as u64 > geo.blocks / 2 {
        return Err(if journal < 1024 { FsError::Invalid } else { FsError::NoSpace });
    }
    let mut plan = Plan::new(geo);
    plan.place_metadata()?;
    let (root, _) = plan.take(0, 1, 1)?;
    dirent::init_first(plan.block(root, Structure::Dentry), ROOT_INO, ROOT_INO);
    plan.put_inode(
        ROOT_INO,
        FileKind::Dir,
        &[ExtentEntry { key: 0, len: 1, start: root, unwritten: false }],
        1,
        2,
    );
    let log = plan.place_journal(journal)?;
    let page = LogSuper { len: journal, sequence: 1, start: 0 }.page();
    *plan.block(log, Structure::Journal) = page.to_bytes();
    plan.finish();
    let sb = Superblock {
        magic: MAGIC.into(),
        version: VERSION.into(),
        blocks: geo.blocks.into(),
        free_blocks: plan.descs.iter().map(|d| d.free_blocks.get() as u64).sum::<u64>().into(),
        hash_seed: options.hash_seed.into(),
        inodes: geo.inodes().into(),
        free_inodes: (geo.inodes() - (FIRST_INO - 1)).into(),
        inodes_per_group: geo.inodes_per_group.into(),
        groups: geo.groups.into(),
        flex_groups: geo.flex.into(),
        descriptor_blocks: geo.descriptor_blocks().into(),
        journal_ino: JOURNAL_INO.into(),
        state: CLEAN.into(),
        ..Superblock::default()
    };
    sb.store(plan.block(0, Structure::Superblock));
    copy_super(&mut plan);
    write(port, &plan, drive_blocks)
}

/// The sparse copies of superblock and descriptors.
fn copy_super(plan: &mut Plan) {
    for g in (1..plan.geo.groups).filter(|g| plan.geo.copy_blocks(*g) > 0).collect::<Vec<_>>() {
        for i in 0..plan.geo.copy_blocks(g) as u64 {
            let bytes = *plan.block(i, Structure::Superblock);
            *plan.block(g as u64 * BLOCKS_PER_GROUP as u64 + i, Structure::Superblock) = bytes;
        }
    }
}

fn write(port: &Port, plan: &Plan, drive_blocks: u64) -> Result<()> {
    let trim = port.trim(Lpa(0), drive_blocks)?;
    port.wait(trim);
    // The superblock comes last, behind a FLUSH: before it there is no file system.
    let (first, rest): (Vec<_>, Vec<_>) = plan.blocks.iter().partition(|(block, _)| **block == 0);
    write_blocks(port, &rest)?;
    port.flush()?;
    write_blocks(port, &first)?;
    Ok(port.flush()?)
}

/// A block of the plan: its place, purpose and bytes.
type Planned<'a> = (&'a u64, &'a (Structure, Box<BlockBytes>));

fn write_blocks(port: &Port, all: &[Planned<'_>]) -> Result<()> {
    let mut ticket = Ticket::NONE;
    for run in all.chunk_by(|a, b| a.0 + 1 == *b.0 && a.1.0 == b.1.0) {
        let pages: Vec<Page> = run.iter().map(|(_, (_, bytes))| Page::from_bytes(bytes)).collect();
        ticket = ticket.and(port.submit_write(Lpa(*run[0].0), &pages, run[0].1.0)?);
    }
    port.wait(ticket);
    Ok(())
}
