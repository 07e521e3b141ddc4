//! Recovery: orphans of the checkpoint go; later changes that fsync promised come back.
//!
//! ```text
//!   warm log at the checkpoint:  ... | A0* | B0 | A1 | B0* | C0 | (old version)      * fsync mark
//!   for each inode: of every node the last copy up to the inode's last mark   A: A0   B: B0*   C: nothing
//! ```
//!
//! Pointers of these copies are taken over, after the file was cut as its inode says: nodes that were freed
//! are gone, in the checkpoint and in the log. An inode that the checkpoint does not know is made, and
//! entered in its directory where its node has the dentry mark. Another inode of that name is moved to the
//! place that the new inode tells, or else goes. Before anything is written all logs have moved to segments
//! without found nodes; then comes a checkpoint. A power loss on the way finds everything as it was.
//!
//! The kernel applies all copies up to the last mark in order, with the same end; but it finds freed nodes
//! again, and loses a file that was renamed and whose name another has.

use crate::fs::{F2fs, Recovery};
use crate::layout::forward::{Cuts, Renamed, renamed};
use crate::layout::node::{
    ADDRS_AT, DENTRY, FOOTER, FSYNC, Footer, INLINE_DATA, LOST_PARENT, NIDS_AT, XATTR_AT, XATTR_PLACE, addr,
    addrs, decode, first_index, name,
};
use crate::layout::summary::Summary;
use crate::layout::xattr;
use crate::layout::{BlockBytes, NEW_ADDR, NULL_ADDR, corrupt, is_real};
use crate::node::{Node, node};
use crate::segs::log;
use granary_device::Structure;
use granary_fs::{Attr, FileKind, Ino, Inode, Result, Time};
use granary_units::{Lpa, Page};
use std::collections::{BTreeMap, BTreeSet};

/// A node found behind the checkpoint.
struct Found {
    at: u32,
    foot: Footer,
    page: Page,
}

/// Plan of one inode: the copies to take over.
struct Plan {
    ino: u32,
    /// Where its name was promised: for the order.
    first: usize,
    name: bool,
    /// Place in the tree -> copy.
    copies: BTreeMap<u32, usize>,
    /// All copies of the node of extended attributes.
    xattrs: Vec<usize>,
}

impl F2fs {
    /// See the module. `unmounted`: the checkpoint says so.
    pub(crate) fn recover(&self, unmounted: bool, orphans: &[u32]) -> Result<Recovery> {
        let _step = granary_sim::step("f2fs: fsynced files are rolled forward");
        let version = self.last.lock().version;
        let mut recovery = Recovery { version, ..Recovery::default() };
        self.memory.lock().orphans = orphans.iter().copied().collect();
        let found = self.read_chain(version)?;
        self.nat.exclude(found.iter().map(|f| f.foot.nid));
        {
            let mut segs = self.segs.lock();
            found.iter().for_each(|f| segs.hold(f.at));
        }
        for ino in orphans {
            let inode = self.inode(*ino)?;
            if inode.attr().nlink > 0 {
                return Err(corrupt(format!("orphan {ino} has {} links", inode.attr().nlink)));
            }
            self.end_inode(&inode)?;
            recovery.orphans += 1;
        }
        recovery.nodes = found.len() as u32;
        recovery.clean = unmounted && found.is_empty();
        let mut gone = Vec::new();
        let mut rolled: BTreeSet<u32> = orphans.iter().copied().collect();
        for mut plan in plans(&found) {
            rolled.insert(plan.ino);
            if self.take_over(&mut plan, &found)? {
                recovery.files += 1;
                if plan.name {
                    recovery.names += self.enter(&plan, &found, &mut gone)? as u32;
                }
            }
        }
        for ino in gone {
            let inode = self.inode(ino)?;
            self.end_inode(&inode)?;
        }
        recovery.told = self.replay(version, &rolled)?;
        if self.uses_bam() || !unmounted {
            self.settle_names()?;
        }
        if !found.is_empty() || recovery.told > 0 {
            let mut segs = self.segs.lock();
            (0..6).try_for_each(|l| segs.open(l))?;
        }
        // Always: see mount.rs.
        let _all = self.checkpoint_lock.write();
        self.write_recovered()?;
        Ok(recovery)
    }

    /// An inode, while nobody else has it.
    pub(crate) fn recovered_inode(&self, ino: u32) -> Result<Inode> {
        self.inode(ino)
    }

