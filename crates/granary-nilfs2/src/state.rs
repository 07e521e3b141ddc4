//! [`State`]: everything that a mounted file system has in memory, under one lock.
//!
//! ```text
//!   nodes: inode -> attributes, map, dirty blocks         dat  ifile  cpfile  sufile: blocks and maps
//!   promised pages (dirty in the vfs)  ->  dirty blocks  ->  a log
//! ```
//!
//! Operations change this and nothing else; a log writes all that is dirty. So a checkpoint has all of an
//! operation, or nothing.

use crate::buffers::Buffers;
use crate::dat::{Dat, Virtual};
use crate::dir::index::Index;
use crate::groups::Groups;
use crate::layout::inode::{DiskInode, INODE};
use crate::layout::{IFILE_INO, corrupt};
use crate::media::Media;
use crate::segments::Segments;
use crate::tree::Tree;
use granary_device::Structure;
use granary_fs::{Attr, FileKind, FsError, Result};
use granary_sim::now;
use granary_units::{Nanos, Page};
use std::collections::{BTreeMap, BTreeSet};

/// Bitmap and entries of the ifile.
pub(crate) const INODES: Groups = Groups { entry: INODE, most: 1024, dense: 1024 * crate::groups::GROUP };

/// A page that the vfs may dirty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    /// It is a hole yet.
    pub new: bool,
    /// When it was promised.
    pub at: Nanos,
}

/// An inode in memory.
pub(crate) struct Node {
    pub file: Buffers,
    pub attr: Attr,
    /// Size that media learn: not beyond the data that a log has.
    pub media_size: u64,
    pub generation: u32,
    /// Attributes are newer than the ifile's.
    pub attr_dirty: bool,
    /// A log of data only would not do: it was cut, has new names or attributes, or is not on media.
    pub needs_root: bool,
    /// It grew: a log of data only would do where FS_WRITE tells how far.
    pub grew: bool,
    /// Times that the newest log of its data told: mtime, ctime.
    pub told: Option<(i64, i64)>,
    pub promised: BTreeMap<u64, Promise>,
    /// Pages promised or dirty that have no block yet.
    pub new_blocks: u64,
    /// Names of a directory.
    pub index: Option<Index>,
    /// The vfs has it.
    pub held: bool,
}

impl Node {
    pub fn new(ino: u64, inode: &DiskInode, tree: Tree) -> Node {
        let what = if inode.attr.kind == FileKind::Dir { Structure::Dentry } else { Structure::Data };
        Node {
            file: Buffers::new(ino, tree, what),
            attr: Attr { blocks: inode.blocks * 8, ..inode.attr },
            media_size: inode.attr.size,
            generation: inode.generation,
            attr_dirty: false,
            needs_root: false,
            grew: false,
            told: None,
            promised: BTreeMap::new(),
            new_blocks: 0,
            index: None,
            held: false,
        }
    }

    pub fn disk(&self) -> DiskInode {
        DiskInode {
            attr: Attr { size: self.media_size, ..self.attr },
            generation: self.generation,
            blocks: self.file.tree.count,
            map: self.file.tree.encode(),
        }
    }

    pub fn is_dirty(&self) -> bool {
        self.attr_dirty || self.file.is_dirty()
    }

    /// Blocks as `stat` counts them, in 512 B, with pages that have none yet.
    pub fn shown_blocks(&self) -> u64 {
        (self.file.tree.count + self.new_blocks) * 8
    }
}

/// The log with a super root that is on the drive, as superblocks name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastRoot {
    pub at: u64,
    pub seq: u64,
    pub serial: u64,
}

/// See the module.
pub(crate) struct State {
    /// Number of the checkpoint that is being made.
    pub cno: u64,
    /// Mounts so far: in the serial numbers of logs.
    pub mounts: u32,
    /// Age of the file system at the instant 0 of this world's clock.
    pub born: u64,
    pub dat: Dat,
    pub ifile: Buffers,
    pub cpfile: Buffers,
    pub sufile: Buffers,
    pub segs: Segments,
    pub nodes: BTreeMap<u64, Node>,
    /// Those that a log has to have something of.
    pub dirty: BTreeSet<u64>,
    /// Those with promised pages.
    pub promising: BTreeSet<u64>,
    /// The vfs has let go of them, the next log has something of them.
    pub unheld: BTreeSet<u64>,
    /// Since when there is something for a log.
    pub dirty_since: Option<Nanos>,
    /// Inodes that are gone; their numbers are free from the next checkpoint on.
    pub freeing: BTreeSet<u64>,
    /// Without names, in use.
    pub orphans: BTreeSet<u64>,
    pub inodes: u64,
    /// Blocks and nodes of files.
    pub live: u64,
    /// Pages promised and blocks of files that are dirty, and in how many runs.
    pub pending: u64,
    pub runs: u64,
    /// Those of `pending` that have no block yet.
    pub pending_new: u64,
    /// Blocks that names and attributes may have made dirty.
    pub misc: u64,
    pub snapshots: BTreeSet<u64>,
    /// Checkpoints and their ages; `None`: not read yet.
    pub history: Option<BTreeMap<u64, u64>>,
    pub root: LastRoot,
}

