//! The reference file system: POSIX as plainly as it can be written, for model tests to compare with.
//!
//! ```text
//!   RefFs       number -> node { attributes | names -> numbers | pages | target }     all ordered maps
//!   RefProcess  user, umask, working directory, descriptors -> (number, flags, position)
//! ```
//!
//! Written independently of [`granary_vfs::Vfs`]: paths by recursion, no caches, no locks, no times, no
//! costs; nodes are never freed. Both are values: a search over interleavings copies them.

mod calls;
mod content;
mod maps;
mod xattrs;

use content::Content;
use granary_fs::{Cred, FileKind, FsError, Result, mode};
use granary_vfs::{Access, OpenFlags};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limits that differ between file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest file in bytes.
    pub max_file_size: u64,
    /// Most hard links.
    pub max_links: u32,
}

#[derive(Clone)]
struct Node {
    kind: FileKind,
    mode: u16,
    uid: u32,
    gid: u32,
    rdev: u32,
    nlink: u32,
    content: Content,
    names: BTreeMap<Vec<u8>, u64>,
    parent: u64,
    target: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// It had no name yet, and may get one.
    unnamed: bool,
}

/// The reference file system's state.
#[derive(Clone)]
pub struct RefFs {
    /// Shared between copies until changed.
    nodes: BTreeMap<u64, Arc<Node>>,
    limits: Limits,
}

const ROOT: u64 = 1;

impl RefFs {
    /// An empty file system: a root directory of root, mode 755.
    pub fn new(limits: Limits) -> RefFs {
        let root = Node {
            kind: FileKind::Dir,
            mode: 0o755,
            uid: 0,
            gid: 0,
            rdev: 0,
            nlink: 2,
            content: Content::default(),
            names: BTreeMap::new(),
            parent: ROOT,
            target: Vec::new(),
            xattrs: BTreeMap::new(),
            unnamed: false,
        };
        RefFs { nodes: BTreeMap::from([(ROOT, Arc::new(root))]), limits }
    }

    /// Whether nothing was changed since the one was copied from the other.
    pub(crate) fn is_same(&self, other: &RefFs) -> bool {
        let mut pairs = self.nodes.values().zip(other.nodes.values());
        self.nodes.len() == other.nodes.len() && pairs.all(|(a, b)| Arc::ptr_eq(a, b))
    }

    fn at(&self, ino: u64) -> &Node {
        &self.nodes[&ino]
    }

    fn at_mut(&mut self, ino: u64) -> &mut Node {
        Arc::make_mut(self.nodes.get_mut(&ino).expect("nodes are never freed"))
    }

    fn is_dir(&self, ino: u64) -> bool {
        self.at(ino).kind == FileKind::Dir
    }

    /// Whether `above` is `below` or lies above it.
    fn is_above(&self, above: u64, mut below: u64) -> bool {
        while below != above && below != ROOT {
            below = self.at(below).parent;
        }
        below == above
    }
}

#[derive(Clone)]
struct File {
    ino: u64,
    flags: OpenFlags,
    pos: u64,
}

/// State of one process.
#[derive(Clone)]
pub struct RefState {
    cred: Cred,
    umask: u16,
    cwd: u64,
    files: BTreeMap<u32, File>,
    maps: BTreeMap<u32, maps::Map>,
}

impl RefState {
    /// A new process of `cred` in the root directory, umask 022.
    pub fn new(cred: Cred) -> RefState {
        RefState { cred, umask: 0o022, cwd: ROOT, files: BTreeMap::new(), maps: BTreeMap::new() }
    }

    /// Feeds working directory and descriptors to a hash.
    pub(crate) fn digest(&self, h: &mut impl std::hash::Hasher) {
        h.write_u64(self.cwd);
        for (fd, file) in &self.files {
            [*fd as u64, file.ino, file.flags.bits() as u64, file.pos]
                .into_iter()
                .for_each(|n| h.write_u64(n));
        }
        for (id, map) in &self.maps {
            h.write_u32(*id);
            map.digest(h);
        }
    }
}

/// A process on a [`RefFs`].
pub struct RefProcess {
    fs: Arc<Mutex<RefFs>>,
    me: RefState,
}

impl RefProcess {
    /// A new process of `cred` in the root directory, umask 022.
    pub fn new(fs: Arc<Mutex<RefFs>>, cred: Cred) -> RefProcess {
        RefProcess { fs, me: RefState::new(cred) }
    }

