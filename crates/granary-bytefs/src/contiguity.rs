//! How files lie on the drive: in how many pieces each.

use crate::core::Core;
use crate::node::Node;
use granary_fs::{FileKind, FsError, Ino, Result};

/// How one regular file lies on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contiguity {
    /// The file.
    pub ino: Ino,
    /// Blocks of its data.
    pub blocks: u64,
    /// Runs of blocks that follow each other in the file and on the drive.
    pub extents: u64,
}

impl Core {
    /// See [`crate::ByteFs::contiguity`].
    pub fn contiguity(&self) -> Result<Vec<Contiguity>> {
        let taken: Vec<u64> = {
            let inodes = self.inodes.lock();
            (1..self.geometry.inodes()).filter(|&n| inodes.is_taken(n)).collect()
        };
        let mut all = Vec::new();
        for ino in taken.into_iter().map(Ino) {
            let loaded = self.load(ino)?;
            if loaded.attr.kind != FileKind::File {
                continue;
            }
            let Some(node) = loaded.private.downcast_ref::<Node>() else {
                return Err(FsError::Corrupt(format!("inode {} has no node", ino.0)));
            };
            let body = node.body.lock();
            let (mut blocks, mut extents, mut end) = (0, 0, None);
            for e in body.map.extents() {
                extents += u64::from(end != Some((e.block, e.lba)));
                blocks += e.len as u64;
                end = Some((e.block + e.len as u64, e.lba + e.len));
            }
            all.push(Contiguity { ino, blocks, extents });
        }
        Ok(all)
    }
}
