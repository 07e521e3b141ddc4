//! mount: superblock, newest checkpoint, journals; then what every inode reaches is in use, and the rest is
//! free.
//!
//! ```text
//!   replay     each journal's whole groups behind its head, brought home; then the heads move
//!   undo       old bytes come back where a write that kept them did not count
//!   scan       every inode: its tree, its pages; one without links (an orphan) is freed
//! ```
//!
//! All of it may be repeated: a power failure during recovery is just another one. Journals need no order
//! among them, since an inode's records are in one journal at a time ([`crate::tx`]).
//!
//! Source: OrchFS section 4; the released code has no replay (its digest is not written), so order and slots
//! are this file's.

use crate::blob::{self, MOST_ATTRIBUTES};
use crate::cache::SsdCache;
use crate::digest::bring_home;
use crate::dir::Dir;
use crate::engine::Engine;
use crate::fs::{OrchFs, Recovery};
use crate::geometry::PAGE;
use crate::hrtree::HrTree;
use crate::journal::Journal;
use crate::layout::checkpoint::Checkpoint;
use crate::layout::superblock::{SIZE, Superblock};
use crate::layout::{Area, Layout, dentry, inode, nodes};
use crate::node::{Node, NodeState};
use crate::options::MountOptions;
use crate::pools::Pools;
use crate::unit::{Unit, Word};
use crate::verify::{Images, judge};
use granary_device::{Port, Structure};
use granary_fs::{Attr, FileKind, FsError, Ino, Result};
use granary_kit::Generations;
use granary_pm::bytes::u64_at;
use granary_pm::{Pm, corrupt, superblock};
use granary_sim::Daemon;
use granary_sim::sync::Mutex;
use granary_units::Bytes;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Memory for pages of the SSD where nobody says how much.
const READ_CACHE: Bytes = Bytes::mib(64);

/// Mounts the file system on an NVM and an SSD, recovering it where it was not unmounted
/// ([`OrchFs::recovery`] tells).
///
/// # Errors
/// `Corrupt` where there is no sound OrchFS; the drives'.
pub fn mount(nvm: Port, ssd: Port, options: &MountOptions) -> Result<Arc<OrchFs>> {
    let pm = Pm::new(nvm);
    let pages = pm.info().pages;
    let sb = superblock::read::<SIZE, _>(&pm, (pages > 1).then(|| pages - 1), Superblock::parse)?;
    if sb.device != pages || sb.blocks > ssd.info().pages / (crate::geometry::BLOCK / PAGE) {
        return Err(corrupt("the superblock is of other devices"));
    }
    let layout = Layout::of(&sb);
    let mut checkpoint = Checkpoint::read(&pm, sb.journals)?;
    if checkpoint.inodes_end > sb.inodes {
        return Err(corrupt("the checkpoint has more inodes than there are"));
    }
    let journals: Vec<Journal> = (0..sb.journals)
        .zip(&checkpoint.heads)
        .map(|(i, head)| Journal::new(layout.journals + i * sb.journal, sb.journal, sb.era, *head))
        .collect();
    let mut recovery = Recovery { clean: checkpoint.clean, ..Recovery::default() };
    for (i, journal) in journals.iter().enumerate() {
        let mut images = Images::new(&pm, &layout, checkpoint.inodes_end);
        let records = journal.recover(&pm, |group| judge(&mut images, group, None).is_ok())?;
        recovery.records += records.len() as u64;
        let _step = (!records.is_empty()).then(|| granary_sim::step("orchfs: a mount brings a journal home"));
        bring_home(images, &records, &mut checkpoint)?;
        checkpoint.heads[i] = journal.tail();
        journal.digested(journal.tail());
    }
    (checkpoint.clean, checkpoint.mounts) = (false, checkpoint.mounts + 1);
    checkpoint.write(&pm)?;
    // Numbers of undo slots of one mount are none of another.
    let first_undo = checkpoint.mounts << 32;
    let mut fs = OrchFs {
        generations: Generations::of_mount(checkpoint.mounts),
        pools: Pools::new(&layout),
        pm,
        engine: Engine::new(
            ssd.clone(),
            SsdCache::new(options.read_cache.unwrap_or(READ_CACHE)),
            options.ssd_threads,
            options.nvm_threads,
        ),
        ssd,
        layout,
        journals,
        checkpoint: Mutex::new(checkpoint),
        processes: Default::default(),
        nodes: Default::default(),
        options: options.clone(),
        recovery,
        loading: Mutex::new(()),
        victims: Default::default(),
        revoked: Default::default(),
        leases: Default::default(),
        refused: Default::default(),
        longest_wait: Default::default(),
        migrated: Default::default(),
        upages_made: Default::default(),
        last_call: Default::default(),
        daemons: Default::default(),
        kicker: Default::default(),
        making_room: Mutex::new(()),
        room_made: Default::default(),
        failed: Default::default(),
        undone: std::sync::atomic::AtomicU64::new(first_undo),
    };
    recovery.undone = fs.settle_undo()?;
    fs.recovery = fs.scan(recovery)?;
    let fs = Arc::new(fs);
    let (weak, pause) = (Arc::downgrade(&fs), options.migrate_pause);
    let daemon = Daemon::start("orchfs_kernel", move |stop| crate::migrate::daemon(&weak, pause, stop));
    let _ = fs.kicker.set(daemon.kicker());
    fs.daemons.lock().push(daemon);
    Ok(fs)
}

