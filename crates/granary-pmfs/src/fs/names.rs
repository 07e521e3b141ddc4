//! [`Names`] of [`Pmfs`]: names.

use crate::{Pmfs, node};
use granary_fs::{Call, Created, DirEntry, Ino, Inode, Names, NewNode, Rename, Result};
use granary_units::Dest;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

impl Names for Pmfs {
    fn lookup(&self, _call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        let tree = *node(dir).tree.read();
        Ok(self.find(tree, dir.size(), name)?.map(|p| Ino(p.ino)))
    }

    fn readdir(
        &self,
        _call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let tree = *node(dir).tree.read();
        // "." and ".." take the first 32 bytes of the first block.
        self.scan(tree, dir.size(), from.max(32), &mut |offset, _, d, _| {
            if d.ino == 0
                || d.is_damaged()
                || emit(DirEntry { name: d.name, ino: Ino(d.ino), kind: d.kind, next: offset + 1 })
            {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok(())
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        // Positions are bytes of the directory.
        dir.size()
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        Ok(Ino(node(dir).parent.load(Relaxed)))
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        let tree = *node(dir).tree.read();
        let first = self.scan(tree, dir.size(), 32, &mut |_, _, d, _| match d.ino {
            0 => ControlFlow::Continue(()),
            // What it names would be lost.
            ino if d.is_damaged() => ControlFlow::Break(Err(granary_pm::corrupt(format!(
                "{}: an entry for inode {ino} has no name that can be",
                dir.ino()
            )))),
            _ => ControlFlow::Break(Ok(false)),
        })?;
        first.unwrap_or(Ok(true))
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        let mut target = vec![0; inode.size() as usize];
        self.read_file(inode, 0, Dest::Bytes(&mut target))?;
        Ok(target)
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        self.create_node(call, dir, name, new)
    }

    fn create_unnamed(&self, call: &Call<'_>, _dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        self.create_unnamed_node(call, new)
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.link_node(call, dir, name, inode)
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.unlink_node(call, dir, name, inode)
    }

    fn rename(&self, call: &Call<'_>, rename: &Rename<'_>) -> Result<()> {
        self.rename_node(call, rename)
    }
}
