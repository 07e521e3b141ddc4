//! fsync: the nodes of one inode with marks, or a checkpoint.
//!
//! ```text
//!   BAM knows all (fs_write)   nothing
//!   nothing changed            nothing, or a FLUSH after writing in place
//!   a regular file             (volatile cache: FLUSH, for the data) its dirty address nodes, the last
//!                              marked, to the warm log; wait; FLUSH
//!   a change that roll-forward
//!   recovery could not redo    a checkpoint
//! ```
//!
//! The reasons for a checkpoint are the kernel's (`need_do_checkpoint`), `fsync_mode` included, and two more,
//! both rare. First, the new file's name was given up since the last checkpoint by an inode that lives on, in
//! a way that the new inode cannot tell recovery (given.rs). The kernel's recovery loses the renamed file
//! there. Second, the file was cut more than twice, each time further behind, with nodes freed
//! (layout/forward.rs). The kernel's recovery finds these nodes again. In strict mode a directory also counts
//! as changed if a file was renamed away from it, or if it lost a name of an inode that lives on.

use crate::cache::CachedBlock;
use crate::fs::F2fs;
use crate::given::Unclear;
use crate::layout::forward::{Cuts, Renamed, renamed, set_renamed};
use crate::layout::node::{DENTRY, FSYNC, Footer, LOST_PARENT, is_direct, name};
use crate::node::{Node, Unsynced, node};
use crate::options::FsyncMode;
use granary_fs::{FileKind, Inode, Result};
use granary_sim::sleep_until;
use std::cell::Cell;
use std::sync::Arc;

/// Remaining work of an fsync.
enum Left {
    Nothing,
    Flush,
    Checkpoint,
}

impl F2fs {
    /// FLUSH, shared with others who want one now.
    pub(crate) fn flush(&self) -> Result<()> {
        if self.options.barrier && self.flusher.flush(&self.port)? {
            self.stats.lock().flushes += 1;
        }
        Ok(())
    }

    fn needs_checkpoint(&self, node: &Node) -> bool {
        let (attr, advise, parent) = {
            let s = node.state.lock();
            (s.attr, s.advise, s.parent)
        };
        let no_room = self.has_no_room();
        let enters_name = self.nat.needs_dentry_mark(node.ino);
        let strict = self.options.fsync_mode == FsyncMode::Strict;
        attr.kind != FileKind::File
            || attr.nlink != 1
            || advise & LOST_PARENT != 0
            || no_room
            || !self.nat.is_checkpointed(parent)
            || strict && enters_name && self.memory.lock().renamed.contains(&parent)
            || self.memory.lock().cuts.get(&node.ino).is_some_and(|cuts| !cuts.fit())
            || enters_name && self.inode_node(node.ino).is_ok_and(|root| self.displaced(node, &root).is_err())
    }

    /// The file that has a new file's name on media, with its present place: the new file must tell recovery
    /// of it.
    fn displaced(&self, node: &Node, root: &CachedBlock) -> Result<Option<Renamed>, Unclear> {
        let parent = {
            let s = node.state.lock();
            if s.advise & LOST_PARENT != 0 {
                return Err(Unclear);
            }
            s.parent
        };
        let own = root.with(|b| name(b).to_vec());
        let (on_media, has_dir) = (|ino| self.nat.is_on_media(ino), |ino| self.nat.is_checkpointed(ino));
        self.memory.lock().given.displaced(node.ino, parent, &own, &on_media, &has_dir)
    }

    /// Under the chain lock, before a file's inode goes to the log with a mark: writes into it what recovery
    /// must know, and says whether recovery is to enter its name.
    fn tell_recovery(&self, node: &Node, root: &Arc<CachedBlock>) -> Result<bool, Unclear> {
        let enters_name = self.nat.needs_dentry_mark(node.ino);
        if enters_name {
            let to = self.displaced(node, root)?;
            if root.with(renamed) != to {
                self.nodes.change(root, |b| set_renamed(b, to.as_ref()));
            }
            let parent = node.state.lock().parent;
            let own = root.with(|b| name(b).to_vec());
            self.memory.lock().given.taken(parent, &own);
        }
        let cuts = self.memory.lock().cuts.get(&node.ino).cloned().unwrap_or_default();
        if !cuts.fit() {
            return Err(Unclear);
        }
        if root.with(Cuts::read) != cuts {
            self.nodes.change(root, |b| cuts.store(b));
        }
        Ok(enters_name)
    }