    /// A process that goes on where `state` is.
    pub fn resume(fs: Arc<Mutex<RefFs>>, state: RefState) -> RefProcess {
        RefProcess { fs, me: state }
    }

    /// Its state, to go on later.
    pub fn state(&self) -> RefState {
        self.me.clone()
    }
}

/// The last component of a path.
enum Last {
    Root,
    Dot,
    DotDot,
    Name(Vec<u8>),
}

struct Place {
    dir: u64,
    last: Last,
    slash: bool,
}

/// The rules about paths and users, of one process on the state of the file system.
struct View<'a> {
    fs: &'a mut RefFs,
    me: &'a RefState,
}

fn check_len(path: &[u8]) -> Result<()> {
    match path.len() {
        0 => Err(FsError::NoEntry),
        1..=4095 => Ok(()),
        _ => Err(FsError::NameTooLong),
    }
}

impl View<'_> {
    fn root(&self) -> bool {
        self.me.cred.uid == 0
    }

    fn in_group(&self, gid: u32) -> bool {
        self.me.cred.gid == gid || self.me.cred.groups.contains(&gid)
    }

    fn owns(&self, ino: u64) -> bool {
        self.root() || self.fs.at(ino).uid == self.me.cred.uid
    }

    fn may(&self, ino: u64, wanted: Access) -> Result<()> {
        let n = self.fs.at(ino);
        if self.root() {
            let needs_x = wanted.contains(Access::EXEC) && n.kind != FileKind::Dir;
            return if needs_x && n.mode & 0o111 == 0 { Err(FsError::Access) } else { Ok(()) };
        }
        let class = if n.uid == self.me.cred.uid {
            n.mode >> 6 & 7
        } else if self.in_group(n.gid) {
            n.mode >> 3 & 7
        } else {
            n.mode & 7
        };
        if class & wanted.bits() as u16 == wanted.bits() as u16 { Ok(()) } else { Err(FsError::Access) }
    }

    /// Whether the entry of `victim` may be taken out of `dir`.
    fn may_remove(&self, dir: u64, victim: u64) -> Result<()> {
        self.may(dir, Access::WRITE | Access::EXEC)?;
        let sticky = self.fs.at(dir).mode & mode::STICKY != 0;
        if sticky && !self.owns(victim) && self.fs.at(dir).uid != self.me.cred.uid {
            return Err(FsError::NotPermitted);
        }
        Ok(())
    }

    /// Everything but the last component.
    fn place(&self, from: u64, path: &[u8], links: &mut u32) -> Result<Place> {
        check_len(path)?;
        let parts: Vec<&[u8]> = path.split(|&c| c == b'/').filter(|p| !p.is_empty()).collect();
        let mut dir = if path[0] == b'/' { ROOT } else { from };
        let slash = path.ends_with(b"/");
        let Some((last, above)) = parts.split_last() else {
            return Ok(Place { dir, last: Last::Root, slash: false });
        };
        for part in above {
            self.may(dir, Access::EXEC)?;
            let next = self.step(dir, part)?;
            let next = if self.fs.at(next).kind == FileKind::Symlink {
                self.follow(dir, next, links)?
            } else {
                next
            };
            if !self.fs.is_dir(next) {
                return Err(FsError::NotDir);
            }
            dir = next;
        }
        self.may(dir, Access::EXEC)?;
        if last.len() > 255 {
            return Err(FsError::NameTooLong);
        }
        let last = match *last {
            b"." => Last::Dot,
            b".." => Last::DotDot,
            name => Last::Name(name.to_vec()),
        };
        Ok(Place { dir, last, slash })
    }

    fn step(&self, dir: u64, part: &[u8]) -> Result<u64> {
        match part {
            b"." => Ok(dir),
            b".." => Ok(self.fs.at(dir).parent),
            name if name.len() > 255 => Err(FsError::NameTooLong),
            name => self.fs.at(dir).names.get(name).copied().ok_or(FsError::NoEntry),
        }
    }

    fn follow(&self, dir: u64, link: u64, links: &mut u32) -> Result<u64> {
        *links += 1;
        if *links > 40 {
            return Err(FsError::Loop);
        }
        self.find_from(dir, &self.fs.at(link).target, true, links)
    }

    fn find_from(&self, dir: u64, path: &[u8], follow: bool, links: &mut u32) -> Result<u64> {
        let place = self.place(dir, path, links)?;
        let node = match &place.last {
            Last::Root => ROOT,
            Last::Dot => place.dir,
            Last::DotDot => self.fs.at(place.dir).parent,
            Last::Name(name) => self.step(place.dir, name)?,
        };
        let is_link = self.fs.at(node).kind == FileKind::Symlink;
        let node =
            if is_link && (follow || place.slash) { self.follow(place.dir, node, links)? } else { node };
        if place.slash && !self.fs.is_dir(node) { Err(FsError::NotDir) } else { Ok(node) }
    }

    /// The node of a path.
    fn find(&self, path: &[u8], follow: bool) -> Result<u64> {
        self.find_from(self.me.cwd, path, follow, &mut 0)
    }

    /// Where a path's last component would be entered.
    fn parent(&self, path: &[u8]) -> Result<Place> {
        self.place(self.me.cwd, path, &mut 0)
    }

    /// Enters a new node as `name` of `dir`, which has no such name.
    fn make(
        &mut self,
        dir: u64,
        name: &[u8],
        kind: FileKind,
        bits: u16,
        rdev: u32,
        target: &[u8],
    ) -> Result<u64> {
        let ino = self.make_node(dir, kind, bits, rdev, target)?;
        let above = self.fs.at_mut(dir);
        above.names.insert(name.to_vec(), ino);
        above.nlink += u32::from(kind == FileKind::Dir);
        Ok(ino)
    }

    /// Makes a node for an entry of `dir`.
    fn make_node(&mut self, dir: u64, kind: FileKind, bits: u16, rdev: u32, target: &[u8]) -> Result<u64> {
        let above = self.fs.at(dir);
        if above.nlink == 0 {
            return Err(FsError::NoEntry);
        }
        self.may(dir, Access::WRITE | Access::EXEC)?;
        if matches!(kind, FileKind::CharDev | FileKind::BlockDev) && !self.root() {
            return Err(FsError::NotPermitted);
        }
        if kind == FileKind::Dir && above.nlink >= self.fs.limits.max_links {
            return Err(FsError::TooManyLinks);
        }
        let (mut bits, mut gid) = (bits, self.me.cred.gid);
        if above.mode & mode::SGID != 0 {
            gid = above.gid;
            if kind == FileKind::Dir {
                bits |= mode::SGID;
            } else if bits & 0o2010 == 0o2010 && !self.root() && !self.in_group(gid) {
                bits &= !mode::SGID;
            }
        }
        let ino = self.fs.nodes.len() as u64 + 1;
        let mut content = Content::default();
        content.resize(target.len() as u64);
        let is_device = matches!(kind, FileKind::CharDev | FileKind::BlockDev);
        let node = Node {
            kind,
            mode: bits,
            uid: self.me.cred.uid,
            gid,
            rdev: if is_device { rdev } else { 0 },
            nlink: if kind == FileKind::Dir { 2 } else { 1 },
            content,
            names: BTreeMap::new(),
            parent: dir,
            target: target.to_vec(),
            xattrs: BTreeMap::new(),
            unnamed: false,
        };
        self.fs.nodes.insert(ino, Arc::new(node));
        Ok(ino)
    }

    /// One name of a node is gone.
    fn forget(&mut self, dir: u64, ino: u64) {
        if self.fs.is_dir(ino) {
            self.fs.at_mut(ino).nlink = 0;
            self.fs.at_mut(dir).nlink -= 1;
        } else {
            self.fs.at_mut(ino).nlink -= 1;
        }
    }

    /// Set-user-ID and set-group-ID after a change by somebody who is not root (`always`: by chown).
    fn strip(&mut self, ino: u64, always: bool) {
        let in_group = self.root() || self.in_group(self.fs.at(ino).gid);
        let root = self.root();
        let n = self.fs.at_mut(ino);
        if (root && !always) || n.kind == FileKind::Dir {
            return;
        }
        n.mode &= !mode::SUID;
        if n.mode & 0o010 != 0 || !in_group {
            n.mode &= !mode::SGID;
        }
    }

    fn resize(&mut self, ino: u64, size: u64) -> Result<()> {
        if size > self.fs.limits.max_file_size {
            return Err(FsError::TooBig);
        }
        self.strip(ino, false);
        self.fs.at_mut(ino).content.resize(size);
        Ok(())
    }
}
