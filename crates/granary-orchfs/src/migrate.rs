//! Migration: blocks with NVM pages go to the SSD as a whole, which frees the NVM and mends fragments (OrchFS
//! section 3.7).
//!
//! ```text
//!   victim   the block that was written longest ago, of whatever file, A and O alike
//!   A        NVM pages ──> a new SSD block      O        SSD block + pages + chunks ──> the SSD block, in
//!                                                        place
//!   then     one group: the leaf names the block alone; the pages are free after its digest
//! ```
//!
//! A power failure on the way leaves the pages above an SSD block that has the same bytes already. The
//! block's range is taken without waiting: a block in use is passed over. A file's last block stays on the
//! NVM while it is likely to grow.
//!
//! When: more of the NVM's pages are taken than `migrate_high` says, down to `migrate_low`; or nobody has
//! called for `migrate_idle`, until somebody calls. In the foreground eight victims, when an operation finds
//! no page ([`crate::take`]).

pub(crate) mod victims;

use crate::fs::OrchFs;
use crate::geometry::BLOCK;
use crate::layout::Area;
use crate::node::Node;
use crate::tx::{TreeChanges, Tx};
use crate::unit::Unit;
use granary_fs::{FsError, Ino, Result};
use granary_sim::{Signal, Stopper, now};
use granary_units::{Nanos, Payload};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A last block is taken only after so long an idle time: 10 s, long enough that no writer will come back
/// soon.
const TAIL_IDLE: Nanos = Nanos::from_secs(10);
/// Blocks that a step of the daemon moves before it looks again whether it should.
const STEP: usize = 8;
/// Victims that are looked at for one that moves, at most: those that are in use are passed over.
const MOST_LOOKED: usize = 128;

/// Last blocks of files, which are likely to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tails {
    /// They stay.
    Stay,
    /// They move as others do.
    Move,
    /// They move where no other block does.
    AtLast,
}

impl OrchFs {
    /// Tells the list of victims what a block is now.
    pub(crate) fn touch(&self, ino: u64, block: u64, unit: &Unit) {
        self.victims.lock().touch(ino, block, unit);
    }

    /// Migrates up to `count` of the oldest blocks; returns how many. Waits for nobody: blocks in use are
    /// passed over.
    ///
    /// # Errors
    /// The drives'. A full SSD is none: then blocks move that have their place there.
    pub(crate) fn migrate(&self, count: usize, tails: Tails) -> Result<usize> {
        let mut done = self.migrate_pass(count, tails == Tails::Move)?;
        if done == 0 && tails == Tails::AtLast {
            done = self.migrate_pass(count, true)?;
        }
        Ok(done)
    }

    fn migrate_pass(&self, count: usize, tails: bool) -> Result<usize> {
        let (mut done, mut looked, mut after, mut full) = (0, 0, 0, false);
        while done < count && looked < count.max(MOST_LOOKED) {
            let some = self.victims.lock().oldest(after, 4 * count, full);
            let Some((last, ..)) = some.last() else { break };
            after = *last;
            for (_, ino, block) in some {
                looked += 1;
                match self.migrate_block(ino, block, tails) {
                    Ok(moved) => done += usize::from(moved),
                    Err(FsError::NoSpace) => full = true,
                    Err(e) => return Err(e),
                }
                if done == count {
                    break;
                }
            }
        }
        Ok(done)
    }

    fn migrate_block(&self, ino: u64, block: u64, tails: bool) -> Result<bool> {
        // An inode that is not in memory is not loaded while its block moves. A task that loads one waits for
        // no state.
        let _loading = self.loading.lock();
        let node = self.nodes.lock().get(&ino).and_then(std::sync::Weak::upgrade);
        match node {
            Some(node) => self.migrate_of(&node, block, tails),
            None => {
                self.settle(ino)?;
                if !self.pools.is_taken(Area::Inode, ino) {
                    self.victims.lock().touch(ino, block, &Unit::Hole);
                    return Ok(false);
                }
                let Some((node, state, _)) = self.read_inode(Ino(ino))? else { return Ok(false) };
                *node.state.write() = state;
                self.migrate_of(&Arc::new(node), block, tails)
            }
        }
    }

    fn migrate_of(&self, node: &Node, block: u64, tails: bool) -> Result<bool> {
        let _step = granary_sim::step("orchfs: a block migrates to the SSD");
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

    /// A step of the daemon: migrates down to `migrate_low` where too much is taken, and goes on while nobody
    /// calls.
    fn migrate_step(&self, stop: &Stopper) -> Result<()> {
        let idle = || now().saturating_sub(Nanos(self.last_call.load(Relaxed)));
        if self.used_percent() > self.options.migrate_high {
            while self.used_percent() > self.options.migrate_low
                && !stop.stopped()
                && self.migrate(STEP, Tails::Stay)? > 0
            {}
            return Ok(());
        }
        let is_idle = || self.options.migrate_idle != Nanos::ZERO && idle() >= self.options.migrate_idle;
        while is_idle() && !stop.stopped() {
            let tails = if idle() >= TAIL_IDLE { Tails::Move } else { Tails::Stay };
            if self.migrate(STEP, tails)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Wakes the daemon: a segment of a journal waits for its digest. Digested now, nobody has to wait for it
    /// later.
    pub(crate) fn wake_daemon(&self) {
        if let Some(kicker) = self.kicker.get() {
            kicker.kick();
        }
    }
}

/// The kernel's daemon: digests a journal as soon as a segment of it waits, and looks every so often whether
/// blocks are to migrate.
pub fn daemon(fs: &std::sync::Weak<OrchFs>, pause: Nanos, stop: &Stopper) {
    loop {
        let signal = stop.pause(pause);
        let Some(fs) = fs.upgrade() else { return };
        if signal == Signal::Stop {
            return;
        }
        let digested = (0..fs.journals.len()).try_for_each(|journal| fs.digest_in_pieces(journal, stop));
        let migrates = signal == Signal::Elapsed && fs.options.migrate;
        if digested.and_then(|()| if migrates { fs.migrate_step(stop) } else { Ok(()) }).is_err() {
            // The next call will meet the same error, and its caller is told.
            return;
        }
    }
}
