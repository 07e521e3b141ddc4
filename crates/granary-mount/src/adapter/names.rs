//! Names and links: whatever is answered with an entry holds the node until the kernel forgets it.

use super::Shared;
use super::stats::{self, Statistics};
use crate::STATS_FILE;
use crate::convert::{generation, open_flags};
use crate::operations::Operation;
use fuser::{FileAttr, FileHandle, Generation, INodeNo, RenameFlags};
use granary_vfs::{Cred, FileKind, FsError, NewFile, NodeRef, Result};
use rustix::fs::OFlags;
use std::sync::Arc;

type Entry = (FileAttr, Generation);

impl Shared {
    /// The entry of a node, which the kernel now holds.
    pub(super) fn entry(&self, node: &NodeRef) -> Entry {
        self.vfs.remember(node);
        (self.attr(node), generation(node))
    }

    /// An entry that says: no such name, and you may believe it.
    fn absent() -> Entry {
        (FileAttr { ino: INodeNo(0), ..stats::nothing() }, Generation(0))
    }

    /// Whether a name stands for the statistics, whatever the file system has under it.
    pub(super) fn is_statistics(&self, parent: INodeNo, name: &[u8]) -> bool {
        self.stats.is_some() && parent == INodeNo::ROOT && name == STATS_FILE.as_bytes()
    }

    /// Before a name is removed, renamed or replaced.
    fn may_change(&self, parent: INodeNo, name: &[u8]) -> Result<()> {
        if self.is_statistics(parent, name) { Err(FsError::NotPermitted) } else { Ok(()) }
    }

    pub(super) fn lookup(&self, parent: INodeNo, name: &[u8]) -> Result<Entry> {
        if self.is_statistics(parent, name)
            && let Some(stats) = &self.stats
        {
            return Ok((stats.look(&self.operations), Generation(0)));
        }
        match self.vfs.lookup(&Cred::ROOT, &self.node(parent)?, name) {
            Ok(node) => Ok(self.entry(&node)),
            Err(FsError::NoEntry) => Ok(Shared::absent()),
            Err(e) => Err(e),
        }
    }

    pub(super) fn forget(&self, node: INodeNo, lookups: u64) {
        if !Statistics::is(node) {
            self.operations.count(Operation::Forget);
            self.vfs.forget(self.numbers.ino(node), lookups);
        } else if let Some(stats) = &self.stats {
            stats.forget(node);
        }
    }

    pub(super) fn readlink(&self, node: INodeNo) -> Result<Vec<u8>> {
        self.vfs.readlink(&self.node(node)?)
    }

    fn make(
        &self,
        who: (u32, u32),
        parent: INodeNo,
        name: &[u8],
        new: &NewFile<'_>,
        umask: u32,
    ) -> Result<(NodeRef, bool)> {
        self.changes()?;
        if self.is_statistics(parent, name) {
            return Err(FsError::Exists);
        }
        let dir = self.node(parent)?;
        let mode = self.vfs.masked(&dir, new.mode, (umask & 0o777) as u16)?;
        let new = NewFile { mode, ..*new };
        self.vfs.create_or_get_for(&Cred::ROOT, who, &dir, name, &new)
    }

    fn make_new(
        &self,
        who: (u32, u32),
        parent: INodeNo,
        name: &[u8],
        new: &NewFile<'_>,
        umask: u32,
    ) -> Result<Entry> {
        match self.make(who, parent, name, new, umask)? {
            (node, true) => Ok(self.entry(&node)),
            (_, false) => Err(FsError::Exists),
        }
    }

    pub(super) fn mknod(
        &self,
        who: (u32, u32),
        parent: INodeNo,
        name: &[u8],
        (mode, umask): (u32, u32),
        rdev: u32,
    ) -> Result<Entry> {
        let kind = match (mode >> 12) as u8 {
            0 => FileKind::File,
            code => FileKind::from_code(code).ok_or(FsError::Invalid)?,
        };
        let new = NewFile { kind, mode: (mode & 0o7777) as u16, rdev, target: b"" };
        self.make_new(who, parent, name, &new, umask)
    }

