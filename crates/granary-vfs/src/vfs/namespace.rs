//! Names come and go: create, link, remove.

use super::acls::{Inherited, Lists};
use super::node::{Node, NodeRef};
use super::{Vfs, perm};
use crate::posix::{Access, OpenFlags};
use granary_fs::{Attr, Call, Caller, FileKind, FsError, NewNode, Result, flag};
use granary_sim::{costs, cpu};

/// A node to make.
#[derive(Clone, Copy, Debug)]
pub struct NewFile<'a> {
    /// Kind of the file.
    pub kind: FileKind,
    /// Permission bits, umask applied.
    pub mode: u16,
    /// Device number of a device file.
    pub rdev: u32,
    /// Target of a symbolic link.
    pub target: &'a [u8],
    /// See [`NewNode::direct_sync`].
    pub direct_sync: bool,
}

impl NewFile<'_> {
    /// A regular file.
    pub fn file(mode: u16) -> NewFile<'static> {
        NewFile { kind: FileKind::File, mode, rdev: 0, target: b"", direct_sync: false }
    }

    /// The same, where an open with these flags makes it.
    #[must_use]
    pub fn opened(self, flags: OpenFlags) -> Self {
        NewFile { direct_sync: flags.contains(OpenFlags::DIRECT | OpenFlags::SYNC), ..self }
    }

    /// A directory.
    pub fn dir(mode: u16) -> NewFile<'static> {
        NewFile { kind: FileKind::Dir, mode, rdev: 0, target: b"", direct_sync: false }
    }

    /// A symbolic link.
    pub fn symlink(target: &[u8]) -> NewFile<'_> {
        NewFile { kind: FileKind::Symlink, mode: 0o777, rdev: 0, target, direct_sync: false }
    }
}

impl Vfs {
    /// Makes a node of any kind and enters it as `name`.
    ///
    /// # Errors
    /// `Exists`; `NoEntry` where `dir` was removed; `Access`; `NotPermitted` for a device file unless root;
    /// `TooManyLinks`; `NameTooLong`, also of a link's target; the file system's.
    pub fn create(&self, caller: &Caller, dir: &NodeRef, name: &[u8], new: &NewFile<'_>) -> Result<NodeRef> {
        match self.create_or_get(caller, dir, name, new)? {
            (node, true) => Ok(node),
            (_, false) => Err(FsError::Exists),
        }
    }

    /// Like [`Vfs::create`], but takes what already has the name; says whether it was created.
    ///
    /// # Errors
    /// As [`Vfs::create`], but not `Exists`.
    pub fn create_or_get(
        &self,
        caller: &Caller,
        dir: &NodeRef,
        name: &[u8],
        new: &NewFile<'_>,
    ) -> Result<(NodeRef, bool)> {
        self.create_or_get_for(caller, (caller.cred.uid, caller.cred.gid), dir, name, new)
    }

    /// Like [`Vfs::create_or_get`], for another `owner` (user, group) than the caller: a FUSE mount acts for
    /// a process whose permissions the kernel has checked.
    ///
    /// # Errors
    /// As [`Vfs::create_or_get`].
    pub fn create_or_get_for(
        &self,
        caller: &Caller,
        owner: (u32, u32),
        dir: &NodeRef,
        name: &[u8],
        new: &NewFile<'_>,
    ) -> Result<(NodeRef, bool)> {
        if !dir.is_dir() {
            return Err(FsError::NotDir);
        }
        let made = {
            let _lock = dir.rwsem.write();
            match self.child_locked(&self.call(caller), dir, name)? {
                Some(node) => (node, false),
                None => (self.create_locked(caller, owner, dir, name, new)?, true),
            }
        };
        self.reap();
        Ok(made)
    }

    fn create_locked(
        &self,
        caller: &Caller,
        owner: (u32, u32),
        dir: &NodeRef,
        name: &[u8],
        new: &NewFile<'_>,
    ) -> Result<NodeRef> {
        let (new, lists) = self.may_create(&self.call(caller), owner, dir, new)?;
        // One instant for the file and its lists.
        let call = &self.call(caller);
        let _birth = self.births.read();
        let made = self.with_space(call, dir, || self.fs.create(call, dir, name, &new))?;
        let node = Node::new(&self.names, made.ino, made.loaded);
        if let Err(e) = self.set_lists(call, &node, &lists) {
            let _ = self.fs.unlink(call, dir, name, &node).and_then(|()| self.fs.evict(call, &node));
            return Err(e);
        }
        if new.kind == FileKind::Dir {
            node.set_parent(Some(dir.clone()));
        }
        self.effects.mark();
        self.names.created(dir, name, node)
    }

