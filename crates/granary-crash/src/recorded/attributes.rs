//! Extended attributes and access lists of recorded clients.
//!
//! An access list that is set moves the mode; the mode is asked for behind it. New files in a directory with
//! a default list gets lists of its own, which are asked for as well.

use super::Scribe;
use crate::oracle::{ACCESS_LIST, DEFAULT_LIST, NodeId, digest};
use granary_fs::{FsError, Result, SetXattr};
use granary_vfs::Posix;

impl<P: Posix> Scribe<P> {
    pub(super) fn do_setxattr(
        &mut self,
        path: &[u8],
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        let node = self.node_at(path);
        let digest = digest(name, value);
        let Some(node) = node.filter(|_| name == ACCESS_LIST) else {
            let text = self.text(|_| format!("setxattr {} {}", super::show(path), super::show(name)));
            return self.change(
                text,
                node,
                |m, n| m.begin_xattr(n, name, digest),
                |p| p.setxattr(path, name, value, how),
                |m, n, by, fate| m.end_xattr(n, name, by, fate),
            );
        };
        let _telling =
            self.begin(self.text(|_| format!("setxattr {} {}", super::show(path), super::show(name))));
        let by = self.promises.with(|m| m.begin_access_list(node, digest));
        let result = self.inner.setxattr(path, name, value, how);
        let mode = match result {
            Ok(()) => Some(self.inner.stat(path)?.attr.mode),
            // The mode goes first: it may have changed. The change stays in flight.
            Err(FsError::NoSpace) => return result,
            Err(_) if super::doubt::in_doubt(&result) => return result,
            Err(_) => None,
        };
        self.promises.with(|m| m.end_access_list(node, by, mode));
        result
    }

    /// Learns the lists that a new file in `dir` has from it.
    pub(super) fn inherited(&mut self, dir: Option<NodeId>, id: NodeId, path: &[u8]) -> Result<()> {
        if !dir.is_some_and(|dir| self.promises.with(|m| m.bequeaths(dir))) {
            return Ok(());
        }
        for name in [ACCESS_LIST, DEFAULT_LIST] {
            let value = match self.inner.getxattr(path, name) {
                Ok(value) => digest(name, &value),
                Err(FsError::NoAttribute | FsError::NotSupported) => None,
                Err(e) => return Err(e),
            };
            if value.is_some() {
                self.promises.with(|m| m.inherited(id, name, value));
            }
        }
        self.promises.with(|m| m.lists_known(id));
        Ok(())
    }
}
