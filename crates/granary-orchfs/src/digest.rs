//! The digest: the kernel's part verifies what a library's journal says and brings it home.
//!
//! ```text
//!   groups, in order ──> verify each record ──> images of what they change ──> stores, fence ──> checkpoint slot, fence
//!                                                                                     what the groups freed is free
//! ```
//!
//! A power failure on the way leaves some of it at home and the head where it was: the next mount replays the same records, which say
//! what bytes become, not how they change. Checksums of inodes and nodes are made here; while a journal has records for one, they
//! may be wrong at home.
//!
//! Source: OrchFS section 4: KernelFS verifies and digests the journals of LibFSs asynchronously (as ArckFS does).

use crate::OrchFs;
use crate::layout::checkpoint::Checkpoint;
use crate::layout::{Area, Layout, inode, nodes};
use crate::record::Record;
use granary_device::Structure;
use granary_pm::{Pm, corrupt};
use granary_vfs::Result;
use std::collections::BTreeMap;

fn structure(area: Area) -> Structure {
    match area {
        Area::Inode => Structure::Inode,
        Area::Page => Structure::Dentry,
        _ => Structure::DataPointer,
    }
}

/// Brings records that were verified home; durable when it returns. Raises the checkpoint's end of inodes (which is not written yet).
///
/// # Errors
/// The drive's.
pub fn bring_home(pm: &Pm, layout: &Layout, records: &[Record], checkpoint: &mut Checkpoint) -> Result<()> {
    let mut images: BTreeMap<(Area, u64), Vec<u8>> = BTreeMap::new();
    for r in records {
        let image = match images.entry((r.area, r.number)) {
            std::collections::btree_map::Entry::Occupied(image) => image.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                let mut image = vec![0; r.area.size() as usize];
                pm.load(layout.at(r.area, r.number), &mut image, structure(r.area))?;
                place.insert(image)
            }
        };
        image[r.at..r.at + r.bytes.len()].copy_from_slice(&r.bytes);
    }
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
    /// Digests a journal up to its present tail. From the first group on that is refused its groups are dropped: their inodes are what
    /// was digested before, and whoever has them in memory gets errors until they have left it.
    ///
    /// # Errors
    /// The drive's.
    pub(crate) fn digest(&self, journal: usize) -> Result<()> {
        let j = &self.journals[journal];
        let _digesting = j.digest.lock();
        let (groups, tail) = j.groups(&self.pm)?;
        if tail == j.head() {
            return Ok(());
        }
        let refused = groups.iter().position(|(group, _)| group.verify(&self.layout).is_err());
        let (sound, rest) = groups.split_at(refused.unwrap_or(groups.len()));
        let end = sound.last().map_or(j.head(), |(_, end)| *end);
        let records: Vec<Record> = sound.iter().flat_map(|(group, _)| group.records.clone()).collect();
        if end < tail {
            let own = j.pending_behind(end);
            let named = rest.iter().flat_map(|(group, _)| &group.records);
            let named = named.filter(|r| r.area == Area::Inode).map(|r| r.number);
            self.revoked.lock().extend(own.into_iter().chain(named));
            j.forget(end);
        }
        {
            let mut checkpoint = self.checkpoint.lock();
            bring_home(&self.pm, &self.layout, &records, &mut checkpoint)?;
            checkpoint.heads[journal] = tail;
            checkpoint.write(&self.pm)?;
        }
        j.digested(tail).into_iter().try_for_each(|(area, number)| self.pools.give(area, number))
    }

    /// Whether the kernel's part has taken an inode away from whoever has it in memory.
    ///
    /// # Errors
    /// `Corrupt` says so.
    pub(crate) fn check_lease(&self, ino: u64) -> Result<()> {
        match self.revoked.lock().contains(&ino) {
            true => Err(corrupt(format!(
                "inode {ino}: its journal was refused; what was digested before is kept"
            ))),
            false => Ok(()),
        }
    }

    /// Digests all journals.
    pub(crate) fn digest_all(&self) -> Result<()> {
        (0..self.journals.len()).try_for_each(|journal| self.digest(journal))
    }

    /// Whatever journals have of an inode is at home when this returns.
    pub(crate) fn settle(&self, ino: u64) -> Result<()> {
        for (i, journal) in self.journals.iter().enumerate() {
            if journal.has_pending(ino) {
                self.digest(i)?;
            }
        }
        Ok(())
    }

    /// Takes a number; where none is free but some wait for a digest, after that.
    pub(crate) fn free_by_digest(&self, area: Area) -> Result<bool> {
        let waiting = self.journals.iter().any(|journal| journal.waiting(area) > 0);
        if waiting {
            self.digest_all()?;
        }
        Ok(waiting)
    }
}

#[cfg(test)]
#[path = "digest_tests.rs"]
mod tests;
