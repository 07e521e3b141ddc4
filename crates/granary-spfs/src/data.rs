//! Bytes: there are no pages above; each call goes to who has the bytes.

use crate::fs::Spfs;
use crate::node::{self, Residence};
use crate::read::through;
use crate::write::Write;
use granary_fs::{Call, Data, DirtyPage, FileKind, FsError, Inode, Result, WriteBackCause};
use granary_units::{Dest, Page, Payload};
use std::sync::atomic::Ordering::Relaxed;

impl Data for Spfs {
    granary_fs::file_system_lacks!(reserve, wrote, rewrites_cut_page);

    fn read_pages(&self, call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        granary_pm::pages::read(self, call, inode, first, out)
    }

    fn write_pages(
        &self,
        call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _: WriteBackCause,
    ) -> Result<()> {
        granary_pm::pages::write(self, call, inode, pages)
    }

    fn read_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, mut dest: Dest<'_>) -> Result<()> {
        let node = node::of(inode);
        loop {
            {
                let state = node.read();
                match &*state {
                    Residence::Bypass => {
                        return self.read_below(call, &node.below()?, pos, dest, through(call));
                    }
                    Residence::Tiered(t) => {
                        let below = node.ground()?;
                        t.factor.lock().read(self.options.factor_percent.into());
                        if t.complete {
                            return self.read_tiered(call, below.as_ref(), t, pos, dest);
                        }
                        if self.read_by_search(t, pos, dest.part(0, dest.len()))? {
                            return Ok(());
                        }
                    }
                }
            }
            if let Residence::Tiered(t) = &mut *node.write() {
                self.store.load_chain(t)?;
            }
        }
    }

    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        let node = node::of(inode);
        if data.is_empty() {
            return Ok(());
        }
        node.profile.lock().wrote(data.len() as u64);
        loop {
            {
                let state = node.read();
                if matches!(*state, Residence::Bypass) {
                    let wrote = self.lower.write(&call.as_root(), &node.below()?, pos, data, through(call));
                    node.touch();
                    self.follow_as(inode, &state);
                    return wrote;
                }
            }
            let mut state = node.write();
            let Residence::Tiered(t) = &mut *state else { continue };
            let below = node.ground()?;
            let write = Write { call: &call.as_root(), below: below.as_ref(), pos, data };
            match self.write_tiered(t, &write) {
                Err(FsError::NoSpace) => {
                    self.counts.spilled.fetch_add(1, Relaxed);
                    self.demote_locked(node, &mut state, true)?;
                }
                wrote => {
                    self.follow_as(inode, &state);
                    return wrote;
                }
            }
        }
    }

    /// The fsync of an inode; where the profiler says so the file is promoted after it.
    fn fsync(&self, call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()> {
        let (node, call) = (node::of(inode), &call.as_root());
        let verdict = (self.options.profiler && inode.view(|a| a.kind) == FileKind::File)
            .then(|| node.profile.lock().synced(granary_sim::now(), &self.options));
        {
            let state = node.read();
            match &*state {
                Residence::Bypass => {
                    let changes = node.unsettled();
                    self.lower.fsync(call, &node.below()?, data_only)?;
                    if let (Some(changes), false) = (changes, data_only) {
                        node.settled(changes);
                    }
                }
                Residence::Tiered(t) => {
                    let qualifies = verdict.is_some_and(|v| v.qualifies);
                    let percent = self.options.factor_percent.into();
                    t.factor.lock().used(crate::factor::Use::Fsync(qualifies), percent);
                    // Bytes, size and times are durable; names, owners and the like are below.
                    return self.settle(call, node);
                }
            }
        }
        if verdict.is_some_and(|v| v.promote) {
            match self.promote(call, inode) {
                Err(FsError::NoSpace) => drop(self.counts.not_promoted.fetch_add(1, Relaxed)),
                other => return other,
            }
        }
        Ok(())
    }

    fn flush_on_close(&self, call: &Call<'_>, inode: &Inode) -> bool {
        if let Ok(below) = node::below(inode) {
            self.lower.written_and_closed(&call.as_root(), &below);
        }
        // There is nothing above.
        false
    }
}
