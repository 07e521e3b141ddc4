//! Dropping of memory that is only for speed (`echo 3 > /proc/sys/vm/drop_caches`).

use super::Vfs;
use super::names::Leaving;
use super::node::Node;
use granary_fs::Caller;
use std::collections::BTreeSet;

impl Vfs {
    /// Drops the clean pages of a file (posix_fadvise's POSIX_FADV_DONTNEED). Dirty ones stay, and are not
    /// written sooner for that.
    pub(crate) fn let_go(&self, caller: &Caller, node: &Node) {
        self.cache.drop_clean_of(node);
        self.fs.drop_clean(&self.call(caller), node);
    }

    /// Drops clean pages, names, inodes that nobody uses, and the file system's clean metadata. Dirty data
    /// stays, as in Linux: `sync` first for cold caches.
    pub fn drop_caches(&self) {
        self.cache.drop_clean();
        self.reap();
        self.names.forget_names();
        loop {
            let dirty: BTreeSet<_> = self.cache.dirty_inodes().into_iter().collect();
            let mut left = 0;
            // A node that leaves may have been the last user of a directory above.
            for ino in self.names.unused().into_iter().filter(|ino| !dirty.contains(ino)) {
                if let Some(Leaving::Release(node)) = self.names.leave(ino) {
                    left += 1;
                    self.release(&node);
                    node.set_parent(None);
                    self.names.left(&node);
                }
            }
            self.reap();
            if left == 0 {
                break;
            }
        }
        self.fs.drop_caches(&self.kernel());
    }
}
