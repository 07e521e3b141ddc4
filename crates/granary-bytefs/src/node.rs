//! [`Node`]: the file system's private part of an inode in memory.
//!
//! ```text
//!   change   whoever changes what is on media of this inode holds it, across waits; several inodes: by
//!            number
//!   body     the map, the directory index, flags; short lock, never held across a wait
//! ```
//!
//! Invariant: a record is encoded only by a task that holds `change`, so it shows no other operation's half.
//!
//! The size on media (`disk_size`) can be behind the size in memory: it grows when the data's blocks are
//! written, so that no file shows blocks after a power loss that were never written (delayed allocation, as
//! ext4's `i_disksize`).

use crate::core::Core;
use crate::dir::Dir;
use crate::layout::inode::{self, INLINE_SIZE};
use crate::layout::line::PAYLOAD;
use crate::layout::{InodeRecord, Superblock, extent, line};
use crate::map::FileMap;
use granary_device::Structure;
use granary_fs::{Attr, FileKind, FsError, Ino, Inode, Loaded, Result};
use granary_kit::Block;
use granary_sim::{costs, cpu, sync};
use granary_units::{LINE_SIZE, Lpa, PAGE_SIZE};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{I64, U16, U32, U64};

/// Where the inode stands on media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In use.
    Live,
    /// Without links and in this place of the orphan table: too large to be freed in one transaction, or
    /// without a name as yet.
    Orphan(u32),
    /// Freed together with its last name; lives in memory until it is evicted.
    Gone,
}

/// Times that only memory knows, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dirty {
    /// Modification or change time.
    pub times: bool,
    /// Access time.
    pub atime: bool,
}

/// State under an inode's lock.
pub struct Body {
    /// Where its blocks are.
    pub map: FileMap,
    /// The size that the record shows.
    pub disk_size: u64,
    /// Life of this number.
    pub generation: u32,
    /// Parent of a directory.
    pub parent: u32,
    /// Where it stands.
    pub standing: Standing,
    /// Times to be written.
    pub dirty: Dirty,
    /// Attributes as of the last change that only memory knows; for `sync`.
    pub pending: Option<Attr>,
    /// In the list that `sync` goes through.
    pub listed: bool,
    /// Names of a directory, once read.
    pub dir: Option<Box<Dir>>,
    /// Extended attributes of an inode that is no longer on media, once they changed.
    pub xattrs: Option<Vec<u8>>,
    /// Short target of a symbolic link.
    pub target: Box<[u8]>,
}

/// The private part.
pub struct Node {
    /// Inode number.
    pub ino: u32,
    /// File type.
    pub kind: FileKind,
    /// See the module's drawing.
    pub change: sync::Mutex<()>,
    /// See the module's drawing.
    pub body: Mutex<Body>,
    /// Sequence number of the last transaction that `fsync` must commit.
    pub last_seq: AtomicU64,
    /// Number of the last byte store of data that `fsync` must verify.
    pub posted: AtomicU64,
}

/// The private part of an inode.
pub fn node(inode: &Inode) -> &Node {
    inode.private()
}

impl Node {
    /// A new or loaded inode.
    pub fn new(ino: u32, kind: FileKind, body: Body) -> Node {
        Node {
            ino,
            kind,
            change: sync::Mutex::new(()),
            body: Mutex::new(body),
            last_seq: AtomicU64::new(0),
            posted: AtomicU64::new(0),
        }
    }

    /// Remembers a transaction that `fsync` of this inode must commit.
    pub fn depends(&self, seq: u64) {
        self.last_seq.fetch_max(seq, Relaxed);
    }
}

impl Body {
    /// Of a new inode.
    pub fn fresh(generation: u32, parent: u32) -> Body {
        Body {
            map: FileMap::default(),
            disk_size: 0,
            generation,
            parent,
            standing: Standing::Live,
            dirty: Dirty::default(),
            pending: None,
            listed: false,
            dir: None,
            xattrs: None,
            target: Box::default(),
        }
    }

