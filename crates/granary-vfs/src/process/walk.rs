//! From paths to nodes.
//!
//! ```text
//!   /a/b/../link/c//      every component but the last: search permission, a directory or a link to one
//!                 ^last   what it means is the call's affair: see `Last`, and `slash` for a slash behind it
//! ```
//!
//! At most 40 symbolic links, paths of at most 4095 bytes, names of at most 255 (as Linux).

use super::Process;
use crate::posix::Access;
use crate::vfs::{NodeRef, Side, perm};
use granary_fs::{FileKind, FsError, NAME_MAX, PATH_MAX, Result};
use smallvec::SmallVec;

/// Symbolic links followed in one walk (MAXSYMLINKS).
const MAX_LINKS: u32 = 40;

/// Kinds of the last component of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// A name.
    Name,
    /// ".".
    Dot,
    /// "..".
    DotDot,
    /// There is none: the path is "/".
    Root,
}

/// A path walked up to its last component.
pub(super) struct Resolved {
    /// The directory that the last component is looked up in.
    pub(super) dir: NodeRef,
    pub(super) last: Last,
    /// The last component where it is a name.
    pub(super) name: SmallVec<[u8; 32]>,
    /// Slashes follow it.
    pub(super) slash: bool,
    /// Links followed so far.
    links: u32,
}

impl Resolved {
    pub(super) fn side(&self) -> Side<'_> {
        Side { dir: &self.dir, name: &self.name, slash: self.slash }
    }
}

/// Fails where `path` is empty or too long.
pub(super) fn check_path(path: &[u8]) -> Result<()> {
    if path.is_empty() {
        Err(FsError::NoEntry)
    } else if path.len() >= PATH_MAX {
        Err(FsError::NameTooLong)
    } else {
        Ok(())
    }
}

impl Process {
    /// Walks to the directory that holds the path's last component. Adds the components to `count`.
    pub(super) fn resolve_parent(&self, path: &[u8], count: &mut u64) -> Result<Resolved> {
        check_path(path)?;
        self.walk(self.cwd.clone(), path, 0, count)
    }

    /// Goes on with the target of a symbolic link that lies in `at.dir`.
    pub(super) fn resolve_link(&self, at: Resolved, target: &[u8], count: &mut u64) -> Result<Resolved> {
        if at.links >= MAX_LINKS {
            return Err(FsError::Loop);
        }
        check_path(target)?;
        self.walk(at.dir, target, at.links + 1, count)
    }

    /// The node that a path stands for; a link at its end is followed where `follow` says so or a slash
    /// follows it.
    pub(super) fn lookup_path(&self, path: &[u8], follow: bool, count: &mut u64) -> Result<NodeRef> {
        let mut at = self.resolve_parent(path, count)?;
        let mut must_be_dir = false;
        loop {
            must_be_dir |= at.slash;
            let node = match at.last {
                Last::Root => return Ok(self.vfs.root()),
                Last::Dot => return Ok(at.dir),
                Last::DotDot => return self.vfs.parent(&self.call(), &at.dir),
                Last::Name => self.vfs.child(&self.call(), &at.dir, &at.name)?.ok_or(FsError::NoEntry)?,
            };
            if node.kind() == FileKind::Symlink && (follow || must_be_dir) {
                let target = self.vfs.readlink(&self.caller, &node)?;
                at = self.resolve_link(at, &target, count)?;
            } else if must_be_dir && !node.is_dir() {
                return Err(FsError::NotDir);
            } else {
                return Ok(node);
            }
        }
    }

    fn walk(&self, mut dir: NodeRef, path: &[u8], mut links: u32, count: &mut u64) -> Result<Resolved> {
        // A link in the middle: its target and the rest of the path, which then is the path.
        let mut joined: Vec<u8>;
        let mut path = path;
        let mut at = 0;
        loop {
            if at == 0 && path.first() == Some(&b'/') {
                dir = self.vfs.root();
                at = path.iter().take_while(|&&c| c == b'/').count();
            }
            if at == path.len() {
                return Ok(Resolved { dir, last: Last::Root, name: SmallVec::new(), slash: false, links });
            }
            if let Some(node) = self.vfs.walk_cached(&self.caller.cred, &dir, path, &mut at, count)? {
                dir = node;
            }
            self.vfs.allow(&self.call(), &dir, Access::EXEC)?;
            let (name, next) = perm::component(path, at);
            if name.len() > NAME_MAX {
                return Err(FsError::NameTooLong);
            }
            *count += 1;
            if next == path.len() {
                let slash = at + name.len() < next;
                let last = match name {
                    b"." => Last::Dot,
                    b".." => Last::DotDot,
                    _ => Last::Name,
                };
                return Ok(Resolved { dir, last, name: name.into(), slash, links });
            }
            at = next;
            let node = match name {
                b"." => continue,
                b".." => self.vfs.parent(&self.call(), &dir)?,
                _ => self.vfs.child(&self.call(), &dir, name)?.ok_or(FsError::NoEntry)?,
            };
            match node.kind() {
                FileKind::Dir => dir = node,
                FileKind::Symlink => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(FsError::Loop);
                    }
                    let mut target = self.vfs.readlink(&self.caller, &node)?;
                    check_path(&target)?;
                    target.push(b'/');
                    target.extend_from_slice(&path[at..]);
                    joined = target;
                    path = &joined;
                    at = 0;
                }
                _ => return Err(FsError::NotDir),
            }
        }
    }
}
