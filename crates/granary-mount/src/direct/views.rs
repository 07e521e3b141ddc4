//! One file, two views: the kernel's pages and attributes of a file, beside commands that go past it.
//!
//! ```text
//!   FUSE READ, WRITE:        mark the node (pages) ── serve
//!   FUSE reply with attributes:   mark the node (told) ── reply
//!   command:                 marked (pages)? take the mark, have the kernel write back and drop all pages
//!                            ── do it
//!   command that changed:    grew? tell the kernel the new end
//!                            ── marked? take the mark, have pages (attributes) dropped ── answer
//!   command on a name:       change ── directory known to the kernel? it forgets the name
//!                            ── marked? attributes dropped ── answer
//! ```
//!
//! A name is forgotten under the kernel's own lock of the directory (`fuse_reverse_inval_entry`). A lookup of
//! the name holds this lock until the answer is in, so no older answer comes in later.
//!
//! So work that goes one way only tells the other nothing: one notification when the ways change. It holds
//! for mappings, too: pages that a program has stored into are written back by the first command, and are
//! gone from its memory; its next store faults, and the kernel asks for the page, which marks the node.
//!
//! The end of the file is told at once, always. By the end that it knows, the kernel places appended data and
//! refuses accesses to mappings beyond. It learns a later end from a byte that is given to it
//! (FUSE_NOTIFY_STORE); an earlier one is not made here: truncation goes through the kernel.
//!
//! The kernel waits for pages that are being read or written back, which takes serving threads, never one of
//! a channel. Callers hold nothing of the vfs.
//!
//! Source: `fuse_reverse_inval_inode`, `fuse_notify_store`, `fuse_launder_folio` of fs/fuse (Linux 6.18).

use crate::adapter::Adapter;
use granary_units::PAGE_SIZE;
use granary_vfs::NodeRef;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Commands that have the kernel drop pages, one at a time.
#[derive(Default)]
pub(crate) struct Settling {
    /// Those that have taken a mark, or are about to.
    under_way: AtomicUsize,
    turn: Mutex<()>,
}

impl Adapter {
    /// Before a command that reads or changes content: nothing newer, and nothing that will be old, is in the
    /// kernel.
    pub(super) fn settle(&self, node: &NodeRef) {
        if node.is_cached_elsewhere() {
            self.drop_marked(node);
        } else if self.settling.under_way.load(SeqCst) > 0 {
            // Another command has taken a mark, perhaps this one: the pages that mappings have changed are
            // not here before that is done.
            drop(self.settling.turn.lock());
        }
    }

    /// Has the kernel drop what it has, if the mark is there; says whether it was.
    fn drop_marked(&self, node: &NodeRef) -> bool {
        self.settling.under_way.fetch_add(1, SeqCst);
        let turn = self.settling.turn.lock();
        let marked = node.take_cached_elsewhere();
        if marked {
            self.drop_all(node);
        }
        drop(turn);
        self.settling.under_way.fetch_sub(1, SeqCst);
        marked
    }

    /// After a command that changed a file. `grown`: where it ends now, if that is later than before, with
    /// the byte before that.
    pub(super) fn tell_changed(&self, node: &NodeRef, grown: Option<(u64, u8)>) {
        if let Some((end, last)) = grown {
            self.tell_end(node, end, last);
        }
        if node.is_cached_elsewhere() && self.drop_marked(node) {
            node.take_told();
        } else {
            self.tell_attributes(node);
        }
    }

    /// After a file was made: the kernel may believe that there is none. The directory's times it asks for
    /// anew by itself, after [`crate::convert::DIRECTORY_TTL`].
    pub(super) fn tell_named(&self, dir: &NodeRef, name: &[u8]) {
        // Of what is in a directory that it does not know the kernel knows nothing.
        if (dir.is_known() || dir.is(&self.vfs.root()))
            && let Some(kernel) = self.kernel.get()
        {
            let _ = kernel.forget_name(self.number(dir.ino()), name);
        }
    }

    /// After a name has come to stand for something else, or for nothing; the directory has changed by it.
    pub(super) fn tell_name(&self, dir: &NodeRef, name: &[u8]) {
        self.tell_named(dir, name);
        self.tell_attributes(dir);
    }

    /// After attributes of a node have changed.
    pub(super) fn tell_attributes(&self, node: &NodeRef) {
        if node.take_told() {
            self.forget_attributes(self.number(node.ino()));
        }
    }

    /// After a name of this node is gone, perhaps its last one. The node's space is free when the kernel has
    /// let go of it, too.
    pub(super) fn tell_gone(&self, node: Option<NodeRef>) {
        if let Some(node) = node {
            self.tell_attributes(&node);
            self.removed(&node);
            drop(node);
            self.vfs.reap();
        }
    }

    /// Drops pages and attributes; pages that mappings have changed are written back first.
    fn drop_all(&self, node: &NodeRef) {
        let told = self.kernel.get().map(|kernel| kernel.invalidate(self.number(node.ino()), 0, 0));
        // Where the kernel refuses (the mount is ending), there are no readers left.
        drop(told);
    }

    /// The last byte that was written, for the kernel to know where the file ends.
    fn tell_end(&self, node: &NodeRef, end: u64, last: u8) {
        if let Some(kernel) = self.kernel.get() {
            let at = end - 1;
            if at.is_multiple_of(PAGE_SIZE as u64) {
                // The kernel takes it for the whole page.
                node.mark_cached_elsewhere();
            }
            let _ = kernel.store(self.number(node.ino()), at, &[last]);
        }
    }
}
