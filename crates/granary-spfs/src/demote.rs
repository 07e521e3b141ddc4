//! Demotion: all bytes of persistent memory are written below, then the file leaves it.
//!
//! ```text
//!   extents, the last one first, written below ── size and modification time below ── fsync below
//!   name away, fence             from here on the file is the lower one's
//!   extents, clusters, inode away
//! ```
//!
//! Before the name is gone persistent memory has the masters, and what the lower file got of a demotion that
//! did not end is never read. After it recovery finds extents that no name leads to. So no byte is lost, and
//! none comes back.
//!
//! A daemon looks every second: files of bin 0 go, and above 80 % those with the lowest sync factor. It gives
//! a file up that somebody wants. Source: SPFS slides, "Migration to Lower File System"; released code,
//! branch `demotion`; the commit is ours.

use crate::fs::Spfs;
use crate::layout::inode::{self, Identity};
use crate::node::{Node, Residence};
use crate::profiler::Profile;
use crate::tier::Tier;
use granary_fs::{Allocate, Call, FsError, Ino, Result, Time};
use granary_pm::BLOCK;
use granary_sim::{Daemon, Signal};
use granary_units::{Dest, Payload};
use granary_vfs::{Change, NodeRef, SetTime, Through};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

/// Bytes written below at once.
const STEP: u64 = 256 << 10;

/// Starts the daemon.
pub fn start(fs: &Arc<Spfs>) -> Daemon {
    let (weak, tick): (Weak<Spfs>, _) = (Arc::downgrade(fs), fs.options.tick);
    Daemon::start("spfs demotion", move |stop| {
        while stop.pause(tick) != Signal::Stop {
            match weak.upgrade() {
                Some(fs) => fs.tick(),
                None => return,
            }
        }
    })
}

impl Spfs {
    /// Demotes every file: after it the lower file system has all. For who is to use that alone.
    ///
    /// # Errors
    /// The first that a file met; the others are demoted all the same.
    pub fn demote_all(&self) -> Result<()> {
        self.lower.sync(&self.kernel())?;
        self.purge(&self.kernel())?;
        let all: Vec<Identity> = self.index.lock().keys().copied().collect();
        all.into_iter().map(|of| self.demote_one(of, true).map(drop)).fold(Ok(()), Result::and)?;
        match self.index.lock().len() {
            0 => Ok(()),
            left => Err(FsError::Mismatch(format!(
                "{left} files of persistent memory are not below any more: removed beside the mount, or replaced by copies. Their \
                 bytes stay in persistent memory"
            ))),
        }
    }

    /// One round of the daemon. It drops errors: the next user of the file meets them again.
    fn tick(&self) {
        let _at_work = self.at_work.lock();
        let _ = self.purge_old();
        for (_, of) in self.by_factor().into_iter().take_while(|(bin, _)| *bin == 0) {
            let _ = self.demote_one(of, false);
        }
        if self.store.clusters.used_percent() <= self.options.demote_above {
            return;
        }
        let _ = self.purge(&self.kernel());
        for (_, of) in self.by_factor() {
            if self.store.clusters.used_percent() <= self.options.demote_above {
                break;
            }
            let _ = self.demote_one(of, false);
        }
    }

    /// All files of persistent memory, the lowest bin first.
    fn by_factor(&self) -> Vec<(u64, Identity)> {
        let nodes: Vec<Arc<Node>> = self.nodes.lock().values().cloned().collect();
        for node in nodes {
            let Some(state) = node.try_read() else { continue };
            if let Some((t, of)) = self.tiered(&node, &state) {
                let value = t.factor.lock().value();
                self.index.lock().entry(of).and_modify(|known| known.1 = value);
            }
        }
        let bin = |value: u64| crate::factor::Factor::new(value).bin();
        let mut all: Vec<_> = self.index.lock().iter().map(|(of, (_, value))| (bin(*value), *of)).collect();
        all.sort();
        all
    }

