//! `check`: everything on media against everything else, and against memory.
//!
//! ```text
//!   1 NAT       every number in use -> a node with that number; inodes -> their trees: each block once;
//!               xattrs
//!   2 names     from the root: every entry's inode exists, is of that kind, lies in its hash's bucket;
//!               ".", ".."; names that no path can have, and those that are there twice
//!   3 links     names of each inode = its link count; no inode without a name but orphans
//!   4 SIT, SSA  blocks in use = valid blocks; each one's summary names its owner; free = without valid
//!               blocks
//!   5 media     nodes in memory = on the drive; both superblocks; the checkpoint's numbers, SIT copies =
//!               memory
//! ```
//!
//! It does *not* repair. Reserved blocks without data (NEW_ADDR) are in order anywhere, as in the kernel.

use crate::fs::F2fs;
use crate::layout::checkpoint::Checkpoint;
use crate::layout::dentry::{BLOCK, bucket, level_of, name_hash};
use crate::layout::nat::NatEntry;
use crate::layout::node::{
    Extra, Footer, INLINE_DATA, INLINE_DENTRY, NIDS_AT, NODE_ADDRS, ROOT_INO, XATTR_PLACE, decode, used,
};
use crate::layout::sit::{SIT_ENTRIES, SIT_ENTRY, SitEntry};
use crate::layout::summary::Summary;
use crate::layout::{BlockBytes, NULL_ADDR, bit, is_real, le32, xattr};
use granary_device::Structure;
use granary_fs::{Attr, FileKind, Result, is_name};
use granary_units::{Lpa, Page};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Arguments;

struct Check<'a> {
    fs: &'a F2fs,
    problems: Vec<String>,
    nat: BTreeMap<u32, NatEntry>,
    seen: BTreeSet<u32>,
    inodes: BTreeMap<u32, (Attr, Extra)>,
    /// Block -> owner.
    blocks: BTreeMap<u32, Summary>,
    reserved: u64,
    names: BTreeMap<u32, u32>,
    subdirs: BTreeMap<u32, u32>,
}

impl F2fs {
    pub(crate) fn check_all(&self) -> Result<Vec<String>> {
        // Background cleaning, or the end of a removed file that a flusher held, may have changed something
        // since the caller's sync; and nothing changes while this looks.
        let (_gc, _all) = (self.gc_lock.lock(), self.checkpoint_lock.write());
        self.checkpoint_alone(false)?;
        let mut c = Check {
            fs: self,
            problems: Vec::new(),
            nat: self.nat.all(&self.port)?.into_iter().collect(),
            seen: BTreeSet::new(),
            inodes: BTreeMap::new(),
            blocks: BTreeMap::new(),
            reserved: 0,
            names: BTreeMap::new(),
            subdirs: BTreeMap::new(),
        };
        if self.is_dirty() {
            c.problem("changes wait for a checkpoint: even after a checkpoint".to_owned());
        }
        c.trees()?;
        c.names()?;
        c.links();
        c.segments()?;
        c.checkpoint()?;
        Ok(c.problems)
    }
}

