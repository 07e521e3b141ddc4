//! [`Lower`]: a vfs as the lower layer of another file system in the same world.
//!
//! ```text
//!   program -> upper Vfs -> FileSystem on top -> Lower -> lower Vfs -> FileSystem below -> devices
//!              counts and charges the call       (Origin::Above: comes in for nothing)
//! ```
//!
//! Each layer has inodes, locks, names, pages and flushers of its own, and what they do is charged as ever;
//! only the system call is not charged twice. Which user a call is made as, the upper file system says with
//! [`Call::cred`]: overlayfs acts as who mounted it, since the upper vfs has asked whether the caller may,
//! eCryptfs as who calls.
//!
//! Why layers do not wait for each other in a circle: DESIGN.md, "Layers". It does *not* unmount the lower
//! vfs: who mounted it does.

use crate::posix::{OpenFlags, Stat};
use crate::vfs::{Change, DirStream, NewFile, NodeRef, OpenFile, Vfs};
use granary_fs::{
    Allocate, Call, Caller, DirEntry, Features, FileKind, FsError, Ino, NewNode, Origin, RenameFlags, Result,
    SetXattr, StatFs, flag,
};
use granary_units::{Dest, PAGE_SIZE, Payload};
use std::ops::Range;
use std::sync::Arc;

/// Positions before the file system's own: "." and "..".
const DOTS: u64 = 2;

/// Whether bytes go through the lower page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Through {
    /// Through the cache, where the lower file system has one.
    Cache,
    /// Past it (O_DIRECT), where the lower file system can.
    Direct,
}

impl Through {
    fn flags(self, access: OpenFlags) -> OpenFlags {
        if self == Through::Direct { access | OpenFlags::DIRECT } else { access }
    }
}

/// See the module. Errors are those of the calls of [`Vfs`] of the same name.
#[derive(Clone)]
pub struct Lower {
    vfs: Arc<Vfs>,
}

/// The caller as whom the lower vfs is called.
fn above(call: &Call<'_>) -> Caller {
    Caller { cred: call.cred.clone(), process: call.process, origin: Origin::Above(call.time) }
}

fn made_of<'a>(new: &NewNode<'a>) -> NewFile<'a> {
    let NewNode { kind, mode, rdev, target, direct_sync, .. } = *new;
    NewFile { kind, mode, rdev, target, direct_sync }
}

impl Lower {
    /// The layer that `vfs` is.
    pub fn new(vfs: Arc<Vfs>) -> Lower {
        Lower { vfs }
    }

    /// The lower vfs itself, for who mounts and unmounts it. A call made on it directly is charged as a
    /// program's.
    pub fn vfs(&self) -> &Arc<Vfs> {
        &self.vfs
    }

    /// Features of the lower file system.
    pub fn features(&self) -> Features {
        self.vfs.features()
    }

    /// The root directory.
    pub fn root(&self) -> NodeRef {
        self.vfs.root()
    }

    /// The node of this number.
    ///
    /// # Errors
    /// As [`Vfs::node`].
    pub fn node(&self, ino: Ino) -> Result<NodeRef> {
        let node = self.vfs.node(ino)?;
        if node.is_orphan() { Err(FsError::Stale) } else { Ok(node) }
    }

    /// Tells two lives of a number apart: see [`granary_fs::Attributes::generation`].
    pub fn generation(&self, node: &NodeRef) -> u32 {
        self.vfs.generation(node)
    }

