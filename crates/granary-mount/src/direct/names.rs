//! Commands on names: made, removed, changed; and on the attributes of what a path leads to.
//!
//! ```text
//!   command ── walk (the caller's rights) ── call of the vfs
//!           ── views.rs: the kernel forgets the names and attributes ── answer
//! ```
//!
//! The kernel's view serves calls that depend on the kernel's own state, before anything is changed:
//!
//! - Directories that the kernel knows are removed and renamed by it: one may be a working directory, whose
//!   path the kernel keeps, or something may be mounted on it.
//! - Files that the kernel knows are cut by it: it must learn the new end before any program appends or maps.
//! - A link to a file of another owner: the kernel may be told to refuse it (fs.protected_hardlinks).
//! - A call that finds no space: the kernel's files that are about to leave are waited for there.
//!
//! Source: the manual pages of section 2, of each call.

use super::peer::Peer;
use super::versions::Look;
use super::walk::{Walked, found};
use crate::adapter::Adapter;
use granary_direct::versions::{Watched, slot};
use granary_direct::wire::{ATIME_NOW, ATIME_OMIT, FOLLOW, MTIME_NOW, MTIME_OMIT, SAME, WANTED};
use granary_direct::{Answer, Command, Op, PathPlace, SeeKernel};
use granary_fs::{Caller, FileKind, FsError, RenameFlags, Result, Time};
use granary_vfs::{Access, Change, NewFile, NodeRef, SetTime};
use rustix::fs::RenameFlags as Given;

/// An answer without a value.
fn done(result: Result<()>) -> Walked<Answer> {
    match result {
        Ok(()) => Ok(Ok(Answer::of(0))),
        // It may come from the kernel's view, which waits for it.
        Err(FsError::NoSpace) => Err(SeeKernel),
        Err(e) => Ok(Err(e)),
    }
}

/// The change of a time that a command asks for.
fn time(nanos: u64, now: bool, omit: bool) -> SetTime {
    match (now, omit) {
        (_, true) => SetTime::Omit,
        (true, _) => SetTime::Now,
        _ => SetTime::At(Time(nanos as i64)),
    }
}

impl Adapter {
    /// Serves a command with a place; `bytes`: what it has brought.
    pub(super) fn direct_named(
        &self,
        op: Op,
        peer: &Peer,
        command: &Command,
        bytes: &[u8],
    ) -> Walked<Answer> {
        let (place, rest) = PathPlace::parse(bytes).ok_or(SeeKernel)?;
        let caller = &peer.caller;
        let follow = command.flags & FOLLOW != 0;
        match op {
            Op::StatPath => {
                return self.direct_stat(caller, place, follow);
            }
            Op::Access => return self.direct_access(peer, place, command.flags),
            _ => {}
        }
        if self.changes().is_err() || !peer.may_change() {
            // Read-only here or everywhere, or broken: the kernel's view says how.
            return Err(SeeKernel);
        }
        match op {
            Op::Create => self.direct_create(peer, place, command),
            Op::Mkdir => {
                let (mode, umask) = (command.pos as u16 & 0o7777, (command.pos >> 16) as u16 & 0o777);
                self.direct_make(caller, place, &NewFile::dir(mode), umask)
            }
            Op::Symlink => {
                // An empty target, or one with a zero in it, no call of libc's says.
                if rest.is_empty() || rest.contains(&0) {
                    return Err(SeeKernel);
                }
                self.direct_make(caller, place, &NewFile::symlink(rest), 0)
            }
            Op::Unlink | Op::Rmdir => self.direct_remove(caller, place, op == Op::Rmdir),
            Op::Link => {
                let (to, _) = PathPlace::parse(rest).ok_or(SeeKernel)?;
                self.direct_link(caller, place, to, follow)
            }
            Op::Rename => {
                let (to, _) = PathPlace::parse(rest).ok_or(SeeKernel)?;
                self.direct_rename(caller, place, to, command.flags)
            }
            Op::Chmod => {
                self.direct_change(caller, place, follow, &Change::mode(command.pos as u16 & 0o7777))
            }
            Op::Chown => {
                let id = |n: u64| Some(n as u32).filter(|id| *id != SAME);
                let change = Change::owner(id(command.pos), id(command.pos >> 32));
                self.direct_change(caller, place, follow, &change)
            }
            Op::Utimens => {
                let has = |flag| command.flags & flag != 0;
                let atime = time(command.pos, has(ATIME_NOW), has(ATIME_OMIT));
                let mtime = time(command.ino, has(MTIME_NOW), has(MTIME_OMIT));
                self.direct_change(caller, place, follow, &Change::times(atime, mtime))
            }
            Op::Truncate => self.direct_truncate(caller, place, command.pos),
            _ => Ok(Err(FsError::Invalid)),
        }
    }

    /// With the versions of what was seen: of the way there, and of what is there.
    fn direct_stat(&self, caller: &Caller, place: PathPlace<'_>, follow: bool) -> Walked<Answer> {
        let names = Look::at(Watched::Names);
        let node = match self.walk(caller, place, follow)? {
            Ok(node) => node,
            Err(e @ FsError::NoEntry) => {
                return Ok(Ok(Answer { names: names.version(), ..Answer::error(e.errno()) }));
            }
            Err(e) => return Ok(Err(e)),
        };
        let slot = slot(node.ino().0);
        let look = Look::at(Watched::Attributes(slot));
        let attributes = self.attributes(&node);
        let (version, names) = (look.version(), names.version());
        Ok(Ok(Answer { attributes, names, version, slot, ..Answer::of(0) }))
    }

