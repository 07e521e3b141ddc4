//! [`Names`] of [`Nova`]: names.

use crate::Nova;
use crate::namespace::node;
use granary_fs::{Call, Created, DirEntry, Ino, Inode, Names, NewNode, Rename, Result};
use granary_units::Dest;
use std::sync::atomic::Ordering::Relaxed;

impl Names for Nova {
    fn lookup(&self, _call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        Ok(node(dir).state.read().dir().get(name).map(|d| Ino(d.ino)))
    }

    fn readdir(
        &self,
        _call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let st = node(dir).state.read();
        for (&cookie, d) in st.dir().by_cookie.range(from.saturating_add(1)..) {
            if !emit(DirEntry { name: &d.name, ino: Ino(d.ino), kind: d.kind, next: cookie }) {
                break;
            }
        }
        Ok(())
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        node(dir).state.read().dir().last()
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        Ok(Ino(node(dir).parent.load(Relaxed)))
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        Ok(node(dir).state.read().dir().len() == 0)
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        let mut target = vec![0; inode.size() as usize];
        self.read_file(node(inode), 0, Dest::Bytes(&mut target))?;
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