    /// The record to write, with these attributes; what was dirty is in it.
    pub fn record(&mut self, attr: &Attr) -> InodeRecord {
        self.dirty = Dirty::default();
        self.pending = None;
        let mut record = InodeRecord {
            size: U64::new(self.disk_size),
            mtime: I64::new(attr.mtime.0),
            ctime: I64::new(attr.ctime.0),
            atime: I64::new(attr.atime.0),
            nlink: U32::new(attr.nlink),
            mode: U16::new((attr.kind.code() as u16) << 12 | attr.mode),
            flags: U16::new(attr.flags.into()),
            slots: U32::new(self.map.slots()),
            first: self.map.inline[0],
            hot_crc: U32::ZERO,
            more: [self.map.inline[1], self.map.inline[2]],
            uid: U32::new(attr.uid),
            gid: U32::new(attr.gid),
            generation: U32::new(self.generation),
            rdev: U32::new(attr.rdev),
            parent: U32::new(self.parent),
            index: U32::new(self.map.index_blocks.first().copied().unwrap_or(0)),
            xattr: U32::new(self.map.xattr_blocks.first().copied().unwrap_or(0)),
            cold_crc: U32::ZERO,
        };
        if !self.target.is_empty() {
            record.set_target(&self.target);
        }
        record
    }

    /// Blocks in the 512 B units of `stat`. Promised ones count, as delayed blocks do in ext4
    /// (`ext4_getattr`): for `tar -S` and `cp --sparse` a file without blocks is a file without data.
    pub fn stat_blocks(&self) -> u64 {
        (self.map.blocks() + self.map.reserved.count()) * (PAGE_SIZE as u64 / 512)
    }
}

/// Inodes that may be dirty. Most become clean again without `sync`: they are dropped whenever the list has
/// doubled.
#[derive(Default)]
pub struct DirtyList {
    nodes: Vec<Arc<Node>>,
    prune_at: usize,
}

impl DirtyList {
    /// Adds an inode that is not in the list.
    fn push(&mut self, node: Arc<Node>) {
        self.nodes.push(node);
        if self.nodes.len() >= self.prune_at.max(256) {
            self.nodes.retain(|n| {
                let mut body = n.body.lock();
                // A change under way has taken what was pending and is not yet in the order of transactions:
                // `sync` waits for it.
                let pending = body.pending.is_some() || n.change.is_locked();
                body.listed = pending && body.standing != Standing::Gone;
                body.listed
            });
            self.prune_at = 2 * self.nodes.len();
        }
    }

    /// Takes all.
    pub fn take(&mut self) -> Vec<Arc<Node>> {
        let nodes = std::mem::take(&mut self.nodes);
        nodes.iter().for_each(|n| n.body.lock().listed = false);
        nodes
    }
}

/// The lines of an inode's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Sizes, times, links, the first extent.
    Hot,
    /// Both.
    Both,
}

impl Core {
    /// The lines of an inode in its table block.
    pub fn inode_lines(&self, ino: u32, half: Half) -> u64 {
        let line = self.geometry.inode_place(ino).1 / granary_units::LINE_SIZE;
        let mask = if half == Half::Hot { 0b01 } else { 0b11 };
        mask << line
    }

    /// Writes an inode's record into its table block in memory. Lines locked.
    pub fn put_inode(&self, block: &Block, inode: &Inode) {
        let node = node(inode);
        let mut body = node.body.lock();
        // Read under the lock: a change that comes later finds the inode clean and marks it dirty again.
        let attr = inode.attr();
        self.put_record(block, node.ino, &mut body, &attr);
    }

    /// The same with these attributes.
    pub fn put_record(&self, block: &Block, ino: u32, body: &mut Body, attr: &Attr) {
        let record = body.record(attr);
        let at = self.geometry.inode_place(ino).1;
        // The checksums stay: the lines that the transaction names are sealed with it, the other one has not
        // changed.
        block.change(|b| {
            for half in [0, LINE_SIZE] {
                b[at + half..at + half + PAYLOAD].copy_from_slice(&record.as_bytes()[half..half + PAYLOAD]);
            }
        });
    }

    /// Marks attributes as known to memory only.
    pub fn mark_dirty(&self, inode: &Inode, how: Dirty) {
        let node = node(inode);
        let mut body = node.body.lock();
        body.dirty.times |= how.times;
        body.dirty.atime |= how.atime;
        body.pending = Some(inode.attr());
        if !body.listed && body.standing != Standing::Gone {
            body.listed = true;
            drop(body);
            self.dirty.lock().push(inode.share_private());
        }
    }