    /// Whether a file may be made in `dir`, and what it is with what it inherits: itself, its access control
    /// lists.
    pub(super) fn may_create<'a>(
        &self,
        call: &Call<'_>,
        (uid, gid): (u32, u32),
        dir: &NodeRef,
        new: &NewFile<'a>,
    ) -> Result<(NewNode<'a>, Lists)> {
        let above = dir.attr();
        self.allow_locked(call, dir, Access::WRITE | Access::EXEC)?;
        let is_device = matches!(new.kind, FileKind::CharDev | FileKind::BlockDev);
        if is_device && call.cred.uid != 0 {
            return Err(FsError::NotPermitted);
        }
        if new.kind == FileKind::Dir && self.is_full_of_dirs(&above) {
            return Err(FsError::TooManyLinks);
        }
        if new.kind == FileKind::Symlink && new.target.len() >= granary_fs::PATH_MAX {
            return Err(FsError::NameTooLong);
        }
        let c = costs();
        cpu(c.inode_op + c.namespace_op);
        let (mode, gid) = perm::inherit(call.cred, gid, &above, new.kind, new.mode);
        let NewFile { kind, rdev, target, direct_sync, .. } = *new;
        // Linux (do_mknodat): pipes and sockets have none, whatever the caller says.
        let rdev = if is_device { rdev } else { 0 };
        let Inherited { mode, lists } = self.inherit_acls(call, dir, kind, mode)?;
        Ok((NewNode { kind, mode, uid, gid, rdev, target, direct_sync }, lists))
    }

    /// Gives a new node the lists that it inherits.
    pub(super) fn set_lists(&self, call: &Call<'_>, node: &Node, lists: &Lists) -> Result<()> {
        node.is_new(lists.is_empty());
        let _locked = (!lists.is_empty()).then(|| node.rwsem.write());
        lists.iter().try_for_each(|(list, value)| self.fs.setxattr(call, node, list, Some(value)))
    }

    /// Enters `node` as `name` in `dir`.
    ///
    /// # Errors
    /// `Exists`; `Access`; `NotPermitted` for a directory and for what is immutable or append-only; `NoEntry`
    /// where node or directory were removed; `TooManyLinks`; the file system's.
    pub fn link(&self, caller: &Caller, node: &NodeRef, dir: &NodeRef, name: &[u8]) -> Result<()> {
        if !dir.is_dir() {
            return Err(FsError::NotDir);
        }
        {
            let _dir = dir.rwsem.write();
            if self.child_locked(&self.call(caller), dir, name)?.is_some() {
                return Err(FsError::Exists);
            }
            self.allow_locked(&self.call(caller), dir, Access::WRITE | Access::EXEC)?;
            if node.is_dir() {
                return Err(FsError::NotPermitted);
            }
            let _node = node.rwsem.write();
            if node.view(|a| a.flags & flag::FIXED != 0) {
                return Err(FsError::NotPermitted);
            }
            match node.view(|a| a.nlink) {
                0 if !node.is_unnamed() => return Err(FsError::NoEntry),
                n if n >= self.features.max_links => return Err(FsError::TooManyLinks),
                _ => {}
            }
            let c = costs();
            cpu(c.inode_op + c.namespace_op);
            let call = &self.call(caller);
            self.with_space(call, node, || self.fs.link(call, dir, name, node))?;
            node.set_unnamed(false);
            self.names.set(dir, name, Some(node.ino()));
            self.effects.mark();
        }
        self.reap();
        Ok(())
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// `NoEntry`; `IsDir`; `Access`; `NotPermitted` in a sticky directory; the file system's.
    pub fn unlink(&self, caller: &Caller, dir: &NodeRef, name: &[u8]) -> Result<()> {
        self.remove(caller, dir, name, false)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NoEntry`; `NotDir`; `NotEmpty`; `Access`; `NotPermitted` in a sticky directory; the file system's.
    pub fn rmdir(&self, caller: &Caller, dir: &NodeRef, name: &[u8]) -> Result<()> {
        self.remove(caller, dir, name, true)
    }

    fn remove(&self, caller: &Caller, dir: &NodeRef, name: &[u8], directory: bool) -> Result<()> {
        if !dir.is_dir() {
            return Err(FsError::NotDir);
        }
        {
            let _dir = dir.rwsem.write();
            let victim = self.child_locked(&self.call(caller), dir, name)?.ok_or(FsError::NoEntry)?;
            self.may_remove(&self.call(caller), dir, &victim.attr())?;
            match (directory, victim.is_dir()) {
                (true, false) => return Err(FsError::NotDir),
                (false, true) => return Err(FsError::IsDir),
                _ => {}
            }
            let _victim = victim.rwsem.write();
            if directory && !self.fs.is_empty_dir(&self.call(caller), &victim)? {
                return Err(FsError::NotEmpty);
            }
            if directory {
                self.keeps_its_own_links(dir, -1)?;
            }
            let c = costs();
            cpu(c.inode_op + c.namespace_op);
            self.fs.unlink(&self.call(caller), dir, name, &victim)?;
            self.names.set(dir, name, None);
            self.effects.mark();
        }
        self.reap();
        Ok(())
    }

    /// Whether this directory takes no more directories.
    pub(super) fn is_full_of_dirs(&self, dir: &Attr) -> bool {
        dir.nlink >= self.features.max_links && !self.features.many_subdirs
    }

    /// Before the links of a directory change by so many: its name and "." stay, or media say something
    /// wrong. With fewer it would be freed while it is in use. One that has had too many to count says 1 and
    /// goes on saying so.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(super) fn keeps_its_own_links(&self, dir: &Node, change: i32) -> Result<()> {
        let links = dir.view(|a| a.nlink);
        let uncounted = links == 1 && self.features.many_subdirs;
        if change < 0 && !uncounted && links.saturating_add_signed(change) < 2 {
            let what = format!("{}: a directory of {links} links with a directory in it", dir.ino());
            return Err(FsError::Corrupt(what));
        }
        Ok(())
    }
}
