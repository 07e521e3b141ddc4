//! [`Tx`]: an operation's changes on their way to a group.
//!
//! ```text
//!   fresh      images of new nodes, straight to their places: nothing leads there yet
//!   records    what changes of things that are there
//!   commit     fence (data, fresh images) | group, fence: it counts | numbers that it frees wait for its
//!              digest
//! ```
//!
//! The caller holds the states of all inodes involved from before the first change until the commit.

use crate::fs::OrchFs;
use crate::hrtree::Change;
use crate::layout::{Area, inode, nodes};
use crate::lease::Has;
use crate::node::{Node, NodeState};
use crate::record::{Group, LARGEST_GROUP, Record};
use crate::unit::{Unit, Word};
use granary_device::Structure;
use granary_fs::{Attr, FsError, Result};
use granary_pm::Batch;
use granary_pm::corrupt;
use granary_sim::{costs, cpu};
use granary_units::Payload;
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
pub struct Tx<'a> {
    fs: &'a OrchFs,
    /// Stores that belong to it.
    pub batch: Batch<'a>,
    records: Vec<Record>,
    inodes: Vec<u64>,
    /// Those among them that are new: their leases come with their numbers.
    made: Vec<u64>,
    freed: Vec<(Area, u64)>,
}

/// Changes of one tree, gathered over several units.
#[derive(Default)]
pub struct TreeChanges {
    made: BTreeSet<u64>,
    children: BTreeMap<(u64, usize), Word>,
    /// The root is another one: the inode says so.
    pub root: bool,
}

