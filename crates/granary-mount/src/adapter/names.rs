//! Names and links: every answer with an entry holds the node until the kernel forgets it.

use super::Adapter;
use super::stats::{self, Statistics};
use crate::STATS_FILE;
use crate::convert::open_flags;
use crate::handles::Handles;
use granary_fs::{Caller, FileKind, FsError, Result};
use granary_fuse::abi::{Attr, EntryOut, ForgetOne};
use granary_fuse::{Handle, NodeId};
use granary_vfs::{NewFile, NodeRef, OpenFile};
use rustix::fs::{OFlags, RenameFlags};
use std::sync::Arc;

impl Adapter {
    /// The entry of a node, which the kernel now holds.
    pub(super) fn entry(&self, node: &NodeRef) -> EntryOut {
        self.vfs.remember(node);
        self.told(self.attr(node), self.vfs.generation(node).into())
    }

    /// An entry that says: no such name, and you may believe it.
    fn absent(&self) -> EntryOut {
        self.told(Attr { ino: 0, ..stats::nothing() }, 0)
    }

    /// Whether a name stands for the statistics, even if the file system has a file of that name.
    pub(super) fn is_statistics(&self, parent: NodeId, name: &[u8]) -> bool {
        self.stats.is_some() && parent == NodeId::ROOT && name == STATS_FILE.as_bytes()
    }

    /// Before a name is removed, renamed or replaced.
    fn may_change(&self, parent: NodeId, name: &[u8]) -> Result<()> {
        if self.is_statistics(parent, name) { Err(FsError::NotPermitted) } else { Ok(()) }
    }

    pub(super) fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<EntryOut> {
        if self.is_statistics(parent, name)
            && let Some(stats) = &self.stats
        {
            return Ok(self.told(stats.look(&self.operations), 0));
        }
        if matches!(name, b"." | b"..") {
            return self.handle(parent, name);
        }
        match self.vfs.lookup(&Caller::KERNEL, &self.node(parent)?, name) {
            Ok(node) => Ok(self.entry(&node)),
            Err(FsError::NoEntry) => Ok(self.absent()),
            Err(e) => Err(e),
        }
    }

    /// Answers a lookup by handle (name_to_handle_at, NFS) of a node that the kernel has forgotten. The
    /// kernel asks for the node itself by ".", which may be any file, or for its directory. It compares the
    /// generation.
    fn handle(&self, node: NodeId, name: &[u8]) -> Result<EntryOut> {
        if Statistics::is(node) {
            return Err(FsError::Stale);
        }
        let found = self.vfs.node_of_handle(self.numbers.ino(node))?;
        match name {
            b".." => Ok(self.entry(&self.vfs.lookup(&Caller::KERNEL, &found, name)?)),
            _ => Ok(self.entry(&found)),
        }
    }

    /// Lets go of nodes, all at once.
    pub(super) fn forget_nodes(&self, nodes: &[ForgetOne]) {
        let is_statistics = |one: &&ForgetOne| Statistics::is(one.node());
        if let Some(stats) = &self.stats {
            nodes.iter().filter(is_statistics).for_each(|one| stats.forget(one.node()));
        }
        let files = nodes.iter().filter(|one| !is_statistics(one));
        self.operations.forgot(files.clone().count());
        self.vfs.forget(files.map(|one| (self.numbers.ino(one.node()), one.lookups())));
    }

    pub(super) fn readlink(&self, node: NodeId) -> Result<Vec<u8>> {
        self.vfs.readlink(&Caller::KERNEL, &self.node(node)?)
    }

    fn make(
        &self,
        who: (u32, u32),
        parent: NodeId,
        name: &[u8],
        new: &NewFile<'_>,
        umask: u32,
    ) -> Result<(NodeRef, bool)> {
        self.changes()?;
        if self.is_statistics(parent, name) {
            return Err(FsError::Exists);
        }
        let dir = self.node(parent)?;
        let mode = self.vfs.masked(&Caller::KERNEL, &dir, new.mode, (umask & 0o777) as u16)?;
        let new = NewFile { mode, ..*new };
        self.vfs.create_or_get_for(&Caller::KERNEL, who, &dir, name, &new)
    }

    fn make_new(
        &self,
        who: (u32, u32),
        parent: NodeId,
        name: &[u8],
        new: &NewFile<'_>,
        umask: u32,
    ) -> Result<EntryOut> {
        match self.make(who, parent, name, new, umask)? {
            (node, true) => Ok(self.entry(&node)),
            (_, false) => Err(FsError::Exists),
        }
    }

    pub(super) fn mknod(
        &self,
        who: (u32, u32),
        parent: NodeId,
        name: &[u8],
        (mode, umask): (u32, u32),
        rdev: u32,
    ) -> Result<EntryOut> {
        let kind = match (mode >> 12) as u8 {
            0 => FileKind::File,
            code => FileKind::from_code(code).ok_or(FsError::Invalid)?,
        };
        let new = NewFile { kind, mode: (mode & 0o7777) as u16, rdev, target: b"", direct_sync: false };
        self.make_new(who, parent, name, &new, umask)
    }

    pub(super) fn mkdir(
        &self,
        who: (u32, u32),
        parent: NodeId,
        name: &[u8],
        (mode, umask): (u32, u32),
    ) -> Result<EntryOut> {
        self.make_new(who, parent, name, &NewFile::dir((mode & 0o7777) as u16), umask)
    }

