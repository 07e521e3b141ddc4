//! Attributes: stat, setattr with Linux's rules (`setattr_prepare`, `notify_change`), sizes, access times.

use super::node::{NO_TAIL, Node, NodeRef};
use super::{Vfs, perm};
use crate::acl::ACCESS;
use crate::config::Atime;
use crate::posix::{Access, SetTime, Stat};
use granary_fs::{Attr, Call, Caller, Cred, FileKind, FsError, Result, SetAttr, WriteBackCause, flag, mode};
use granary_sim::{costs, cpu};
use granary_units::{Nanos, PAGE_SIZE, Payload};
use std::sync::atomic::Ordering::Relaxed;

/// Attributes to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// New permission bits.
    pub mode: Option<u16>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size.
    pub size: Option<u64>,
    /// Access time.
    pub atime: SetTime,
    /// Modification time.
    pub mtime: SetTime,
    /// New inode flags, all of them: see [`flag`](granary_fs::flag).
    pub flags: Option<u8>,
    /// The call is a chown, which takes set-user-ID and set-group-ID away even where it changes nothing else.
    pub chown: bool,
}

impl Change {
    /// Nothing.
    pub const NOTHING: Change = Change {
        mode: None,
        uid: None,
        gid: None,
        size: None,
        atime: SetTime::Omit,
        mtime: SetTime::Omit,
        flags: None,
        chown: false,
    };

    /// A chmod.
    pub fn mode(mode: u16) -> Change {
        Change { mode: Some(mode), ..Change::NOTHING }
    }

    /// A truncate.
    pub fn size(size: u64) -> Change {
        Change { size: Some(size), ..Change::NOTHING }
    }

    /// A chown.
    pub fn owner(uid: Option<u32>, gid: Option<u32>) -> Change {
        Change { uid, gid, chown: true, ..Change::NOTHING }
    }

    /// A chattr.
    pub fn flags(flags: u8) -> Change {
        Change { flags: Some(flags), ..Change::NOTHING }
    }

    /// A utimens.
    pub fn times(atime: SetTime, mtime: SetTime) -> Change {
        Change { atime, mtime, ..Change::NOTHING }
    }

    fn sets_times(&self) -> bool {
        self.atime != SetTime::Omit || self.mtime != SetTime::Omit
    }

    fn touches(&self) -> bool {
        self.atime == SetTime::Now && self.mtime == SetTime::Now
    }

    /// The flags of an inode that forbid it (`may_setattr` of Linux): a file that grows may be touched.
    fn refused_by(&self) -> u8 {
        let owner = self.uid.is_some() || self.gid.is_some() || self.chown;
        if owner || self.mode.is_some() || self.size.is_some() || (self.sets_times() && !self.touches()) {
            flag::FIXED
        } else if self.touches() {
            flag::IMMUTABLE
        } else {
            0
        }
    }
}

/// Whether the caller may give an inode these flags; that nothing of it changes any more, or begins to again,
/// is for root to say (`fileattr_set_prepare` of Linux).
fn may_set_flags(cred: &Cred, attr: &Attr, flags: u8) -> Result<()> {
    let has_flags = matches!(attr.kind, FileKind::File | FileKind::Dir);
    if !has_flags || flags & !flag::ALL != 0 {
        return Err(FsError::NotSupported);
    }
    let fixes = (flags ^ attr.flags) & flag::FIXED != 0;
    if !perm::owns(cred, attr) || (fixes && cred.uid != 0) { Err(FsError::NotPermitted) } else { Ok(()) }
}

impl Vfs {
    /// The attributes.
    pub fn stat(&self, node: &NodeRef) -> Stat {
        let _shared = node.rwsem.read();
        Stat { ino: node.ino(), attr: node.attr() }
    }

    /// Whether the caller may do all of `wanted`.
    ///
    /// # Errors
    /// `Access`.
    pub fn access(&self, caller: &Caller, node: &NodeRef, wanted: Access) -> Result<()> {
        self.allow(&self.call(caller), node, wanted)
    }