impl<'a> Tx<'a> {
    /// No change yet.
    pub fn new(fs: &'a OrchFs) -> Tx<'a> {
        Tx {
            fs,
            batch: fs.pm.batch(),
            records: Vec::new(),
            inodes: Vec::new(),
            made: Vec::new(),
            freed: Vec::new(),
        }
    }

    /// Adds a change.
    pub fn record(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Frees a number, once the group is digested.
    pub fn free(&mut self, area: Area, number: u64) {
        self.freed.push((area, number));
    }

    /// The inode as it is in memory, with these attributes: all of its head.
    pub fn put_inode(&mut self, node: &Node, state: &NodeState, attr: &Attr) {
        let inode = state.inode(node);
        let mut bytes = inode::head(&inode, attr).to_vec();
        bytes.extend(&inode.target);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        self.inodes.push(node.ino.0);
        self.records.push(Record { area: Area::Inode, number: node.ino.0, at: 0, bytes });
    }

    /// The inode is new.
    pub fn made(&mut self, node: &Node) {
        self.made.push(node.ino.0);
    }

    /// Size and times of a write alone: less than a line.
    pub fn put_stamps(&mut self, node: &Node, state: &NodeState, attr: &Attr) {
        let (at, len) = inode::STAMPS;
        let bytes = inode::head(&state.inode(node), attr)[at..at + len].to_vec();
        self.inodes.push(node.ino.0);
        self.records.push(Record { area: Area::Inode, number: node.ino.0, at, bytes });
    }

    /// The root of a tree alone, where it is another one.
    pub fn put_root(&mut self, node: &Node, state: &NodeState, is_new: bool) {
        self.inodes.push(node.ino.0);
        if is_new {
            let bytes = state.tree.root().encode().to_le_bytes().to_vec();
            self.records.push(Record { area: Area::Inode, number: node.ino.0, at: inode::ROOT, bytes });
        }
    }

    /// The inode is free.
    pub fn put_free_inode(&mut self, ino: u64) {
        self.inodes.push(ino);
        self.records.push(Record { area: Area::Inode, number: ino, at: 0, bytes: vec![0; inode::HEAD] });
        self.free(Area::Inode, ino);
    }

    /// Makes `after` what a block is: the tree, the units' nodes and pages, what is freed. `numbers` are for
    /// nodes that this takes.
    pub fn set_unit(
        &mut self,
        (node, state): (&Node, &mut NodeState),
        block: u64,
        after: Unit,
        numbers: &mut Vec<u64>,
        changes: &mut TreeChanges,
    ) -> Result<()> {
        let before = state.tree.get(block).clone();
        self.put_eln(node.ino.0, block, &before, &after)?;
        let kept: Vec<u64> = after.nvm_pages().collect();
        for page in before.nvm_pages().filter(|page| !kept.contains(page)) {
            self.free(Area::Page, page);
        }
        if let Some(base) = before.base()
            && after.base().map(|b| b.block) != Some(base.block)
        {
            self.free(Area::Block, base.block);
        }
        state.space = state.space + after.space() - before.space();
        let (_, made) = state.tree.set(block, after, numbers);
        for change in made {
            match change {
                Change::Root(_) => changes.root = true,
                Change::Made(number) => drop(changes.made.insert(number)),
                Change::Child { node, slot, word } => drop(changes.children.insert((node, slot), word)),
                Change::Gone(number) => {
                    changes.children.retain(|(node, _), _| *node != number);
                    changes.made.remove(&number);
                    self.free(Area::Index, number);
                }
            }
        }
        Ok(())
    }

    /// The ELN of a block's unit: a new one is written to its place, of one that stays the entries that
    /// differ are records.
    fn put_eln(&mut self, ino: u64, block: u64, before: &Unit, after: &Unit) -> Result<()> {
        let area = |unit: &Unit| match unit {
            Unit::Append { eln, .. } => Some((Area::Append, *eln)),
            Unit::Over { eln, .. } => Some((Area::Over, *eln)),
            _ => None,
        };
        if area(before) != area(after) {
            if let Some((area, eln)) = area(before) {
                self.free(area, eln);
            }
            if let Some((area, eln)) = area(after) {
                let at = self.fs.layout.at(area, eln);
                self.batch.put(at, &nodes::eln(after, ino, block), Structure::DataPointer)?;
            }
            return Ok(());
        }
        let mut record = |area, number, at, bytes| self.records.push(Record { area, number, at, bytes });
        match (before, after) {
            (Unit::Append { pages: old, .. }, Unit::Append { eln, pages: new }) => {
                for (i, (_, page)) in old.iter().zip(new).enumerate().filter(|(_, (a, b))| a != b) {
                    record(Area::Append, *eln, nodes::BODY + 8 * i, page.to_le_bytes().to_vec());
                }
            }
            (Unit::Over { base: below, slots: old, .. }, Unit::Over { eln, base, slots: new }) => {
                if below != base {
                    let word = Word::Block(*base).encode();
                    record(Area::Over, *eln, nodes::BODY, word.to_le_bytes().to_vec());
                }
                for (i, (_, slot)) in old.iter().zip(new.iter()).enumerate().filter(|(_, (a, b))| a != b) {
                    let at = nodes::SLOTS + nodes::SLOT * i;
                    record(Area::Over, *eln, at, nodes::slot(slot).to_vec());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The nodes that changed: new ones are written to their places, children of others are records
    /// (neighbours are one).
    pub fn put_tree(&mut self, node: &Node, state: &NodeState, changes: &TreeChanges) -> Result<()> {
        for number in &changes.made {
            let image = state.tree.image(*number);
            let image = image.ok_or_else(|| corrupt(format!("index node {number} is not in its tree")))?;
            let at = self.fs.layout.at(Area::Index, *number);
            let bytes = nodes::index(*number, node.ino.0, &image);
            self.batch.put(at, &bytes, Structure::DataPointer)?;
        }
        for ((number, slot), word) in changes.children.iter().filter(|((n, _), _)| !changes.made.contains(n))
        {
            let (at, word) = (nodes::BODY + 8 * slot, word.encode().to_le_bytes());
            match self.records.last_mut() {
                Some(last)
                    if (last.area, last.number) == (Area::Index, *number)
                        && last.at + last.bytes.len() == at =>
                {
                    last.bytes.extend(word);
                }
                _ => self.record(Record { area: Area::Index, number: *number, at, bytes: word.to_vec() }),
            }
        }
        Ok(())
    }

    /// Stores data past the caches.
    pub fn stream(&mut self, page: u64, from: u64, data: Payload<'_>) -> Result<()> {
        self.batch.stream(self.fs.layout.at(Area::Page, page) + from, data, Structure::Data)
    }

    /// Makes everything count, as a group of the process's journal. Bytes that the batch stored are durable
    /// before.
    ///
    /// # Errors
    /// The drive's; then the file system changes nothing any more.
    pub fn commit(self, process: u32) -> Result<()> {
        self.finish(|tx| tx.append(process))
    }

    /// The same in the name of the process that has the lease of the inode, if one has: for another one that
    /// process's journal would have to be digested first.
    ///
    /// # Errors
    /// As `commit`.
    pub fn commit_as_holder(self, ino: u64, else_as: u32) -> Result<()> {
        self.finish(|mut tx| {
            let fs = tx.fs;
            let holder = fs.leases.lock().holder(ino);
            let own = holder.and_then(|holder| Some((holder, *fs.processes.lock().0.get(&holder)?)));
            let Some((holder, own)) = own else { return tx.append(else_as) };
            tx.batch.fence()?;
            cpu(costs().log_entry);
            let journal = &fs.journals[own];
            let appending = journal.append.lock();
            // A process that has ended meanwhile writes no more: its end takes this lock, too.
            if fs.leases.lock().has(holder, ino) != Has::Lease {
                drop(appending);
                return tx.append(else_as);
            }
            tx.append_to(journal, holder)
        })
    }

    fn finish(self, append: impl FnOnce(Tx<'a>) -> Result<()>) -> Result<()> {
        let (fs, inodes) = (self.fs, self.inodes.clone());
        let done = fs.check_alive().and_then(|()| append(self));
        match &done {
            // Memory is ahead of the NVM for these inodes alone: they go back when they leave it.
            Err(FsError::Revoked(why)) => {
                fs.revoked.lock().extend(inodes.into_iter().map(|ino| (ino, why.clone())));
            }
            Err(e) => drop(fs.failed.lock().get_or_insert(e.clone())),
            Ok(()) => {}
        }
        done
    }

    fn append(mut self, process: u32) -> Result<()> {
        let fs = self.fs;
        let own = fs.journal_of(process);
        // An inode's records are in one journal at a time: its lease comes to this process.
        for ino in &self.inodes {
            match self.made.contains(ino) {
                true => fs.leases.lock().grant(process, *ino),
                false => fs.lease(process, *ino)?,
            }
        }
        self.batch.fence()?;
        if self.records.is_empty() {
            return Ok(());
        }
        cpu(costs().log_entry);
        let journal = &fs.journals[own];
        let _appending = journal.append.lock();
        self.append_to(journal, process)
    }

    /// Appends the records to a journal; the caller holds it for appending.
    fn append_to(self, journal: &crate::journal::Journal, process: u32) -> Result<()> {
        let fs = self.fs;
        let len = Group::size(&self.records);
        if len > LARGEST_GROUP {
            return Err(corrupt(format!("an operation of {len} bytes is too large for a group")));
        }
        if !journal.has_room(len) {
            // A piece; the daemon is at the rest.
            let own = fs.journal_of(process);
            fs.digest_until(own, journal.head() + journal.piece().max(len as u64))?;
        }
        let group = Group { process, epoch: fs.leases.lock().epoch(), records: self.records };
        journal.append(&fs.pm, &group, &self.inodes, &self.freed, fs.pools.clock())?;
        if journal.is_due() {
            fs.wake_daemon();
        }
        Ok(())
    }
}