impl OrchFs {
    /// Settles the undo slots: every group is at home.
    fn settle_undo(&self) -> Result<u64> {
        let belongs = |ino: u64, targets: &[(Area, u64)]| {
            let Some((node, state, _)) = self.read_inode(Ino(ino))? else { return Ok(false) };
            let mut own = FxHashSet::default();
            reach(&node, &state, &mut |area, number| {
                own.insert((area, number));
                Ok(())
            })?;
            Ok(targets.iter().all(|target| own.contains(target)))
        };
        let settle = |journal| crate::undo::settle((&self.pm, &self.ssd), &self.layout, journal, &belongs);
        (0..self.journals.len() as u64).map(settle).sum()
    }

    /// Marks what inodes reach, and frees those without links.
    fn scan(&self, mut recovery: Recovery) -> Result<Recovery> {
        let end = self.checkpoint.lock().inodes_end;
        let mut orphans = Vec::new();
        for ino in 1..end {
            let Some((node, state, attr)) = self.read_inode(Ino(ino))? else { continue };
            if attr.nlink == 0 {
                orphans.push(node.ino.0);
                continue;
            }
            recovery.inodes += 1;
            state.tree.range(0, u64::MAX).for_each(|(block, unit)| self.touch(ino, block, unit));
            reach(&node, &state, &mut |area, number| self.pools.mark(area, number))?;
        }
        recovery.orphans = orphans.len() as u32;
        let _step = (!orphans.is_empty()).then(|| granary_sim::step("orchfs: a mount frees orphans"));
        // The word that says so first: an inode that a power failure left with some of its bytes would be a
        // damaged one.
        let word = inode::KIND / 8 * 8;
        for part in [word..word + 8, 0..inode::SIZE] {
            let mut b = self.pm.batch();
            for ino in &orphans {
                let at = self.layout.at(Area::Inode, *ino) + part.start as u64;
                b.put(at, &[0; inode::SIZE][part.clone()], Structure::Inode)?;
            }
            b.fence()?;
        }
        Ok(recovery)
    }

    /// An inode from the NVM, where nothing of it waits in a journal; `None`: it is free.
    ///
    /// # Errors
    /// `Corrupt`; the drive's.
    pub(crate) fn read_inode(&self, ino: Ino) -> Result<Option<(Node, NodeState, Attr)>> {
        let mut bytes = [0; inode::SIZE];
        self.pm.load(self.layout.at(Area::Inode, ino.0), &mut bytes, Structure::Inode)?;
        if inode::kind(&bytes)?.is_none() {
            return Ok(None);
        }
        let (inode, mut attr) = inode::parse(&bytes, ino.0)?;
        let (attribute_pages, b) =
            blob::read(&self.pm, &self.layout, ino.0, inode.attributes, MOST_ATTRIBUTES)?;
        let mut state = NodeState {
            target: inode.target,
            attributes: blob::decode(&b)?,
            attribute_pages,
            ..NodeState::default()
        };
        match attr.kind {
            FileKind::Dir => state.dir = Some(self.read_dir(ino.0, inode.first, inode.parent)?),
            FileKind::Symlink if inode.first != 0 => {
                (state.target_pages, state.target) =
                    blob::read(&self.pm, &self.layout, ino.0, inode.first, granary_fs::PATH_MAX)?;
            }
            FileKind::File => state.tree = self.read_tree(ino.0, Word::parse(inode.root)?)?,
            _ => {}
        }
        if attr.kind == FileKind::Symlink && state.target.len() as u64 != attr.size {
            return Err(corrupt(format!("{ino}: a target of {} bytes", state.target.len())));
        }
        state.space = state.tree.range(0, u64::MAX).map(|(_, unit)| unit.space()).sum();
        attr.blocks = state.blocks();
        let node = Node::new(ino, inode.generation, attr.size, self.options.range_lock);
        node.undo.store(inode.undo, Relaxed);
        Ok(Some((node, state, attr)))
    }

