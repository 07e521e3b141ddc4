//! [`Process`]: one program's view of a [`Vfs`]: user, working directory, descriptors; the system calls.
//!
//! ```text
//!   Fd(n) -> files[n] = { OpenFile, position }        lowest free number first
//! ```
//!
//! Here are the rules about paths ([`walk`]) and descriptors; what happens to inodes is [`Vfs`]'s. A process
//! belongs to one task. Dropping it closes everything but frees nothing on media (that may wait);
//! [`Process::exit`] does.

mod maps;
mod posix;
mod walk;

use crate::posix::{Fd, OpenFlags, SetTime, Stat};
use crate::vfs::{Change, DirStream, MemoryMap, NewFile, NodeRef, OpenFile, Vfs};
use granary_fs::{Call, Caller, Cred, FileKind, FsError, Result, mode};
use granary_sim::{costs, cpu};
use granary_units::Nanos;
use std::sync::Arc;
use walk::Last;

/// Most open files: Linux's hard limit in a systemd world (`fs.nr_open`'s default is 1,048,576).
const MAX_FILES: usize = 1 << 20;

struct File {
    file: OpenFile,
    pos: u64,
    stream: DirStream,
}

/// The open file of a descriptor, by the table alone: the rest of the process can be used beside it.
fn file_of(files: &mut [Option<File>], fd: Fd) -> Result<&mut File> {
    files.get_mut(fd.0 as usize).and_then(Option::as_mut).ok_or(FsError::BadFd)
}

/// A process; one per workload thread. Drop it before [`Vfs::unmount`].
pub struct Process {
    vfs: Arc<Vfs>,
    caller: Caller,
    umask: u16,
    cwd: NodeRef,
    files: Vec<Option<File>>,
    /// No free descriptor below.
    first_free: usize,
    maps: Vec<Option<MemoryMap>>,
}

impl Process {
    /// A process of user `cred` in the root directory, with umask 022.
    pub fn new(vfs: Arc<Vfs>, cred: Cred) -> Process {
        let caller = vfs.caller(cred);
        Process::of(vfs, caller)
    }

    /// A thread of the process `caller` ([`Vfs::caller`]): with its number and user, and descriptors and a
    /// working directory of its own.
    pub fn of(vfs: Arc<Vfs>, caller: Caller) -> Process {
        let cwd = vfs.root();
        Process { vfs, caller, umask: 0o022, cwd, files: Vec::new(), first_free: 0, maps: Vec::new() }
    }

    /// The caller of its system calls.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The vfs that it runs on.
    pub fn vfs(&self) -> &Arc<Vfs> {
        &self.vfs
    }

    /// Ends the process: closes everything, frees files that only it had open, and gives back what the file
    /// system has lent it.
    pub fn exit(self) {
        let (vfs, number) = (Arc::clone(&self.vfs), self.caller.process);
        drop(self);
        vfs.reap();
        vfs.process_ended(number);
    }

