//! Names are the lower file system's, but for those of files that are in persistent memory alone.
//!
//! Positions in a directory: the lower file system's, and from [`FIRST`] on the files that are here alone, by
//! their numbers.

use crate::fs::Spfs;
use crate::layout::alone;
use crate::layout::inode::Identity;
use crate::node::{self, Node, below};
use granary_fs::{
    Call, Created, DirEntry, FileKind, FsError, Ino, Inode, Loaded, Names, NewNode, Rename, RenameFlags,
    Result,
};
use granary_vfs::NodeRef;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the positions of files in persistent memory alone begin. \[choice\] as far up as they fit below
/// 2^63, which is the end of what a program can be told: their numbers have 44 bits.
const FIRST: u64 = (1 << 63) - (1 << 45);

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
            self.follow(inode)?;
            if inode.view(|a| a.nlink == 0) {
                node::of(inode).remove();
            }
            Ok(())
        })
    }

    /// These directories lost names of what lives on, below.
    fn moved(&self, dirs: &[&Inode]) -> Result<()> {
        dirs.iter().try_for_each(|dir| {
            node::of(dir).touch_moved();
            self.follow(dir)
        })
    }

    /// The names here of files in a lower directory.
    fn own_names(&self, dir: &NodeRef) -> BTreeMap<Vec<u8>, u64> {
        if self.children.lock().is_empty() {
            return BTreeMap::new();
        }
        let dir: Identity = self.identity(dir);
        self.children.lock().of(dir).cloned().unwrap_or_default()
    }

    /// The number above of a lower node.
    fn above(&self, ino: Ino) -> Ino {
        Ino(self.children.lock().above(ino.0))
    }
}

impl Names for Spfs {
    fn lookup(&self, call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        let dir = below(dir)?;
        if !self.children.lock().is_empty() {
            let of = self.identity(&dir);
            if let Some(ino) = self.children.lock().find(of, name) {
                return Ok(Some(Ino(ino)));
            }
        }
        Ok(self.lower.lookup(&call.as_root(), &dir, name)?.map(|node| self.above(node.ino())))
    }

    fn readdir(
        &self,
        call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let dir = below(dir)?;
        let own = self.own_names(&dir);
        let mut goes_on = true;
        if from < FIRST || own.is_empty() {
            self.lower.readdir(&call.as_root(), &dir, from, &mut |e| {
                // One that is on its way down has both for a moment.
                if own.contains_key(e.name) {
                    return true;
                }
                let next = if own.is_empty() { e.next } else { e.next.min(FIRST - 1) };
                goes_on = emit(DirEntry { ino: self.above(e.ino), next, ..e });
                goes_on
            })?;
        }
        let mut own: Vec<(u64, Vec<u8>, u64)> =
            own.into_iter().map(|(name, ino)| (FIRST + alone::nth(ino), name, ino)).collect();
        own.sort_unstable();
        for (next, name, ino) in own.iter().filter(|(at, ..)| *at > from) {
            goes_on = goes_on && emit(DirEntry { name, ino: Ino(*ino), kind: FileKind::File, next: *next });
        }
        Ok(())
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        match below(dir) {
            Ok(node) if self.own_names(&node).is_empty() => self.lower.dir_end(&node),
            _ => u64::MAX,
        }
    }

    fn parent(&self, call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        let above = self.lower.lookup(&call.as_root(), &below(dir)?, b"..")?;
        above.map(|node| node.ino()).ok_or(FsError::Stale)
    }

    fn is_empty_dir(&self, call: &Call<'_>, dir: &Inode) -> Result<bool> {
        let dir = below(dir)?;
        Ok(self.own_names(&dir).is_empty() && self.lower.is_empty_dir(&call.as_root(), &dir)?)
    }

    fn readlink(&self, call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        self.lower.readlink(&call.as_root(), &below(inode)?)
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        let call = &call.as_root();
        if self.is_made_alone(dir, name, new) {
            match self.create_alone(call, dir, name, new) {
                // Then it is a file like any.
                Err(FsError::NoSpace) => {}
                made => return made,
            }
        }
        let _seen = self.directories.read();
        let made = self.lower.create(call, &below(dir)?, name, new)?;
        self.renamed(&[dir])?;
        Ok(self.created(made))
    }

    fn create_unnamed(&self, call: &Call<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        Ok(self.created(self.lower.create_unnamed(&call.as_root(), &below(dir)?, new)?))
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let node = self.grounded(inode)?;
        let seen = self.directories.read();
        self.lower.link(&call.as_root(), &node, &below(dir)?, name)?;
        self.renamed(&[dir])?;
        drop(seen);
        self.renamed(&[inode])
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let call = &call.as_root();
        let above = below(dir)?;
        let is_dir = inode.view(|a| a.kind == FileKind::Dir);
        if !is_dir && self.unlink_alone(call, dir, inode)? {
            return Ok(());
        }
        let seen = self.directories.read();
        match is_dir {
            true => self.lower.rmdir(call, &above, name)?,
            false => self.lower.unlink(call, &above, name)?,
        }
        // A directory that comes back may have what it had.
        let lives_on = node::below(inode).is_ok_and(|node| self.lower.stat(&node).attr.nlink > 0);
        match is_dir || lives_on {
            true => self.moved(&[dir])?,
            false => {
                node::of(dir).touch_lost();
                self.follow(dir)?;
            }
        }
        drop(seen);
        self.renamed(&[inode])
    }

    fn rename(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        let call = &call.as_root();
        // A name that nothing has can be given here; what takes another's place does so below, where that is
        // one step.
        if r.target.is_none() && self.rename_alone(call, r)? {
            return Ok(());
        }
        self.grounded(r.inode)?;
        r.target.map_or(Ok(()), |target| self.grounded(target).map(drop))?;
        let (from, to) = (below(r.from_dir)?, below(r.to_dir)?);
        let flags = RenameFlags { no_replace: r.target.is_none(), exchange: r.exchange };
        let seen = self.directories.read();
        self.lower.rename(call, (&from, r.from), (&to, r.to), flags)?;
        self.moved(&[r.from_dir, r.to_dir])?;
        drop(seen);
        let mut changed = vec![r.inode];
        changed.extend(r.target);
        self.renamed(&changed)
    }
}
