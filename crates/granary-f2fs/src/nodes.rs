//! Nodes: reading, making, writing and freeing them, and the space that they and data take.
//!
//! ```text
//!   write:  [chain lock]  next block of the node's log -> NAT, SIT, summary
//!                         -> footer (marks, version, next) -> drive
//! ```
//!
//! All nodes are written under the chain lock, so that the drive gets them in the order of the log. Recovery
//! walks the warm log from block to block. An fsync waits until every node before its own is there
//! (`f2fs_wait_on_node_pages_writeback`).

use crate::cache::CachedBlock;
use crate::fs::F2fs;
use crate::layout::node::{COLD, FSYNC, Footer, XATTR_PLACE, is_direct};
use crate::layout::summary::Summary;
use crate::layout::{BLOCK_SIZE, NULL_ADDR, corrupt, is_real};
use crate::node::Node;
use crate::segs::log;
use granary_device::{Structure, Ticket};
use granary_fs::{FsError, Result};
use granary_sim::sync::{Mutex, MutexGuard};
use granary_units::{Lpa, Nanos, Page};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Pages on their way: where, what, as which structure.
pub(crate) type Batch = Vec<(u32, Page, Structure)>;

impl F2fs {
    /// The lock under which an inode's file blocks are written, moved or cut.
    pub(crate) fn inode_lock(&self, ino: u32) -> MutexGuard<'_, ()> {
        stripe(&self.inode_locks, ino).lock()
    }

    pub(crate) fn grow_lock(&self, ino: u32) -> MutexGuard<'_, ()> {
        stripe(&self.grow_locks, ino).lock()
    }

    /// Whether anything can still be made durable.
    pub(crate) fn working(&self) -> Result<()> {
        if self.broken.load(Relaxed) { Err(FsError::ReadOnly) } else { Ok(()) }
    }

    /// Takes blocks, for data or nodes.
    ///
    /// # Errors
    /// `NoSpace`.
    pub(crate) fn take_blocks(&self, n: u64) -> Result<()> {
        let mut s = self.space.lock();
        if s.valid + n > s.user {
            return Err(FsError::NoSpace);
        }
        s.valid += n;
        s.since += n;
        Ok(())
    }

    /// Gives blocks back.
    pub(crate) fn give_blocks(&self, n: u64) {
        let mut s = self.space.lock();
        s.valid = s.valid.saturating_sub(n);
    }

    /// A node of an inode.
    ///
    /// # Errors
    /// `Stale` for an inode that is free; `Corrupt`; the drive's.
    pub(crate) fn node(&self, ino: u32, nid: u32) -> Result<Arc<CachedBlock>> {
        self.nodes.get((ino, nid), || {
            let e = self.nat.lookup(nid)?;
            if e.addr == NULL_ADDR && nid == ino {
                return Err(FsError::Stale);
            }
            if !self.geo.in_main(e.addr) {
                return Err(corrupt(format!("node {nid} is at block {}", e.addr)));
            }
            let what = if nid == ino { Structure::Inode } else { Structure::DataPointer };
            let mut page = [Page::ZERO];
            self.port.read(Lpa(e.addr as u64), &mut page, what)?;
            let [page] = page;
            let f = page.with_bytes(Footer::read);
            if f.nid != nid || f.ino != ino || (f.place == 0) != (nid == ino) {
                return Err(corrupt(format!("block {} holds {f:?}, not node {nid} of {ino}", e.addr)));
            }
            Ok(page.packed(Page::KEPT_LINES))
        })
    }

    /// The node that is the inode.
    pub(crate) fn inode_node(&self, ino: u32) -> Result<Arc<CachedBlock>> {
        self.node(ino, ino)
    }

    /// Makes a node of the tree of `owner`, at a place, with `flags` in its footer.
    ///
    /// # Errors
    /// `NoSpace`; the drive's.
    pub(crate) fn make_node(&self, owner: &Node, place: u32, flags: u32) -> Result<(u32, Arc<CachedBlock>)> {
        self.take_blocks(1)?;
        let nid = self.nat.take(Some(owner.ino)).inspect_err(|_| self.give_blocks(1))?;
        let mut b = Box::new([0; BLOCK_SIZE]);
        Footer { nid, ino: owner.ino, flags: flags & COLD, place, ..Footer::default() }.store(&mut b);
        let entry = self.nodes.fresh((owner.ino, nid), &b);
        self.space.lock().nodes += 1;
        owner.state.lock().blocks += 1;
        Ok((nid, entry))
    }

    /// Frees a node; says whether media had it.
    pub(crate) fn free_node(&self, ino: u32, nid: u32) -> Result<bool> {
        // Nobody may be writing it now.
        let _chain = self.chain.lock();
        let old = self.nat.set(nid, ino, NULL_ADDR)?;
        // Not before: the look-up may wait for the drive, and cleaning would read the node again and have it
        // written.
        self.nodes.forget((ino, nid));
        if is_real(old.addr) {
            self.segs.lock().invalidate(old.addr)?;
        }
        let mut s = self.space.lock();
        s.valid = s.valid.saturating_sub(1);
        s.nodes = s.nodes.saturating_sub(1);
        s.inodes = s.inodes.saturating_sub((nid == ino) as u32);
        Ok(is_real(old.addr))
    }

    /// Writes nodes that are dirty. `marks`: the flags of an fsync; `None`: nobody waits for these nodes in
    /// particular. Returns what is in flight, and when everything that the log had before is on the drive,
    /// too.
    pub(crate) fn write_nodes(
        &self,
        list: &[Arc<CachedBlock>],
        marks: Option<&dyn Fn(&Footer) -> u32>,
    ) -> Result<(Ticket, Nanos)> {
        let mut chain = self.chain.lock();
        // Roll-forward does not find what comes behind a node that is missing: another's write may have
        // failed meanwhile.
        self.working()?;
        let version = self.last.lock().version;
        let mut batch = Batch::with_capacity(list.len());
        let mut result = Ok(());
        for e in list.iter().filter(|e| marks.is_some() || e.is_dirty()) {
            if let Err(error) = self.place_node(e, version, marks, &mut batch) {
                result = Err(error);
                break;
            }
        }
        self.stats.lock().nodes += batch.len() as u64;
        let written = self.submit(batch);
        if let Ok(ticket) = &written {
            *chain = (*chain).max(ticket.done());
        }
        let done = written.and_then(|ticket| result.map(|()| (ticket, *chain)));
        // The node address table knows places by now that hold no nodes: no checkpoint may make that durable.
        done.inspect_err(|e| {
            if *e != FsError::NoSpace {
                self.broken.store(true, Relaxed);
            }
        })
    }

    fn place_node(
        &self,
        e: &Arc<CachedBlock>,
        version: u64,
        marks: Option<&dyn Fn(&Footer) -> u32>,
        batch: &mut Batch,
    ) -> Result<()> {
        let mut foot = e.with(Footer::read);
        let log = match (is_direct(foot.place), foot.flags & COLD) {
            (false, _) => log::COLD_NODE,
            (_, 0) => log::HOT_NODE,
            _ => log::WARM_NODE,
        };
        let old = self.nat.lookup(foot.nid)?;
        let addr = {
            let mut segs = self.segs.lock();
            let addr = segs.alloc(log, Summary { nid: foot.nid, version: old.version, ofs: 0 })?;
            if is_real(old.addr) {
                segs.invalidate(old.addr)?;
            }
            foot.next = segs.next_addr(log);
            addr
        };
        self.nat.set(foot.nid, foot.ino, addr)?;
        foot.flags = foot.flags & COLD | marks.map_or(0, |m| m(&foot));
        foot.version = version;
        self.nat.mark(foot.nid, foot.ino, foot.flags & FSYNC != 0);
        let is_inode = foot.nid == foot.ino || foot.place == XATTR_PLACE;
        let what = if is_inode { Structure::Inode } else { Structure::DataPointer };
        batch.push((addr, self.nodes.clean(e, |b| foot.store(b)), what));
        Ok(())
    }

    /// Starts writing blocks, neighbours in one command.
    pub(crate) fn submit(&self, mut batch: Batch) -> Result<Ticket> {
        batch.sort_by_key(|(addr, ..)| *addr);
        let mut ticket = Ticket::NONE;
        let mut pages = Vec::with_capacity(batch.len());
        for run in batch.chunk_by(|a, b| a.0 + 1 == b.0 && a.2 == b.2) {
            pages.clear();
            pages.extend(run.iter().map(|(_, page, _)| page.clone()));
            ticket = ticket.and(self.port.submit_write(Lpa(run[0].0 as u64), &pages, run[0].2)?);
        }
        Ok(ticket)
    }
}

fn stripe(locks: &[Mutex<()>], ino: u32) -> &Mutex<()> {
    &locks[ino as usize % locks.len()]
}
