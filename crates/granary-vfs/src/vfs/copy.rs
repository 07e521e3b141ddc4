//! Copying between files without the caller's memory, and files without a name.

use super::Vfs;
use super::io::OpenFile;
use super::namespace::NewFile;
use super::node::{Node, NodeRef};
use crate::posix::OpenFlags;
use granary_fs::{Call, Caller, FsError, NewNode, Result};
use granary_units::{Dest, Payload};

/// Bytes copied at once.
const STEP: u64 = 1 << 20;

impl Vfs {
    /// Copies up to `len` bytes from one open file to another (or to another place of the same). Returns how
    /// many: fewer at the end of the source, or where an error came later.
    ///
    /// # Errors
    /// `BadFd` where the source is not open for reading or the target not for writing, or appends; `Invalid`
    /// where both are one file and the ranges overlap; `IsDir`; those of read and write.
    pub fn copy_file_range(
        &self,
        caller: &Caller,
        from: (&OpenFile, u64),
        to: (&OpenFile, u64),
        len: u64,
    ) -> Result<u64> {
        let ((source, pos_in), (target, pos_out)) = (from, to);
        if source.node().is_dir() || target.node().is_dir() {
            return Err(FsError::IsDir);
        }
        let appends = target.flags().contains(OpenFlags::APPEND);
        if !source.flags().reads() || !target.flags().writes() || appends {
            return Err(FsError::BadFd);
        }
        let (end_in, end_out) = (pos_in.checked_add(len), pos_out.checked_add(len));
        let (Some(end_in), Some(end_out)) = (end_in, end_out) else { return Err(FsError::TooBig) };
        if source.node().is(target.node()) && pos_in < end_out && pos_out < end_in {
            return Err(FsError::Invalid);
        }
        let mut buffer = vec![0; len.min(STEP) as usize];
        let mut done = 0;
        while done < len {
            let want = (len - done).min(STEP) as usize;
            let result =
                self.read(caller, source, pos_in + done, Dest::Bytes(&mut buffer[..want])).and_then(|n| {
                    match n {
                        0 => Ok(0),
                        n => Ok(self.write(caller, target, pos_out + done, Payload::Bytes(&buffer[..n]))?.1),
                    }
                });
            match result {
                Ok(0) => break,
                Ok(n) => done += n as u64,
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    /// Makes a regular file without a name (O_TMPFILE): it is gone with its last user, unless [`Vfs::link`]
    /// gives it a name before. Without a name it leaves nothing behind, even after a power failure.
    ///
    /// # Errors
    /// `NotSupported` where the file system has none such; as [`Vfs::create`].
    pub fn create_unnamed(&self, caller: &Caller, dir: &NodeRef, mode: u16) -> Result<NodeRef> {
        self.create_unnamed_for(caller, (caller.cred.uid, caller.cred.gid), dir, mode)
    }

    /// Like [`Vfs::create_unnamed`], for another `owner` than the caller: see [`Vfs::create_or_get_for`].
    ///
    /// # Errors
    /// As [`Vfs::create_unnamed`].
    pub fn create_unnamed_for(
        &self,
        caller: &Caller,
        owner: (u32, u32),
        dir: &NodeRef,
        mode: u16,
    ) -> Result<NodeRef> {
        self.create_unnamed_node(caller, owner, dir, &NewFile::file(mode))
    }

    /// The same of any kind but directories: a whiteout is made so, too.
    pub(crate) fn create_unnamed_node(
        &self,
        caller: &Caller,
        owner: (u32, u32),
        dir: &NodeRef,
        new: &NewFile<'_>,
    ) -> Result<NodeRef> {
        if !dir.is_dir() {
            return Err(FsError::NotDir);
        }
        let node = {
            let _lock = dir.rwsem.read();
            if dir.is_orphan() {
                return Err(FsError::NoEntry);
            }
            let (new, lists) = self.may_create(&self.call(caller), owner, dir, new)?;
            // One instant for the file and its lists.
            let call = &self.call(caller);
            let node = self.make_unnamed(call, dir, &new)?;
            // Where that fails it goes with its only user.
            self.set_lists(call, &node, &lists)?;
            node
        };
        self.reap();
        Ok(node)
    }

    /// Makes a file without a name. The directory is locked.
    pub(super) fn make_unnamed(&self, call: &Call<'_>, dir: &NodeRef, new: &NewNode<'_>) -> Result<NodeRef> {
        let _birth = self.births.read();
        let made = self.with_space(call, dir, || self.fs.create_unnamed(call, dir, new))?;
        let node = Node::new(&self.names, made.ino, made.loaded);
        node.set_unnamed(true);
        self.effects.mark();
        self.names.created_unnamed(node)
    }

    /// A file of [`Vfs::create_unnamed`] never gets a name (O_TMPFILE with O_EXCL).
    pub fn never_name(&self, node: &NodeRef) {
        node.set_unnamed(false);
    }
}
