//! Paths inside of the mount, as a program gives them.
//!
//! ```text
//!   a/b/link/c      search permission for each directory; a link whose target stays below is followed
//!   the kernel's:   ".." anywhere, a link to an absolute path, a trailing slash, no component at all
//! ```
//!
//! Names that the kernel would resolve differently (mounts over a directory, the statistics' file) are not
//! known here. The library compares the nodes that it finds, or asks the kernel alone where there is such a
//! name.
//!
//! A link in a directory that everybody may write to is the kernel's, too, unless the caller or the
//! directory's owner has made it: the kernel may be told not to follow such links.
//!
//! Source: path_resolution(7); `may_follow_link` of fs/namei.c (fs.protected_symlinks).

use crate::STATS_FILE;
use crate::adapter::Adapter;
use granary_direct::{PathPlace, SeeKernel};
use granary_fs::{Caller, FileKind, FsError, PATH_MAX, Result};
use granary_vfs::NodeRef;

/// Symbolic links followed in one walk (MAXSYMLINKS).
const MAX_LINKS: usize = 40;
/// Sticky, and everybody may write.
const SHARED: u16 = 0o1002;

/// The result of a walk: the inner error is the file system's answer.
pub(super) type Walked<T> = std::result::Result<Result<T>, SeeKernel>;

/// Within a function that returns [`Walked`]: the value, or the file system's error as the answer.
macro_rules! found {
    ($walked:expr) => {
        match $walked {
            Ok(value) => value,
            Err(e) => return Ok(Err(e)),
        }
    };
}
pub(super) use found;

/// A walk under way.
struct Walk<'a> {
    adapter: &'a Adapter,
    caller: &'a Caller,
    links: usize,
}

impl Adapter {
    /// The directory that has the last name of a path, and that name.
    pub(super) fn walk_to_last<'p>(
        &self,
        caller: &Caller,
        place: PathPlace<'p>,
    ) -> Walked<(NodeRef, &'p [u8])> {
        Walk { adapter: self, caller, links: 0 }.last(place)
    }

    /// The node at a path; a link at its end is followed if `follow`.
    pub(super) fn walk(&self, caller: &Caller, place: PathPlace<'_>, follow: bool) -> Walked<NodeRef> {
        let mut walk = Walk { adapter: self, caller, links: 0 };
        let (dir, name) = found!(walk.last(place)?);
        match self.vfs.lookup(caller, &dir, name) {
            Ok(node) if follow && node.kind() == FileKind::Symlink => walk.follow(dir, &node),
            other => Ok(other),
        }
    }

    /// Whether a name stands for the statistics.
    fn is_statistics_in(&self, dir: &NodeRef, name: &[u8]) -> bool {
        name == STATS_FILE.as_bytes() && dir.is(&self.vfs.root())
    }
}

impl Walk<'_> {
    fn last<'p>(&mut self, place: PathPlace<'p>) -> Walked<(NodeRef, &'p [u8])> {
        let (above, name) = match place.path.iter().rposition(|c| *c == b'/') {
            Some(at) => (&place.path[..at], &place.path[at + 1..]),
            None => (&place.path[..0], place.path),
        };
        if matches!(name, b"" | b"." | b"..") || place.path.len() >= PATH_MAX {
            return Err(SeeKernel);
        }
        let base = self.base(place)?;
        let dir = found!(self.down(base, above)?);
        if self.adapter.is_statistics_in(&dir, name) {
            return Err(SeeKernel);
        }
        Ok(Ok((dir, name)))
    }

    /// Where the path begins. The kernel has let the program in there, whatever the way to it says now.
    fn base(&mut self, place: PathPlace<'_>) -> std::result::Result<NodeRef, SeeKernel> {
        let root = self.adapter.vfs.root();
        let base = match place.base {
            b"" => root,
            path => self.down(root, path)?.map_err(|_| SeeKernel)?,
        };
        let is_it = place.ino == 0 || self.adapter.number(base.ino()).0 == place.ino;
        if is_it { Ok(base) } else { Err(SeeKernel) }
    }

    fn down(&mut self, mut dir: NodeRef, path: &[u8]) -> Walked<NodeRef> {
        for name in path.split(|c| *c == b'/') {
            match name {
                b"" | b"." => continue,
                b".." => return Err(SeeKernel),
                name if self.adapter.is_statistics_in(&dir, name) => return Err(SeeKernel),
                _ => {}
            }
            let node = found!(self.adapter.vfs.lookup(self.caller, &dir, name));
            dir = match node.kind() {
                FileKind::Symlink => found!(self.follow(dir, &node)?),
                _ => node,
            };
        }
        Ok(Ok(dir))
    }

    fn follow(&mut self, dir: NodeRef, link: &NodeRef) -> Walked<NodeRef> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Ok(Err(FsError::Loop));
        }
        let (mode, owner) = dir.view(|a| (a.mode, a.uid));
        let whose = link.view(|a| a.uid);
        if mode & SHARED == SHARED && whose != owner && whose != self.caller.cred.uid {
            return Err(SeeKernel);
        }
        let target = found!(self.adapter.vfs.readlink(self.caller, link));
        if target.is_empty() || target.starts_with(b"/") || target.ends_with(b"/") {
            return Err(SeeKernel);
        }
        self.down(dir, &target)
    }
}