    /// Changes attributes. That the caller may write the file is assumed where the size changes.
    ///
    /// # Errors
    /// `NotPermitted` where only the owner (or root) may, and where the inode's flags forbid it; `Access`;
    /// `TooBig`; `IsDir` or `Invalid` for the size of what has none; `NotSupported` for flags that are not
    /// kept; the file system's.
    pub fn setattr(&self, caller: &Caller, node: &NodeRef, change: &Change) -> Result<()> {
        {
            let _lock = node.rwsem.write();
            let call = self.call(caller);
            let set = self.permitted(&call, node, change)?;
            let list = set.mode.map_or(Ok(None), |mode| self.chmod_acl(&call, node, mode))?;
            cpu(costs().inode_op);
            match change.size {
                Some(size) => self.set_size(&call, node, size, &set)?,
                None => self.fs.setattr(&call, node, &set)?,
            }
            if let Some(list) = list {
                self.fs.setxattr(&call, node, ACCESS, Some(&list))?;
            }
            self.effects.mark();
        }
        self.reap();
        Ok(())
    }

    /// The permission bits of a file whose content, size or owner this caller, who is not the superuser,
    /// changes; `None`: as they are.
    pub fn without_set_ids(&self, cred: &Cred, node: &NodeRef) -> Option<u16> {
        node.view(|a| perm::without_privileges(cred, a, a.mode)).filter(|_| node.kind() != FileKind::Dir)
    }

    fn permitted(&self, call: &Call<'_>, node: &Node, change: &Change) -> Result<SetAttr> {
        let (cred, attr) = (call.cred, node.attr());
        let (root, owner) = (cred.uid == 0, perm::owns(cred, &attr));
        if let Some(size) = change.size {
            match attr.kind {
                FileKind::File if size <= self.features.max_file_size => {}
                FileKind::File => return Err(FsError::TooBig),
                FileKind::Dir => return Err(FsError::IsDir),
                _ => return Err(FsError::Invalid),
            }
        }
        let touches = change.touches();
        if attr.flags & change.refused_by() != 0 {
            return Err(FsError::NotPermitted);
        }
        if let Some(flags) = change.flags {
            may_set_flags(cred, &attr, flags)?;
        }
        if touches && !owner {
            self.allow_locked(call, node, Access::WRITE)?;
        }
        let owned = cred.uid == attr.uid;
        if !root && change.uid.is_some_and(|uid| !owned || uid != attr.uid) {
            return Err(FsError::NotPermitted);
        }
        let own_group = |gid| gid == attr.gid || perm::in_group(cred, gid);
        if !root && change.gid.is_some_and(|gid| !owned || !own_group(gid)) {
            return Err(FsError::NotPermitted);
        }
        let new_mode = match change.mode {
            Some(mode) => Some(mode & mode::ALL),
            None if change.chown && attr.kind != FileKind::Dir => {
                perm::without_privileges(cred, &attr, attr.mode)
            }
            None => None,
        };
        let sets_times = change.sets_times();
        if !owner && (new_mode.is_some() || (sets_times && !touches)) {
            return Err(FsError::NotPermitted);
        }
        let group = change.gid.unwrap_or(attr.gid);
        let keeps_sgid = root || perm::in_group(cred, group);
        let new_mode = new_mode.map(|m| if keeps_sgid { m } else { m & !mode::SGID });
        let time = |set| match set {
            SetTime::Omit => None,
            SetTime::Now => Some(call.time),
            SetTime::At(t) => Some(t),
        };
        let after_write = change.size.and_then(|_| perm::mode_after_write(cred, &attr));
        Ok(SetAttr {
            mode: new_mode.or(after_write),
            uid: change.uid,
            gid: change.gid,
            size: change.size,
            atime: time(change.atime),
            mtime: time(change.mtime),
            flags: change.flags,
        })
    }

