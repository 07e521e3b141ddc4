//! [`Names`] of [`F2fs`]: names.

use crate::F2fs;
use crate::layout::dentry::BLOCK;
use crate::layout::node::INLINE_AT;
use crate::layout::{BLOCK_SIZE, corrupt};
use crate::node::node;
use granary_fs::{Call, Created, DirEntry, Ino, Inode, Names, NewNode, Rename, Result};
use granary_units::Page;

impl Names for F2fs {
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
        // Positions are slots; those of entries in the inode are fewer than a block has.
        dir.size().div_ceil(BLOCK_SIZE as u64).max(1) * BLOCK.slots as u64
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        Ok(Ino(node(dir).state.lock().parent as u64))
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        self.dir_is_empty(dir)
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        let (node, len) = (node(inode), inode.size() as usize);
        if len > BLOCK_SIZE {
            return Err(corrupt(format!("symbolic link of {len} bytes")));
        }
        if node.state.lock().is_inline() {
            return Ok(self.inode_node(node.ino)?.with(|b| b[INLINE_AT..INLINE_AT + len].to_vec()));
        }
        let mut page = [Page::ZERO];
        self.read_run(inode, 0, &mut page)?;
        Ok(page[0].to_bytes()[..len].to_vec())
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        self.make(call, dir, Some(name), new)
    }

    fn create_unnamed(&self, call: &Call<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        self.make(call, dir, None, new)
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
