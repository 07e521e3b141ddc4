//! [`Names`] of [`ByteFs`]: names.

use crate::ByteFs;
use crate::node::node;
use granary_fs::{Call, Created, DirEntry, Ino, Inode, Names, NewNode, Rename, Result};
use granary_sim::cpu;

impl Names for ByteFs {
    fn lookup(&self, _call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        let dir = node(dir);
        self.core.load_dir(dir, false)?;
        let found = self.core.find(dir, name)?;
        cpu(self.core.search_work(dir, found.is_some()));
        Ok(found.map(|f| Ino(f.ino as u64)))
    }

    fn readdir(
        &self,
        _call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        self.core.list(node(dir), from, emit)
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        self.core.dir_slots(node(dir))
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        Ok(Ino(node(dir).body.lock().parent as u64))
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        let dir = node(dir);
        self.core.load_dir(dir, false)?;
        Ok(dir.body.lock().dir.as_ref().is_none_or(|d| d.len() == 0))
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        self.core.readlink(inode)
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        self.core.create(call, dir, name, new)
    }

    fn create_unnamed(&self, call: &Call<'_>, _dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        self.core.create_unnamed(call, new)
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.core.link(call, dir, name, inode)
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.core.unlink(call, dir, name, inode)
    }

    fn rename(&self, call: &Call<'_>, rename: &Rename<'_>) -> Result<()> {
        self.core.rename(call, rename)
    }
}
