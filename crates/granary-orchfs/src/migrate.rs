//! Migration: blocks with NVM pages go to the SSD as a whole, which frees the NVM and mends fragments (OrchFS section 3.7).
//!
//! ```text
//!   victim   the block that was written longest ago, of whatever file, A and O alike
//!   A        NVM pages ──> a new SSD block           O   SSD block + pages + chunks ──> the SSD block, in place
//!   then     one group: the leaf names the block alone; the pages are free after its digest
//! ```
//!
//! A power failure on the way leaves the pages above an SSD block that has the same bytes already. The block's range is taken without
//! waiting: who is busy is passed over. A file's last block stays on the NVM while it is likely to grow.
//!
//! When: more of the NVM's pages are taken than `migrate_high` says, down to `migrate_low`; or nobody has called for
//! `migrate_idle`. In the foreground, when an operation finds no page, eight victims.

use crate::OrchFs;
use crate::geometry::BLOCK;
use crate::layout::Area;
use crate::node::Node;
use crate::tx::{TreeChanges, Tx};
use crate::unit::Unit;
use granary_sim::{Stopper, now};
use granary_units::{Nanos, Payload};
use granary_vfs::{FsError, Ino, Result};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Victims of an operation that finds no page.
const IN_FOREGROUND: usize = 8;
/// A last block is taken only after so long an idle time: 10 s, long enough that no writer will come back soon.
const TAIL_IDLE: Nanos = Nanos::from_secs(10);

/// Blocks with NVM pages, by when they were written last.
#[derive(Default)]
pub struct Victims {
    next: u64,
    order: BTreeMap<u64, (u64, u64)>,
    of: FxHashMap<(u64, u64), u64>,
}

impl Victims {
    /// A block was written.
    pub fn touch(&mut self, ino: u64, block: u64, has_pages: bool) {
        if let Some(old) = self.of.remove(&(ino, block)) {
            self.order.remove(&old);
        }
        if has_pages {
            self.next += 1;
            self.of.insert((ino, block), self.next);
            self.order.insert(self.next, (ino, block));
        }
    }

    /// Those that come first: (inode, block).
    fn oldest(&self, count: usize) -> Vec<(u64, u64)> {
        self.order.values().take(count).copied().collect()
    }
}

impl OrchFs {
    /// Tells the list of victims what a block is now.
    pub(crate) fn touch(&self, ino: u64, block: u64, unit: &Unit) {
        self.victims.lock().touch(ino, block, unit.nvm_pages().next().is_some());
    }

    /// Migrates up to `count` of the oldest blocks; returns how many. `tails`: last blocks of files, too.
    ///
    /// # Errors
    /// The drives'.
    pub(crate) fn migrate(&self, count: usize, tails: bool) -> Result<usize> {
        let mut done = 0;
        let oldest = self.victims.lock().oldest(4 * count);
        for (ino, block) in oldest {
            if done == count {
                break;
            }
            match self.migrate_block(ino, block, tails) {
                Ok(moved) => done += usize::from(moved),
                // The SSD is full: nothing can go there.
                Err(FsError::NoSpace) => break,
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    /// What an operation without a page does; whether there may be one now.
    pub(crate) fn migrate_for_space(&self) -> Result<bool> {
        if !self.options.migrate || self.migrate(IN_FOREGROUND, true)? == 0 {
            return Ok(false);
        }
        self.digest_all()?;
        Ok(true)
    }

    fn migrate_block(&self, ino: u64, block: u64, tails: bool) -> Result<bool> {
        // Nobody loads an inode that is not in memory while its block moves.
        let Some(_loading) = self.loading.try_lock() else { return Ok(false) };
        let node = self.nodes.lock().get(&ino).and_then(std::sync::Weak::upgrade);
        match node {
            Some(node) => self.migrate_of(&node, block, tails),
            None => {
                self.settle(ino)?;
                if !self.pools.is_taken(Area::Inode, ino) {
                    self.victims.lock().touch(ino, block, false);
                    return Ok(false);
                }
                let Some((node, state, _)) = self.read_inode(Ino(ino))? else { return Ok(false) };
                *node.state.write() = state;
                self.migrate_of(&Arc::new(node), block, tails)
            }
        }
    }

    fn migrate_of(&self, node: &Node, block: u64, tails: bool) -> Result<bool> {
        let Some(_held) = node.ranges.try_write(block, block) else { return Ok(false) };
        let Some(state) = node.state.try_read() else { return Ok(false) };
        let unit = state.tree.get(block).clone();
        drop(state);
        if unit.nvm_pages().next().is_none() {
            self.touch(node.ino.0, block, &unit);
            return Ok(false);
        }
        if !tails && block == node.size.load(Relaxed) / BLOCK {
            return Ok(false);
        }
        let mut job = self.merge_on_ssd(0, block, &unit, &[])?;
        let mut tx = Tx::new(self);
        self.run(&mut tx, std::slice::from_ref(&job), Payload::Bytes(&[]))?;
        let Some(mut state) = node.state.try_write() else { return Ok(false) };
        // Freed, or let go of, meanwhile.
        if *state.tree.get(block) != unit || node.is_gone() {
            return Ok(false);
        }
        let mut changes = TreeChanges::default();
        let after = std::mem::take(&mut job.after);
        tx.set_unit((node, &mut state), block, after.clone(), &mut Vec::new(), &mut changes)?;
        job.keep();
        tx.put_tree(node, &state, &changes)?;
        tx.put_root(node, &state, changes.root);
        tx.commit(0)?;
        drop(state);
        self.touch(node.ino.0, block, &after);
        self.migrated.fetch_add(1, Relaxed);
        Ok(true)
    }

    /// Blocks migrated since mount.
    pub fn migrations(&self) -> u64 {
        self.migrated.load(Relaxed)
    }

    /// Percent of the NVM's pages that are taken.
    fn used_percent(&self) -> u64 {
        let all = self.pools.all(Area::Page).max(1);
        let waiting: u64 = self.journals.iter().map(|journal| journal.waiting(Area::Page)).sum();
        (all - self.pools.free(Area::Page)).saturating_sub(waiting) * 100 / all
    }

    /// One step of the daemon.
    fn migrate_step(&self) -> Result<()> {
        let idle = now().saturating_sub(Nanos(self.last_call.load(Relaxed)));
        if self.used_percent() > self.options.migrate_high {
            while self.used_percent() > self.options.migrate_low && self.migrate(IN_FOREGROUND, false)? > 0 {}
        } else if self.options.migrate_idle != Nanos::ZERO && idle >= self.options.migrate_idle {
            self.migrate(IN_FOREGROUND, idle >= TAIL_IDLE)?;
        }
        Ok(())
    }
}

/// The kernel's daemon: looks every so often whether a journal wants a digest, or blocks are to migrate.
pub fn daemon(fs: &std::sync::Weak<OrchFs>, pause: Nanos, stop: &Stopper) {
    while stop.pause(pause) != granary_sim::Signal::Stop {
        let Some(fs) = fs.upgrade() else { return };
        let digested =
            (0..fs.journals.len()).filter(|i| fs.journals[*i].is_half_full()).try_for_each(|i| fs.digest(i));
        let done = digested.and_then(|()| if fs.options.migrate { fs.migrate_step() } else { Ok(()) });
        if done.is_err() {
            // The next call will meet the same error, and whoever made it is told.
            return;
        }
    }
}