impl State {
    /// Nothing but the files of metadata, before the first checkpoint.
    pub fn with(dat: Dat, ifile: Buffers, cpfile: Buffers, sufile: Buffers, segs: Segments) -> State {
        State {
            cno: 1,
            mounts: 0,
            born: 0,
            dat,
            ifile,
            cpfile,
            sufile,
            segs,
            nodes: BTreeMap::new(),
            dirty: BTreeSet::new(),
            promising: BTreeSet::new(),
            unheld: BTreeSet::new(),
            dirty_since: None,
            freeing: BTreeSet::new(),
            orphans: BTreeSet::new(),
            inodes: 0,
            live: 0,
            pending: 0,
            runs: 0,
            pending_new: 0,
            misc: 0,
            snapshots: BTreeSet::new(),
            history: None,
            root: LastRoot::default(),
        }
    }

    /// Nanoseconds that the file system has been mounted in its life.
    pub fn age(&self) -> u64 {
        self.born + now().0
    }

    /// Something is there for a log.
    pub fn changed(&mut self) {
        if self.dirty_since.is_none() {
            self.dirty_since = Some(now());
        }
    }

    /// An inode, read where it is not here.
    ///
    /// # Errors
    /// `Stale` where it is free; `Corrupt`; the drive's.
    pub fn node(&mut self, ino: u64, media: &Media) -> Result<&mut Node> {
        if !self.nodes.contains_key(&ino) {
            let node = self.load(ino, media)?;
            self.nodes.insert(ino, node);
        }
        self.nodes.get_mut(&ino).ok_or(FsError::Stale)
    }

    fn load(&mut self, ino: u64, media: &Media) -> Result<Node> {
        let file = &mut self.ifile;
        let mut from = Virtual { media, dat: &mut self.dat };
        if ino == 0 || self.freeing.contains(&ino) || !INODES.is_used(file, ino, &mut from)? {
            return Err(FsError::Stale);
        }
        let (block, at) = INODES.place(ino);
        let inode =
            file.block(block, &mut from)?.with_bytes(|b| DiskInode::parse(&b[at..at + INODE], ino))?;
        let tree = Tree::parse(&inode.map, inode.blocks)?;
        Ok(Node::new(ino, &inode, tree))
    }

    /// The inode of a file of metadata.
    pub fn meta_inode(file: &Buffers) -> DiskInode {
        let attr = Attr::new(FileKind::File, 0, granary_fs::Time(0));
        DiskInode { attr, generation: 0, blocks: file.tree.count, map: file.tree.encode() }
    }

    /// Stores an inode in the ifile.
    pub fn store_inode(&mut self, ino: u64, media: &Media) -> Result<()> {
        let Some(node) = self.nodes.get_mut(&ino) else { return Ok(()) };
        node.attr_dirty = false;
        let disk = node.disk();
        let (block, at) = INODES.place(ino);
        let mut from = Virtual { media, dat: &mut self.dat };
        disk.store(&mut self.ifile.change(block, &mut from)?[at..at + INODE]);
        Ok(())
    }

    /// Blocks in use, of files and of metadata.
    pub fn used(&self) -> u64 {
        let meta = [&self.ifile, &self.cpfile, &self.sufile].iter().map(|f| f.tree.count).sum::<u64>();
        // DAT grows while there are dead blocks: it has its room from the beginning.
        let dat = self.dat.file.tree.count.max(self.segs.geo.blocks / 100);
        self.live + meta + dat
    }

    /// Takes over a page of a file: it is in the next log.
    pub fn stage(&mut self, ino: u64, index: u64, page: Page) {
        let Some(node) = self.nodes.get_mut(&ino) else { return };
        node.file.put(index, page);
        match node.promised.remove(&index) {
            Some(_) => {}
            // Nobody promised it.
            None => {
                self.pending += 1;
                self.runs += 1;
            }
        }
        self.dirty.insert(ino);
        self.changed();
    }

    /// Memory and the map forget blocks from `first` on.
    ///
    /// # Errors
    /// `Corrupt`, the drive's; nothing has changed then.
    pub fn cut(&mut self, ino: u64, first: u64, media: &Media) -> Result<()> {
        let cno = self.cno;
        let State { nodes, dat, .. } = self;
        let Some(node) = nodes.get_mut(&ino) else { return Err(FsError::Stale) };
        let before = node.file.tree.count;
        let freed = node.file.tree.cut(first, &mut Virtual { media, dat })?;
        self.live = self.live.saturating_sub(before.saturating_sub(node.file.tree.count));
        node.file.pages.split_off(&first);
        node.file.dirty.split_off(&first);
        for (_, promise) in node.promised.split_off(&first) {
            self.pending_new = self.pending_new.saturating_sub(promise.new as u64);
        }
        node.new_blocks = node.promised.values().filter(|p| p.new).count() as u64;
        for ptr in freed {
            dat.end(ptr, cno, false, media)?;
        }
        Ok(())
    }

    /// Lets go of clean blocks where there are more than `most`.
    pub fn evict(&mut self, most: usize) {
        let State { nodes, dat, ifile, cpfile, sufile, .. } = self;
        let meta = [&mut dat.file, ifile, cpfile, sufile];
        let held: usize = meta.iter().map(|f| f.pages.len()).sum();
        let dirs: usize = nodes.values().map(|n| n.file.pages.len()).sum();
        if held + dirs > most {
            meta.into_iter().for_each(Buffers::evict);
            nodes.values_mut().for_each(|n| n.file.evict());
        }
    }
}

/// The ifile of a checkpoint.
pub(crate) fn ifile_of(inode: &DiskInode) -> Result<Buffers> {
    if inode.blocks > u64::MAX / 4096 {
        return Err(corrupt("an ifile with too many blocks"));
    }
    Ok(Buffers::new(IFILE_INO, Tree::parse(&inode.map, inode.blocks)?, Structure::Inode))
}
