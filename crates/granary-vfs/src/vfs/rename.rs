//! Rename, and the order in which it locks.
//!
//! ```text
//!   rename lock                 where two directories are involved, or a directory is what is renamed or
//!                               replaced
//!   the two parents             ancestor first, else by number
//!   source and target           directories first, then by number
//! ```
//!
//! There is no deadlock: all other calls wait only downwards in the tree. Of renames that lock directories
//! beyond one parent there is one at a time. It takes ancestors before descendants, so no cycle can run
//! through it. A rename of files within one directory locks that, and then the files, by number.
//!
//! A rename may leave a *whiteout* behind (Linux's RENAME_WHITEOUT, for overlayfs): a character device 0:0
//! under the old name. The whiteout is made without a name, and linked when the rename is done. A power
//! failure between the two leaves the rename without the whiteout, and nothing is lost by it. So
//! RENAME_WHITEOUT is not one change where the file system has no such call.

use super::node::NodeRef;
use super::{NewFile, Vfs};
use crate::posix::Access;
use granary_fs::{Attr, Call, Caller, FileKind, FsError, Rename, RenameFlags, Result, WriteBackCause};
use granary_sim::sync::RwLockWriteGuard;
use granary_sim::{costs, cpu};

/// One side of a rename.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) dir: &'a NodeRef,
    pub(crate) name: &'a [u8],
    /// The path ended with a slash: it must be a directory.
    pub(crate) slash: bool,
}

type Locks<'a> = [Option<RwLockWriteGuard<'a, ()>>; 2];

/// Result of a look under the parents' locks.
enum Step {
    Done,
    /// A directory is involved: start again, with the rename lock.
    NeedRenameLock,
}