impl Check<'_> {
    fn problem(&mut self, text: String) {
        // A thousand sentences say enough.
        if self.problems.len() < 1000 {
            self.problems.push(text);
        }
    }

    fn take(&mut self, at: u32, owner: Summary, who: Arguments<'_>) {
        if !self.fs.geo.in_main(at) {
            return self.problem(format!("{who}: block {at} is outside the main area"));
        }
        if let Some(other) = self.blocks.insert(at, owner) {
            self.problem(format!("{who}: block {at} belongs to node {}, too", other.nid));
        }
    }

    /// Looks at a node; counts its block. `None`: it cannot be followed.
    fn node(&mut self, ino: u32, nid: u32, place: u32) -> Result<Option<Page>> {
        let Some(e) = self.nat.get(&nid).copied() else {
            self.problem(format!("inode {ino}: node {nid} is not in the NAT"));
            return Ok(None);
        };
        if !self.seen.insert(nid) || e.ino != ino {
            self.problem(format!("node {nid} of inode {ino} belongs to {}, or twice", e.ino));
            return Ok(None);
        }
        self.take(e.addr, Summary { nid, version: 0, ofs: 0 }, format_args!("node {nid}"));
        let entry = match self.fs.node(ino, nid) {
            Ok(entry) => entry,
            Err(error) => {
                self.problem(format!("node {nid} of inode {ino}: {error}"));
                return Ok(None);
            }
        };
        let page = entry.snapshot();
        let foot = entry.with(Footer::read);
        if foot.place != place {
            self.problem(format!("node {nid} is at place {} and says {}", place, foot.place));
        }
        let mut media = [Page::ZERO];
        self.fs.port.read(Lpa(e.addr as u64), &mut media, Structure::Inode)?;
        if media[0] != page {
            self.problem(format!("node {nid} of inode {ino} differs between memory and media"));
        }
        Ok(Some(page))
    }

    fn addrs(&mut self, ino: u32, nid: u32, place: u32, b: &[u8; 4096]) -> u64 {
        let mut n = 0;
        let version = self.nat.get(&nid).map_or(0, |e| e.version);
        for (ofs, at) in used(b, place, 0) {
            n += 1;
            if is_real(at) {
                let owner = Summary { nid, version, ofs: ofs as u16 };
                self.take(at, owner, format_args!("inode {ino}"));
            } else {
                self.reserved += 1;
            }
        }
        n
    }

    fn tree(&mut self, ino: u32, nid: u32, place: u32, levels: u32) -> Result<u64> {
        let Some(page) = self.node(ino, nid, place)? else { return Ok(0) };
        let b = page.to_bytes();
        if levels == 0 {
            return Ok(1 + self.addrs(ino, nid, place, &b));
        }
        // Nodes below a child of this one.
        let below = if levels == 1 { 1 } else { NODE_ADDRS as u32 + 1 };
        let mut n = 1;
        for slot in 0..NODE_ADDRS {
            let child = le32(&b, 4 * slot);
            if child != NULL_ADDR {
                n += self.tree(ino, child, place + 1 + slot as u32 * below, levels - 1)?;
            }
        }
        Ok(n)
    }

    /// Extended attributes; says how many nodes they have.
    fn xattrs(&mut self, ino: u32, x: &Extra, inode: &BlockBytes) -> Result<u64> {
        let other = match x.xattr {
            0 => None,
            nid => match self.node(ino, nid, XATTR_PLACE)? {
                Some(page) => Some(page.to_bytes()),
                None => return Ok(0),
            },
        };
        if let Err(e) = xattr::read(inode, other.as_ref(), ino) {
            self.problem(e.to_string());
        }
        Ok(other.is_some() as u64)
    }

    fn trees(&mut self) -> Result<()> {
        let inos: Vec<u32> = self.nat.iter().filter(|(n, e)| **n == e.ino).map(|(n, _)| *n).collect();
        for ino in inos {
            let Some(page) = self.node(ino, ino, 0)? else { continue };
            let b = page.to_bytes();
            let (attr, x) = match decode(&b, ino) {
                Ok(read) => read,
                Err(e) => {
                    self.problem(e.to_string());
                    continue;
                }
            };
            let mut n = 0;
            if x.inline & (INLINE_DATA | INLINE_DENTRY) == 0 {
                n += self.addrs(ino, ino, 0, &b);
            }
            let per = NODE_ADDRS as u32;
            let places = [(1, 0), (2, 0), (3, 1), (4 + per, 1), (5 + 2 * per, 2)];
            for (slot, (place, levels)) in places.into_iter().enumerate() {
                let nid = le32(&b, NIDS_AT + 4 * slot);
                if nid != NULL_ADDR {
                    n += self.tree(ino, nid, place, levels)?;
                }
            }
            n += self.xattrs(ino, &x, &b)?;
            if n != x.blocks {
                self.problem(format!("inode {ino} has {n} blocks and says {}", x.blocks));
            }
            self.inodes.insert(ino, (attr, x));
        }
        let lost: Vec<u32> = self.nat.keys().filter(|n| !self.seen.contains(n)).copied().collect();
        for nid in lost {
            self.problem(format!("node {nid} is in the NAT and in no tree"));
        }
        Ok(())
    }

    fn names(&mut self) -> Result<()> {
        let mut todo = vec![ROOT_INO];
        let mut been = BTreeSet::from([ROOT_INO]);
        while let Some(dir) = todo.pop() {
            let Some((attr, x)) = self.inodes.get(&dir).copied() else {
                self.problem(format!("directory {dir} does not exist"));
                continue;
            };
            let inline = x.inline & INLINE_DENTRY != 0;
            let mut list = Vec::new();
            let walked = self.fs.dir_walk(dir, (inline, attr.size), 0, &mut |at, e| {
                list.push((at, e.hash, e.ino, e.kind, e.name.to_vec()));
                true
            });
            if let Err(e) = walked {
                self.problem(format!("directory {dir}: {e}"));
            }
            let first: Vec<&[u8]> = list.iter().take(2).map(|(.., name)| &name[..]).collect();
            if first != [&b"."[..], b".."] {
                self.problem(format!("directory {dir} does not begin with \".\" and \"..\""));
            }
            let mut names = BTreeSet::new();
            for (at, hash, ino, kind, name) in list {
                let shown = name.escape_ascii().to_string();
                let itself = [(&b"."[..], dir), (b"..", x.parent)];
                if let Some((_, expected)) = itself.get(at as usize).filter(|(own, _)| *own == name) {
                    if ino != *expected {
                        self.problem(format!("directory {dir}: {shown} is {ino}, not {expected}"));
                    }
                    continue;
                }
                if !is_name(&name) {
                    self.problem(format!("directory {dir}: the name \"{shown}\" of inode {ino} cannot be"));
                }
                if !names.insert(name.clone()) {
                    self.problem(format!("directory {dir} has two entries \"{shown}\""));
                }
                let block = at / BLOCK.slots as u64;
                let (level, _) = level_of(block);
                let right =
                    inline || bucket(level, hash).is_some_and(|b| b.contains(&block)) && level < x.depth;
                if name_hash(&name) != hash || !right {
                    self.problem(format!("directory {dir}: {shown} lies in a wrong place ({at})"));
                }
                match self.inodes.get(&ino) {
                    None => self.problem(format!("directory {dir}: {shown} leads to {ino}, which is free")),
                    Some((a, _)) if a.kind != kind => {
                        self.problem(format!("directory {dir}: {shown} is said to be a {kind:?}"));
                    }
                    Some((_, child)) => {
                        *self.names.entry(ino).or_default() += 1;
                        if kind == FileKind::Dir {
                            *self.subdirs.entry(dir).or_default() += 1;
                            if child.parent != dir || !been.insert(ino) {
                                self.problem(format!("directory {ino} is in {dir} and {}", child.parent));
                            } else {
                                todo.push(ino);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn links(&mut self) {
        let orphans = self.fs.memory.lock().orphans.clone();
        let mut wrong = Vec::new();
        for (ino, (attr, _)) in &self.inodes {
            let names = self.names.get(ino).copied().unwrap_or(0);
            let expected = match attr.kind {
                FileKind::Dir if *ino == ROOT_INO || names > 0 => {
                    2 + self.subdirs.get(ino).copied().unwrap_or(0)
                }
                _ => names,
            };
            if attr.nlink != expected {
                wrong.push(format!("inode {ino} has {expected} links and says {}", attr.nlink));
            }
            if (attr.nlink == 0) != orphans.contains(ino) {
                wrong.push(format!("inode {ino} with {} links: orphan or not?", attr.nlink));
            }
        }
        for ino in orphans.iter().filter(|o| !self.inodes.contains_key(o)) {
            wrong.push(format!("orphan {ino} does not exist"));
        }
        wrong.into_iter().for_each(|w| self.problem(w));
    }

    fn segments(&mut self) -> Result<()> {
        let fs = self.fs;
        let geo = fs.geo;
        let segs = fs.segs.lock();
        let mut wrong = Vec::new();
        let mut blocks = self.blocks.iter().peekable();
        for segno in 0..geo.main_segs {
            let (seg, start) = (&segs.segs[segno as usize], geo.start(segno));
            let sums = if seg.valid > 0 { Some(Box::new(segs.summaries(segno)?)) } else { None };
            let mut valid = 0;
            // Most segments of a large drive hold nothing, and nothing names them.
            let named = blocks.peek().is_some_and(|(b, _)| **b < start + geo.seg_blocks);
            let looked_at = if named || !seg.is_empty() { geo.seg_blocks } else { 0 };
            for n in 0..looked_at {
                let at = start + n;
                let owner = blocks.next_if(|(b, _)| **b == at).map(|(_, s)| *s);
                valid += seg.is_valid(n) as u16;
                if seg.is_valid(n) != owner.is_some() {
                    wrong.push(format!("block {at}: valid {}, owner {owner:?}", seg.is_valid(n)));
                    continue;
                }
                let (Some(owner), Some(sums)) = (owner, &sums) else { continue };
                let sum = Summary::of(sums, n);
                let node = crate::segs::log::is_node(seg.log as usize);
                let same = if node { sum.nid == owner.nid } else { sum == owner };
                if !same {
                    wrong.push(format!("block {at} belongs to {owner:?}, its summary says {sum:?}"));
                }
            }
            if valid != seg.valid {
                wrong.push(format!("segment {segno} has {valid} valid blocks and says {}", seg.valid));
            }
            let expected = seg.valid == 0 && !segs.is_open(segno) && !segs.dead.contains(&segno);
            if segs.is_free(segno) != expected {
                wrong.push(format!("segment {segno} with {valid} valid blocks: free {}", !expected));
            }
        }
        let free = (0..geo.main_segs).filter(|s| segs.is_free(*s)).count() as u32;
        let wrong_discards = segs.wrong_discards();
        if wrong_discards > 0 {
            wrong.push(format!("{wrong_discards} blocks in use wait for a TRIM"));
        }
        if free != segs.free_count {
            wrong.push(format!("{free} segments are free, {} are counted", segs.free_count));
        }
        let space = *fs.space.lock();
        let used = segs.valid_blocks() + self.reserved;
        if space.valid != used || space.nodes as usize != self.nat.len() {
            wrong.push(format!("{used} blocks, {} nodes are in use; counted are {space:?}", self.nat.len()));
        }
        if space.inodes as usize != self.inodes.len() {
            wrong.push(format!("{} inodes, counted are {}", self.inodes.len(), space.inodes));
        }
        drop(segs);
        wrong.into_iter().for_each(|w| self.problem(w));
        Ok(())
    }

    /// Checks the state that a mount now would read.
    fn checkpoint(&mut self) -> Result<()> {
        let fs = self.fs;
        let (pack, version, sit_copies, journal) = {
            let l = fs.last.lock();
            (l.pack, l.version, l.sit_copies.clone(), l.sit_journal.clone())
        };
        let read = |lpa: u64| {
            let mut page = [Page::ZERO];
            fs.port.read(Lpa(lpa), &mut page, Structure::Superblock)?;
            Ok::<_, granary_fs::FsError>(Box::new(page[0].to_bytes()))
        };
        for lpa in [0, 1] {
            match crate::mount::read_super(&fs.port, lpa) {
                Ok(geo) if geo == fs.geo => {}
                Ok(geo) => self.problem(format!("superblock {lpa} describes {geo:?}")),
                Err(e) => self.problem(format!("superblock {lpa}: {e}")),
            }
        }
        let head = Checkpoint::parse(&*read(fs.geo.pack(pack))?).and_then(|mut cp| {
            crate::mount::read_payload(&fs.port, &fs.geo, pack, &mut cp)?;
            Ok(cp)
        });
        let cp = match head {
            Ok(cp) => cp,
            Err(e) => {
                self.problem(format!("the checkpoint on media: {e}"));
                return Ok(());
            }
        };
        let space = *fs.space.lock();
        let numbers = (cp.version, cp.valid_blocks, cp.valid_nodes, cp.valid_inodes);
        let memory = (version, space.valid, space.nodes, space.inodes);
        if numbers != memory {
            self.problem(format!("the checkpoint says {numbers:?}, memory {memory:?}"));
        }
        if cp.nat_copies != fs.nat.copies() || cp.sit_copies != sit_copies {
            self.problem("the checkpoint names other copies of NAT or SIT blocks than memory".to_owned());
        }
        for n in 0..fs.geo.sit_blocks {
            let b = read(fs.geo.sit(n, bit(&sit_copies, n as usize)))?;
            let segs = fs.segs.lock();
            let mut wrong = Vec::new();
            for i in 0..SIT_ENTRIES as u32 {
                let segno = n * SIT_ENTRIES as u32 + i;
                if segno >= fs.geo.main_segs || journal.contains(&segno) {
                    continue;
                }
                let media = SitEntry::read(&b[..], i as usize * SIT_ENTRY);
                let memory = segs.segs[segno as usize].entry();
                if (media.valid, media.map) != (memory.valid, memory.map) {
                    wrong.push(format!("segment {segno}: {} valid on media, {}", media.valid, memory.valid));
                }
            }
            drop(segs);
            wrong.into_iter().for_each(|w| self.problem(w));
        }
        Ok(())
    }
}
