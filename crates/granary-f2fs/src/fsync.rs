//! fsync: the nodes of one inode with marks, or a checkpoint.
//!
//! ```text
//!   nothing changed            nothing, or a FLUSH after writing in place
//!   a regular file             its dirty address nodes, marked, to the warm log; wait; FLUSH
//!   whatever roll-forward
//!   recovery could not redo    a checkpoint
//! ```
//!
//! The reasons for a checkpoint are the kernel's (`need_do_checkpoint`) and two more: a node of the file that was on
//! media is gone (recovery would find it in the log and believe it), and a new file in a directory that a rename changed
//! (recovery might put it in the place of the only name on media of what was renamed, or at a name as if the rename had
//! not been). The kernel has the latter only with `fsync_mode=strict`.

use crate::F2fs;
use crate::layout::node::{DENTRY, FSYNC, Footer, LOST_PARENT, is_direct};
use crate::node::{Node, node};
use granary_sim::sleep_until;
use granary_vfs::{FileKind, Inode, Result};
use std::sync::Arc;

/// What an fsync still has to do.
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
        let no_room = {
            let s = self.space.lock();
            s.at_checkpoint + s.since > s.user
        };
        let memory = self.memory.lock();
        attr.kind != FileKind::File
            || attr.nlink != 1
            || advise & LOST_PARENT != 0
            || no_room
            || !self.nat.is_checkpointed(parent)
            || memory.shrunk.contains(&node.ino)
            || memory.renamed.contains(&parent) && self.nat.needs_dentry_mark(node.ino)
    }

    /// Makes an inode durable.
    pub(crate) fn sync_inode(&self, inode: &Inode, data_only: bool) -> Result<()> {
        self.working()?;
        let node = node(inode);
        match self.sync_nodes(node, data_only)? {
            Left::Nothing => Ok(()),
            Left::Flush => self.flush(),
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

    fn sync_nodes(&self, node: &Arc<Node>, data_only: bool) -> Result<Left> {
        let ino = node.ino;
        let _op = self.op()?;
        let _lock = self.inode_lock(ino);
        let (kind, dirty, moved, in_place) = {
            let s = node.state.lock();
            (s.attr.kind, if data_only { s.dirty_data } else { s.dirty }, s.moved, s.in_place)
        };
        let is_dirty = || self.nodes.cached((ino, ino)).is_some_and(|e| e.is_dirty());
        if kind != FileKind::Dir && !dirty && !moved && !is_dirty() && !self.nat.needs_inode_block(ino) {
            node.state.lock().in_place = false;
            return Ok(if in_place { Left::Flush } else { Left::Nothing });
        }
        if self.needs_checkpoint(node) || self.segs.lock().chain_broken {
            return Ok(Left::Checkpoint);
        }
        if dirty || is_dirty() {
            self.settle_inode(node)?;
        }
        let marks = |foot: &Footer| {
            let name = foot.nid == ino && self.nat.needs_dentry_mark(ino);
            FSYNC | if name { DENTRY } else { 0 }
        };
        let mut list = self.nodes.dirty_of(ino);
        list.retain(|e| e.with(|b| is_direct(Footer::read(b).place)));
        let Ok((mut ticket, mut chain)) = self.write_nodes(&list, Some(&marks)) else {
            return Ok(Left::Checkpoint);
        };
        if self.nat.needs_inode_block(ino) {
            let root = self.settle_inode(node)?;
            let Ok(more) = self.write_nodes(&[root], Some(&marks)) else { return Ok(Left::Checkpoint) };
            (ticket, chain) = (ticket.and(more.0), more.1);
        }
        self.port.wait(ticket);
        sleep_until(chain);
        let mut s = node.state.lock();
        (s.moved, s.in_place) = (false, false);
        Ok(Left::Flush)
    }
}