    /// The target of a link; reading it may be a change (its access time).
    pub(super) fn direct_readlink(&self, caller: &Caller, bytes: &[u8]) -> Walked<Vec<u8>> {
        let (place, _) = PathPlace::parse(bytes).ok_or(SeeKernel)?;
        let node = found!(self.walk(caller, place, false)?);
        Ok(self.vfs.readlink(caller, &node))
    }

    fn direct_access(&self, peer: &Peer, place: PathPlace<'_>, flags: u32) -> Walked<Answer> {
        let caller = &peer.caller;
        let wanted = Access::from_bits_truncate((flags >> WANTED) as u8);
        if wanted.contains(Access::WRITE) && (self.changes().is_err() || !peer.may_change()) {
            return Err(SeeKernel);
        }
        let node = found!(self.walk(caller, place, flags & FOLLOW != 0)?);
        done(self.vfs.access(caller, &node, wanted))
    }

    /// Makes what is no file.
    fn direct_make(
        &self,
        caller: &Caller,
        place: PathPlace<'_>,
        new: &NewFile<'_>,
        umask: u16,
    ) -> Walked<Answer> {
        let (dir, name) = found!(self.walk_to_last(caller, place)?);
        let made = self
            .vfs
            .masked(caller, &dir, new.mode, umask)
            .and_then(|mode| self.vfs.create(caller, &dir, name, &NewFile { mode, ..*new }));
        if made.is_ok() {
            self.tell_name(&dir, name);
        }
        done(made.map(drop))
    }

    fn direct_remove(&self, caller: &Caller, place: PathPlace<'_>, directory: bool) -> Walked<Answer> {
        let (dir, name) = found!(self.walk_to_last(caller, place)?);
        // The call itself reports errors of the name.
        let node = self.vfs.lookup(&Caller::KERNEL, &dir, name).ok();
        if node.as_ref().is_some_and(|node| node.is_dir() && node.is_known()) {
            return Err(SeeKernel);
        }
        let removed = match directory {
            true => self.vfs.rmdir(caller, &dir, name),
            false => self.vfs.unlink(caller, &dir, name),
        };
        if removed.is_ok() {
            self.tell_name(&dir, name);
            self.tell_gone(node);
        }
        done(removed)
    }

    fn direct_link(
        &self,
        caller: &Caller,
        from: PathPlace<'_>,
        to: PathPlace<'_>,
        follow: bool,
    ) -> Walked<Answer> {
        let node = found!(self.walk(caller, from, follow)?);
        if caller.cred.uid != 0 && node.view(|a| a.uid) != caller.cred.uid {
            return Err(SeeKernel);
        }
        let (dir, name) = found!(self.walk_to_last(caller, to)?);
        let linked = self.vfs.link(caller, &node, &dir, name);
        if linked.is_ok() {
            self.stays(&node);
            self.tell_name(&dir, name);
            self.tell_attributes(&node);
        }
        done(linked)
    }

    fn direct_rename(
        &self,
        caller: &Caller,
        from: PathPlace<'_>,
        to: PathPlace<'_>,
        flags: u32,
    ) -> Walked<Answer> {
        let given = Given::from_bits_retain(flags);
        if !(Given::NOREPLACE | Given::EXCHANGE).contains(given) {
            // Whiteouts take a capability; the kernel refuses unknown flags.
            return Err(SeeKernel);
        }
        let (from_dir, from_name) = found!(self.walk_to_last(caller, from)?);
        let (to_dir, to_name) = found!(self.walk_to_last(caller, to)?);
        let at = |dir: &NodeRef, name: &[u8]| self.vfs.lookup(&Caller::KERNEL, dir, name).ok();
        let (source, target) = (at(&from_dir, from_name), at(&to_dir, to_name));
        if [&source, &target].into_iter().flatten().any(|node| node.is_dir() && node.is_known()) {
            return Err(SeeKernel);
        }
        let flags = RenameFlags {
            no_replace: given.contains(Given::NOREPLACE),
            exchange: given.contains(Given::EXCHANGE),
        };
        let renamed = self.vfs.rename(caller, (&from_dir, from_name), (&to_dir, to_name), flags);
        if renamed.is_ok() {
            self.tell_name(&from_dir, from_name);
            self.tell_name(&to_dir, to_name);
            if let Some(source) = &source {
                self.tell_attributes(source);
            }
            drop(source);
            self.tell_gone(target);
        }
        done(renamed)
    }

    fn direct_change(
        &self,
        caller: &Caller,
        place: PathPlace<'_>,
        follow: bool,
        change: &Change,
    ) -> Walked<Answer> {
        let node = found!(self.walk(caller, place, follow)?);
        let changed = self.vfs.setattr(caller, &node, change);
        if changed.is_ok() {
            self.tell_attributes(&node);
        }
        done(changed)
    }

    fn direct_truncate(&self, caller: &Caller, place: PathPlace<'_>, size: u64) -> Walked<Answer> {
        let node = found!(self.walk(caller, place, true)?);
        if node.is_known() || node.kind() != FileKind::File {
            return Err(SeeKernel);
        }
        let cut = self
            .vfs
            .access(caller, &node, Access::WRITE)
            .and_then(|()| self.changing(&node, || self.vfs.setattr(caller, &node, &Change::size(size))));
        if cut.is_ok() {
            // Somebody may have come to know it meanwhile.
            self.tell_changed(&node, None);
        }
        done(cut)
    }
}