    /// Makes an inode durable.
    pub(crate) fn sync_inode(&self, inode: &Inode, data_only: bool) -> Result<()> {
        self.working()?;
        let node = node(inode);
        match self.sync_nodes(node, data_only)? {
            Left::Nothing => Ok(()),
            Left::Flush => {
                let flushed = self.flush();
                let mut s = node.state.lock();
                s.flushing -= 1;
                s.unsynced.in_place |= flushed.is_err();
                flushed
            }
            Left::Checkpoint => {
                self.stats.lock().fsync_checkpoints += 1;
                self.checkpoint(false)?;
                let fixed = {
                    let mut s = node.state.lock();
                    let lost = s.advise & LOST_PARENT != 0 && s.attr.nlink == 1;
                    if lost {
                        s.advise &= !LOST_PARENT;
                    }
                    lost
                };
                if fixed {
                    // The name is old, but an inode that is in a checkpoint needs none.
                    self.mark_inode(inode, false);
                }
                Ok(())
            }
        }
    }

    fn sync_nodes(&self, node: &Node, data_only: bool) -> Result<Left> {
        let ino = node.ino;
        let _op = self.op()?;
        let _lock = self.inode_lock(ino);
        let (kind, dirty, Unsynced { moved, in_place }) = {
            let mut s = node.state.lock();
            // An fsync that finds everything written while another still flushes must wait for that flush.
            s.unsynced.in_place |= s.flushing > 0;
            (s.attr.kind, if data_only { s.dirty_data } else { s.dirty }, s.unsynced)
        };
        let is_dirty = || self.nodes.cached((ino, ino)).is_some_and(|e| e.is_dirty());
        if kind != FileKind::Dir && !dirty && !moved && !is_dirty() && !self.nat.needs_inode_block(ino, false)
        {
            return Ok(if in_place { self.flush_left(node) } else { Left::Nothing });
        }
        if self.needs_checkpoint(node) || self.segs.lock().chain_broken {
            return Ok(Left::Checkpoint);
        }
        // Write-back may have settled times of which BAM says nothing.
        let late = || dirty || node.state.lock().settled == Some(self.last.lock().version);
        if (data_only || self.options.lazy_times || !late()) && self.is_covered(node) {
            self.stats.lock().told += 1;
            return Ok(Left::Nothing);
        }
        self.spoil(ino);
        if dirty || is_dirty() {
            self.settle_inode(node)?;
        }
        let root = self.inode_node(ino)?;
        let mut list = self.nodes.dirty_of(ino);
        list.retain(|e| e.with(|b| is_direct(Footer::read(b).place)));
        if self.nat.needs_inode_block(ino, !list.is_empty()) && list.iter().all(|e| e.key.1 != ino) {
            list.push(self.settle_inode(node)?);
        }
        // The mark is on the last node, and the inode is last. So an fsync that was cut short is left out as
        // a whole: no block lies behind the end of its file, and extended attributes in the inode and in
        // their node are of one time.
        list.sort_by_key(|e| e.key.1 == ino);
        let last = list.last().map_or(ino, |e| e.key.1);
        let unclear = Cell::new(false);
        let marks = |foot: &Footer| match foot.nid {
            nid if nid != last => 0,
            nid if nid != ino => FSYNC,
            _ => match self.tell_recovery(node, &root) {
                Ok(enters_name) => FSYNC | if enters_name { DENTRY } else { 0 },
                // A rename came in between: without a mark recovery takes nothing of this.
                Err(Unclear) => {
                    unclear.set(true);
                    0
                }
            },
        };
        // A node with a mark counts as soon as flash has it. In a volatile cache it may overtake its data:
        // after a power failure recovery would put what was never written in the place of what an earlier
        // fsync promised. The kernel sends PREFLUSH here for atomic files alone.
        if self.port.info().volatile_cache {
            self.flush()?;
        }
        let Ok((ticket, chain)) = self.write_nodes(&list, Some(&marks)) else {
            return Ok(Left::Checkpoint);
        };
        self.port.wait(ticket);
        sleep_until(chain);
        if unclear.get() {
            return Ok(Left::Checkpoint);
        }
        Ok(self.flush_left(node))
    }

    /// All is written and the drive must be told to keep it.
    fn flush_left(&self, node: &Node) -> Left {
        let mut s = node.state.lock();
        s.unsynced = Unsynced::default();
        s.flushing += 1;
        Left::Flush
    }
}