    /// The context of its calls to the file system now.
    fn call(&self) -> Call<'_> {
        self.vfs.call(&self.caller)
    }

    /// Charges a system call that walked `components` of paths, and `more`.
    fn charge(&self, components: u64, more: Nanos) {
        self.vfs.enter(self.caller.origin, costs().path_component * components + more);
    }

    fn file(&mut self, fd: Fd) -> Result<&mut File> {
        file_of(&mut self.files, fd)
    }

    fn install(&mut self, file: OpenFile) -> Result<Fd> {
        let taken = self.files[self.first_free..].iter().take_while(|f| f.is_some()).count();
        let at = self.first_free + taken;
        if at >= MAX_FILES {
            return Err(FsError::TooManyFiles);
        }
        if at == self.files.len() {
            self.files.push(None);
        }
        self.files[at] = Some(File { file, pos: 0, stream: DirStream::default() });
        self.first_free = at + 1;
        Ok(Fd(at as u32))
    }

    /// As [`utimens`](crate::Posix::utimens), of a symbolic link itself.
    ///
    /// # Errors
    /// The same.
    pub fn lutimens(&mut self, path: impl AsRef<[u8]>, atime: SetTime, mtime: SetTime) -> Result<()> {
        self.setattr_path(path.as_ref(), false, &Change::times(atime, mtime))
    }

    fn setattr_path(&mut self, path: &[u8], follow: bool, change: &Change) -> Result<()> {
        let mut count = 0;
        let node = self.lookup_path(path, follow, &mut count);
        self.charge(count, Nanos::ZERO);
        self.vfs.setattr(&self.caller, &node?, change)
    }

    fn node_at(&mut self, path: &[u8]) -> Result<NodeRef> {
        let mut count = 0;
        let node = self.lookup_path(path, true, &mut count);
        self.charge(count, Nanos::ZERO);
        node
    }

    fn stat_path(&mut self, path: &[u8], follow: bool) -> Result<Stat> {
        let mut count = 0;
        let node = self.lookup_path(path, follow, &mut count);
        self.charge(count, Nanos::ZERO);
        let stat = self.vfs.stat(&node?);
        self.vfs.reap();
        Ok(stat)
    }

    /// Makes a node at a path (`filename_create` of Linux); only a directory's may end with a slash.
    fn make(&mut self, path: &[u8], new: &NewFile<'_>) -> Result<()> {
        let mut count = 0;
        let at = self.resolve_parent(path, &mut count);
        self.charge(count, Nanos::ZERO);
        let at = at?;
        if at.last != Last::Name {
            return Err(FsError::Exists);
        }
        if at.slash && new.kind != FileKind::Dir {
            let exists = self.vfs.child(&self.call(), &at.dir, &at.name)?.is_some();
            return Err(if exists { FsError::Exists } else { FsError::NoEntry });
        }
        let umask = if new.kind == FileKind::Symlink { 0 } else { self.umask };
        let new = NewFile { mode: self.vfs.masked(&self.caller, &at.dir, new.mode, umask)?, ..*new };
        self.vfs.create(&self.caller, &at.dir, &at.name, &new).map(|_| ())
    }

    /// Enters a node that was looked up, on the way past `count` components, at another path.
    fn link_node(&mut self, node: Result<NodeRef>, new: &[u8], mut count: u64) -> Result<()> {
        let at = node.and_then(|n| Ok((n, self.resolve_parent(new, &mut count)?)));
        self.charge(count, Nanos::ZERO);
        let (node, at) = at?;
        if at.last != Last::Name {
            return Err(FsError::Exists);
        }
        if at.slash {
            let exists = self.vfs.child(&self.call(), &at.dir, &at.name)?.is_some();
            return Err(if exists { FsError::Exists } else { FsError::NoEntry });
        }
        self.vfs.link(&self.caller, &node, &at.dir, &at.name)
    }

    fn open_node(
        &mut self,
        path: &[u8],
        flags: OpenFlags,
        mode: u16,
        count: &mut u64,
    ) -> Result<(NodeRef, bool)> {
        let creates = flags.contains(OpenFlags::CREAT);
        let exclusive = creates && flags.contains(OpenFlags::EXCL);
        if !creates {
            let node = self.lookup_path(path, !flags.contains(OpenFlags::NOFOLLOW), count)?;
            return Ok((node, false));
        }
        let mut at = self.resolve_parent(path, count)?;
        loop {
            if at.last != Last::Name {
                return Err(if exclusive { FsError::Exists } else { FsError::IsDir });
            }
            if at.slash {
                return Err(FsError::IsDir);
            }
            let (node, created) = match self.vfs.child(&self.call(), &at.dir, &at.name)? {
                Some(node) => (node, false),
                None => {
                    cpu(costs().path_component * std::mem::take(count));
                    let new = NewFile::file(self.vfs.masked(
                        &self.caller,
                        &at.dir,
                        mode & mode::ALL,
                        self.umask,
                    )?)
                    .opened(flags);
                    self.vfs.create_or_get(&self.caller, &at.dir, &at.name, &new)?
                }
            };
            match node.kind() {
                _ if created => return Ok((node, true)),
                _ if exclusive => return Err(FsError::Exists),
                FileKind::Symlink if !flags.contains(OpenFlags::NOFOLLOW) => {
                    let target = self.vfs.readlink(&self.caller, &node)?;
                    at = self.resolve_link(at, &target, count)?;
                }
                FileKind::Dir => return Err(FsError::IsDir),
                _ => return Ok((node, false)),
            }
        }
    }
}
