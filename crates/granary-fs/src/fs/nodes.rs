//! Values that the calls on names hand over: new nodes, created or loaded inodes, directory entries.

use crate::attr::{Attr, FileKind, Ino, Time};
use std::any::Any;
use std::sync::Arc;

/// An inode fresh from media or just created: attributes and the file system's private part.
pub struct Loaded {
    /// Attributes.
    pub attr: Attr,
    /// The file system's own data of the inode; reached by [`Inode::private`](crate::Inode::private).
    pub private: Arc<dyn Any + Send + Sync>,
}

/// A node to create.
#[derive(Clone, Copy, Debug)]
pub struct NewNode<'a> {
    /// Kind of the node.
    pub kind: FileKind,
    /// Permission bits, umask and set-group-ID rules already applied.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device file.
    pub rdev: u32,
    /// Target of a symbolic link, else empty. At most 4095 bytes.
    pub target: &'a [u8],
    /// It is made by an open with O_DIRECT and O_SYNC: its bytes will go past caches, and be durable at once.
    /// For a file system that chooses where new files are.
    pub direct_sync: bool,
}

impl NewNode<'_> {
    /// Its attributes when it is made at `time`: without content, a symbolic link's target included.
    pub fn attr(&self, time: Time) -> Attr {
        Attr { uid: self.uid, gid: self.gid, rdev: self.rdev, ..Attr::new(self.kind, self.mode, time) }
    }
}

/// Result of [`Names::create`](crate::Names::create).
pub struct Created {
    /// Its number.
    pub ino: Ino,
    /// Its attributes and private part.
    pub loaded: Loaded,
}

/// One entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The inode.
    pub ino: Ino,
    /// Kind of the inode.
    pub kind: FileKind,
    /// Where to go on after this entry: pass it to `readdir`. Stays valid while entries are added and
    /// removed.
    pub next: u64,
}
