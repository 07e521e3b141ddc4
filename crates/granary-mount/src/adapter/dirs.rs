//! Directories.
//!
//! A position is the vfs's own and stays valid while entries come and go. What is kept of an open directory is where its
//! reading ends ([`DirStream`]); the node lives as long as the kernel has it open. For `readdirplus` the names are taken first
//! and looked up afterwards, one by one and by name: what was removed in between is left out, and a reused inode
//! number cannot be mistaken for the one that was listed.
//!
//! A file that the file system has under the statistics' name is not told: the kernel would believe that it is there.

use super::{Shared, stats};
use crate::convert::{ATTR_TTL, file_type, generation};
use fuser::{FileAttr, FileHandle, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use granary_vfs::{Cred, DirStream, FileKind, FsError, Ino, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Entries that one `readdirplus` looks up at most: 4 KiB pages of replies hold about 20, the kernel asks for up to
/// 128 KiB.
const BATCH: usize = 640;

struct Listed {
    name: Vec<u8>,
    ino: Ino,
    kind: FileKind,
    next: u64,
}

impl Shared {
    pub(super) fn opendir(&self, dir: INodeNo) -> Result<FileHandle> {
        match self.node(dir)?.is_dir() {
            true => Ok(self.directories.insert(Arc::new(DirStream::default()))),
            false => Err(FsError::NotDir),
        }
    }

    pub(super) fn readdir(
        &self,
        (dir, fh): (INodeNo, FileHandle),
        from: u64,
        reply: &mut ReplyDirectory,
    ) -> Result<()> {
        let (parent, dir, stream) = (dir, self.node(dir)?, self.directories.get(fh)?);
        self.vfs.readdir(&dir, &stream, from, &mut |e| {
            self.is_statistics(parent, e.name)
                || !reply.add(self.numbers.node(e.ino), e.next, file_type(e.kind), OsStr::from_bytes(e.name))
        })
    }

    pub(super) fn readdirplus(
        &self,
        (dir, fh): (INodeNo, FileHandle),
        from: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<()> {
        let (parent, dir, stream) = (dir, self.node(dir)?, self.directories.get(fh)?);
        let mut listed = Vec::new();
        self.vfs.readdir(&dir, &stream, from, &mut |e| {
            if self.is_statistics(parent, e.name) {
                return true;
            }
            listed.push(Listed { name: e.name.to_vec(), ino: e.ino, kind: e.kind, next: e.next });
            listed.len() < BATCH
        })?;
        for e in listed {
            let name = OsStr::from_bytes(&e.name);
            let dots = e.name == b"." || e.name == b"..";
            if dots {
                // The kernel takes no lookup for these two; it wants their number and kind.
                let attr =
                    FileAttr { ino: self.numbers.node(e.ino), kind: file_type(e.kind), ..stats::nothing() };
                if reply.add(attr.ino, e.next, name, &ATTR_TTL, &attr, Generation(0)) {
                    break;
                }
                continue;
            }
            match self.vfs.lookup(&Cred::ROOT, &dir, &e.name) {
                Ok(node) => {
                    let attr = self.attr(&node);
                    if reply.add(attr.ino, e.next, name, &ATTR_TTL, &attr, generation(&node)) {
                        break;
                    }
                    self.vfs.remember(&node);
                }
                Err(FsError::NoEntry | FsError::Stale) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}
