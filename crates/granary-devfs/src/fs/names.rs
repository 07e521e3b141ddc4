//! [`Names`] of [`DevFs`]: names.

use crate::DevFs;
use crate::command::Op;
use granary_fs::{Call, Created, DirEntry, FileKind, Ino, Inode, Names, NewNode, Rename, Result};

impl DevFs {
    /// Makes a file; the drive's memory gets its objects.
    fn make(
        &self,
        call: &Call<'_>,
        dir: &Inode,
        kind: FileKind,
        make: impl FnOnce() -> Result<Created>,
    ) -> Result<Created> {
        self.change(call, Op::Create, &[dir], |_| {
            let made = make()?;
            // It is made: where memory is full its objects are loaded when it is used.
            let _ = self.objects.lock().know(made.ino.0, kind == FileKind::Dir, true);
            Ok(made)
        })
    }
}

impl Names for DevFs {
    fn lookup(&self, call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        self.look(call, Op::Lookup, &[dir], |fs| fs.lookup(call, dir, name))
    }

    fn readdir(
        &self,
        call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        self.look(call, Op::ReadDir, &[dir], |fs| fs.readdir(call, dir, from, emit))
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        self.inner.dir_end(dir)
    }

    fn parent(&self, call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        self.inner.parent(call, dir)
    }

    fn is_empty_dir(&self, call: &Call<'_>, dir: &Inode) -> Result<bool> {
        self.cores.run(|| self.inner.is_empty_dir(call, dir))
    }

    fn readlink(&self, call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        self.look(call, Op::Read, &[inode], |fs| fs.readlink(call, inode))
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        self.make(call, dir, new.kind, || self.inner.create(call, dir, name, new))
    }

    fn create_unnamed(&self, call: &Call<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        self.make(call, dir, new.kind, || self.inner.create_unnamed(call, dir, new))
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.change(call, Op::Link, &[dir, inode], |fs| fs.link(call, dir, name, inode))
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.change(call, Op::Unlink, &[dir, inode], |fs| fs.unlink(call, dir, name, inode))
    }

    fn rename(&self, call: &Call<'_>, rename: &Rename<'_>) -> Result<()> {
        let mut files = vec![rename.from_dir, rename.to_dir, rename.inode];
        files.extend(rename.target);
        self.change(call, Op::Rename, &files, |fs| fs.rename(call, rename))
    }
}