    pub(super) fn mkdir(
        &self,
        who: (u32, u32),
        parent: INodeNo,
        name: &[u8],
        (mode, umask): (u32, u32),
    ) -> Result<Entry> {
        self.make_new(who, parent, name, &NewFile::dir((mode & 0o7777) as u16), umask)
    }

    pub(super) fn symlink(
        &self,
        who: (u32, u32),
        parent: INodeNo,
        name: &[u8],
        target: &[u8],
    ) -> Result<Entry> {
        self.make_new(
            who,
            parent,
            name,
            &NewFile { kind: FileKind::Symlink, mode: 0o777, rdev: 0, target },
            0,
        )
    }

    pub(super) fn create(
        &self,
        who: (u32, u32),
        parent: INodeNo,
        name: &[u8],
        (mode, umask): (u32, u32),
        flags: i32,
    ) -> Result<(FileAttr, Generation, FileHandle)> {
        let handles = self.handles.as_ref().ok_or(FsError::NotSupported)?;
        let (node, created) = self.make(who, parent, name, &NewFile::file((mode & 0o7777) as u16), umask)?;
        let given = OFlags::from_bits_retain(flags as u32);
        if !created && given.contains(OFlags::EXCL) {
            return Err(FsError::Exists);
        }
        let mut wanted = open_flags(flags);
        // Somebody else made it after the kernel looked: then it is opened, and cut if so asked.
        wanted.set(granary_vfs::OpenFlags::TRUNC, !created && given.contains(OFlags::TRUNC));
        let file = self.vfs.open(&Cred::ROOT, node.clone(), wanted, created)?;
        let (attr, generation) = self.entry(&node);
        Ok((attr, generation, handles.insert(Arc::new(file))))
    }

    pub(super) fn unlink(&self, parent: INodeNo, name: &[u8]) -> Result<()> {
        self.changes()?;
        self.may_change(parent, name)?;
        let dir = self.node(parent)?;
        self.removing(&dir, name, || self.vfs.unlink(&Cred::ROOT, &dir, name))
    }

    pub(super) fn rmdir(&self, parent: INodeNo, name: &[u8]) -> Result<()> {
        self.changes()?;
        self.may_change(parent, name)?;
        let dir = self.node(parent)?;
        self.removing(&dir, name, || self.vfs.rmdir(&Cred::ROOT, &dir, name))
    }

    /// Does what takes a name away, if there is one, and looks what becomes of the node that has it.
    fn removing(&self, dir: &NodeRef, name: &[u8], remove: impl FnOnce() -> Result<()>) -> Result<()> {
        // What is wrong with it the call says.
        let node = self.vfs.lookup(&Cred::ROOT, dir, name).ok();
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
        (from_dir, from): (INodeNo, &[u8]),
        (to_dir, to): (INodeNo, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        self.changes()?;
        if !(RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_EXCHANGE).contains(flags) {
            return Err(FsError::Invalid);
        }
        self.may_change(from_dir, from)?;
        self.may_change(to_dir, to)?;
        let flags = granary_vfs::RenameFlags {
            no_replace: flags.contains(RenameFlags::RENAME_NOREPLACE),
            exchange: flags.contains(RenameFlags::RENAME_EXCHANGE),
        };
        let (from_dir, to_dir) = (self.node(from_dir)?, self.node(to_dir)?);
        self.removing(&to_dir, to, || self.vfs.rename(&Cred::ROOT, (&from_dir, from), (&to_dir, to), flags))
    }

    pub(super) fn link(&self, node: INodeNo, parent: INodeNo, name: &[u8]) -> Result<Entry> {
        if Statistics::is(node) {
            return Err(FsError::NotPermitted);
        }
        self.changes()?;
        if self.is_statistics(parent, name) {
            return Err(FsError::Exists);
        }
        let node = self.node(node)?;
        self.vfs.link(&Cred::ROOT, &node, &self.node(parent)?, name)?;
        Ok(self.entry(&node))
    }
}
