//! The digest: the kernel's part verifies what a library's journal says and brings it home.
//!
//! ```text
//!   groups, in order ──> judge each one ──> images of what they change ──> stores, fence
//!                    ──> checkpoint slot, fence ──> what the groups freed is free
//! ```
//!
//! A power failure on the way leaves some of it at home and the head where it was: the next mount replays the
//! same records, which say what bytes become, not how they change. Checksums of inodes and nodes are made
//! here; while a journal has records for one, they may be wrong at home.
//!
//! Source: OrchFS section 4: KernelFS verifies and digests the journals of LibFSs asynchronously (as ArckFS
//! does).

use crate::fs::OrchFs;
use crate::layout::checkpoint::Checkpoint;
use crate::layout::{Area, inode, nodes};
use crate::lease::Has;
use crate::record::Record;
use crate::verify::{Images, Known, judge, structure};
use granary_device::Structure;
use granary_fs::{FsError, Result};
use granary_sim::cpu;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

/// Brings records that were judged home; durable when it returns. Raises the checkpoint's end of inodes
/// (which is not written yet).
///
/// # Errors
/// The drive's.
pub fn bring_home(images: Images<'_>, records: &[Record], checkpoint: &mut Checkpoint) -> Result<()> {
    let (pm, layout) = images.devices();
    let mut images = images.map;
    // Images of refused groups were only read, and are not changed.
    let changed: BTreeSet<(Area, u64)> = records.iter().map(|r| (r.area, r.number)).collect();
    images.retain(|key, _| changed.contains(key));
    let mut b = pm.batch();
    // Inodes that were never written hold anything: those below the highest that is used are free.
    let end = images.keys().filter(|(area, _)| *area == Area::Inode).map(|(_, number)| number + 1).max();
    for number in checkpoint.inodes_end..end.unwrap_or(0) {
        if !images.contains_key(&(Area::Inode, number)) {
            b.put(layout.at(Area::Inode, number), &[0; 64], Structure::Inode)?;
        }
    }
    checkpoint.inodes_end = checkpoint.inodes_end.max(end.unwrap_or(0));
    for ((area, number), image) in &mut images {
        match area {
            Area::Page => {
                // Only what changed: the rest of a directory's page is at home.
                for r in records.iter().filter(|r| (r.area, r.number) == (*area, *number)) {
                    let bytes = &image[r.at..r.at + r.bytes.len()];
                    b.put(layout.at(*area, *number) + r.at as u64, bytes, Structure::Dentry)?;
                }
                continue;
            }
            Area::Inode if image[inode::KIND] == 0 => image.fill(0),
            _ => nodes::seal(image),
        }
        b.put(layout.at(*area, *number), image, structure(*area))?;
    }
    b.fence()
}

impl OrchFs {
    /// Digests a journal up to its present tail. From the first group on that is refused its groups are
    /// dropped: their inodes are what was digested before, and whoever has them in memory gets errors until
    /// they have left it.
    ///
    /// # Errors
    /// The drive's.
    pub(crate) fn digest(&self, journal: usize) -> Result<()> {
        self.digest_until(journal, self.journals[journal].tail())
    }

    /// The same, up to the first group that ends at this position or behind it.
    ///
    /// # Errors
    /// The drive's.
    pub(crate) fn digest_until(&self, journal: usize, until: u64) -> Result<()> {
        let j = &self.journals[journal];
        let before = j.head();
        let _digesting = j.digest.lock();
        self.digest_locked(journal, until)?;
        self.longest_wait.fetch_max(j.head() - before, Relaxed);
        Ok(())
    }

    fn digest_locked(&self, journal: usize, until: u64) -> Result<()> {
        let _step = granary_sim::step("orchfs: a journal is digested");
        let j = &self.journals[journal];
        let (groups, tail) = j.groups(&self.pm, until)?;
        if tail == j.head() {
            return Ok(());
        }
        let inodes_end = self.checkpoint.lock().inodes_end;
        let mut images = Images::new(&self.pm, &self.layout, inodes_end);
        let mut why = None;
        // Each group for itself: whoever makes a file meanwhile needs the leases, too. Those that a group
        // names do not move before its digest.
        let refused = groups.iter().position(|(group, _)| {
            let leases = self.leases.lock();
            let known = Known { leases: &leases, pools: &self.pools };
            why = judge(&mut images, group, Some(&known)).err().map(|e| (group.process, e));
            why.is_some()
        });
        if let Some((_, e)) = &why
            && !matches!(e, FsError::Corrupt(_))
        {
            return Err(e.clone());
        }
        if why.is_some() && until != u64::MAX {
            // A refused group drops all groups behind it, too.
            return self.digest_locked(journal, u64::MAX);
        }
        let (sound, rest) = groups.split_at(refused.unwrap_or(groups.len()));
        let end = sound.last().map_or(j.head(), |(_, end)| *end);
        let records: Vec<Record> = sound.iter().flat_map(|(group, _)| group.records.clone()).collect();
        if end < tail {
            let own = j.pending_behind(end);
            let named = rest.iter().flat_map(|(group, _)| &group.records);
            let named = named.filter(|r| r.area == Area::Inode).map(|r| r.number);
            let reason = match why {
                Some((process, FsError::Corrupt(why))) => {
                    format!("the journal of process {process} was refused: {why}")
                }
                _ => "a journal ends with what is no group".to_owned(),
            };
            let all: BTreeSet<u64> = own.into_iter().chain(named).collect();
            for ino in all {
                let name = self.name_of(ino).map_or(String::new(), |name| format!(" ({name})"));
                let said = format!("inode {ino}{name}: {reason}; what was digested before is kept");
                self.revoked.lock().insert(ino, said);
            }
            self.refused.fetch_add(rest.len().max(1) as u64, Relaxed);
            j.forget(end);
        }
        {
            let mut checkpoint = self.checkpoint.lock();
            bring_home(images, &records, &mut checkpoint)?;
            checkpoint.heads[journal] = tail;
            checkpoint.write(&self.pm)?;
        }
        let (until, freed) = j.digested(tail);
        self.pools.digested(&|process| self.journal_of(process) == journal, until);
        freed.into_iter().try_for_each(|(area, number)| {
            if area == Area::Inode {
                self.leases.lock().release(number);
            }
            self.pools.give(area, number)
        })
    }

