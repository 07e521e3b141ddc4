//! Consistency check: everything on media against everything else.
//!
//! ```text
//!   ifile -> inodes -> maps -> virtual blocks -> DAT -> segments         names -> inodes, links, parents
//!   each block of a map: a number in use, with an address of its own, in a segment that is not free
//!   each number in use: in some map                counts: descriptors, cpfile, sufile
//! ```

use crate::dat::{DatEntry, Physical, Virtual};
use crate::fs::Nilfs2;
use crate::groups::{GROUP, bit};
use crate::layout::checkpoint::{self, SNAPSHOT};
use crate::layout::usage::{self, USAGE, Usage};
use crate::layout::{FIRST_INO, ROOT_INO, dirent};
use crate::media::Media;
use crate::mount::supers;
use crate::state::{INODES, State};
use granary_fs::{FileKind, FsError, Result, quoted};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

#[derive(Default)]
struct Findings {
    wrong: Vec<String>,
    /// Owners of virtual blocks.
    owners: FxHashMap<u64, u64>,
    /// Addresses: which virtual block, or DAT.
    places: FxHashMap<u64, u64>,
    /// Names of each inode, and directories' children.
    names: BTreeMap<u64, u32>,
    children: BTreeMap<u64, u32>,
    kinds: BTreeMap<u64, (FileKind, u32)>,
    /// Directories and the targets of their "..".
    parents: BTreeMap<u64, u64>,
    /// Where a directory's name is.
    homes: BTreeMap<u64, u64>,
    live: u64,
}

impl Findings {
    fn add(&mut self, what: String) {
        if self.wrong.len() < 200 {
            self.wrong.push(what);
        }
    }
}

impl Nilfs2 {
    pub(crate) fn check_all(&self) -> Result<Vec<String>> {
        let _quiet = self.ops.write();
        let mut s = self.state.lock();
        let mut f = Findings::default();
        if supers(&self.media.port).map_or(0, |all| all.len()) < 2 {
            f.add("one of the two superblocks is damaged".to_owned());
        }
        s.check_inodes(&self.media, &mut f)?;
        f.check_names(&s);
        s.check_numbers(&self.media, &mut f)?;
        s.check_segments(&self.media, &mut f)?;
        s.check_checkpoints(&self.media, &mut f)?;
        Ok(f.wrong)
    }
}

