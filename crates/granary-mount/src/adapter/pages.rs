//! Pages that the kernel keeps of a file, beside writes that go past them.
//!
//! ```text
//!   READ, WRITE of a buffered file:  mark the node ── serve
//!   WRITE with O_DIRECT:             write ── marked? ── no ─────────────────────────────────────────> reply
//!                                               └─ yes ── thread: the kernel drops its pages ────────> reply
//! ```
//!
//! The kernel drops pages before a direct write, and after one that its caller waits for. After an
//! asynchronous one (io_submit, io_uring) it does not: `generic_file_direct_write` of mm/filemap.c leaves
//! that to the file system, and `fuse_direct_IO` does not do it. Pages that a buffered reader has fetched
//! meanwhile would stay, wrong, for good. So the server has them dropped before it answers.
//!
//! A reader marks before it reads, a writer looks after it wrote: either the writer sees the mark, or the
//! reader sees the data. The kernel waits for pages that are being read, which takes serving threads; hence
//! the thread (errands.rs). A direct write holds no page while it waits for its answer.

use super::Adapter;
use granary_fuse::NodeId;
use granary_vfs::{NodeRef, OpenFlags};

/// The kernel is about to have pages of a file that is opened so.
pub(super) fn will_be_kept(node: &NodeRef, flags: OpenFlags) {
    if !flags.contains(OpenFlags::DIRECT) {
        node.mark_cached_elsewhere();
    }
}

impl Adapter {
    /// After a write: whether the kernel may have pages of the file that it does not drop by itself.
    pub(super) fn has_stale_pages(&self, node: NodeId, flags: OpenFlags) -> bool {
        flags.contains(OpenFlags::DIRECT) && self.node(node).is_ok_and(|node| node.is_cached_elsewhere())
    }

    /// Has the kernel drop these bytes, then calls `then`.
    pub(super) fn drop_pages(
        &self,
        node: NodeId,
        (pos, len): (u64, usize),
        then: impl FnOnce(&Adapter) + Send + 'static,
    ) {
        let errand = move |adapter: &Adapter| {
            // Where the kernel refuses (the mount is ending), there are no readers left.
            let dropped = adapter.kernel.get().map(|kernel| kernel.invalidate(node, pos as i64, len as i64));
            drop(dropped);
            then(adapter);
        };
        self.errands.ask(self, Box::new(errand));
    }

    /// Has the kernel ask for the attributes of a node anew: they have changed by a call that it does not
    /// know to change them. Takes no page and no lock of the node.
    pub(crate) fn forget_attributes(&self, node: NodeId) {
        let told = self.kernel.get().map(|kernel| kernel.invalidate(node, -1, 0));
        drop(told);
    }
}
