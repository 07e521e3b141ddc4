//! Space. All numbers are the lower file system's: every byte has to fit there in the end.

use crate::fs::Spfs;
use crate::node::{self, Residence};
use crate::read::Run;
use crate::tier::Tier;
use granary_fs::{Allocate, Call, FsError, Inode, Result, Space, StatFs, Sweep, Swept};
use granary_vfs::NodeRef;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

impl Spfs {
    /// Asks `look` of a tiered file, all of whose extents are known; `None` where the lower file has all.
    fn seek<T>(
        &self,
        _: &Call<'_>,
        inode: &Inode,
        look: impl Fn(&Spfs, Option<&NodeRef>, &Tier) -> Result<T>,
    ) -> Result<Option<T>> {
        let node = node::of(inode);
        loop {
            match &*node.read() {
                Residence::Bypass => return Ok(None),
                Residence::Tiered(t) if t.complete => {
                    return look(self, node.ground()?.as_ref(), t).map(Some);
                }
                Residence::Tiered(_) => {}
            }
            if let Residence::Tiered(t) = &mut *node.write() {
                self.store.load_chain(t)?;
            }
        }
    }
}

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
                // Either there is no room for the pieces, or none below: that will be said again when all of
                // the file is there.
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
        self.seek(call, inode, |fs, below, t| {
            let mut at = pos;
            while at < t.size {
                match t.run(at, t.size) {
                    Run::Memory(..) => return Ok(Some(at)),
                    Run::Zero(n) => at += n,
                    Run::Lower(n) => {
                        match fs.lower.seek_data(&call.as_root(), below.ok_or(FsError::Stale)?, at)? {
                            Some(data) if data < at + n => return Ok(Some(data)),
                            _ => at += n,
                        }
                    }
                }
            }
            Ok(None)
        })?
        .map_or_else(|| self.lower.seek_data(&call.as_root(), &node::below(inode)?, pos), Ok)
    }

    fn seek_hole(&self, call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        self.seek(call, inode, |fs, below, t| {
            let mut at = pos;
            while at < t.size {
                match t.run(at, t.size) {
                    Run::Memory(_, n) => at += n,
                    Run::Zero(_) => return Ok(at),
                    Run::Lower(n) => {
                        let hole = fs.lower.seek_hole(&call.as_root(), below.ok_or(FsError::Stale)?, at)?;
                        if hole < at + n {
                            return Ok(hole);
                        }
                        at += n;
                    }
                }
            }
            Ok(t.size)
        })?
        .map_or_else(|| self.lower.seek_hole(&call.as_root(), &node::below(inode)?, pos), Ok)
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