    fn read_tree(&self, ino: u64, root: Word) -> Result<HrTree> {
        let there = |area: Area, number: u64| match self.layout.has(area, number) {
            true => Ok(self.layout.at(area, number)),
            false => Err(corrupt(format!("inode {ino} leads to {} {number}", area.name()))),
        };
        let mut node = |number: u64| {
            let mut b = [0; nodes::INDEX];
            self.pm.load(there(Area::Index, number)?, &mut b, Structure::DataPointer)?;
            nodes::parse_index(&b, number, ino)
        };
        let mut unit = |word: Word| {
            let unit = match word {
                Word::Block(base) => Unit::Block(base),
                Word::Append(eln) => {
                    let mut b = [0; nodes::APPEND];
                    self.pm.load(there(Area::Append, eln)?, &mut b, Structure::DataPointer)?;
                    nodes::parse_append(&b, eln, ino)?
                }
                Word::Over(eln) => {
                    let mut b = [0; nodes::OVER];
                    self.pm.load(there(Area::Over, eln)?, &mut b, Structure::DataPointer)?;
                    nodes::parse_over(&b, eln, ino)?
                }
                word => return Err(corrupt(format!("inode {ino} has {word:?} as a block"))),
            };
            unit.nvm_pages().try_for_each(|page| there(Area::Page, page).map(drop))?;
            match unit.base().is_none_or(|base| self.layout.has(Area::Block, base.block)) {
                true => Ok(unit),
                false => Err(corrupt(format!("inode {ino} has an SSD block that there is not"))),
            }
        };
        HrTree::load(root, &mut node, &mut unit)
    }

    fn read_dir(&self, ino: u64, first: u64, parent: u64) -> Result<Dir> {
        let (mut pages, mut at) = (Vec::new(), first);
        while at != 0 {
            if !self.layout.has(Area::Page, at) || pages.len() as u64 > self.layout.count(Area::Page) {
                return Err(corrupt(format!("directory {ino} goes on in NVM page {at}")));
            }
            let mut content = vec![0; PAGE as usize];
            self.pm.load(self.layout.at(Area::Page, at), &mut content, Structure::Dentry)?;
            if u64_at(&content, 0) != ino {
                return Err(corrupt(format!("NVM page {at} is none of directory {ino}")));
            }
            let next = u64_at(&content, dentry::NEXT);
            pages.push((at, content));
            at = next;
        }
        Dir::load(parent, &pages)
    }

    /// An inode for the vfs.
    ///
    /// # Errors
    /// `Stale` where it is free; `Corrupt`; the drive's.
    pub(crate) fn load_node(&self, ino: Ino) -> Result<granary_fs::Loaded> {
        if !self.layout.has(Area::Inode, ino.0) || !self.pools.is_taken(Area::Inode, ino.0) {
            return Err(FsError::Stale);
        }
        let _loading = self.loading.lock();
        self.settle(ino.0)?;
        let (node, state, attr) = self.read_inode(ino)?.ok_or(FsError::Stale)?;
        *node.state.write() = state;
        Ok(self.loaded(node, attr))
    }

    /// Hands an inode to the vfs, and remembers it.
    pub(crate) fn loaded(&self, node: Node, attr: Attr) -> granary_fs::Loaded {
        let node = Arc::new(node);
        self.nodes.lock().insert(node.ino.0, Arc::downgrade(&node));
        granary_fs::Loaded { attr, private: node }
    }
}

/// Calls `found` with everything that an inode has, itself included.
///
/// # Errors
/// Those of `found`.
pub fn reach(node: &Node, state: &NodeState, found: &mut dyn FnMut(Area, u64) -> Result<()>) -> Result<()> {
    found(Area::Inode, node.ino.0)?;
    state.tree.numbers().try_for_each(|number| found(Area::Index, number))?;
    for (_, unit) in state.tree.range(0, u64::MAX) {
        match unit {
            Unit::Append { eln, .. } => found(Area::Append, *eln)?,
            Unit::Over { eln, .. } => found(Area::Over, *eln)?,
            _ => {}
        }
        unit.nvm_pages().try_for_each(|page| found(Area::Page, page))?;
        unit.base().map_or(Ok(()), |base| found(Area::Block, base.block))?;
    }
    let dir = state.dir.iter().flat_map(Dir::page_numbers);
    let own = state.target_pages.iter().chain(&state.attribute_pages).copied();
    dir.chain(own).try_for_each(|page| found(Area::Page, page))
}