    fn inode(&self, ino: u32) -> Result<Inode> {
        let ino = Ino(ino as u64);
        Ok(Inode::new(ino, self.load(ino)?.loaded()))
    }

    /// The nodes that were written to the warm log after the checkpoint.
    fn read_chain(&self, version: u64) -> Result<Vec<Found>> {
        let mut at = self.segs.lock().next_addr(log::WARM_NODE);
        let (mut list, mut seen) = (Vec::new(), BTreeSet::new());
        while self.geo.in_main(at) && seen.insert(at) && !self.segs.lock().is_valid(at) {
            let mut page = [Page::ZERO];
            self.port.read(Lpa(at as u64), &mut page, Structure::Inode)?;
            let [page] = page;
            let foot = Footer::read(&page.to_bytes());
            let known = (crate::layout::node::ROOT_INO..self.geo.nids()).contains(&foot.nid)
                && (crate::layout::node::ROOT_INO..self.geo.nids()).contains(&foot.ino)
                && (foot.place == 0) == (foot.nid == foot.ino);
            if foot.version != version || !known {
                break;
            }
            list.push(Found { at, foot, page });
            at = foot.next;
        }
        Ok(list)
    }

    /// Brings an inode to the state of its last fsync. Says whether there was enough of it.
    fn take_over(&self, plan: &mut Plan, found: &[Found]) -> Result<bool> {
        let ino = plan.ino;
        let image = plan.copies.get(&0).map(|n| Box::new(found[*n].page.to_bytes()));
        let fresh = self.nat.lookup(ino)?.addr == NULL_ADDR;
        if fresh {
            let Some(image) = image.as_deref().filter(|_| plan.name) else { return Ok(false) };
            self.make_recovered(ino, image)?;
        }
        let inode = self.inode(ino)?;
        if inode.attr().kind != FileKind::File {
            return Err(corrupt(format!("inode {ino}, not a file, was fsynced into the log")));
        }
        let node = node(&inode);
        if let Some(image) = &image {
            self.take_header(&inode, image)?;
            self.take_xattrs(node, image, plan.xattrs.iter().map(|n| &found[*n].page))?;
        }
        let cuts = image.as_deref().map(Cuts::read).unwrap_or_default();
        if let Some(first) = cuts.0.iter().map(|cut| cut.block).min() {
            self.cut_blocks(node, first as u64)?;
            plan.drop_cut(&cuts, found);
        }
        if !node.state.lock().is_inline() {
            for (place, n) in &plan.copies {
                self.take_addrs(node, *place, &found[*n].page.to_bytes())?;
            }
        }
        self.show_blocks(&inode);
        self.mark_inode(&inode, true);
        self.settle_inode(node)?;
        Ok(true)
    }

    /// An inode that the checkpoint does not know: its node, without pointers.
    fn make_recovered(&self, ino: u32, image: &BlockBytes) -> Result<()> {
        self.take_blocks(1)?;
        self.nat.take_this(ino);
        {
            let mut s = self.space.lock();
            s.nodes += 1;
            s.inodes += 1;
        }
        let mut b = Box::new(*image);
        let (attr, mut x) = decode(&b, ino)?;
        (x.blocks, x.xattr) = (0, 0);
        crate::layout::node::encode(&mut b, &attr, &x);
        if x.inline & INLINE_DATA == 0 {
            b[ADDRS_AT..XATTR_AT].fill(0);
        }
        b[NIDS_AT..NIDS_AT + 20].fill(0);
        self.nodes.fresh((ino, ino), &b);
        Ok(())
    }

    /// Attributes and inline content.
    fn take_header(&self, inode: &Inode, image: &BlockBytes) -> Result<()> {
        let node = node(inode);
        let (attr, x) = decode(image, node.ino)?;
        let was_inline = node.state.lock().is_inline();
        let is_inline = x.inline & INLINE_DATA != 0;
        if is_inline && !was_inline {
            self.cut_blocks(node, 0)?;
        }
        let entry = self.inode_node(node.ino)?;
        if is_inline || was_inline {
            self.nodes.change(&entry, |b| match is_inline {
                true => b[ADDRS_AT..XATTR_AT].copy_from_slice(&image[ADDRS_AT..XATTR_AT]),
                false => b[ADDRS_AT..XATTR_AT].fill(0),
            });
        }
        {
            let mut s = node.state.lock();
            (s.inline, s.advise, s.disksize) = (x.inline, x.advise, x.size);
        }
        inode.update(|a| *a = Attr { blocks: a.blocks, ..attr });
        Ok(())
    }

