//! Inode numbers, attributes and times.

use crate::fs::Allocate;
use granary_units::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Inode number. The root's is chosen by the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inode {}", self.0)
    }
}

/// A time stamp: nanoseconds since 1970, years 1677 to 2262.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    /// The instant `since` after `base`.
    pub fn after(base: Time, since: Nanos) -> Time {
        Time(base.0.saturating_add(since.0.min(i64::MAX as u64) as i64))
    }
}

/// Kinds of inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FileKind {
    /// Regular file.
    File,
    /// Directory.
    Dir,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Character device.
    CharDev,
    /// Block device.
    BlockDev,
}

impl FileKind {
    /// The kind as the four type bits of `st_mode` (S_IFMT >> 12), which on-media formats store.
    pub const fn code(self) -> u8 {
        match self {
            FileKind::Fifo => 0o01,
            FileKind::CharDev => 0o02,
            FileKind::Dir => 0o04,
            FileKind::BlockDev => 0o06,
            FileKind::File => 0o10,
            FileKind::Symlink => 0o12,
            FileKind::Socket => 0o14,
        }
    }

    /// The kind with these type bits, if any.
    pub const fn from_code(code: u8) -> Option<FileKind> {
        Some(match code {
            0o01 => FileKind::Fifo,
            0o02 => FileKind::CharDev,
            0o04 => FileKind::Dir,
            0o06 => FileKind::BlockDev,
            0o10 => FileKind::File,
            0o12 => FileKind::Symlink,
            0o14 => FileKind::Socket,
            _ => return None,
        })
    }
}

/// Permission bits of `st_mode`.
pub mod mode {
    /// Set-user-ID.
    pub const SUID: u16 = 0o4000;
    /// Set-group-ID.
    pub const SGID: u16 = 0o2000;
    /// Sticky: only owners remove entries of the directory.
    pub const STICKY: u16 = 0o1000;
    /// All twelve permission bits.
    pub const ALL: u16 = 0o7777;
}

/// Inode flags, as `chattr` sets them; the bits are those of linux/fs.h (`FS_IMMUTABLE_FL` and so on).
pub mod flag {
    /// Nothing of it changes: content, attributes, names; a directory's entries.
    pub const IMMUTABLE: u8 = 0x10;
    /// Content is only appended; a directory loses no entries.
    pub const APPEND: u8 = 0x20;
    /// Backup programs leave it out.
    pub const NODUMP: u8 = 0x40;
    /// The access time stays.
    pub const NOATIME: u8 = 0x80;
    /// Those that keep an inode from changes.
    pub const FIXED: u8 = IMMUTABLE | APPEND;
    /// All that are kept.
    pub const ALL: u8 = FIXED | NODUMP | NOATIME;
}

/// The attributes of an inode, as `stat` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attr {
    /// Kind of the inode.
    pub kind: FileKind,
    /// The twelve permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Hard links; a directory counts "." and its subdirectories' "..".
    pub nlink: u32,
    /// Size in bytes.
    pub size: u64,
    /// Space taken, in units of 512 B as `stat` counts it.
    pub blocks: u64,
    /// Last read.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of attributes.
    pub ctime: Time,
    /// Device number of a device file.
    pub rdev: u32,
    /// Inode flags: see [`flag`]. Something new has none.
    pub flags: u8,
}

impl Attr {
    /// Something new of this kind, owned by root: no content, and the links that its kind has.
    pub fn new(kind: FileKind, mode: u16, time: Time) -> Attr {
        Attr {
            kind,
            mode,
            uid: 0,
            gid: 0,
            nlink: if kind == FileKind::Dir { 2 } else { 1 },
            size: 0,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            rdev: 0,
            flags: 0,
        }
    }

    /// Changes what `set` names, at `now`: a new size, too, is a change of content.
    pub fn set(&mut self, set: &SetAttr, now: Time) {
        self.mode = set.mode.unwrap_or(self.mode);
        self.uid = set.uid.unwrap_or(self.uid);
        self.gid = set.gid.unwrap_or(self.gid);
        self.atime = set.atime.unwrap_or(self.atime);
        if let Some(size) = set.size {
            (self.size, self.mtime) = (size, now);
        }
        self.mtime = set.mtime.unwrap_or(self.mtime);
        self.flags = set.flags.unwrap_or(self.flags);
        self.changed(now);
    }

    /// These attributes after `change`.
    #[must_use]
    pub fn with<T>(mut self, change: impl FnOnce(&mut Attr) -> T) -> Attr {
        change(&mut self);
        self
    }

    /// Its content changed at `now`; of a directory, its entries.
    pub fn modified(&mut self, now: Time) {
        (self.mtime, self.ctime) = (now, now);
    }

    /// Its attributes changed at `now`, or it got another name.
    pub fn changed(&mut self, now: Time) {
        self.ctime = now;
    }

    /// It was read at `now`.
    pub fn accessed(&mut self, now: Time) {
        self.atime = now;
    }

    /// Bytes up to `end` were written at `now`; whether the file grew.
    pub fn wrote(&mut self, end: u64, now: Time) -> bool {
        let grows = end > self.size;
        self.size = self.size.max(end);
        self.modified(now);
        grows
    }

    /// It gets one more name at `now`; says how many it had.
    pub fn linked(&mut self, now: Time) -> u32 {
        let before = self.nlink;
        // The count on media may be anything.
        self.nlink = before.saturating_add(1);
        self.changed(now);
        before
    }

    /// It loses a name at `now`; says how many are left.
    pub fn unlinked(&mut self, now: Time) -> u32 {
        self.nlink = self.links_left();
        self.changed(now);
        self.nlink
    }

    /// The links left when one name goes; a directory's "." goes with it.
    pub fn links_left(&self) -> u32 {
        if self.kind == FileKind::Dir { 0 } else { self.nlink.saturating_sub(1) }
    }

    /// Applies an fallocate of a range that ends at byte `end`, at `now`; returns whether the file grew. Both
    /// times change, even where the blocks are reserved already: Linux's file systems call `file_modified`
    /// first, for every mode of the call.
    pub fn allocated(&mut self, how: Allocate, end: u64, now: Time) -> bool {
        let grows = how.grows() && end > self.size;
        if grows {
            self.size = end;
        }
        self.modified(now);
        grows
    }
}

/// Which attributes to change. `None` = leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// New permission bits.
    pub mode: Option<u16>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size: truncates or extends with zeros.
    pub size: Option<u64>,
    /// New access time.
    pub atime: Option<Time>,
    /// New modification time.
    pub mtime: Option<Time>,
    /// New inode flags, all of them: see [`flag`].
    pub flags: Option<u8>,
}