impl Vfs {
    /// Gives the entry `from` of `from_dir` the name `to` in `to_dir`.
    ///
    /// # Errors
    /// `NoEntry`; `Exists` with `no_replace`; `Invalid` where a directory would become its own descendant, or
    /// for both flags; `NotEmpty`, `IsDir`, `NotDir` where the target cannot be replaced; `Access`;
    /// `NotPermitted` in a sticky directory; `TooManyLinks`; the file system's.
    pub fn rename(
        &self,
        caller: &Caller,
        from: (&NodeRef, &[u8]),
        to: (&NodeRef, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let side = |(dir, name)| Side { dir, name, slash: false };
        self.rename_sides(caller, side(from), side(to), flags)
    }

    /// The same, which leaves a whiteout under the old name.
    ///
    /// # Errors
    /// As [`Vfs::rename`]; `NotSupported` where the file system has no files without names. An error after
    /// the rename itself (no space for the whiteout's name) leaves it done.
    pub fn rename_leaving_whiteout(
        &self,
        caller: &Caller,
        from: (&NodeRef, &[u8]),
        to: (&NodeRef, &[u8]),
        no_replace: bool,
    ) -> Result<()> {
        let side = |(dir, name)| Side { dir, name, slash: false };
        let flags = RenameFlags { no_replace, ..RenameFlags::default() };
        self.rename_with(caller, side(from), side(to), (flags, true))
    }

    pub(crate) fn rename_sides(
        &self,
        caller: &Caller,
        from: Side<'_>,
        to: Side<'_>,
        flags: RenameFlags,
    ) -> Result<()> {
        self.rename_with(caller, from, to, (flags, false))
    }

    fn rename_with(
        &self,
        caller: &Caller,
        from: Side<'_>,
        to: Side<'_>,
        how: (RenameFlags, bool),
    ) -> Result<()> {
        let flags = how.0;
        if flags.no_replace && flags.exchange {
            return Err(FsError::Invalid);
        }
        if !from.dir.is_dir() || !to.dir.is_dir() {
            return Err(FsError::NotDir);
        }
        let cross = !from.dir.is(to.dir);
        let step = if cross { Step::NeedRenameLock } else { self.try_rename(caller, from, to, how, false)? };
        if let Step::NeedRenameLock = step {
            let _tree = self.rename_lock.lock();
            self.try_rename(caller, from, to, how, true)?;
        }
        self.reap();
        Ok(())
    }

    fn try_rename(
        &self,
        caller: &Caller,
        from: Side<'_>,
        to: Side<'_>,
        (flags, leaves_whiteout): (RenameFlags, bool),
        tree_locked: bool,
    ) -> Result<Step> {
        let cross = !from.dir.is(to.dir);
        let call = &self.call(caller);
        let _parents = self.lock_parents(call, from.dir, to.dir)?;
        let source = self.child_locked(call, from.dir, from.name)?.ok_or(FsError::NoEntry)?;
        let target = self.child_locked(call, to.dir, to.name)?;
        let dirs = (source.is_dir(), target.as_ref().is_some_and(|t| t.is_dir()));
        if !tree_locked && (dirs.0 || dirs.1) {
            return Ok(Step::NeedRenameLock);
        }
        match &target {
            Some(_) if flags.no_replace => return Err(FsError::Exists),
            None if flags.exchange => return Err(FsError::NoEntry),
            Some(_) if flags.exchange && to.slash && !dirs.1 => return Err(FsError::NotDir),
            _ => {}
        }
        if !dirs.0 && (from.slash || (to.slash && !flags.exchange)) {
            return Err(FsError::NotDir);
        }
        if cross && dirs.0 && self.is_at_or_above(call, &source, to.dir)? {
            return Err(FsError::Invalid);
        }
        if let Some(target) = target.as_ref().filter(|_| cross && dirs.1)
            && self.is_at_or_above(call, target, from.dir)?
        {
            return Err(if flags.exchange { FsError::Invalid } else { FsError::NotEmpty });
        }
        if target.as_ref().is_some_and(|t| t.is(&source)) {
            return Ok(Step::Done);
        }
        let (above, below) = (from.dir.attr(), to.dir.attr());
        let where_to = ((from.dir, &above), (to.dir, &below));
        self.may_rename(call, where_to, (&source, target.as_ref()), cross, flags.exchange)?;
        let _children = lock_children(&source, target.as_ref());
        if let Some(target) = target.as_ref().filter(|_| dirs.1 && !flags.exchange)
            && !self.fs.is_empty_dir(call, target)?
        {
            return Err(FsError::NotEmpty);
        }
        if target.is_some() && !flags.exchange && self.features.quirks.flush_before_replace {
            // An error is the node's to remember, as in Linux: the rename goes on.
            let _ = self.write_back(call, &source, 0..u64::MAX, WriteBackCause::Background);
        }
        let c = costs();
        cpu(c.inode_op + c.namespace_op * 2);
        let rename = Rename {
            from_dir: from.dir,
            from: from.name,
            inode: &source,
            to_dir: to.dir,
            to: to.name,
            target: target.as_ref().map(|t| &***t),
            exchange: flags.exchange,
        };
        let (leave, come) = rename.links_moved();
        if cross {
            self.keeps_its_own_links(from.dir, leave)?;
            self.keeps_its_own_links(to.dir, come)?;
        } else {
            self.keeps_its_own_links(from.dir, leave + come)?;
        }
        // One instant for all that this call changes, the whiteout too.
        let call = &self.call(caller);
        // First what may find no space.
        let whiteout = leaves_whiteout.then(|| self.whiteout(call, from.dir)).transpose()?;
        self.fs.rename(call, &rename)?;
        let back = target.as_ref().filter(|_| flags.exchange);
        let old_name = (&**from.dir, from.name, back.map(|t| t.ino()));
        self.names.set_two(old_name, (&**to.dir, to.name, Some(source.ino())));
        self.effects.mark();
        if cross && dirs.0 {
            source.set_parent(Some(to.dir.clone()));
        }
        if let Some(back) = back.filter(|_| cross && dirs.1) {
            back.set_parent(Some(from.dir.clone()));
        }
        if let Some(whiteout) = whiteout {
            let _whiteout = whiteout.rwsem.write();
            let link = || self.fs.link(call, from.dir, from.name, &whiteout);
            self.with_space(call, from.dir, link)?;
            whiteout.set_unnamed(false);
            self.names.set(from.dir, from.name, Some(whiteout.ino()));
            self.effects.mark();
        }
        Ok(Step::Done)
    }

    /// A whiteout without a name, which goes with its last user unless it gets one. The directory is locked.
    fn whiteout(&self, call: &Call<'_>, dir: &NodeRef) -> Result<NodeRef> {
        let new = NewFile { kind: FileKind::CharDev, mode: 0, rdev: 0, target: b"", direct_sync: false };
        let (new, _) = self.may_create(call, (call.cred.uid, call.cred.gid), dir, &new)?;
        self.make_unnamed(call, dir, &new)
    }

    fn lock_parents<'a>(&self, call: &Call<'_>, from: &'a NodeRef, to: &'a NodeRef) -> Result<Locks<'a>> {
        if from.is(to) {
            return Ok([Some(from.rwsem.write()), None]);
        }
        let from_first = if self.is_at_or_above(call, from, to)? {
            true
        } else if self.is_at_or_above(call, to, from)? {
            false
        } else {
            from.ino() < to.ino()
        };
        let (first, second) = if from_first { (from, to) } else { (to, from) };
        Ok([Some(first.rwsem.write()), Some(second.rwsem.write())])
    }

    fn may_rename(
        &self,
        call: &Call<'_>,
        ((from, from_dir), (to, to_dir)): ((&NodeRef, &Attr), (&NodeRef, &Attr)),
        (source, target): (&NodeRef, Option<&NodeRef>),
        cross: bool,
        exchange: bool,
    ) -> Result<()> {
        let moved = source.attr();
        self.may_remove(call, from, &moved)?;
        let gains_dir = source.is_dir() && !target.is_some_and(|t| t.is_dir());
        match target {
            None => self.allow_locked(call, to, Access::WRITE | Access::EXEC)?,
            Some(target) => {
                self.may_remove(call, to, &target.attr())?;
                match (source.is_dir(), target.is_dir()) {
                    (true, false) if !exchange => return Err(FsError::NotDir),
                    (false, true) if !exchange => return Err(FsError::IsDir),
                    _ => {}
                }
            }
        }
        if !cross {
            return Ok(());
        }
        // The moved directory's ".." changes.
        if source.is_dir() {
            self.allow(call, source, Access::WRITE)?;
        }
        if let Some(target) = target.filter(|t| exchange && t.is_dir()) {
            self.allow(call, target, Access::WRITE)?;
        }
        let gives_dir = exchange && !source.is_dir() && target.is_some_and(|t| t.is_dir());
        if (gains_dir && self.is_full_of_dirs(to_dir)) || (gives_dir && self.is_full_of_dirs(from_dir)) {
            return Err(FsError::TooManyLinks);
        }
        Ok(())
    }
}

fn lock_children<'a>(source: &'a NodeRef, target: Option<&'a NodeRef>) -> Locks<'a> {
    let Some(target) = target else { return [Some(source.rwsem.write()), None] };
    let rank = |n: &NodeRef| (!n.is_dir(), n.ino());
    let (first, second) = if rank(source) < rank(target) { (source, target) } else { (target, source) };
    [Some(first.rwsem.write()), Some(second.rwsem.write())]
}