    /// Extended attributes: those in the inode, and the last copy of their node since the checkpoint, or else
    /// the checkpoint's, that belongs to them. An fsync that was cut short may have written the node alone.
    fn take_xattrs<'a>(
        &self,
        node: &Node,
        image: &BlockBytes,
        copies: impl DoubleEndedIterator<Item = &'a Page>,
    ) -> Result<()> {
        let needed = decode(image, node.ino)?.1.xattr != NULL_ADDR;
        let fits = |other: &BlockBytes| xattr::read(image, Some(other), node.ino).is_ok();
        let copy = copies.rev().map(|page| Box::new(page.to_bytes())).find(|b| needed && fits(b));
        if needed && copy.is_none() {
            match self.xattr_node(node)? {
                None => {
                    return Err(corrupt(format!("extended attributes of inode {} are nowhere", node.ino)));
                }
                Some(known) if !known.with(fits) => return Ok(()),
                Some(_) => {}
            }
        }
        let entry = self.inode_node(node.ino)?;
        self.nodes.change(&entry, |b| b[XATTR_AT..NIDS_AT].copy_from_slice(&image[XATTR_AT..NIDS_AT]));
        if let (Some(other), Some(copy)) = (self.place_xattrs(node, needed)?, copy) {
            self.nodes.change(&other, |b| b[..FOOTER].copy_from_slice(&copy[..FOOTER]));
        }
        Ok(())
    }

    /// Takes over the addresses of a node.
    fn take_addrs(&self, node: &Node, place: u32, image: &BlockBytes) -> Result<()> {
        let Some(base) = first_index(place) else {
            return Err(corrupt(format!("an fsync mark on an indirect node of inode {}", node.ino)));
        };
        if base >= crate::layout::node::MAX_BLOCKS {
            return Err(corrupt(format!("a node of inode {} at place {place}", node.ino)));
        }
        let d = self.grow(node, base)?;
        let version = self.nat.lookup(d.nid)?.version;
        for ofs in 0..addrs(place) {
            let d = crate::tree::Dnode { ofs, ..d.clone() };
            let (old, new) = (d.addr(), addr(image, place, ofs));
            if old == new {
                continue;
            }
            if new != NULL_ADDR && new != NEW_ADDR {
                if !self.geo.in_main(new) {
                    return Err(corrupt(format!("inode {} points to block {new}", node.ino)));
                }
                let mut segs = self.segs.lock();
                segs.validate(new)?;
                segs.set_summary(new, log::WARM_DATA, Summary { nid: d.nid, version, ofs: ofs as u16 })?;
            }
            if is_real(old) {
                self.segs.lock().invalidate(old)?;
            }
            match (old, new) {
                (NULL_ADDR, _) => {
                    self.take_blocks(1)?;
                    node.state.lock().blocks += 1;
                }
                (_, NULL_ADDR) => {
                    self.give_blocks(1);
                    let mut s = node.state.lock();
                    s.blocks = s.blocks.saturating_sub(1);
                }
                _ => {}
            }
            self.set_addr(&d, new);
        }
        Ok(())
    }

    /// Enters the name of a new inode; another inode of that name goes.
    fn enter(&self, plan: &Plan, found: &[Found], gone: &mut Vec<u32>) -> Result<bool> {
        let Some(n) = plan.copies.get(&0) else { return Ok(false) };
        let image = Box::new(found[*n].page.to_bytes());
        let (attr, x) = decode(&image, plan.ino)?;
        let (name, time) = (name(&image), attr.ctime);
        let dir = self.inode(x.parent)?;
        if dir.attr().kind != FileKind::Dir || name.is_empty() {
            return Err(corrupt(format!("inode {} was created in {}, not a directory", plan.ino, x.parent)));
        }
        match self.dir_lookup(&dir, name)? {
            Some(ino) if ino.0 == plan.ino as u64 => return Ok(false),
            Some(old) => {
                // As the name was first promised.
                let told = renamed(&found[plan.first].page.to_bytes());
                match told.filter(|r| r.ino as u64 == old.0) {
                    Some(to) => self.move_old(&dir, name, &to, time, gone)?,
                    None => self.drop_name(&dir, name, old, gone)?,
                }
            }
            None => {}
        }
        self.dir_insert(&dir, name, plan.ino, FileKind::File)?;
        self.stamp_recovered(&dir, time)?;
        Ok(true)
    }

    fn stamp_recovered(&self, dir: &Inode, time: Time) -> Result<()> {
        dir.update(|a| (a.mtime, a.ctime) = (time.max(a.mtime), time.max(a.ctime)));
        self.mark_inode(dir, true);
        self.settle_inode(node(dir))?;
        Ok(())
    }

    /// Takes a name from what has it; it is gone when that was the last.
    fn drop_name(&self, dir: &Inode, name: &[u8], old: Ino, gone: &mut Vec<u32>) -> Result<()> {
        let victim = self.inode(old.0 as u32)?;
        if victim.attr().kind == FileKind::Dir {
            return Err(corrupt(format!("a file takes the name of directory {}", old.0)));
        }
        self.dir_remove(dir, name)?;
        let left = victim.update(|a| {
            a.nlink = a.nlink.saturating_sub(1);
            a.nlink
        });
        self.mark_inode(&victim, true);
        self.settle_inode(node(&victim))?;
        if left == 0 {
            gone.push(old.0 as u32);
        }
        Ok(())
    }

    /// A file is no more under a name that another takes: it goes where it was renamed to.
    fn move_old(
        &self,
        dir: &Inode,
        name: &[u8],
        to: &Renamed,
        time: Time,
        gone: &mut Vec<u32>,
    ) -> Result<()> {
        let kind = self.inode(to.ino)?.attr().kind;
        let other = if to.parent == node(dir).ino { None } else { Some(self.inode(to.parent)?) };
        let to_dir = other.as_ref().unwrap_or(dir);
        if to_dir.attr().kind != FileKind::Dir || kind == FileKind::Dir {
            return Err(corrupt(format!("inode {} was renamed into {}", to.ino, to.parent)));
        }
        match self.dir_lookup(to_dir, &to.name)? {
            Some(there) if there.0 == to.ino as u64 => return self.drop_name(dir, name, there, gone),
            Some(there) => self.drop_name(to_dir, &to.name, there, gone)?,
            None => {}
        }
        self.dir_remove(dir, name)?;
        self.dir_insert(to_dir, &to.name, to.ino, kind)?;
        let moved = self.inode(to.ino)?;
        {
            let mut s = node(&moved).state.lock();
            (s.parent, s.advise) = (to.parent, s.advise | LOST_PARENT);
        }
        self.mark_inode(&moved, true);
        self.settle_inode(node(&moved))?;
        if to.parent != node(dir).ino {
            self.stamp_recovered(to_dir, time)?;
        }
        Ok(())
    }
}

