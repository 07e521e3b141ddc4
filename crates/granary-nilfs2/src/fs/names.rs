//! [`Names`] of [`Nilfs2`].

use crate::Nilfs2;
use crate::layout::{BLOCK_SIZE, corrupt};
use granary_fs::{Call, Created, DirEntry, Ino, Inode, Names, NewNode, Rename, Result};
use granary_units::Page;

impl Names for Nilfs2 {
    // Linux 6.1 has no `tmpfile` for it.
    granary_fs::file_system_lacks!(create_unnamed);

    fn lookup(&self, _call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        self.dir_lookup(dir, name)
    }

    fn readdir(
        &self,
        _call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        self.dir_read(dir, from, emit)
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        dir.size()
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        Ok(Ino(self.state.lock().dir_parent(dir.ino().0, &self.media)?))
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        self.dir_is_empty(dir)
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        let len = inode.size() as usize;
        if len > BLOCK_SIZE {
            return Err(corrupt(format!("symbolic link of {len} bytes")));
        }
        let mut page = [Page::ZERO];
        self.read_run(inode.ino().0, 0, &mut page)?;
        Ok(page[0].to_bytes()[..len].to_vec())
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        self.make(call, dir, name, new)
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.add_link(call, dir, name, inode)
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.remove_name(call, dir, name, inode)
    }

    fn rename(&self, call: &Call<'_>, rename: &Rename<'_>) -> Result<()> {
        self.move_name(call, rename)
    }
}
