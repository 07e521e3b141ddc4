//! A rename: the request, and the arguments for a file system.

use crate::attr::FileKind;
use crate::inode::Inode;

/// How to rename.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenameFlags {
    /// Fail if the target exists (checked by the vfs).
    pub no_replace: bool,
    /// Exchange the two names.
    pub exchange: bool,
}

/// A rename; all inodes involved are locked.
#[derive(Clone, Copy)]
pub struct Rename<'a> {
    /// Directory of the old name.
    pub from_dir: &'a Inode,
    /// Old name.
    pub from: &'a [u8],
    /// The inode that is renamed.
    pub inode: &'a Inode,
    /// Directory of the new name; may be `from_dir`.
    pub to_dir: &'a Inode,
    /// New name.
    pub to: &'a [u8],
    /// The inode that had the new name: replaced (an empty directory, or a non-directory), or exchanged.
    pub target: Option<&'a Inode>,
    /// Exchange instead of replace: there is a target then.
    pub exchange: bool,
}

impl<'a> Rename<'a> {
    /// The inode that gets the old name, where two names are exchanged.
    pub fn exchanged(&self) -> Option<&'a Inode> {
        self.target.filter(|_| self.exchange)
    }

    /// The inode that loses the new name, where one is replaced.
    pub fn replaced(&self) -> Option<&'a Inode> {
        self.target.filter(|_| !self.exchange)
    }

    /// How the links of the old and of the new directory change (both, where they are one): directories go
    /// and come.
    pub fn links_moved(&self) -> (i32, i32) {
        let is_dir = |inode: &Inode| i32::from(inode.view(|a| a.kind) == FileKind::Dir);
        let (moved, target) = (is_dir(self.inode), self.target.map_or(0, is_dir));
        (if self.exchange { target - moved } else { -moved }, moved - target)
    }
}