impl Plan {
    /// Leaves out the copies of nodes that were freed by a cut after they were written.
    fn drop_cut(&mut self, cuts: &Cuts, found: &[Found]) {
        for cut in &cuts.0 {
            let end = found.iter().position(|f| f.at == cut.at).unwrap_or(found.len());
            self.copies.retain(|place, n| {
                *n >= end || first_index(*place).is_none_or(|base| *place == 0 || base < cut.block as u64)
            });
        }
    }
}

/// The copies to take over of each inode, in the order in which names were promised.
fn plans(found: &[Found]) -> Vec<Plan> {
    let mut last: BTreeMap<u32, usize> = BTreeMap::new();
    for (n, f) in found.iter().enumerate().filter(|(_, f)| f.foot.flags & FSYNC != 0) {
        last.insert(f.foot.ino, n);
    }
    let mut plans: BTreeMap<u32, Plan> = BTreeMap::new();
    for (n, f) in found.iter().enumerate() {
        let ino = f.foot.ino;
        if last.get(&ino).is_none_or(|l| n > *l) {
            continue;
        }
        let p = plans.entry(ino).or_insert(Plan {
            ino,
            first: n,
            name: false,
            copies: BTreeMap::new(),
            xattrs: Vec::new(),
        });
        if f.foot.flags & DENTRY != 0 && !p.name {
            (p.name, p.first) = (true, n);
        }
        match f.foot.place {
            XATTR_PLACE => p.xattrs.push(n),
            place => drop(p.copies.insert(place, n)),
        }
    }
    let mut list: Vec<Plan> = plans.into_values().collect();
    list.sort_by_key(|p| p.first);
    list
}