/// An error that is evidence, or one that ends the check.
fn evidence<T>(result: Result<T>, f: &mut Findings) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(FsError::Corrupt(what)) => {
            f.add(what);
            Ok(None)
        }
        Err(FsError::Stale) => {
            f.add("an inode that is in use is free".to_owned());
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

impl State {
    fn check_inodes(&mut self, media: &Media, f: &mut Findings) -> Result<()> {
        let (mut count, mut group) = (0, 0);
        while group < INODES.most {
            let mut from = Virtual { media, dat: &mut self.dat };
            let Some(used) = evidence(INODES.used(&mut self.ifile, group, &mut from), f)? else { break };
            if used == 0 {
                break;
            }
            let Some(map) =
                evidence(self.ifile.block(INODES.bitmap(group), &mut from).map(|p| p.to_bytes()), f)?
            else {
                break;
            };
            let set: u32 = map.iter().map(|b| b.count_ones()).sum();
            if set != used {
                f.add(format!("group {group} of inodes has {set} in use, its descriptor says {used}"));
            }
            for n in (0..GROUP).filter(|n| bit(&map, *n)) {
                let ino = group * GROUP + n;
                if (ino >= FIRST_INO || ino == ROOT_INO) && !self.freeing.contains(&ino) {
                    count += 1;
                    self.check_inode(ino, media, f)?;
                }
            }
            group += 1;
        }
        if count != self.inodes {
            f.add(format!("{count} inodes are in use, {} are counted", self.inodes));
        }
        if f.live != self.live {
            f.add(format!("files have {} blocks, {} are counted", f.live, self.live));
        }
        for ino in [crate::layout::IFILE_INO, crate::layout::CPFILE_INO, crate::layout::SUFILE_INO] {
            let State { ifile, cpfile, sufile, dat, .. } = self;
            let file = [&mut *ifile, cpfile, sufile].into_iter().find(|b| b.ino == ino);
            let Some(file) = file else { continue };
            let mut ptrs = Vec::new();
            let walked = file.tree.walk(&mut Virtual { media, dat }, &mut |_, _, p| ptrs.push(p));
            evidence(walked, f)?;
            self.own(ino, &ptrs, media, f)?;
        }
        Ok(())
    }

    fn check_inode(&mut self, ino: u64, media: &Media, f: &mut Findings) -> Result<()> {
        let known = self.nodes.contains_key(&ino);
        if evidence(self.node(ino, media).map(drop), f)?.is_none() {
            f.add(format!("inode {ino} cannot be read"));
            return Ok(());
        }
        let State { nodes, dat, .. } = self;
        let Some(node) = nodes.get_mut(&ino) else { return Ok(()) };
        let (mut ptrs, mut beyond) = (Vec::new(), None);
        let end = node.media_size.max(node.attr.size).div_ceil(4096);
        let walked = node.file.tree.walk(&mut Virtual { media, dat }, &mut |level, key, ptr| {
            ptrs.push(ptr);
            if level == 0 && key >= end {
                beyond = Some(key);
            }
        });
        evidence(walked, f)?;
        if node.file.tree.count != ptrs.len() as u64 {
            f.add(format!("inode {ino} has {} blocks, it says {}", ptrs.len(), node.file.tree.count));
        }
        if let Some(key) = beyond {
            f.add(format!("inode {ino} has block {key} beyond its end"));
        }
        f.live += node.file.tree.count;
        let (kind, links, size) = (node.attr.kind, node.attr.nlink, node.media_size);
        f.kinds.insert(ino, (kind, links));
        self.own(ino, &ptrs, media, f)?;
        if kind == FileKind::Dir {
            self.check_dir(ino, size, media, f)?;
        }
        if !known && !self.dirty.contains(&ino) {
            self.nodes.remove(&ino);
        }
        Ok(())
    }

    /// These virtual blocks are an inode's.
    fn own(&mut self, ino: u64, ptrs: &[u64], media: &Media, f: &mut Findings) -> Result<()> {
        for vblk in ptrs.iter().filter(|p| **p != 0) {
            if let Some(other) = f.owners.insert(*vblk, ino) {
                f.add(format!("virtual block {vblk} is of inode {ino} and of {other}"));
            }
            let groups = self.dat.groups;
            if !groups.is_used(&mut self.dat.file, *vblk, &mut Physical(media))? {
                f.add(format!("virtual block {vblk} of inode {ino} is free"));
            } else if !evidence(self.dat.entry(*vblk, media), f)?.unwrap_or_default().is_in_use() {
                f.add(format!("virtual block {vblk} of inode {ino} has ended"));
            }
        }
        Ok(())
    }

    fn check_dir(&mut self, ino: u64, size: u64, media: &Media, f: &mut Findings) -> Result<()> {
        let mut names = FxHashSet::default();
        for block in 0..(size / 4096).min(1 << 20) {
            let State { nodes, dat, .. } = self;
            let Some(node) = nodes.get_mut(&ino) else { return Ok(()) };
            let page = node.file.block(block, &mut Virtual { media, dat }).map(|p| p.to_bytes());
            let Some(bytes) = evidence(page, f)? else { continue };
            for (n, e) in dirent::entries(&bytes).enumerate() {
                let Some(e) = evidence(e, f)? else { break };
                if e.ino == 0 {
                    continue;
                }
                let special = [&b"."[..], b".."].get(n).copied().filter(|_| block == 0);
                if special == Some(e.name) {
                    if n == 1 {
                        f.parents.insert(ino, e.ino);
                    } else if e.ino != ino {
                        f.add(format!("directory {ino} says that it is {}", e.ino));
                    }
                    continue;
                }
                let name = quoted(e.name);
                if !e.has_good_name() || e.name == b"." || e.name == b".." {
                    f.add(format!("directory {ino} has the name {name}, which cannot be"));
                    continue;
                }
                if !names.insert(e.name.to_vec()) {
                    f.add(format!("directory {ino} has two entries {name}"));
                }
                *f.names.entry(e.ino).or_default() += 1;
                if e.kind == Some(FileKind::Dir) {
                    *f.children.entry(ino).or_default() += 1;
                    if f.homes.insert(e.ino, ino).is_some() {
                        f.add(format!("directory {} has two names", e.ino));
                    }
                }
                if e.kind.is_none() {
                    f.add(format!("entry {name} of directory {ino} is of no kind"));
                }
            }
        }
        Ok(())
    }

    fn check_numbers(&mut self, media: &Media, f: &mut Findings) -> Result<()> {
        let mut all: Vec<(u64, DatEntry)> = Vec::new();
        if evidence(self.dat.walk(media, &mut |n, e| all.push((n, e))), f)?.is_none() {
            return Ok(());
        }
        for (n, e) in all {
            if e.is_in_use() != f.owners.contains_key(&n) {
                f.add(format!("virtual block {n} is in use by nobody, or ended and used: {e:?}"));
            }
            if e.start > e.end || e.start > self.cno {
                f.add(format!("virtual block {n} lives from {} to {}", e.start, e.end));
            }
            if self.is_live(&e, self.cno) {
                f.place(n, e.at, self, media);
            }
        }
        if self.dat.counts.as_ref().is_some_and(|c| c.are_of(&self.snapshots))
            && let Some(walked) = evidence(self.walk_counts(media), f)?
            && let Some(differs) = self.dat.counts.as_ref().and_then(|c| c.difference(&walked))
        {
            f.add(differs);
        }
        let mut at = Vec::new();
        let walked = self.dat.file.tree.walk(&mut Physical(media), &mut |_, _, p| at.push(p));
        evidence(walked, f)?;
        at.into_iter().for_each(|at| f.place(0, at, self, media));
        Ok(())
    }

    fn check_segments(&mut self, media: &Media, f: &mut Findings) -> Result<()> {
        let clean = self.segs.usages.iter().filter(|u| u.is_clean()).count() as u64;
        if clean != self.segs.clean {
            f.add(format!("{clean} segments are clean, {} are counted", self.segs.clean));
        }
        for seg in 0..media.geo.segments {
            let (block, at) = usage::place(seg);
            let mut from = Virtual { media, dat: &mut self.dat };
            let page = self
                .sufile
                .block(block, &mut from)
                .map(|p| p.with_bytes(|b| Usage::parse(&b[at..at + USAGE])));
            let Some(told) = evidence(page, f)? else { continue };
            let known = self.segs.usages[seg as usize];
            if told != known && !self.segs.touched.contains(&seg) {
                f.add(format!("segment {seg} is {told:?} in the sufile, but {known:?}"));
            }
        }
        Ok(())
    }

    fn check_checkpoints(&mut self, media: &Media, f: &mut Findings) -> Result<()> {
        let (mut all, mut snapshots) = (0, 0);
        for (_, e) in evidence(self.all_checkpoints(media), f)?.unwrap_or_default() {
            all += 1;
            snapshots += u64::from(e.flags & SNAPSHOT != 0);
        }
        let mut from = Virtual { media, dat: &mut self.dat };
        let page = self.cpfile.block(0, &mut from).map(|p| p.with_bytes(|b| checkpoint::counts(b)));
        if let Some(told) = evidence(page, f)?
            && told != (all, snapshots)
        {
            f.add(format!("{all} checkpoints and {snapshots} snapshots, the cpfile says {told:?}"));
        }
        Ok(())
    }
}

impl Findings {
    fn place(&mut self, vblk: u64, at: u64, s: &State, media: &Media) {
        if !media.geo.holds(at) {
            return self.add(format!("virtual block {vblk} lies at {at}"));
        }
        if let Some(other) = self.places.insert(at, vblk) {
            self.add(format!("block {at} is of virtual blocks {vblk} and {other}"));
        }
        let seg = media.geo.segment(at);
        let usage = s.segs.usages[seg as usize];
        if usage.is_clean() || at >= media.geo.start(seg) + usage.blocks as u64 {
            self.add(format!("virtual block {vblk} lies at {at}, where segment {seg} has nothing"));
        }
    }

    fn check_names(&mut self, s: &State) {
        let kinds = std::mem::take(&mut self.kinds);
        for (ino, (kind, links)) in &kinds {
            let names = self.names.get(ino).copied().unwrap_or(0);
            let dir = *kind == FileKind::Dir;
            let expected = match dir {
                true if *ino == ROOT_INO || names > 0 => 2 + self.children.get(ino).copied().unwrap_or(0),
                _ => names,
            };
            if *links != expected {
                self.add(format!("inode {ino} has {expected} links, it says {links}"));
            }
            if names == 0 && *ino != ROOT_INO && !s.orphans.contains(ino) {
                self.add(format!("inode {ino} has no name"));
            }
            let home = if *ino == ROOT_INO { Some(ROOT_INO) } else { self.homes.get(ino).copied() };
            if dir && home.is_some() && self.parents.get(ino).copied() != home {
                self.add(format!("directory {ino} does not name its parent"));
            }
        }
        let lost: Vec<u64> = self.names.keys().filter(|ino| !kinds.contains_key(ino)).copied().collect();
        lost.into_iter().for_each(|ino| self.add(format!("a name stands for inode {ino}, which is free")));
    }
}
