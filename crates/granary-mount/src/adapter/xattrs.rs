//! Extended attributes, where [`crate::Options::xattrs`] asks for them.
//!
//! They are off by default because they cost: a kernel that knows of them asks for `security.capability`
//! before every write. Switched off, the first question is answered "no such call" and is the last.

use super::Adapter;
use super::stats::Statistics;
use crate::convert::errno;
use granary_fs::{Caller, Cred, FsError, Result, SetXattr};
use granary_fuse::{NodeId, Reply, Request};

/// Linux's XATTR_CREATE and XATTR_REPLACE.
const CREATE: u32 = 1;
const REPLACE: u32 = 2;
const BOTH: u32 = CREATE | REPLACE;
/// The list that decides about access (Linux's XATTR_NAME_POSIX_ACL_ACCESS).
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
/// The list that a directory hands on (XATTR_NAME_POSIX_ACL_DEFAULT).
const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";

/// The caller, for the one attribute where it matters. It includes the supplementary groups, which a request
/// does not carry. They are unknown, and empty, where the caller has ended or is of another process
/// namespace.
pub(super) fn caller(req: &Request<'_>, name: &[u8]) -> Cred {
    if name != ACCESS_LIST {
        return Cred::ROOT;
    }
    Cred { uid: req.uid, gid: req.gid, groups: super::privileges::groups(req.pid) }
}

impl Adapter {
    pub(super) fn setxattr(
        &self,
        caller: &Cred,
        node: NodeId,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        if Statistics::is(node) {
            return Err(FsError::NotPermitted);
        }
        let how = match flags {
            0 => SetXattr::Any,
            CREATE => SetXattr::Create,
            REPLACE => SetXattr::Replace,
            // It must not be there and it must be there: refused, and the kernel's file systems say which it
            // was.
            BOTH => return Err(self.getxattr(node, name).map_or_else(|e| e, |_| FsError::Exists)),
            _ => return Err(FsError::Invalid),
        };
        self.changes()?;
        self.vfs.setxattr_for(&Caller::KERNEL, caller, &self.node(node)?, name, value, how)
    }

    pub(super) fn getxattr(&self, node: NodeId, name: &[u8]) -> Result<Vec<u8>> {
        if Statistics::is(node) {
            return Err(FsError::NoAttribute);
        }
        self.vfs.getxattr(&Caller::KERNEL, &self.node(node)?, name)
    }

    /// The names that the caller may know of (`trusted.` is root's), each ended by a zero byte.
    pub(super) fn listxattr(&self, req: &Request<'_>) -> Result<Vec<u8>> {
        if Statistics::is(req.node) {
            return Ok(Vec::new());
        }
        let cred = Cred { uid: req.uid, gid: req.gid, groups: Vec::new() };
        let names = self.vfs.listxattr(&Caller::new(cred, req.pid), &self.node(req.node)?)?;
        Ok(names.into_iter().flat_map(|n| n.into_iter().chain([0])).collect())
    }

    pub(super) fn removexattr(&self, node: NodeId, name: &[u8]) -> Result<()> {
        if Statistics::is(node) {
            return Err(FsError::NotPermitted);
        }
        self.changes()?;
        match self.vfs.removexattr(&Caller::KERNEL, &self.node(node)?, name) {
            // A list that says nothing is none at all: the kernel's file systems take it away whether there
            // is one or not.
            Err(FsError::NoAttribute) if [ACCESS_LIST, DEFAULT_LIST].contains(&name) => Ok(()),
            other => other,
        }
    }
}

/// Answers with the value, or its length where the caller offers no room.
pub(super) fn answer(reply: Reply, room: u32, result: Result<Vec<u8>>) {
    match result {
        Ok(value) if room == 0 => reply.takes(value.len() as u32),
        Ok(value) if value.len() <= room as usize => reply.data(&value),
        Ok(_) => reply.error(errno(&FsError::Range)),
        Err(e) => reply.error(errno(&e)),
    }
}
