//! [`Names`] of [`OrchFs`]: names.

use crate::OrchFs;
use crate::node::node;
use granary_fs::{Call, Created, DirEntry, Ino, Inode, Names, NewNode, Rename, Result};

impl Names for OrchFs {
    fn lookup(&self, _call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        Ok(node(dir).state.read().dir().get(name).map(|entry| Ino(entry.dentry.ino)))
    }

    fn readdir(
        &self,
        _call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let state = node(dir).state.read();
        for entry in state.dir().after(from) {
            let d = &entry.dentry;
            if !emit(DirEntry { name: &d.name, ino: Ino(d.ino), kind: d.kind, next: d.cookie }) {
                break;
            }
        }
        Ok(())
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        node(dir).state.read().dir().last()
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        Ok(Ino(node(dir).state.read().dir().parent))
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        Ok(node(dir).state.read().dir().is_empty())
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        Ok(node(inode).state.read().target.clone())
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
