//! Directories.
//!
//! A position is the vfs's own and stays valid while entries come and go. The state of an open directory is
//! the position where its reading ends ([`DirStream`]); the node lives as long as the kernel has it open. For
//! `readdirplus` the names are taken first and looked up afterwards, one by one and by name. Names that were
//! removed in between are left out, and a reused inode number cannot be mistaken for the one that was listed.
//!
//! A file that the file system has under the statistics' name is not told: the kernel would believe that it
//! is there.

use super::Adapter;
use granary_fs::{Caller, FileKind, FsError, Ino, Result};
use granary_fuse::abi::{Attr, EntryOut};
use granary_fuse::{Handle, Listing, NodeId};
use granary_vfs::DirStream;
use std::sync::Arc;

/// Entries that one `readdirplus` looks up at most: 4 KiB pages of replies hold about 20, the kernel asks for
/// up to 128 KiB.
const BATCH: usize = 640;

struct Listed {
    name: Vec<u8>,
    ino: Ino,
    kind: FileKind,
    next: u64,
}

impl Adapter {
    pub(super) fn opendir(&self, dir: NodeId) -> Result<Handle> {
        match self.node(dir)?.is_dir() {
            true => Ok(self.directories.insert(Arc::new(DirStream::default()))),
            false => Err(FsError::NotDir),
        }
    }

    pub(super) fn readdir(
        &self,
        (dir, fh): (NodeId, Handle),
        from: u64,
        mut list: Listing,
    ) -> Result<Listing> {
        let (parent, dir, stream) = (dir, self.node(dir)?, self.directories.get(fh)?);
        self.vfs.readdir(&Caller::KERNEL, &dir, &stream, from, &mut |e| {
            self.is_statistics(parent, e.name)
                || list.add(self.numbers.node(e.ino).0, e.next, e.kind.code().into(), e.name)
        })?;
        Ok(list)
    }

    pub(super) fn readdirplus(
        &self,
        (dir, fh): (NodeId, Handle),
        from: u64,
        mut list: Listing,
    ) -> Result<Listing> {
        let (parent, dir, stream) = (dir, self.node(dir)?, self.directories.get(fh)?);
        let mut listed = Vec::new();
        self.vfs.readdir(&Caller::KERNEL, &dir, &stream, from, &mut |e| {
            if self.is_statistics(parent, e.name) {
                return true;
            }
            listed.push(Listed { name: e.name.to_vec(), ino: e.ino, kind: e.kind, next: e.next });
            listed.len() < BATCH
        })?;
        for e in listed {
            let dots = e.name == b"." || e.name == b"..";
            if dots {
                // The kernel takes no lookup for these two; it wants their number and kind.
                let (ino, mode) = (self.numbers.node(e.ino).0, u32::from(e.kind.code()) << 12);
                let entry = EntryOut { attr: Attr { ino, mode, ..Attr::default() }, ..EntryOut::default() };
                if !list.add_plus(&entry, e.next, &e.name) {
                    break;
                }
                continue;
            }
            match self.vfs.lookup(&Caller::KERNEL, &dir, &e.name) {
                Ok(node) => {
                    if !list.add_plus(
                        &self.told(self.attr(&node), self.vfs.generation(&node).into()),
                        e.next,
                        &e.name,
                    ) {
                        break;
                    }
                    self.vfs.remember(&node);
                }
                Err(FsError::NoEntry | FsError::Stale) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(list)
    }
}
