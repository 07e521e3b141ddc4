//! Check: everything on persistent memory against everything else, and against the lower file system.

use crate::exthash;
use crate::fs::Spfs;
use crate::layout::alone::{self, Alone};
use crate::layout::inode::Identity;
use crate::layout::slot::Extent;
use crate::node::Residence;
use crate::recover::{agrees, directory, reached};
use crate::survey::{Survey, clusters_of};
use granary_fs::{Call, FileKind, Ino, Result, quoted};
use granary_pm::{Findings, Used};
use std::collections::{BTreeMap, BTreeSet};

impl Spfs {
    /// One sentence for each violation; the lower file system's too.
    pub(crate) fn findings(&self, call: &Call<'_>) -> Result<Vec<String>> {
        // The daemon rests meanwhile.
        let _at_work = self.at_work.lock();
        // So that nothing waits for the lower file system any more.
        self.purge(call)?;
        // A recovery or the purge may have changed it, and its own check is for a file system at rest.
        self.lower.sync(&call.as_root())?;
        let survey = Survey::read(&self.store)?;
        let mut wrong = Findings::default();
        for (_, of) in &survey.names {
            wrong.push(format!("the name of lower inode {} leads to no inode of it", of.ino));
        }
        self.check_files(&survey, &mut wrong);
        self.check_slots(&survey, &mut wrong);
        self.check_space(&survey, &mut wrong)?;
        let mut all = wrong.into_vec();
        all.extend(self.lower.vfs().check()?);
        Ok(all)
    }

    fn check_files(&self, survey: &Survey, wrong: &mut Findings) {
        for (number, file) in &survey.files {
            let (i, of) = (&file.inode, file.inode.identity);
            if let Some(lcn) = file.broken {
                wrong.push(format!("the chain of extents of inode {number} breaks at cluster {lcn}"));
            }
            for lcn in &file.overlong {
                wrong
                    .push(format!("the extent of inode {number} at cluster {lcn} reaches into the next one"));
            }
            if i.limit > i.size {
                wrong.push(format!("inode {number} has {} bytes below, of {}", i.limit, i.size));
            }
            if let Some((lcn, e)) =
                file.chain.last_key_value().filter(|(lcn, e)| **lcn + e.len > clusters_of(i.size))
            {
                wrong.push(format!("inode {number} of {} bytes has clusters {lcn}+{}", i.size, e.len));
            }
            if i.undo.is_some() {
                wrong.push(format!("inode {number} has an undo record"));
            }
            if self.index.lock().get(&of).map(|(known, _)| *known) != Some(*number) {
                wrong.push(format!("inode {number} of lower inode {} is not known in memory", of.ino));
            }
            if alone::is(of.ino) {
                self.check_alone(*number, of, wrong);
                continue;
            }
            let below = self.lower.node(Ino(of.ino));
            let there =
                below.is_ok_and(|n| n.kind() == FileKind::File && self.lower.generation(&n) == of.generation);
            if !there {
                wrong.push(format!(
                    "inode {number} has the newest bytes of the file of number {} below, of {} bytes, which is not there: removed, or \
                     replaced by a copy",
                    of.ino, i.size
                ));
            }
        }
        self.lower.reap();
        let there: BTreeSet<_> = survey.files.values().map(|file| file.inode.identity).collect();
        let known: Vec<_> = self.index.lock().iter().map(|(of, (number, _))| (*of, *number)).collect();
        for (of, number) in known.into_iter().filter(|(of, _)| !there.contains(of)) {
            wrong.push(format!(
                "memory knows an inode {number} of lower inode {}, which is not there",
                of.ino
            ));
        }
    }