    /// The tier of a file that has one, and which file it is on persistent memory.
    fn tiered<'a>(&self, node: &Node, state: &'a Residence) -> Option<(&'a Tier, Identity)> {
        let Residence::Tiered(t) = state else { return None };
        let of = match &t.alone {
            Some((of, _)) => *of,
            None => self.identity(&node.below().ok()?),
        };
        Some((t, of))
    }

    /// Demotes the file of this identity, which may not be in memory; says whether it did. `wait`: also where
    /// somebody wants it.
    pub(crate) fn demote_one(&self, of: Identity, wait: bool) -> Result<bool> {
        let ino = Ino(self.children.lock().above(of.ino));
        let node = {
            let _alone = self.loading.write();
            match self.load_node(ino, false) {
                Err(FsError::Stale | FsError::Corrupt(_)) => return Ok(false),
                node => node?,
            }
        };
        let done = self.demote_node(&node, of, wait);
        let _alone = self.loading.write();
        match node.adopted.load(Relaxed) {
            true => done,
            false => self.retire(ino, &node, false).and(done),
        }
    }

    fn demote_node(&self, node: &Node, of: Identity, wait: bool) -> Result<bool> {
        let mut state = node.write();
        // It may have left memory meanwhile, and be there again as another one.
        if self.tiered(node, &state).is_none_or(|(_, known)| known != of) {
            return Ok(false);
        }
        match self.demote_locked(node, &mut state, wait) {
            Err(FsError::Busy) if !wait => {
                self.counts.suspended.fetch_add(1, Relaxed);
                Ok(false)
            }
            // Its bytes stay.
            Err(FsError::Stale) => Ok(false),
            done => done.map(|()| true),
        }
    }

    /// Demotes a tiered file whose state the caller holds.
    ///
    /// # Errors
    /// `Busy` where somebody wants it and `wait` is not set; `Stale` where it was removed below beside this
    /// mount, so that what is written there would be lost; the lower file system's. It is tiered as before
    /// then.
    pub(crate) fn demote_locked(&self, node: &Node, state: &mut Residence, wait: bool) -> Result<()> {
        let _step = granary_sim::step("spfs: a file is demoted");
        let Residence::Tiered(t) = state else { return Ok(()) };
        if t.alone.is_some() {
            return self.come_down(node, state, wait);
        }
        self.store.load_chain(t)?;
        let below = &node.below()?;
        let of = self.identity(below);
        // The lower file system knows of removals beside the mount once it has been asked.
        let lost = || !node.is_removed() && self.lower.stat(below).attr.nlink == 0;
        if lost() {
            return Err(FsError::Stale);
        }
        node.touch();
        let changes = node.unsettled();
        // To the lower file system this is the last change that the file has seen: its time of change stays
        // what it was.
        let time = t.ctime.max(self.lower.stat(below).attr.ctime);
        self.write_down(node, below, t, time, wait)?;
        if lost() {
            return Err(FsError::Stale);
        }
        changes.into_iter().for_each(|changes| node.settled(changes));
        self.store.free(t, of)?;
        self.became_bypass(node, state, of);
        Ok(())
    }

    /// A file has left persistent memory.
    pub(crate) fn became_bypass(&self, node: &Node, state: &mut Residence, of: Identity) {
        self.index.lock().remove(&of);
        *state = Residence::Bypass;
        *node.profile.lock() = Profile::default();
        self.counts.demoted.fetch_add(1, Relaxed);
    }

    /// Makes the lower file what the file is, durably. `time`: what it says when it was changed.
    pub(crate) fn write_down(
        &self,
        node: &Node,
        below: &NodeRef,
        t: &Tier,
        time: Time,
        wait: bool,
    ) -> Result<()> {
        let call = &Call::kernel(time);
        if self.lower.stat(below).attr.size > t.limit {
            // Behind the limit there must be nothing that shows between what is written now.
            self.lower.truncate(call, below, t.limit)?;
        }
        let mut buffer = vec![0; STEP as usize];
        for (start, piece) in t.map.iter().rev() {
            let from = u64::from(*start) * BLOCK;
            let end = t.size.min(from + u64::from(piece.len) * BLOCK);
            if piece.is_zeros() {
                self.zero_below(call, below, from..end)?;
                continue;
            }
            for at in (from..end).step_by(STEP as usize) {
                if !wait && node.is_wanted() {
                    return Err(FsError::Busy);
                }
                let bytes = &mut buffer[..STEP.min(end - at) as usize];
                self.load_bytes(u64::from(piece.pcn) * BLOCK + at - from, Dest::Bytes(bytes))?;
                self.lower.write(call, below, at, Payload::Bytes(bytes), Through::Cache)?;
            }
        }
        if self.lower.stat(below).attr.size != t.size {
            self.lower.truncate(call, below, t.size)?;
        }
        let times = Change { mtime: SetTime::At(t.mtime), ..Change::NOTHING };
        self.lower.setattr(call, below, &times)?;
        self.lower.fsync(call, below, false)
    }

    /// Makes bytes of the lower file zeros that persistent memory had punched. Where they are a hole already,
    /// one that may have space, nothing is done.
    fn zero_below(&self, call: &Call<'_>, below: &NodeRef, range: std::ops::Range<u64>) -> Result<()> {
        let end = range.end.min(self.lower.stat(below).attr.size);
        let mut at = range.start;
        while at < end {
            let Some(data) = self.lower.seek_data(call, below, at)?.filter(|data| *data < end) else {
                return Ok(());
            };
            let to = self.lower.seek_hole(call, below, data)?.min(end);
            match self.lower.fallocate(call, below, Allocate::PunchHole, data, to - data) {
                Err(FsError::NotSupported) => {
                    let mut from = data;
                    while from < to {
                        let zeros = Payload::Fill { word: 0, len: STEP.min(to - from) as usize };
                        self.lower.write(call, below, from, zeros, Through::Cache)?;
                        from += STEP.min(to - from);
                    }
                }
                punched => punched?,
            }
            at = to;
        }
        Ok(())
    }

    /// An inode leaves memory: its state that only memory knows is put on persistent memory. `dead`: it has
    /// no names any more. A file that lost them beside the mount keeps its bytes here.
    pub(crate) fn retire(&self, ino: Ino, node: &Arc<Node>, dead: bool) -> Result<()> {
        let mut kept = Ok(());
        {
            let mut state = node.write();
            let of = self.tiered(node, &state).map(|(_, of)| of);
            if let (Residence::Tiered(t), Some(of)) = (&mut *state, of) {
                let value = t.factor.lock().value();
                kept = self.store.give_spare(t);
                if dead && t.alone.is_some() {
                    // Nobody else knows of it.
                    self.index.lock().remove(&of);
                    kept = kept.and_then(|()| self.store.free(t, of));
                } else if dead && node.is_removed() {
                    self.bury(of);
                } else {
                    let old = self.index.lock().insert(of, (t.number, value));
                    if old.is_none_or(|(_, old)| old != value) {
                        kept = kept.and(self.store.put_fields(t.number, &[(inode::FACTOR, value)]));
                    }
                }
            }
            if dead {
                self.children.lock().forget(ino.0);
            }
            *state = Residence::Bypass;
            node.let_go();
        }
        self.forget(ino, node);
        kept
    }

    fn forget(&self, ino: Ino, node: &Arc<Node>) {
        {
            let mut nodes = self.nodes.lock();
            if nodes.get(&ino.0).is_some_and(|there| Arc::ptr_eq(there, node)) {
                nodes.remove(&ino.0);
            }
        }
        self.lower.reap();
    }
}
