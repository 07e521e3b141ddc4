//! Extended attributes of a node.

use super::Vfs;
use super::acls::Which;
use super::node::NodeRef;
use crate::xattr;
use granary_fs::{Call, Caller, Cred, FsError, Result, SetXattr, XATTR_LIST_MAX, XATTR_SIZE_MAX};
use granary_sim::{costs, cpu};

impl Vfs {
    /// Whether this kind of file system keeps extended attributes, and with them access control lists.
    pub fn keeps_attributes(&self) -> bool {
        !matches!(self.fs.getxattr(&self.kernel(), &self.root(), b"user.any"), Err(FsError::NotSupported))
    }

    /// The value of extended attribute `name`.
    ///
    /// # Errors
    /// `NoAttribute`; `NotSupported` for an unknown namespace; `Range` for an empty or too long name;
    /// `Access`; the file system's.
    pub fn getxattr(&self, caller: &Caller, node: &NodeRef, name: &[u8]) -> Result<Vec<u8>> {
        xattr::check_name(name)?;
        cpu(costs().inode_op);
        let _shared = node.rwsem.read();
        xattr::may_read(&caller.cred, &node.attr(), name, |wanted| {
            self.allow_locked(&self.call(caller), node, wanted)
        })?;
        self.fs.getxattr(&self.call(caller), node, name)?.ok_or(FsError::NoAttribute)
    }

    /// Sets extended attribute `name`.
    ///
    /// # Errors
    /// `Exists` or `NoAttribute` as `how` demands; `TooLong` for a value beyond 64 KiB; `Range` for an empty
    /// or too long name; `NotSupported` for an unknown namespace; `Invalid` for a wrong access control list;
    /// `NotPermitted`, `Access`; `NoSpace`; the file system's.
    pub fn setxattr(
        &self,
        caller: &Caller,
        node: &NodeRef,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        self.setxattr_for(caller, &caller.cred, node, name, value, how)
    }

    /// The same for somebody: `caller` may do it, and that `somebody` is neither root nor in the file's group
    /// takes set-group-ID away with an access control list.
    ///
    /// # Errors
    /// As [`Vfs::setxattr`].
    pub fn setxattr_for(
        &self,
        caller: &Caller,
        somebody: &Cred,
        node: &NodeRef,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        xattr::check_name(name)?;
        if value.len() > XATTR_SIZE_MAX {
            return Err(FsError::TooLong);
        }
        cpu(costs().inode_op);
        let _lock = node.rwsem.write();
        let allow = |wanted| self.allow_locked(&self.call(caller), node, wanted);
        xattr::may_write(&caller.cred, &node.attr(), name, false, allow)?;
        if how != SetXattr::Any {
            match (how, self.fs.getxattr(&self.call(caller), node, name)?) {
                (SetXattr::Create, Some(_)) => return Err(FsError::Exists),
                (SetXattr::Replace, None) => return Err(FsError::NoAttribute),
                _ => {}
            }
        }
        let call = self.call(caller);
        match Which::of(name) {
            Some(which) => self.set_acl(&Call { cred: somebody, ..call }, node, which, Some(value))?,
            None => self.with_space(&call, node, || self.fs.setxattr(&call, node, name, Some(value)))?,
        }
        self.effects.mark();
        Ok(())
    }

    /// Removes extended attribute `name`.
    ///
    /// # Errors
    /// `NoAttribute`; as [`Vfs::setxattr`].
    pub fn removexattr(&self, caller: &Caller, node: &NodeRef, name: &[u8]) -> Result<()> {
        xattr::check_name(name)?;
        cpu(costs().inode_op);
        let _lock = node.rwsem.write();
        let allow = |wanted| self.allow_locked(&self.call(caller), node, wanted);
        xattr::may_write(&caller.cred, &node.attr(), name, true, allow)?;
        if self.fs.getxattr(&self.call(caller), node, name)?.is_none() {
            return Err(FsError::NoAttribute);
        }
        match Which::of(name) {
            Some(which) => self.set_acl(&self.call(caller), node, which, None)?,
            None => self.fs.setxattr(&self.call(caller), node, name, None)?,
        }
        self.effects.mark();
        Ok(())
    }

    /// The names of the extended attributes that the caller may know of, in the file system's order.
    ///
    /// # Errors
    /// `TooLong` where they take more than 64 KiB; the file system's.
    pub fn listxattr(&self, caller: &Caller, node: &NodeRef) -> Result<Vec<Vec<u8>>> {
        cpu(costs().inode_op);
        let _shared = node.rwsem.read();
        let mut names = self.fs.listxattr(&self.call(caller), node)?;
        names.retain(|n| xattr::is_listed(&caller.cred, n));
        let bytes: usize = names.iter().map(|n| n.len() + 1).sum();
        if bytes > XATTR_LIST_MAX { Err(FsError::TooLong) } else { Ok(names) }
    }
}