    /// Reads an inode from media.
    ///
    /// # Errors
    /// `Stale` where it is free, `Corrupt`, drive errors.
    pub fn load(&self, ino: Ino) -> Result<Loaded> {
        let in_use = || self.blind || self.inodes.lock().is_taken(ino.0);
        if !self.geometry.has_inode(ino.0) || !in_use() {
            return Err(FsError::Stale);
        }
        let ino = ino.0 as u32;
        let block = self.inode_block(ino)?;
        cpu(costs().inode_read);
        let at = self.geometry.inode_place(ino).1;
        let (record, damaged) = block.with(|b| {
            let lines = inode::LINES << (at / LINE_SIZE);
            (InodeRecord::read(b, at), line::damaged(b, block.lpa().0, lines))
        });
        if damaged != 0 {
            let what = line::sentence(&format!("inode {ino}"), block.lpa().0, damaged);
            return Err(FsError::Corrupt(what));
        }
        drop(block);
        let bad = |what: &str| FsError::Corrupt(format!("inode {ino}: {what}"));
        let mut attr = record.attr().ok_or_else(|| bad("no such file type"))?;
        let mut body = Body::fresh(record.generation.get(), record.parent.get());
        body.disk_size = attr.size;
        if attr.kind == FileKind::Symlink && record.slots.get() == 0 {
            let len = usize::try_from(attr.size).ok().filter(|&n| n <= INLINE_SIZE);
            let len = len.ok_or_else(|| bad("short target longer than its place"))?;
            body.target = record.inline_bytes()[..len].into();
        } else {
            body.map = self.load_map(ino, &record)?;
        }
        body.map.xattr_blocks = self.load_xattr_blocks(ino, &record)?;
        if self.loose && !self.blind && attr.kind == FileKind::File {
            self.zero_beyond(&body.map, attr.size)?;
        }
        attr.blocks = body.stat_blocks();
        let node = Arc::new(Node::new(ino, attr.kind, body));
        // Its last state before it left memory may still be uncommitted: `fsync` of the new node has to cover
        // that, too.
        node.depends(self.journal.sealed());
        node.posted.store(self.journal.posted_so_far(), Relaxed);
        Ok(Loaded { attr, private: node })
    }

    fn load_map(&self, ino: u32, record: &InodeRecord) -> Result<FileMap> {
        let slots = record.slots.get();
        let bad = |what: String| FsError::Corrupt(format!("inode {ino}: {what}"));
        let count = extent::blocks_for(slots);
        if count as u64 > self.geometry.blocks() {
            return Err(bad(format!("{slots} extent slots")));
        }
        let (mut slot_blocks, mut index_blocks) = (Vec::new(), Vec::new());
        let mut next = record.index.get();
        while slot_blocks.len() < count as usize {
            if !self.geometry.has_data(next as u64, 1) {
                return Err(bad(format!("index block at {next}")));
            }
            index_blocks.push(next);
            let index = self.cache.get(Lpa(next as u64), Structure::DataPointer)?;
            let left = count - slot_blocks.len() as u32;
            let n = left.min(extent::POINTERS_PER_INDEX);
            let lines = extent::pointer_lines(n, left > n);
            next = index.with(|b| {
                sound(ino, "index block", b, next, lines)?;
                slot_blocks.extend((0..n).map(|i| extent::pointer(b, i)));
                Ok::<u32, FsError>(extent::pointer(b, extent::POINTERS_PER_INDEX))
            })?;
        }
        if let Some(&lba) = slot_blocks.iter().find(|&&lba| !self.geometry.has_data(lba as u64, 1)) {
            return Err(bad(format!("extent block at {lba}")));
        }
        let mut content: Vec<extent::Extent> = record.inline().to_vec();
        for &lba in &slot_blocks {
            let block = self.cache.get(Lpa(lba as u64), Structure::DataPointer)?;
            let n = (slots - content.len() as u32).min(extent::SLOTS_PER_EXTENT_BLOCK);
            block.with(|b| {
                sound(ino, "extent block", b, lba, extent::slot_lines(n))?;
                content.extend((0..n).map(|n| extent::Extent::in_block(b, n)));
                Ok::<(), FsError>(())
            })?;
        }
        let mut map = FileMap::load(slots, content.into_iter()).map_err(bad)?;
        let outside = |e: &&crate::map::Mapped| !self.geometry.has_data(e.lba as u64, e.len as u64);
        if let Some(e) = map.extents().iter().find(outside) {
            return Err(bad(format!("{e:?} lies outside the data area")));
        }
        (map.slot_blocks, map.index_blocks) = (slot_blocks, index_blocks);
        Ok(map)
    }
}

/// Checks lines of a block of pointers.
fn sound(ino: u32, what: &str, block: &[u8; PAGE_SIZE], lba: u32, lines: u64) -> Result<()> {
    match line::damaged(block, lba as u64, lines) {
        0 => Ok(()),
        bad => Err(FsError::Corrupt(line::sentence(&format!("inode {ino}, {what}"), lba as u64, bad))),
    }
}

const _: () = assert!(Superblock::SIZE <= PAGE_SIZE);
