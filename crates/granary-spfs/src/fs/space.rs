//! Space. All numbers are the lower file system's: every byte has to fit there in the end.

use crate::Spfs;
use crate::node::{self, Residence};
use granary_fs::{Allocate, Call, FsError, Inode, Result, Space, StatFs, Sweep, Swept};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

impl Space for Spfs {
    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let node = node::of(inode);
        let (lower, call) = (self.grounded(inode)?, &call.as_root());
        loop {
            {
                let state = node.read();
                if matches!(*state, Residence::Bypass) {
                    let done = self.lower.fallocate(call, &lower, how, pos, len);
                    node.touch();
                    self.follow_as(inode, &state);
                    return done;
                }
            }
            let mut state = node.write();
            let Residence::Tiered(t) = &mut *state else { continue };
            self.store.load_chain(t)?;
            node.touch();
            match self.allocate(call, &lower, t, how, pos..pos + len) {
                // Either there is no room for the pieces, or none below: that will be said again when all of the file is there.
                Err(FsError::NoSpace) => {
                    self.counts.spilled.fetch_add(1, Relaxed);
                    self.demote_locked(node, &mut state, true)?;
                }
                done => {
                    self.follow_as(inode, &state);
                    return done;
                }
            }
        }
    }

    fn seek_data(&self, call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        self.seek_data_of(call, inode, pos)
    }

    fn seek_hole(&self, call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        self.seek_hole_of(call, inode, pos)
    }

    fn empty_until(&self, _: &Call<'_>, _: &Inode, pos: u64) -> Result<u64> {
        // The lower vfs has looked at its blocks and pages already.
        Ok(pos)
    }

    fn statfs(&self, call: &Call<'_>) -> Result<StatFs> {
        self.lower.statfs(&call.as_root())
    }

    fn trim(&self, call: &Call<'_>, blocks: Range<u64>, least: u64) -> Result<u64> {
        self.lower.vfs().fs().trim(&call.as_root(), blocks, least)
    }

    fn grow(&self, call: &Call<'_>, blocks: u64) -> Result<()> {
        self.lower.vfs().fs().grow(&call.as_root(), blocks)
    }

    fn sweep(&self, call: &Call<'_>, sweep: &Sweep) -> Result<Swept> {
        self.lower.vfs().fs().sweep(&call.as_root(), sweep)
    }
}