    /// Before the size on media becomes `size`: the bytes that media have beyond the old end must not show.
    /// Returns the page that held an old end. The inode is locked.
    pub(super) fn before_size(&self, call: &Call<'_>, node: &Node, old: u64, size: u64) -> Result<u64> {
        let tail = node.tail.load(Relaxed);
        if tail != NO_TAIL && size > tail * PAGE_SIZE as u64 {
            // The size on media may grow even where the file shrinks; XFS flushes here, too
            // (xfs_setattr_size).
            self.write_back(call, node, tail..tail + 1, WriteBackCause::Sync)?;
        }
        if size > old {
            self.zero_gap(call, node, old, size)?;
        }
        Ok(tail)
    }

    /// Changes the size, and what else `set` says. The inode is locked.
    fn set_size(&self, call: &Call<'_>, node: &Node, size: u64, set: &SetAttr) -> Result<()> {
        let old = node.size();
        let tail = self.before_size(call, node, old, size)?;
        {
            // No page may be on its way to the drive while its block is freed.
            let _quiet = node.writeback.lock();
            if size < old {
                self.dirty_cut_page(call, node, size)?;
            }
            self.fs.setattr(call, node, set)?;
            if size < old {
                self.cache.truncate(node, size);
                if tail != NO_TAIL && size <= tail * PAGE_SIZE as u64 {
                    node.tail.store(NO_TAIL, Relaxed);
                }
            }
        }
        match size < old && !size.is_multiple_of(PAGE_SIZE as u64) {
            true => self.write_through(call, node, size - 1, 1),
            false => Ok(()),
        }
    }

    /// Before a file is cut at `size`: the page there is dirty, where the file system wants it written with
    /// zeros behind its new end. It becomes so as it is, so that what can fail comes first; zeros come with
    /// the cut.
    fn dirty_cut_page(&self, call: &Call<'_>, node: &Node, size: u64) -> Result<()> {
        let page = PAGE_SIZE as u64;
        if size.is_multiple_of(page)
            || !self.features.cache.writes
            || node.kind() != FileKind::File
            || !self.fs.rewrites_cut_page(call, node, size)?
        {
            return Ok(());
        }
        let mut last = [0];
        self.page_in(call, node, size / page)?.copy_out((size % page) as usize - 1, &mut last);
        self.dirty(call, node, size - 1, Payload::Bytes(&last), node.size())
    }

    /// Before a file of size `old` grows to or is written from `to` on: puts zeros where its last page has
    /// bytes beyond `old`, and on the drive. The inode is locked.
    pub(super) fn zero_gap(&self, call: &Call<'_>, node: &Node, old: u64, to: u64) -> Result<()> {
        let page = PAGE_SIZE as u64;
        let end = to.min(old.next_multiple_of(page));
        if end <= old || self.features.quirks.zero_beyond_end || self.is_empty_page(call, node, old / page)? {
            return Ok(());
        }
        let zeros = Payload::Fill { word: 0, len: (end - old) as usize };
        if !self.features.cache.writes {
            return self.store_direct(call, node, old, zeros);
        }
        self.dirty(call, node, old, zeros, old)?;
        self.write_back_with_tail(call, node, old / page, WriteBackCause::Sync)
    }

    /// Moves the access time, where the mount option says so.
    pub(super) fn touch_atime(&self, call: &Call<'_>, node: &Node) {
        const DAY: Nanos = Nanos::from_secs(24 * 60 * 60);
        if self.config.atime == Atime::Noatime {
            return;
        }
        let now = self.time();
        let stale = node.view(|a| {
            if a.flags & flag::NOATIME != 0 {
                return false;
            }
            let old = now.0.saturating_sub(a.atime.0) >= DAY.0 as i64;
            let strict = self.config.atime == Atime::Strictatime;
            a.atime != now && (strict || a.atime <= a.mtime || a.atime <= a.ctime || old)
        });
        if stale {
            // As Linux: what was read was read, also where that cannot be noted (a drive that takes no more
            // changes).
            let _ = self.fs.touch_atime(&Call { time: now, ..*call }, node);
        }
    }
}