    /// Whether the kernel's part has taken an inode away from whoever has it in memory.
    ///
    /// # Errors
    /// `Revoked` says so.
    pub(crate) fn check_lease(&self, ino: u64) -> Result<()> {
        match self.revoked.lock().get(&ino) {
            Some(why) => Err(FsError::Revoked(why.clone())),
            None => Ok(()),
        }
    }

    /// The lease of an inode that a process is about to change: from whoever has it, whose journal is
    /// digested first. The caller holds the inode's state, so nobody writes about it meanwhile.
    ///
    /// # Errors
    /// `Revoked` where that journal is refused; the drive's.
    pub(crate) fn lease(&self, process: u32, ino: u64) -> Result<()> {
        let has = self.leases.lock().has(process, ino);
        if has == Has::Lease {
            return Ok(());
        }
        // The kernel asks nobody.
        if process != 0 {
            cpu(self.options.ipc);
        }
        if let Has::Other(holder) = has {
            let journal = self.journal_of(holder);
            if let Some(end) = self.journals[journal].pending_end(ino) {
                self.digest_until(journal, end)?;
            }
            self.check_lease(ino)?;
        }
        self.leases.lock().grant(process, ino);
        Ok(())
    }

    /// Most bytes of one journal that a caller has waited for since the mount, whether it digested them
    /// itself or the daemon did meanwhile. Bytes that the daemon digests while nobody waits do not count.
    pub fn longest_digest_wait(&self) -> u64 {
        self.longest_wait.load(Relaxed)
    }

    /// Groups that were refused since the mount.
    pub fn refused_groups(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Files that some process has the lease of.
    pub fn leased(&self) -> usize {
        self.leases.lock().count()
    }

    /// A process has ended, or died: its journal is digested as far as it is whole, and its leases and grants
    /// are nobody's.
    ///
    /// # Errors
    /// The drive's.
    pub fn process_ended(&self, process: u32) -> Result<()> {
        let journal = self.processes.lock().0.get(&process).copied();
        // Nobody writes in its name meanwhile (`Tx::commit_as_holder`).
        let _appending = journal.map(|journal| self.journals[journal].append.lock());
        if let Some(journal) = journal {
            self.digest(journal)?;
        }
        self.processes.lock().0.remove(&process);
        self.leases.lock().ended(process);
        self.pools.ended(process);
        Ok(())
    }

    /// The kernel's part learns in whose name a process calls.
    pub(crate) fn called(&self, call: &granary_fs::Call<'_>) {
        if call.process != 0 {
            self.leases.lock().called(call.process, call.cred.uid);
        }
    }

    /// A name of an inode, of a directory that is in memory; for messages.
    fn name_of(&self, ino: u64) -> Option<String> {
        let nodes: BTreeMap<u64, _> =
            self.nodes.lock().iter().filter_map(|(ino, node)| Some((*ino, node.upgrade()?))).collect();
        nodes.values().find_map(|node| {
            let state = node.state.try_read()?;
            let entry =
                state.dir.as_ref()?.after(0).find(|entry| entry.dentry.ino == ino)?.dentry.name.clone();
            Some(granary_fs::quoted(&entry).to_string())
        })
    }

    /// Digests all journals.
    pub(crate) fn digest_all(&self) -> Result<()> {
        (0..self.journals.len()).try_for_each(|journal| self.digest(journal))
    }

    /// Brings all records of an inode in the journals home.
    pub(crate) fn settle(&self, ino: u64) -> Result<()> {
        for (i, journal) in self.journals.iter().enumerate() {
            if let Some(end) = journal.pending_end(ino) {
                self.digest_until(i, end)?;
            }
        }
        Ok(())
    }

    /// The daemon's part: digests a journal that has a segment, piece by piece. A caller that needs the
    /// journal meanwhile waits for one piece more.
    ///
    /// # Errors
    /// The drive's.
    pub(crate) fn digest_in_pieces(&self, journal: usize, stop: &granary_sim::Stopper) -> Result<()> {
        let j = &self.journals[journal];
        if !j.is_due() {
            return Ok(());
        }
        let end = j.tail();
        while j.head() < end && !stop.stopped() {
            let _digesting = j.digest.lock();
            self.digest_locked(journal, (j.head() + j.piece()).min(end))?;
        }
        Ok(())
    }

    /// Digests all journals where one of them frees numbers of this area; whether there was one. On a DIMM
    /// that is nearly full one journal at a time, or a piece, takes 3 to 8 % of varmail's throughput away.
    pub(crate) fn free_by_digest(&self, area: Area) -> Result<bool> {
        let waiting = self.journals.iter().any(|journal| journal.waiting(area) > 0);
        if waiting {
            let _step = granary_sim::step("orchfs: NVM is full");
            self.digest_all()?;
        }
        Ok(waiting)
    }
}

#[cfg(test)]
#[path = "digest_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "digest_wait_tests.rs"]
mod wait_tests;
