//! [`Names`] of [`Ext4`]: names.

use crate::Ext4;
use crate::node::Node;
use granary_device::Structure;
use granary_fs::{Call, Created, DirEntry, Ino, Inode, Names, NewNode, Rename, Result};
use granary_units::Lpa;

impl Names for Ext4 {
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

    fn dir_end(&self, _dir: &Inode) -> u64 {
        // Positions are hashes: half of the new names come before the place that was reached.
        u64::MAX
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        self.dir_parent(dir)
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        self.dir_is_empty(dir)
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        let (node, len) = (inode.private::<Node>(), inode.size() as usize);
        if len < crate::layout::inode::ROOT_SIZE {
            return Ok(node.state.lock().root[..len].to_vec());
        }
        if len > crate::layout::BLOCK_SIZE {
            return Err(crate::layout::corrupt(format!("symbolic link of {len} bytes")));
        }
        let crate::extents::Mapping::Mapped { start, .. } = self.map_block(node, 0)? else {
            return Err(crate::layout::corrupt("a long symbolic link has no block"));
        };
        Ok(self.cache.get(Lpa(start), Structure::Data)?.with(|b| b[..len].to_vec()))
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
