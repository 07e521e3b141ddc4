//! Names are the lower file system's.

use crate::node::{self, Node, below};
use crate::{Spfs, as_root};
use granary_vfs::{
    Call, Created, DirEntry, FileKind, FsError, Ino, Inode, Loaded, Names, NewNode, NodeRef, Rename,
    RenameFlags, Result,
};
use std::sync::Arc;

impl Spfs {
    fn created(&self, below: NodeRef) -> Created {
        let (ino, attr) = (below.ino(), self.lower.stat(&below).attr);
        let private: Arc<Node> = self.made(below);
        Created { ino, loaded: Loaded { attr, private: Arc::new(private) } }
    }

    /// Names of these inodes were changed below.
    fn renamed(&self, inodes: &[&Inode]) -> Result<()> {
        inodes.iter().try_for_each(|inode| {
            node::of(inode).touch();
            self.follow(inode)
        })
    }
}

impl Names for Spfs {
    fn lookup(&self, call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        Ok(self.lower.lookup(&as_root(call), &below(dir)?, name)?.map(|node| node.ino()))
    }

    fn readdir(
        &self,
        call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        self.lower.readdir(&as_root(call), &below(dir)?, from, emit)
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        below(dir).map_or(u64::MAX, |node| self.lower.dir_end(&node))
    }

    fn parent(&self, call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        let above = self.lower.lookup(&as_root(call), &below(dir)?, b"..")?;
        above.map(|node| node.ino()).ok_or(FsError::Stale)
    }

    fn is_empty_dir(&self, call: &Call<'_>, dir: &Inode) -> Result<bool> {
        self.lower.is_empty_dir(&as_root(call), &below(dir)?)
    }

    fn readlink(&self, call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        self.lower.readlink(&as_root(call), &below(inode)?)
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        let made = self.lower.create(&as_root(call), &below(dir)?, name, new)?;
        self.renamed(&[dir])?;
        Ok(self.created(made))
    }

    fn create_unnamed(&self, call: &Call<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        Ok(self.created(self.lower.create_unnamed(&as_root(call), &below(dir)?, new)?))
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.lower.link(&as_root(call), &below(inode)?, &below(dir)?, name)?;
        self.renamed(&[dir, inode])
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let (call, above) = (&as_root(call), below(dir)?);
        match inode.view(|a| a.kind) {
            FileKind::Dir => self.lower.rmdir(call, &above, name)?,
            _ => self.lower.unlink(call, &above, name)?,
        }
        self.renamed(&[dir, inode])
    }

    fn rename(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        let (from, to) = (below(r.from_dir)?, below(r.to_dir)?);
        let flags = RenameFlags { no_replace: r.target.is_none(), exchange: r.exchange };
        self.lower.rename(&as_root(call), (&from, r.from), (&to, r.to), flags)?;
        let mut changed = vec![r.from_dir, r.to_dir, r.inode];
        changed.extend(r.target);
        self.renamed(&changed)
    }
}
