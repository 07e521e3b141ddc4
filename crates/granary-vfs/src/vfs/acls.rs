//! Access control lists: looked for where they decide, kept in step with the mode, handed on to what is made.
//!
//! ```text
//!   asked for:   neither root nor owner, and the mode's group bits are not zero (Linux's
//!                acl_permission_check)
//!   known:       a node remembers that it has no list; a list is read again each time
//!   set:         list -> mode (a list that is no more than a mode is not kept)     chmod: mode -> list
//!   made:        mode and list from the directory's default one; without one the umask takes away
//! ```
//!
//! It does *not* make a node and its list in one transaction: a power failure between the two leaves the mode
//! alone.

use super::node::{Node, NodeRef};
use super::{Vfs, perm};
use crate::acl::{ACCESS, Acl, DEFAULT};
use crate::posix::Access;
use granary_fs::{Attr, Call, Caller, Cred, FileKind, FsError, Result, SetAttr, mode};

/// Which list of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Access,
    Default,
}

impl Which {
    pub(super) fn of(name: &[u8]) -> Option<Which> {
        match name {
            ACCESS => Some(Which::Access),
            DEFAULT => Some(Which::Default),
            _ => None,
        }
    }

    fn name(self) -> &'static [u8] {
        if self == Which::Access { ACCESS } else { DEFAULT }
    }
}

impl Vfs {
    /// Fails with `Access` where the caller lacks any of `wanted`. The node is not locked.
    pub(crate) fn allow(&self, call: &Call<'_>, node: &Node, wanted: Access) -> Result<()> {
        if self.mode_decides(call.cred, node) {
            return node.view(|a| perm::check(call.cred, a, wanted));
        }
        let _shared = node.rwsem.read();
        self.allow_locked(call, node, wanted)
    }

    /// The same; the node is locked.
    pub(super) fn allow_locked(&self, call: &Call<'_>, node: &Node, wanted: Access) -> Result<()> {
        if !self.mode_decides(call.cred, node)
            && let Some(acl) = self.acl(call, node, Which::Access)?
        {
            node.view(|a| perm::is_mutable(a, wanted))?;
            let may = node.view(|a| acl.permits(call.cred, a, wanted));
            return if may { Ok(()) } else { Err(FsError::Access) };
        }
        node.view(|a| perm::check(call.cred, a, wanted))
    }

    fn mode_decides(&self, cred: &Cred, node: &Node) -> bool {
        node.has_no_acl(Which::Access) || node.view(|a| perm::mode_decides(cred, a))
    }

    /// Whether the caller may remove or rename the entry of `victim` in `dir`, which is locked.
    pub(super) fn may_remove(&self, call: &Call<'_>, dir: &Node, victim: &Attr) -> Result<()> {
        self.allow_locked(call, dir, Access::WRITE | Access::EXEC)?;
        dir.view(|a| perm::may_remove_under(call.cred, a, victim))
    }

    /// A node's list. The node is locked.
    pub(super) fn acl(&self, call: &Call<'_>, node: &Node, which: Which) -> Result<Option<Acl>> {
        let wrong_kind = node.kind() == FileKind::Symlink || (which == Which::Default && !node.is_dir());
        if wrong_kind || node.has_no_acl(which) {
            return Ok(None);
        }
        let seen = node.acl_state();
        let value = match self.fs.getxattr(call, node, which.name()) {
            Err(FsError::NotSupported) => None,
            other => other?,
        };
        match value {
            Some(value) => Acl::parse(&value),
            None => {
                node.found_no_acl(seen, which);
                Ok(None)
            }
        }
    }

    /// The mode of what is made in `dir`: without the umask's bits, unless a default list is there to say it.
    ///
    /// # Errors
    /// The file system's.
    pub fn masked(&self, caller: &Caller, dir: &NodeRef, mode: u16, umask: u16) -> Result<u16> {
        if !dir.is_dir() || dir.has_no_acl(Which::Default) {
            return Ok(mode & !umask);
        }
        let _shared = dir.rwsem.read();
        Ok(if self.acl(&self.call(caller), dir, Which::Default)?.is_some() { mode } else { mode & !umask })
    }

    /// Sets or (`None`) removes a list, and the mode with it. The node is locked; that the caller may is
    /// known.
    pub(super) fn set_acl(
        &self,
        call: &Call<'_>,
        node: &Node,
        which: Which,
        value: Option<&[u8]>,
    ) -> Result<()> {
        let acl = value.map_or(Ok(None), Acl::parse)?;
        // First of all: a file system without lists refuses before the mode has changed.
        let had = self.fs.getxattr(call, node, which.name())?.is_some();
        let (mut keep, was) = (acl.as_ref(), node.attr());
        if let (Which::Access, Some(acl)) = (which, &acl) {
            keep = keep.filter(|a| !a.is_mode());
            let strip = call.cred.uid != 0 && !node.view(|a| perm::in_group(call.cred, a.gid));
            let old = was.mode;
            let new = old & !0o777 & !(if strip { mode::SGID } else { 0 }) | acl.mode();
            if new != old {
                self.fs.setattr(call, node, &SetAttr { mode: Some(new), ..SetAttr::default() })?;
            }
        }
        let value = keep.map(Acl::encode);
        if value.is_some() || had {
            node.acl_changes();
            if let Err(e) = self.fs.setxattr(call, node, which.name(), value.as_deref()) {
                // It does not fit, say. As in Linux the mode is then what it was.
                if node.view(|a| a.mode) != was.mode {
                    let mode = SetAttr { mode: Some(was.mode), ..SetAttr::default() };
                    let _ = self.fs.setattr(&Call { time: was.ctime, ..*call }, node, &mode);
                }
                return Err(e);
            }
        }
        Ok(())
    }

    /// The list that goes with a new mode, where there is one and it changes. The node is locked.
    pub(super) fn chmod_acl(&self, call: &Call<'_>, node: &Node, mode: u16) -> Result<Option<Vec<u8>>> {
        let Some(acl) = self.acl(call, node, Which::Access)? else { return Ok(None) };
        let new = acl.with_mode(mode);
        Ok((new != acl).then(|| new.encode()))
    }

    /// Inheritance of a node made with `mode` in `dir` from the default list of `dir`: the mode, its own
    /// list, and for a directory its default list. The directory is locked.
    pub(super) fn inherit_acls(
        &self,
        call: &Call<'_>,
        dir: &Node,
        kind: FileKind,
        mode: u16,
    ) -> Result<Inherited> {
        let none = Inherited { mode, lists: Vec::new() };
        if kind == FileKind::Symlink {
            return Ok(none);
        }
        let Some(default) = self.acl(call, dir, Which::Default)? else { return Ok(none) };
        let (access, mode) = default.inherited(mode);
        let mut lists = Vec::new();
        if !access.is_mode() {
            lists.push((ACCESS, access.encode()));
        }
        if kind == FileKind::Dir {
            lists.push((DEFAULT, default.encode()));
        }
        Ok(Inherited { mode, lists })
    }
}

/// Access control lists of a new file: names and values.
pub(super) type Lists = Vec<(&'static [u8], Vec<u8>)>;

/// See [`Vfs::inherit_acls`].
pub(super) struct Inherited {
    pub mode: u16,
    pub lists: Lists,
}