    /// The name of a file that is here alone: whole, in a directory that there is, and nobody else's.
    fn check_alone(&self, number: u64, of: Identity, wrong: &mut Findings) {
        let Ok(Ok(alone)) = Alone::load(&self.store.pm, number) else {
            wrong.push(format!("the name in inode {number} is damaged"));
            return;
        };
        // One without a name is open.
        let Some(place) = alone.place else { return };
        if self.children.lock().find(place.dir, &place.name) != Some(of.ino) {
            wrong.push(format!("the name of inode {number} is not known in memory"));
        }
        match directory(&self.lower, place.dir) {
            Ok(Some(dir)) => {
                let call = &Call::kernel(self.lower.vfs().time());
                // A recovery that changes nothing below may have left such a name there.
                let left = self.read_only && !self.recovery.clean;
                if !left && !matches!(self.lower.lookup(call, &dir, &place.name), Ok(None)) {
                    wrong.push(format!("the name of inode {number} is also below"));
                }
            }
            _ => wrong.push(format!(
                "the file {} (inode {number}), which is in persistent memory alone, is in the directory of number {} below, which is not \
                 there",
                quoted(&place.name),
                place.dir.ino
            )),
        }
    }

    /// Every slot belongs to an extent, every extent has its slots.
    fn check_slots(&self, survey: &Survey, wrong: &mut Findings) {
        let mut seen = BTreeSet::new();
        for (at, slot) in &survey.slots {
            let own = survey.files.get(&slot.inode).and_then(|f| f.chain.get(&slot.lcn));
            if !own.is_some_and(|e| agrees(&self.store, e, slot)) {
                wrong.push(format!("the slot at {at:#x} is of no extent: {slot:?}"));
            }
            if !seen.insert((slot.inode, slot.lcn, slot.key)) {
                wrong.push(format!("the slot at {at:#x} is there twice: {slot:?}"));
            }
        }
        let extents = survey.files.values().flat_map(|f| f.chain.values());
        for e in extents {
            let keys = exthash::pointers(e.lcn % self.store.chunk, e.len);
            for key in keys.filter(|key| !seen.contains(&(e.inode, e.lcn, *key))) {
                wrong.push(format!("an extent has no slot at key {key}: {e:?}"));
            }
            self.check_search(e, wrong);
        }
    }

    /// A search finds the extent by its first and its last cluster.
    fn check_search(&self, e: &Extent, wrong: &mut Findings) {
        for lcn in [e.lcn, e.lcn + e.len - 1] {
            match self.store.search(e.inode, lcn) {
                Ok(Some(found)) if found.lcn == e.lcn => {}
                other => wrong.push(format!("a search for cluster {lcn} of {e:?} finds {other:?}")),
            }
        }
    }

    /// Checks that everything is either reached, taken ahead or free, and nothing is two of them.
    fn check_space(&self, survey: &Survey, wrong: &mut Findings) -> Result<()> {
        let (used, inodes) = match reached(&self.store, survey) {
            Ok(reached) => reached,
            Err(e) => {
                wrong.push(e.to_string());
                return Ok(());
            }
        };
        let clusters = &self.store.clusters;
        if clusters.inodes() != inodes {
            wrong.push("the clusters of inodes are not those that memory knows".to_owned());
        }
        let known: BTreeMap<u32, u16> = crate::survey::usage(&self.store)?;
        if known != inodes {
            wrong.push(format!("the usage table says {known:?}, the inodes {inodes:?}"));
        }
        let mut free = Used::new(self.store.sb.clusters);
        for (at, n) in clusters.runs() {
            if let Err(e) = free.mark(at, n, "the free list") {
                wrong.push(e.to_string());
            }
        }
        for node in self.nodes.lock().values() {
            if let Some(Residence::Tiered(t)) = node.try_read().as_deref()
                && let Some((at, n)) = t.spare
                && let Err(e) = free.mark(at.into(), n.into(), "clusters taken ahead")
            {
                wrong.push(e.to_string());
            }
        }
        // Free of one is used of the other.
        let (unreached, listed) = (used.free_runs(), free.free_runs());
        let mut at = 0;
        let mut all: Vec<(u64, u64)> = unreached.into_iter().chain(listed).collect();
        all.sort_unstable();
        for (first, n) in all {
            if first != at {
                let what = if first > at { "neither used nor free" } else { "used and free" };
                wrong.push(format!("clusters {}..{} are {what}", at.min(first), at.max(first)));
            }
            at = at.max(first + n);
        }
        Ok(())
    }
}