    /// The node that `name` stands for in `dir`, if any; ".." is understood.
    ///
    /// # Errors
    /// As [`Vfs::lookup`], but not `NoEntry`.
    pub fn lookup(&self, call: &Call<'_>, dir: &NodeRef, name: &[u8]) -> Result<Option<NodeRef>> {
        match self.vfs.lookup(&above(call), dir, name) {
            Err(FsError::NoEntry) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Calls `emit` for each entry of `dir` after position `from` (0 = first) until it returns false, as
    /// [`granary_fs::Names::readdir`]: without "." and "..", and without an end of its own. `emit` is called
    /// with locks of the lower layer held: it must not call either layer.
    ///
    /// # Errors
    /// As [`Vfs::readdir`].
    pub fn readdir(
        &self,
        call: &Call<'_>,
        dir: &NodeRef,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let stream = DirStream::default();
        let next = from.saturating_add(DOTS);
        self.vfs.readdir(&above(call), dir, &stream, next, &mut |e| {
            emit(DirEntry { next: e.next.saturating_sub(DOTS), ..e })
        })
    }

    /// Where the positions of `dir` end: see [`granary_fs::Names::dir_end`].
    pub fn dir_end(&self, dir: &NodeRef) -> u64 {
        self.vfs.fs().dir_end(dir)
    }

    /// Whether `dir` has no entries.
    ///
    /// # Errors
    /// As [`Lower::readdir`].
    pub fn is_empty_dir(&self, call: &Call<'_>, dir: &NodeRef) -> Result<bool> {
        let mut empty = true;
        self.readdir(call, dir, 0, &mut |_| {
            empty = false;
            false
        })?;
        Ok(empty)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// As [`Vfs::readlink`].
    pub fn readlink(&self, call: &Call<'_>, node: &NodeRef) -> Result<Vec<u8>> {
        self.vfs.readlink(&above(call), node)
    }

    /// Makes a node for its owner in `new` and enters it as `name`.
    ///
    /// # Errors
    /// As [`Vfs::create`].
    pub fn create(&self, call: &Call<'_>, dir: &NodeRef, name: &[u8], new: &NewNode<'_>) -> Result<NodeRef> {
        let owner = (new.uid, new.gid);
        match self.vfs.create_or_get_for(&above(call), owner, dir, name, &made_of(new))? {
            (node, true) => Ok(node),
            (_, false) => Err(FsError::Exists),
        }
    }

    /// Makes a node without a name, which is gone with its last user unless it is linked before.
    ///
    /// # Errors
    /// As [`Vfs::create_unnamed`]; `Invalid` for a directory.
    pub fn create_unnamed(&self, call: &Call<'_>, dir: &NodeRef, new: &NewNode<'_>) -> Result<NodeRef> {
        if new.kind == FileKind::Dir {
            return Err(FsError::Invalid);
        }
        self.vfs.create_unnamed_node(&above(call), (new.uid, new.gid), dir, &made_of(new))
    }

    /// Enters `node` as `name`.
    ///
    /// # Errors
    /// As [`Vfs::link`].
    pub fn link(&self, call: &Call<'_>, node: &NodeRef, dir: &NodeRef, name: &[u8]) -> Result<()> {
        self.vfs.link(&above(call), node, dir, name)
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// As [`Vfs::unlink`].
    pub fn unlink(&self, call: &Call<'_>, dir: &NodeRef, name: &[u8]) -> Result<()> {
        self.vfs.unlink(&above(call), dir, name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As [`Vfs::rmdir`].
    pub fn rmdir(&self, call: &Call<'_>, dir: &NodeRef, name: &[u8]) -> Result<()> {
        self.vfs.rmdir(&above(call), dir, name)
    }

    /// Renames, replaces or exchanges.
    ///
    /// # Errors
    /// As [`Vfs::rename`].
    pub fn rename(
        &self,
        call: &Call<'_>,
        from: (&NodeRef, &[u8]),
        to: (&NodeRef, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        self.vfs.rename(&above(call), from, to, flags)
    }

    /// The attributes.
    pub fn stat(&self, node: &NodeRef) -> Stat {
        self.vfs.stat(node)
    }

    /// Changes attributes, the size among them.
    ///
    /// # Errors
    /// As [`Vfs::setattr`].
    pub fn setattr(&self, call: &Call<'_>, node: &NodeRef, change: &Change) -> Result<()> {
        self.vfs.setattr(&above(call), node, change)
    }

    /// Cuts a file, or lets it grow over zeros.
    ///
    /// # Errors
    /// As [`Vfs::setattr`].
    pub fn truncate(&self, call: &Call<'_>, node: &NodeRef, size: u64) -> Result<()> {
        self.setattr(call, node, &Change::size(size))
    }

    /// Reads up to `dest.len()` bytes from `pos`, fewer only at the end of the file. The access time is left
    /// as it is: it is the upper layer's.
    ///
    /// # Errors
    /// As [`Vfs::read`]; `NoDevice`, `IsDir` or `Loop` for what is no regular file.
    pub fn read(
        &self,
        call: &Call<'_>,
        node: &NodeRef,
        pos: u64,
        dest: Dest<'_>,
        through: Through,
    ) -> Result<usize> {
        let file = self.open(node, through.flags(OpenFlags::RDONLY | OpenFlags::NOATIME))?;
        self.vfs.read(&above(call), &file, pos, dest)
    }

    /// Writes all of `data` at `pos`.
    ///
    /// # Errors
    /// As [`Vfs::write`]; then some of the bytes may have been written, in order from the first.
    pub fn write(
        &self,
        call: &Call<'_>,
        node: &NodeRef,
        pos: u64,
        data: Payload<'_>,
        through: Through,
    ) -> Result<()> {
        // Whether a file that only grows is only grown, the upper layer has seen to.
        let appends = node.view(|a| a.flags & flag::APPEND != 0);
        let access = if appends { OpenFlags::WRONLY | OpenFlags::APPEND } else { OpenFlags::WRONLY };
        let file = self.open(node, through.flags(access))?;
        let (caller, mut done) = (above(call), 0);
        while done < data.len() {
            let rest = data.part(done, data.len() - done);
            done += self.vfs.write(&caller, &file, pos + done as u64, rest)?.1;
        }
        Ok(())
    }

    /// Lets go of the cached pages that these bytes touch: the upper layer has the bytes now, and asks for
    /// them here no more.
    ///
    /// # Errors
    /// Of writing back what is dirty of them.
    pub fn let_go_of_pages(&self, call: &Call<'_>, node: &NodeRef, bytes: Range<u64>) -> Result<()> {
        let page = PAGE_SIZE as u64;
        self.vfs.let_go_of_pages(call, node, bytes.start / page..bytes.end.div_ceil(page))
    }

    /// A descriptor of the upper layer that could write the node is closed: what is dirty is written where
    /// the lower file system wants that (see [`granary_fs::Data::flush_on_close`]).
    pub fn written_and_closed(&self, call: &Call<'_>, node: &NodeRef) {
        self.vfs.flush_closed(call, node);
    }

    /// Lets go of a node's clean pages, as [`Posix::let_go`](crate::Posix::let_go).
    pub fn let_go(&self, call: &Call<'_>, node: &NodeRef) {
        self.vfs.let_go(&above(call), node);
    }

    /// Makes a node durable.
    ///
    /// # Errors
    /// As [`Vfs::fsync`].
    pub fn fsync(&self, call: &Call<'_>, node: &NodeRef, data_only: bool) -> Result<()> {
        self.vfs.fsync(&above(call), node, data_only)
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// As [`Vfs::sync`].
    pub fn sync(&self, call: &Call<'_>) -> Result<()> {
        self.vfs.sync(&above(call))
    }

    /// Allocates, punches or zeroes `len` bytes from `pos` on, to the byte.
    ///
    /// # Errors
    /// As [`Vfs::fallocate`].
    pub fn fallocate(
        &self,
        call: &Call<'_>,
        node: &NodeRef,
        how: Allocate,
        pos: u64,
        len: u64,
    ) -> Result<()> {
        let file = self.open(node, OpenFlags::WRONLY)?;
        self.vfs.fallocate(&above(call), &file, how, pos, len)
    }

    /// The first byte at or after `pos` that is data; `None`: a hole up to the end.
    ///
    /// # Errors
    /// As [`Vfs::seek`], but not `NoDevice`.
    pub fn seek_data(&self, call: &Call<'_>, node: &NodeRef, pos: u64) -> Result<Option<u64>> {
        match self.vfs.seek(&above(call), node, pos, false) {
            Err(FsError::NoDevice) => Ok(None),
            found => found.map(Some),
        }
    }

    /// The first byte at or after `pos`, which lies within the file, that is in a hole; at the latest the
    /// size.
    ///
    /// # Errors
    /// As [`Vfs::seek`].
    pub fn seek_hole(&self, call: &Call<'_>, node: &NodeRef, pos: u64) -> Result<u64> {
        self.vfs.seek(&above(call), node, pos, true)
    }

    /// Space and inodes.
    ///
    /// # Errors
    /// As [`Vfs::statfs`].
    pub fn statfs(&self, call: &Call<'_>) -> Result<StatFs> {
        self.vfs.statfs(&above(call))
    }

    /// The value of an extended attribute, if there is one.
    ///
    /// # Errors
    /// As [`Vfs::getxattr`], but not `NoAttribute`.
    pub fn getxattr(&self, call: &Call<'_>, node: &NodeRef, name: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.vfs.getxattr(&above(call), node, name) {
            Err(FsError::NoAttribute) => Ok(None),
            value => value.map(Some),
        }
    }

    /// Gives an extended attribute a value, or (`None`) removes it.
    ///
    /// # Errors
    /// As [`Vfs::setxattr`] and [`Vfs::removexattr`].
    pub fn setxattr(&self, call: &Call<'_>, node: &NodeRef, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        match value {
            Some(value) => self.vfs.setxattr(&above(call), node, name, value, SetXattr::Any),
            None => self.vfs.removexattr(&above(call), node, name),
        }
    }

    /// The names of the extended attributes that the caller may know of.
    ///
    /// # Errors
    /// As [`Vfs::listxattr`].
    pub fn listxattr(&self, call: &Call<'_>, node: &NodeRef) -> Result<Vec<Vec<u8>>> {
        self.vfs.listxattr(&above(call), node)
    }

    /// Lets go of what nobody uses any more: to be called when an upper file system has dropped its last
    /// [`NodeRef`] of a node without links, whose space is freed then.
    pub fn reap(&self) {
        self.vfs.reap();
    }

    /// An open file of one call: nothing is asked or charged.
    fn open(&self, node: &NodeRef, flags: OpenFlags) -> Result<OpenFile> {
        self.vfs.open_for_call(node.clone(), flags)
    }
}
