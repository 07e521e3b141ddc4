//! [`Liar`]: a file system that breaks one promise and keeps all others.

use granary_units::{Dest, Page, Payload};
use granary_vfs::{
    Allocate, Created, Cx, DirEntry, DirtyPage, Features, FileSystem, Ino, Inode, Loaded, NewNode, Rename,
    Result, SetAttr, StatFs, Time, WriteBackCause,
};
use std::sync::Arc;

/// The promise that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// `fsync` does nothing.
    Fsync,
    /// `sync` does nothing.
    Sync,
    /// A rename to a free name in another directory: a second name, and some time later no first one.
    Rename,
    /// `fsync` does what `fdatasync` is asked for.
    Times,
    /// The first page of a write-back never reaches the drive.
    LostPage,
}

/// Wraps a file system.
pub struct Liar {
    pub inner: Arc<dyn FileSystem>,
    pub lie: Lie,
}

impl FileSystem for Liar {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn attach(&self, pages: std::sync::Weak<dyn granary_vfs::DirtyPages>) {
        self.inner.attach(pages);
    }
    fn root(&self) -> Ino {
        self.inner.root()
    }
    fn load_inode(&self, ino: Ino) -> Result<Loaded> {
        self.inner.load_inode(ino)
    }
    fn generation(&self, inode: &Inode) -> u32 {
        self.inner.generation(inode)
    }
    fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        self.inner.lookup(dir, name)
    }
    fn readdir(&self, dir: &Inode, from: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.inner.readdir(dir, from, emit)
    }
    fn dir_end(&self, dir: &Inode) -> u64 {
        self.inner.dir_end(dir)
    }
    fn parent(&self, dir: &Inode) -> Result<Ino> {
        self.inner.parent(dir)
    }
    fn is_empty_dir(&self, dir: &Inode) -> Result<bool> {
        self.inner.is_empty_dir(dir)
    }
    fn readlink(&self, inode: &Inode) -> Result<Vec<u8>> {
        self.inner.readlink(inode)
    }
    fn create(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        self.inner.create(cx, dir, name, new)
    }
    fn create_unnamed(&self, cx: &Cx<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        self.inner.create_unnamed(cx, dir, new)
    }
    fn link(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.inner.link(cx, dir, name, inode)
    }
    fn unlink(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.inner.unlink(cx, dir, name, inode)
    }
    fn rename(&self, cx: &Cx<'_>, rename: &Rename<'_>) -> Result<()> {
        let is_dir = rename.inode.attr().kind == granary_vfs::FileKind::Dir;
        if self.lie != Lie::Rename || is_dir || rename.target.is_some() {
            return self.inner.rename(cx, rename);
        }
        self.inner.link(cx, rename.to_dir, rename.to, rename.inode)?;
        granary_sim::sleep(granary_units::Nanos::from_micros(20));
        self.inner.unlink(cx, rename.from_dir, rename.from, rename.inode)
    }
    fn setattr(&self, cx: &Cx<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.inner.setattr(cx, inode, set)
    }
    fn touch_atime(&self, inode: &Inode, time: Time) -> Result<()> {
        self.inner.touch_atime(inode, time)
    }
    fn evict(&self, inode: &Inode) -> Result<()> {
        self.inner.evict(inode)
    }
    fn release(&self, inode: &Inode) -> Result<()> {
        self.inner.release(inode)
    }
    fn read_pages(&self, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        self.inner.read_pages(inode, first, out)
    }
    fn reserve(&self, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.inner.reserve(inode, pos, len)
    }
    fn wrote(&self, cx: &Cx<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.inner.wrote(cx, inode, pos, len)
    }
    fn write_pages(&self, inode: &Inode, pages: &[DirtyPage], why: WriteBackCause) -> Result<()> {
        let lost = self.lie == Lie::LostPage && pages.len() > 1;
        self.inner.write_pages(inode, &pages[usize::from(lost)..], why)
    }
    fn read_direct(&self, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        self.inner.read_direct(inode, pos, dest)
    }
    fn write_direct(&self, cx: &Cx<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        self.inner.write_direct(cx, inode, pos, data)
    }
    fn fallocate(&self, cx: &Cx<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.inner.fallocate(cx, inode, how, pos, len)
    }
    fn punches_last_page(&self) -> bool {
        self.inner.punches_last_page()
    }
    fn seek_data(&self, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        self.inner.seek_data(inode, pos)
    }
    fn seek_hole(&self, inode: &Inode, pos: u64) -> Result<u64> {
        self.inner.seek_hole(inode, pos)
    }
    fn empty_until(&self, inode: &Inode, pos: u64) -> Result<u64> {
        self.inner.empty_until(inode, pos)
    }
    fn getxattr(&self, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.inner.getxattr(inode, name)
    }
    fn setxattr(&self, cx: &Cx<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.inner.setxattr(cx, inode, name, value)
    }
    fn listxattr(&self, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        self.inner.listxattr(inode)
    }
    fn fsync(&self, inode: &Inode, data_only: bool) -> Result<()> {
        match self.lie {
            Lie::Fsync => Ok(()),
            lie => self.inner.fsync(inode, data_only || lie == Lie::Times),
        }
    }
    fn sync(&self) -> Result<()> {
        if self.lie == Lie::Sync { Ok(()) } else { self.inner.sync() }
    }
    fn statfs(&self) -> Result<StatFs> {
        self.inner.statfs()
    }
    fn unmount(&self) -> Result<()> {
        self.inner.unmount()
    }
    fn check(&self) -> Result<Vec<String>> {
        // Leaks are not what these lies are about; the oracle has to find them.
        if self.lie == Lie::LostPage { Ok(Vec::new()) } else { self.inner.check() }
    }
}
