//! Paths from the mount's root, as a program gives them.
//!
//! ```text
//!   a/b/link/c      search permission for each directory; a link whose target stays below is followed
//!   ".." anywhere, a link to an absolute path, a trailing slash, no component at all:      the kernel's affair
//! ```
//!
//! What the kernel would resolve differently (what is mounted over a directory, the statistics' file) is not known here: the library
//! compares what it finds, or asks the kernel alone where there is such a thing.

use crate::STATS_FILE;
use crate::adapter::Adapter;
use granary_direct::SeeKernel;
use granary_vfs::{Caller, FileKind, FsError, NodeRef, PATH_MAX, Result};

/// Symbolic links followed in one walk (MAXSYMLINKS).
const MAX_LINKS: usize = 40;

/// What a walk says: the inner error is the file system's answer.
pub(super) type Walked<T> = std::result::Result<Result<T>, SeeKernel>;

impl Adapter {
    /// The directory that has the last name of a path, and that name.
    pub(super) fn walk_to_last<'p>(&self, caller: &Caller, path: &'p [u8]) -> Walked<(NodeRef, &'p [u8])> {
        let (above, name) = match path.iter().rposition(|c| *c == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        let is_statistics = above.is_empty() && name == STATS_FILE.as_bytes();
        if matches!(name, b"" | b"." | b"..") || is_statistics || path.len() >= PATH_MAX {
            return Err(SeeKernel);
        }
        let mut links = 0;
        let dir = match self.walk_from(caller, self.vfs.root(), above, &mut links)? {
            Ok(dir) => dir,
            Err(e) => return Ok(Err(e)),
        };
        Ok(Ok((dir, name)))
    }

    /// The node at a path; a link at its end is followed if `follow`.
    pub(super) fn walk(&self, caller: &Caller, path: &[u8], follow: bool) -> Walked<NodeRef> {
        let (dir, name) = match self.walk_to_last(caller, path)? {
            Ok(at) => at,
            Err(e) => return Ok(Err(e)),
        };
        match self.vfs.lookup(caller, &dir, name) {
            Ok(node) if follow && node.kind() == FileKind::Symlink => self.follow(caller, dir, &node, &mut 0),
            other => Ok(other),
        }
    }

    fn walk_from(
        &self,
        caller: &Caller,
        mut dir: NodeRef,
        path: &[u8],
        links: &mut usize,
    ) -> Walked<NodeRef> {
        for name in path.split(|c| *c == b'/') {
            match name {
                b"" | b"." => continue,
                b".." => return Err(SeeKernel),
                _ => {}
            }
            let node = match self.vfs.lookup(caller, &dir, name) {
                Ok(node) => node,
                Err(e) => return Ok(Err(e)),
            };
            dir = match node.kind() {
                FileKind::Symlink => match self.follow(caller, dir, &node, links)? {
                    Ok(node) => node,
                    Err(e) => return Ok(Err(e)),
                },
                _ => node,
            };
        }
        Ok(Ok(dir))
    }

    fn follow(&self, caller: &Caller, dir: NodeRef, link: &NodeRef, links: &mut usize) -> Walked<NodeRef> {
        *links += 1;
        if *links > MAX_LINKS {
            return Ok(Err(FsError::Loop));
        }
        let target = match self.vfs.readlink(caller, link) {
            Ok(target) => target,
            Err(e) => return Ok(Err(e)),
        };
        if target.is_empty() || target.starts_with(b"/") || target.ends_with(b"/") {
            return Err(SeeKernel);
        }
        self.walk_from(caller, dir, &target, links)
    }
}
