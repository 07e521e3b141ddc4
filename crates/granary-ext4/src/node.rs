//! [`Node`]: ext4's state of an inode in memory, and its way to and from the inode table.
//!
//! ```text
//!   attr (vfs)   size, times, links...: what stat shows
//!   state        extent root, disksize <= size (what a power loss leaves), promised blocks, last
//!                transactions
//!   map          i_data_sem: shared to walk the extent tree below the root, exclusive to change the tree
//! ```
//!
//! `map` is taken inside a handle or without one, and no handle is started while it is held.

use crate::fs::Ext4;
use crate::journal::Handle;
use crate::layout::inode::{EXTENTS, FIRST_INO, INODES_PER_BLOCK, ROOT_INO, ROOT_SIZE, RawInode};
use crate::layout::{MAX_FILE_SIZE, corrupt, extent};
use crate::ranges::Ranges;
use granary_fs::{Attr, FileKind, Ino, Inode, Loaded, Result, Time, flag, mode};
use granary_kit::xattr_string;
use granary_sim::sync::RwLock;
use granary_sim::{costs, cpu};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The private part of an inode.
pub(crate) struct Node {
    pub map: RwLock<()>,
    pub state: Mutex<NodeState>,
}

pub(crate) struct NodeState {
    /// Extent root, or target of a short symbolic link.
    pub root: [u8; ROOT_SIZE],
    pub flags: u32,
    pub generation: u32,
    /// The size on media: grows when blocks are allocated, not when pages are dirtied.
    pub disksize: u64,
    /// Blocks taken on media, extent blocks included.
    pub blocks: u64,
    /// Logical blocks promised to dirty pages.
    pub delayed: Ranges,
    pub delayed_count: u64,
    /// Last transaction that changed the inode; that changed its size or blocks.
    pub sync_tid: u32,
    pub datasync_tid: u32,
    pub crtime: i64,
    /// Extended attributes in the inode, and the block of the others (0 = none).
    pub xattrs: Vec<u8>,
    pub xattr_block: u64,
    /// Where data went into the journal and may not be home (`data = "journal"`).
    pub journalled: BTreeSet<u64>,
    /// Truncated to nothing: written out when it is closed (auto_da_alloc).
    pub flush_on_close: bool,
}

/// Inode number of the table; our numbers have 32 bits.
pub(crate) fn number(ino: Ino) -> u32 {
    ino.0 as u32
}

impl Node {
    pub fn new(flags: u32, crtime: Time, generation: u32) -> Node {
        let mut root = [0; ROOT_SIZE];
        if flags & EXTENTS != 0 {
            extent::init(&mut root, extent::ROOT_MAX, 0);
        }
        let state = NodeState {
            root,
            flags,
            generation,
            disksize: 0,
            blocks: 0,
            delayed: Ranges::default(),
            delayed_count: 0,
            sync_tid: 0,
            datasync_tid: 0,
            crtime: crtime.0,
            xattrs: Vec::new(),
            xattr_block: 0,
            journalled: BTreeSet::new(),
            flush_on_close: false,
        };
        Node { map: RwLock::new(()), state: Mutex::new(state) }
    }
}

/// Attributes and private part of an inode on media.
///
/// # Errors
/// `Stale`, `Corrupt`.
pub(crate) fn decode(raw: &RawInode, ino: u32, tid: u32) -> Result<Loaded> {
    raw.verify(ino)?;
    let kind = FileKind::from_code((raw.mode.get() >> 12) as u8)
        .ok_or_else(|| corrupt(format!("inode {ino} has mode {:#o}", raw.mode.get())))?;
    let attr = Attr {
        kind,
        mode: raw.mode.get() & mode::ALL,
        uid: raw.uid.get(),
        gid: raw.gid.get(),
        nlink: raw.links.get(),
        size: raw.size.get(),
        blocks: raw.blocks.get().saturating_mul(8),
        atime: Time(raw.atime.get()),
        mtime: Time(raw.mtime.get()),
        ctime: Time(raw.ctime.get()),
        rdev: raw.rdev.get(),
        flags: raw.flags.get() as u8 & flag::ALL,
    };
    let node = Node::new(0, Time(raw.crtime.get()), raw.generation.get());
    {
        let mut s = node.state.lock();
        s.root = raw.root;
        s.flags = raw.flags.get() & !u32::from(flag::ALL);
        s.disksize = attr.size;
        s.blocks = raw.blocks.get();
        s.xattr_block = raw.xattr_block.get();
        let xattrs = raw.xattrs.get(..raw.xattr_len.get() as usize).filter(|x| xattr_string::is_sound(x));
        s.xattrs =
            xattrs.ok_or_else(|| corrupt(format!("inode {ino} has broken extended attributes")))?.to_vec();
        (s.sync_tid, s.datasync_tid) = (tid, tid);
        if s.flags & EXTENTS != 0 {
            extent::validate(&s.root, None)?;
        } else if matches!(kind, FileKind::File | FileKind::Dir) {
            return Err(corrupt(format!("inode {ino} has no extents")));
        }
        let whole_blocks = attr.size.is_multiple_of(4096) && attr.size > 0;
        if kind == FileKind::Dir && attr.nlink > 0 && !whole_blocks || attr.size > MAX_FILE_SIZE {
            return Err(corrupt(format!("inode {ino} has a size of {}", attr.size)));
        }
    }
    Ok(Loaded { attr, private: Arc::new(node) })
}