    pub(super) fn symlink(
        &self,
        who: (u32, u32),
        parent: NodeId,
        name: &[u8],
        target: &[u8],
    ) -> Result<EntryOut> {
        self.make_new(who, parent, name, &NewFile::symlink(target), 0)
    }

    pub(super) fn create(
        &self,
        who: (u32, u32),
        parent: NodeId,
        name: &[u8],
        (mode, umask): (u32, u32),
        flags: u32,
    ) -> Result<(EntryOut, Handle)> {
        let handles = self.handles.as_ref().ok_or(FsError::NotSupported)?;
        let new = NewFile::file((mode & 0o7777) as u16).opened(open_flags(flags));
        let (node, created) = self.make(who, parent, name, &new, umask)?;
        let given = OFlags::from_bits_retain(flags);
        if !created && given.contains(OFlags::EXCL) {
            return Err(FsError::Exists);
        }
        let mut wanted = open_flags(flags);
        // Somebody else made it after the kernel looked: then it is opened, and cut if so asked.
        wanted.set(granary_vfs::OpenFlags::TRUNC, !created && given.contains(OFlags::TRUNC));
        let open = || self.vfs.open(&Caller::KERNEL, node.clone(), wanted, created);
        let file = self.changing(&node, open)?;
        Ok((self.entry(&node), handles.insert(Arc::new(file))))
    }

    /// A file without a name: no name is told of, the node is held like any.
    pub(super) fn tmpfile(
        &self,
        who: (u32, u32),
        dir: NodeId,
        (mode, umask): (u32, u32),
        flags: u32,
    ) -> Result<(EntryOut, Handle)> {
        self.changes()?;
        let dir = self.node(dir)?;
        let mode = self.vfs.masked(&Caller::KERNEL, &dir, (mode & 0o7777) as u16, (umask & 0o777) as u16)?;
        let node = self.vfs.create_unnamed_for(&Caller::KERNEL, who, &dir, mode)?;
        let handle = match &self.handles {
            Some(handles) => {
                let file = self.vfs.open(&Caller::KERNEL, node.clone(), open_flags(flags), true)?;
                handles.insert(Arc::new(file))
            }
            None => Handles::<OpenFile>::NONE,
        };
        // The space that it frees when it is closed is worth waiting for.
        self.removed(&node);
        Ok((self.entry(&node), handle))
    }

    pub(super) fn unlink(&self, parent: NodeId, name: &[u8]) -> Result<()> {
        self.changes()?;
        self.may_change(parent, name)?;
        let dir = self.node(parent)?;
        self.removing(&dir, name, || self.vfs.unlink(&Caller::KERNEL, &dir, name))
    }

    pub(super) fn rmdir(&self, parent: NodeId, name: &[u8]) -> Result<()> {
        self.changes()?;
        self.may_change(parent, name)?;
        let dir = self.node(parent)?;
        self.removing(&dir, name, || self.vfs.rmdir(&Caller::KERNEL, &dir, name))
    }

    /// Carries out the removal of a name, if there is one, and notes the node that has it as removed.
    fn removing(&self, dir: &NodeRef, name: &[u8], remove: impl FnOnce() -> Result<()>) -> Result<()> {
        // The call itself reports errors of the name.
        let node = self.vfs.lookup(&Caller::KERNEL, dir, name).ok();
        let done = remove();
        if let Some(node) = node {
            self.removed(&node);
            drop(node);
            self.vfs.reap();
        }
        done
    }

    pub(super) fn rename(
        &self,
        (from_dir, from): (NodeId, &[u8]),
        (to_dir, to): (NodeId, &[u8]),
        flags: u32,
    ) -> Result<()> {
        self.changes()?;
        let flags = RenameFlags::from_bits_retain(flags);
        let whiteout = flags.contains(RenameFlags::WHITEOUT);
        let known = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE | RenameFlags::WHITEOUT;
        if !known.contains(flags) || (whiteout && flags.contains(RenameFlags::EXCHANGE)) {
            return Err(FsError::Invalid);
        }
        self.may_change(from_dir, from)?;
        self.may_change(to_dir, to)?;
        let flags = granary_fs::RenameFlags {
            no_replace: flags.contains(RenameFlags::NOREPLACE),
            exchange: flags.contains(RenameFlags::EXCHANGE),
        };
        let (from_dir, to_dir) = (self.node(from_dir)?, self.node(to_dir)?);
        let (from, onto) = ((&from_dir, from), (&to_dir, to));
        self.removing(&to_dir, to, || match whiteout {
            true => self.vfs.rename_leaving_whiteout(&Caller::KERNEL, from, onto, flags.no_replace),
            false => self.vfs.rename(&Caller::KERNEL, from, onto, flags),
        })
    }

    pub(super) fn link(&self, node: NodeId, parent: NodeId, name: &[u8]) -> Result<EntryOut> {
        if Statistics::is(node) {
            return Err(FsError::NotPermitted);
        }
        self.changes()?;
        if self.is_statistics(parent, name) {
            return Err(FsError::Exists);
        }
        let node = self.node(node)?;
        self.vfs.link(&Caller::KERNEL, &node, &self.node(parent)?, name)?;
        self.stays(&node);
        Ok(self.entry(&node))
    }
}
