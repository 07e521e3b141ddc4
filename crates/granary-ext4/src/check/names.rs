//! Names and links.

use super::{Checker, had_room_for_many};
use crate::extents::Mapping;
use crate::layout::htree::{self, Form, name_hash};
use crate::layout::inode::{INDEX, JOURNAL_INO, ROOT_INO};
use crate::layout::{BLOCK_SIZE, dirent};
use crate::node::Node;
use granary_device::Structure;
use granary_fs::{Attr, FileKind, FsError, Result};
use granary_kit::Block;
use std::sync::Arc;

impl Checker<'_> {
    pub(super) fn names(&mut self) -> Result<()> {
        let dirs: Vec<u32> = self
            .inodes
            .iter()
            .filter(|(_, k)| k.inode.attr().kind == FileKind::Dir && k.inode.attr().nlink > 0)
            .map(|(ino, _)| *ino)
            .collect();
        for dir in dirs {
            if let Err(e) = self.names_of(dir) {
                self.problem(format!("directory {dir}: {e}"));
            }
        }
        Ok(())
    }

    pub(super) fn names_of(&mut self, dir: u32) -> Result<()> {
        let (indexed, size) = {
            let known = &self.inodes[&dir];
            let indexed = known.inode.private::<Node>().state.lock().flags & INDEX != 0;
            (indexed, known.inode.size())
        };
        let first = self.dir_block(dir, 0)?;
        let own = first.with(|b| crate::layout::le32(b, 0));
        if own != dir {
            self.problem(format!("\".\" of directory {dir} is inode {own}"));
        }
        let parent = first.with(dirent::parent)?;
        if let Some(k) = self.inodes.get_mut(&dir) {
            k.parent = Some(parent);
        }
        if !indexed {
            if size != BLOCK_SIZE as u64 {
                self.problem(format!("directory {dir} of {size} bytes has no index"));
            }
            return self.names_in(dir, &first, dirent::AFTER_DOTS, (0, u32::MAX));
        }
        let leaves = self.leaves(dir, &first, size)?;
        for (i, (hash, logical)) in leaves.iter().enumerate() {
            let end = leaves.get(i + 1).map_or(u32::MAX, |l| l.0);
            let block = self.dir_block(dir, *logical)?;
            self.names_in(dir, &block, 0, (*hash & !1, end))?;
        }
        Ok(())
    }

    /// The leaves of an indexed directory in order: (first hash, logical block). Every block has one place.
    pub(super) fn leaves(&mut self, dir: u32, first: &Arc<Block>, size: u64) -> Result<Vec<(u32, u32)>> {
        let entries = |b: &Block, form: Form| {
            b.with(|b| {
                let n = htree::count(b, form)?;
                Ok::<_, FsError>(
                    (0..n).map(|i| (htree::hash(b, form, i), htree::child(b, form, i))).collect::<Vec<_>>(),
                )
            })
        };
        let mut leaves = entries(first, Form::Root)?;
        let mut seen = vec![0];
        if first.with(htree::levels)? == 1 {
            let mut below = Vec::new();
            for (hash, logical) in leaves {
                seen.push(logical);
                let block = self.dir_block(dir, logical)?;
                let mut part = entries(&block, Form::Node)?;
                part[0].0 = hash;
                below.extend(part);
            }
            leaves = below;
        }
        seen.extend(leaves.iter().map(|l| l.1));
        seen.sort_unstable();
        if !seen.iter().copied().eq(0..(size / BLOCK_SIZE as u64) as u32) {
            self.problem(format!("directory {dir}: its index does not lead to each block once"));
        }
        if !leaves.is_sorted_by_key(|l| l.0) {
            self.problem(format!("directory {dir}: hashes in its index do not ascend"));
        }
        Ok(leaves)
    }

    pub(super) fn dir_block(&mut self, dir: u32, logical: u32) -> Result<Arc<Block>> {
        let mapped = self.fs.map_block(self.inodes[&dir].inode.private::<Node>(), logical)?;
        match mapped {
            Mapping::Mapped { start, .. } => self.block(start, Structure::Dentry),
            Mapping::Hole { .. } => Err(crate::layout::corrupt(format!("no block {logical}"))),
        }
    }

    pub(super) fn names_in(
        &mut self,
        dir: u32,
        block: &Block,
        from: usize,
        hashes: (u32, u32),
    ) -> Result<()> {
        let (mut list, seed) = (Vec::new(), self.fs.hash_seed);
        block.with(|b| {
            dirent::each(b, from, |e| {
                list.push((e.ino, e.kind, name_hash(seed, e.name).0, e.name.to_vec()));
                true
            })
        })?;
        for (ino, kind, hash, name) in list {
            let impossible = name.iter().any(|b| matches!(b, 0 | b'/'));
            let name = granary_fs::quoted(&name);
            if impossible {
                self.problem(format!("directory {dir}: {name} has a byte that no name has"));
            }
            if !(hashes.0..=hashes.1).contains(&hash) {
                self.problem(format!("directory {dir}: {name} is in a leaf of other hashes"));
            }
            let Some(known) = self.inodes.get_mut(&ino) else {
                self.problem(format!("directory {dir}: {name} is inode {ino}, which is not in use"));
                continue;
            };
            known.names += 1;
            let Attr { kind: real, nlink, .. } = known.inode.attr();
            if real != kind || nlink == 0 {
                self.problem(format!("directory {dir}: {name} is a {kind:?}, inode {ino} a {real:?}"));
            }
            if kind == FileKind::Dir {
                let child = self.dir_block(ino, 0)?;
                let parent = child.with(dirent::parent)?;
                if parent != dir {
                    self.problem(format!("directory {dir}: {name} has parent {parent}"));
                }
                if let Some(k) = self.inodes.get_mut(&dir) {
                    k.subdirs += 1;
                }
            }
        }
        Ok(())
    }

    pub(super) fn links(&mut self) {
        let orphans = self.fs.orphans.lock().newest_first();
        let mut found = Vec::new();
        for (ino, k) in &self.inodes {
            let attr = k.inode.attr();
            let want = match (*ino, attr.kind) {
                (JOURNAL_INO, _) => (0, attr.nlink),
                // It has had more directories than are counted.
                (_, FileKind::Dir) if attr.nlink == 1 && had_room_for_many(&attr) => {
                    ((*ino != ROOT_INO) as u32, 1)
                }
                (ROOT_INO, _) => (0, 2 + k.subdirs),
                _ if attr.nlink == 0 => (0, 0),
                (_, FileKind::Dir) => (1, 2 + k.subdirs),
                _ => (attr.nlink, k.names),
            };
            if (k.names, attr.nlink) != want {
                found.push(format!(
                    "inode {ino} has {} names and {} links, not {want:?}",
                    k.names, attr.nlink
                ));
            }
            if attr.nlink == 0 && !orphans.contains(ino) {
                found.push(format!("inode {ino} has no links and is not on the orphan list"));
            }
        }
        // Directories must hang together: each reaches the root through its parents.
        for (ino, k) in self.inodes.iter().filter(|(_, k)| k.inode.attr().kind == FileKind::Dir) {
            if k.inode.attr().nlink == 0 {
                continue;
            }
            let (mut at, mut steps) = (*ino, 0);
            while at != ROOT_INO && steps <= self.inodes.len() {
                at = self.inodes.get(&at).and_then(|k| k.parent).unwrap_or(0);
                steps += 1;
            }
            if at != ROOT_INO {
                found.push(format!("directory {ino} does not reach the root"));
            }
        }
        self.problems.extend(found);
    }
}