/// Writes attributes and private part; the link of the orphan list is left alone. Returns whether size or
/// blocks on media changed.
pub(crate) fn encode(raw: &mut RawInode, ino: u32, attr: &Attr, s: &NodeState) -> bool {
    let data = raw.size.get() != s.disksize || raw.blocks.get() != s.blocks || raw.root != s.root;
    raw.mode = ((attr.kind.code() as u16) << 12 | attr.mode).into();
    raw.links = attr.nlink.into();
    raw.uid = attr.uid.into();
    raw.gid = attr.gid.into();
    raw.flags = (s.flags | u32::from(attr.flags)).into();
    raw.size = s.disksize.into();
    raw.blocks = s.blocks.into();
    raw.atime = attr.atime.0.into();
    raw.mtime = attr.mtime.0.into();
    raw.ctime = attr.ctime.0.into();
    raw.crtime = s.crtime.into();
    raw.generation = s.generation.into();
    raw.rdev = attr.rdev.into();
    raw.root = s.root;
    raw.xattr_block = s.xattr_block.into();
    raw.xattr_len = (s.xattrs.len() as u16).into();
    raw.xattrs.fill(0);
    raw.xattrs[..s.xattrs.len()].copy_from_slice(&s.xattrs);
    raw.dtime = 0.into();
    raw.seal(ino);
    data
}

/// Place of an inode in its block.
pub(crate) fn slot(ino: u32, per_group: u32) -> usize {
    ((ino - 1) % per_group % INODES_PER_BLOCK) as usize
}

impl Ext4 {
    /// Block of the inode table, read with its neighbours where it is not in memory.
    pub(crate) fn inode_block(&self, ino: u32) -> Result<std::sync::Arc<granary_kit::Block>> {
        self.groups.inode_block(ino, self.options.inode_readahead_blocks)
    }

    /// Changes an inode's bytes on media.
    pub(crate) fn change_raw<T>(
        &self,
        h: &mut Handle<'_>,
        ino: u32,
        f: impl FnOnce(&mut RawInode) -> T,
    ) -> Result<T> {
        let block = self.inode_block(ino)?;
        let slot = slot(ino, self.groups.geo.inodes_per_group);
        Ok(h.change(&block, |b| f(RawInode::at_mut(b, slot))))
    }

    /// Puts the inode as it is in memory into the transaction.
    pub(crate) fn mark_inode(&self, h: &mut Handle<'_>, inode: &Inode) -> Result<()> {
        let (ino, node) = (number(inode.ino()), inode.private::<Node>());
        let tid = h.tid();
        self.change_raw(h, ino, |raw| {
            // Here and not before: until the block is there, others may have changed the inode and marked it.
            let attr = inode.attr();
            let mut s = node.state.lock();
            s.sync_tid = tid;
            if encode(raw, ino, &attr, &s) {
                s.datasync_tid = tid;
            }
        })
    }

    /// Reads an inode.
    pub(crate) fn load(&self, ino: Ino) -> Result<Loaded> {
        // The journal's inode and the reserved ones are no files.
        let is_file = ino.0 == u64::from(ROOT_INO) || ino.0 >= u64::from(FIRST_INO);
        if ino.0 > u64::from(u32::MAX) || !is_file {
            return Err(granary_fs::FsError::Stale);
        }
        let ino = number(ino);
        let block = self.inode_block(ino)?;
        cpu(costs().inode_read);
        let tid = self.journal.present_tid();
        let slot = slot(ino, self.groups.geo.inodes_per_group);
        let loaded = block.with(|b| decode(RawInode::at(b, slot), ino, tid))?;
        if self.loose && loaded.attr.kind == FileKind::File {
            let node = loaded.private.downcast_ref::<Node>().expect("decode makes a node");
            self.zero_beyond(node, loaded.attr.size)?;
        }
        Ok(loaded)
    }
}

/// `attr.blocks` as stat counts: 512 B units, promised blocks included.
pub(crate) fn show_blocks(inode: &Inode, s: &NodeState) {
    let blocks = (s.blocks + s.delayed_count) * 8;
    inode.update(|a| a.blocks = blocks);
}
