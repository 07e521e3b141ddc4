//! The host's processor time for the work of a file system on its structures, in rows of the testbed's table.
//!
//! The rows are measured on kernel file systems, and so is the number of steps in each call
//! (docs/HOST_COSTS.md): a create on ext4 writes an inode to its table four times. F2FS and ByteFS are
//! charged by ext4's counts: ByteFS was built on ext4 (ByteFS section 4.9), and F2FS's creates and deletes
//! take within 6 % of ext4's time (NOVA, FAST'16, figure 6). Each file system accounts itself for the length
//! of a directory and for an allocation.
//!
//! It does *not* charge: the caller adds up the costs and takes the processor once.

use granary_sim::costs;
use granary_units::Nanos;

/// Entries of a full leaf of a hashed directory, of which a measured one held 100 to 250.
const LEAF: u64 = 170;

/// Looking for a name among entries of which `passed` are looked at; `hashed`: behind a walk through the
/// index.
pub fn search(passed: u64, hashed: bool) -> Nanos {
    let c = costs();
    c.dentry_find + c.dentry_scan * passed + c.dentry_hash * hashed as u64
}

/// Entering a name.
pub fn insert(passed: u64, hashed: bool) -> Nanos {
    let c = costs();
    c.dentry_insert + c.dentry_scan * passed + c.dentry_hash * hashed as u64
}

/// Removing a name that has been found.
pub fn remove(passed: u64) -> Nanos {
    let c = costs();
    c.dentry_remove + c.dentry_scan * passed
}

/// Entries that a search passes over, on average, in a directory of so many names whose leaves are ext4's:
/// all of a leaf where the name is not `there`.
pub fn passed(names: u64, there: bool) -> (u64, bool) {
    let leaf = names.min(LEAF);
    (if there { leaf / 2 } else { leaf }, names > LEAF)
}

/// A call, by how often it writes inodes to their table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file, a link or another inode without blocks is made.
    Create,
    /// A directory is made.
    Mkdir,
    /// An inode gets another name.
    Link,
    /// A name goes.
    Unlink,
    /// A name changes.
    Rename,
    /// Attributes change.
    Attributes,
    /// Blocks beyond a size are given back.
    Truncate,
    /// An extent is reserved.
    Allocate,
    /// An extent of new data gets its place at write-back.
    WriteBack,
    /// The rest of an inode without names is removed.
    End,
}

impl Kind {
    /// Writing the call's inodes to their table.
    pub fn inodes(self) -> Nanos {
        let times = match self {
            Kind::Attributes => 1,
            Kind::Link | Kind::Unlink | Kind::Allocate | Kind::End => 2,
            Kind::Rename | Kind::WriteBack => 3,
            Kind::Create => 4,
            Kind::Truncate => 7,
            Kind::Mkdir => 8,
        };
        costs().inode_update * times
    }

    /// An inode, perhaps a `dir`, is made.
    pub fn made(dir: bool) -> Nanos {
        let c = costs();
        c.inode_alloc + if dir { Kind::Mkdir.inodes() + c.dir_block_init } else { Kind::Create.inodes() }
    }
}
