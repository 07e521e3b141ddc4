//! Writes of an fsync, and fsyncs that share a wait for the drive.
//!
//! ```text
//!   fsync of a   | log of a: submit, wait |
//!   fsync of b      asked ...             | logs of b and c: submit both, wait once |
//!   fsync of c          asked ...         | already done ............................|
//! ```
//!
//! Linux writes the log of one file at a time (`nilfs_construct_dsync_segment`), and so does [`Nilfs2`]
//! without FS_WRITE. There most fsyncs need a super root, which is one for all callers that wait. With
//! FS_WRITE nearly every fsync is a log of its own file: if each waited for the drive alone, threads would
//! lose the gain of the shared super root. So the holder of the constructor writes the logs of all callers
//! that asked. A power failure may leave a later log of such a group without an earlier one. Recovery then
//! stops before both, and nobody was told that either of them is durable.
//!
//! Source: PebbleSSD section 5.2; the paper does not say how fsyncs of several threads meet.

use crate::fs::{Asked, Nilfs2};
use crate::log::Kind;
use crate::options::Fsync;
use crate::state::State;
use granary_device::Ticket;
use granary_fs::{Inode, Result};

impl Nilfs2 {
    /// Makes an inode durable (options.rs says what of it).
    pub(crate) fn sync_inode(&self, inode: &Inode, data_only: bool) -> Result<()> {
        self.working()?;
        let asked = Asked { ino: inode.ino().0, data_only };
        if self.options.cp.is_none() {
            if self.options.fs_write_fsync {
                self.sync_together(asked)?;
                if self.media.port.drive().wants_attention() {
                    self.construct()?;
                }
            } else {
                self.construct_if(&mut |s| self.due(s, asked))?;
            }
        }
        self.flush()
    }

    /// Which log makes the file durable; `None`: it is.
    fn due(&self, s: &State, Asked { ino, data_only }: Asked) -> Option<Kind> {
        let node = s.nodes.get(&ino)?;
        let told = self.options.fs_write_fsync;
        if (data_only || told) && !node.needs_root && (told || !node.grew) {
            // A write stamps its times after its pages: another's fsync between them has these on media
            // already.
            let times = (node.attr.mtime.0, node.attr.ctime.0);
            let late = self.options.fsync == Fsync::All && !data_only;
            let late = late && node.attr_dirty && node.told != Some(times);
            return match node.file.dirty.is_empty() {
                false => Some(Kind::Data(ino)),
                true => late.then_some(Kind::Full),
            };
        }
        let changed = match self.options.fsync {
            Fsync::Content => node.file.is_dirty(),
            Fsync::All => node.is_dirty() || node.needs_root || node.grew,
        };
        changed.then_some(Kind::Full)
    }

    /// Writes the log that this fsync needs, and the logs of those that asked meanwhile.
    fn sync_together(&self, asked: Asked) -> Result<()> {
        self.syncing.lock().push(asked);
        let _all = self.ops.write();
        // The last holder of the constructor may have taken this request: then the list is empty, or has only
        // others.
        let all = std::mem::take(&mut *self.syncing.lock());
        self.working()?;
        let full = {
            let s = self.state.lock();
            all.iter().any(|a| self.due(&s, *a) == Some(Kind::Full))
        };
        if full {
            self.pull()?;
            self.write_log(Kind::Full, Vec::new())?;
            return Ok(());
        }
        let (mut logs, mut ticket) = (Vec::new(), Ticket::NONE);
        for a in all {
            // Asked twice, it is clean the second time.
            let Some(kind) = self.due(&self.state.lock(), a) else { continue };
            let (log, submitted) = self.begin_log(kind, Vec::new())?;
            ticket = ticket.and(submitted);
            logs.push(log);
        }
        self.media.port.wait(ticket);
        self.media.retire();
        logs.iter().try_for_each(|log| self.end_log(log))
    }
}
