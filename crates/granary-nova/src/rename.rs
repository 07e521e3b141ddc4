//! Rename, replace, exchange: one lite transaction over all logs involved.
//!
//! ```text
//!   new directory   dentry (new name -> inode)      old directory  dentry (old name -> 0 | exchanged inode)
//!   inode           link change (its change time)   replaced       link change; valid, delete epoch
//!                                                                  with the last
//!   in place        the old dentry's, the replaced dentry's and ".." entries: four words each in the journal
//! ```
//!
//! Source: NOVA section 4.4; reference/baselines.md section 6.3.

use crate::Nova;
use crate::in_place::InPlace;
use crate::layout::entry::{self, DENTRY_DEAD};
use crate::layout::inode;
use crate::log::Pending;
use crate::namespace::node;
use crate::node::NodeState;
use granary_device::Structure;
use granary_fs::{Attr, Call, FileKind, Inode, Rename, Result};
use granary_pm::{Batch, corrupt};
use std::sync::atomic::Ordering::Relaxed;

/// A log that takes part.
struct Part<'a, 'i> {
    inode: &'i Inode,
    st: &'a mut NodeState,
    p: Pending,
    attr: Attr,
}

impl<'a, 'i> Part<'a, 'i> {
    fn new(inode: &'i Inode, st: &'a mut NodeState) -> Part<'a, 'i> {
        let p = Pending::new(st);
        Part { inode, st, p, attr: inode.attr() }
    }
}

/// A rename on its way.
struct Moving<'c, 'a, 'i> {
    call: &'c Call<'c>,
    r: &'c Rename<'i>,
    /// The old directory, the new one if it is another, the inode, and what has the new name if there is
    /// something.
    parts: Vec<Part<'a, 'i>>,
    /// Where the new directory is among them.
    to: usize,
    /// Where the inode is.
    moved: usize,
}

/// Where its entries are.
struct Logged {
    old_from: u64,
    old_to: Option<u64>,
    new_from: u64,
    new_to: u64,
    /// Link changes of the inode and of the inode that has the new name.
    links: Vec<u64>,
    changes: Vec<InPlace>,
}

impl Moving<'_, '_, '_> {
    fn moved_kind(&self) -> FileKind {
        self.parts[self.moved].attr.kind
    }

    /// Whether the inode of the new name is a directory.
    fn meets_dir(&self) -> bool {
        self.parts.get(self.moved + 1).is_some_and(|p| p.attr.kind == FileKind::Dir)
    }

    /// The inode that gets the old name, in an exchange: number and kind.
    fn back(&self) -> Option<(u64, FileKind)> {
        let target = self.parts.get(self.moved + 1).filter(|_| self.r.exchange)?;
        Some((target.inode.ino().0, target.attr.kind))
    }

    /// A directory goes to another parent.
    fn moves_up(&self) -> bool {
        self.to > 0 && self.moved_kind() == FileKind::Dir
    }

    /// A directory comes from there in exchange.
    fn moves_back(&self) -> bool {
        self.to > 0 && self.r.exchange && self.meets_dir()
    }

    /// The part that loses its last name.
    fn dies(&self) -> Option<usize> {
        let target = self.moved + 1;
        self.parts.get(target).filter(|p| p.attr.nlink == 0).map(|_| target)
    }

    /// The link counts and times of all parts after the rename.
    fn count_links(&mut self) {
        let (leave, come) = self.r.links_moved();
        for (i, links) in [(0, leave), (self.to, come)] {
            let dir = &mut self.parts[i].attr;
            dir.nlink = dir.nlink.wrapping_add_signed(links);
            dir.modified(self.call.time);
        }
        if let Some(target) = self.parts.get_mut(self.moved + 1).filter(|_| !self.r.exchange) {
            target.attr.nlink = target.attr.links_left();
        }
    }
}

impl Nova {
    /// A ".." entry that leads to `parent`.
    fn new_parent(&self, st: &NodeState, parent: &Inode) -> Result<InPlace> {
        let addr = st.dir().dotdot;
        let mut old = [0; 56];
        self.pm.load(addr, &mut old, Structure::Dentry)?;
        let (entry::LogEntry::Dentry { name, time, links, .. }, epoch, _) = entry::parse(&old)? else {
            return Err(corrupt(format!("no \"..\" at byte {addr:#x}")));
        };
        let new = entry::dentry(epoch, &name, parent.ino().0, FileKind::Dir, time, links);
        self.in_place(addr, |b| b.copy_from_slice(&new[..32]))
    }

    pub(crate) fn rename_node(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        let same = r.from_dir.ino() == r.to_dir.ino();
        let mut from = node(r.from_dir).state.write();
        let mut to = if same { None } else { Some(node(r.to_dir).state.write()) };
        let mut moved = node(r.inode).state.write();
        let mut target = r.target.map(|t| node(t).state.write());
        let mut parts = vec![Part::new(r.from_dir, &mut from)];
        if let Some(to) = &mut to {
            parts.push(Part::new(r.to_dir, to));
        }
        let (to, moved_at) = (parts.len() - 1, parts.len());
        parts.push(Part::new(r.inode, &mut moved));
        if let Some((inode, st)) = r.target.zip(target.as_mut()) {
            parts.push(Part::new(inode, st));
        }
        let mut moving = Moving { call, r, parts, to, moved: moved_at };
        moving.count_links();
        self.stores(|b| {
            let logged = match self.log_rename(b, &mut moving) {
                Ok(logged) => logged,
                Err(e) => {
                    moving.parts.iter_mut().try_for_each(|part| self.take_back(b, part.st, &part.p))?;
                    return Err(e);
                }
            };
            self.commit_rename(b, &mut moving, &logged)?;
            self.take_over(b, &mut moving, &logged)?;
            b.write_back()
        })?;
        for part in &mut moving.parts {
            if part.attr.nlink > 0 {
                self.clean_log(node(part.inode), part.st)?;
            }
        }
        Ok(())
    }

    /// Appends the entries of all logs; nobody sees them before the transaction.
    fn log_rename(&self, b: &mut Batch<'_>, moving: &mut Moving<'_, '_, '_>) -> Result<Logged> {
        let (call, r) = (moving.call, moving.r);
        let old = |part: &Part<'_, '_>, name: &[u8]| {
            let dent = part.st.dir().get(name).map(|dent| dent.addr);
            dent.ok_or_else(|| corrupt("a name that is renamed is not there"))
        };
        let old_from = old(&moving.parts[0], r.from)?;
        let old_to = r.target.map(|_| old(&moving.parts[moving.to], r.to)).transpose()?;
        let mut changes = Vec::new();
        for addr in [Some(old_from), old_to].into_iter().flatten() {
            changes.push(self.in_place(addr, |b| b[DENTRY_DEAD as usize] = 1)?);
        }
        let (ino, kind) = (r.inode.ino().0, moving.moved_kind());
        let new_to = self.log_name(b, call, &mut moving.parts[moving.to], r.to, (ino, kind))?;
        let back = moving.back().unwrap_or((0, kind));
        let new_from = self.log_name(b, call, &mut moving.parts[0], r.from, back)?;
        let mut links = Vec::new();
        for part in &mut moving.parts[moving.moved..] {
            let n = part.attr.nlink;
            links.push(self.append_link(b, part.inode, part.st, &mut part.p, (n, call))?);
        }
        if moving.moves_up() {
            changes.push(self.new_parent(moving.parts[moving.moved].st, r.to_dir)?);
        }
        if moving.moves_back() {
            changes.push(self.new_parent(moving.parts[moving.moved + 1].st, r.from_dir)?);
        }
        Ok(Logged { old_from, old_to, new_from, new_to, links, changes })
    }

    /// Appends a dentry to a directory's log; an inode of 0 takes the name away.
    fn log_name(
        &self,
        b: &mut Batch<'_>,
        call: &Call<'_>,
        dir: &mut Part<'_, '_>,
        name: &[u8],
        (ino, kind): (u64, FileKind),
    ) -> Result<u64> {
        let e = entry::dentry(dir.p.epoch(dir.st), name, ino, kind, call.time, dir.attr.nlink);
        self.append(b, dir.st, &mut dir.p, dir.inode.ino(), (&e, Structure::Dentry, false))
    }

    /// All tails and the changes in place, at once.
    fn commit_rename(
        &self,
        b: &mut Batch<'_>,
        moving: &mut Moving<'_, '_, '_>,
        logged: &Logged,
    ) -> Result<()> {
        let tails = moving.parts.iter().map(|p| (p.st.slot + inode::TAIL, p.st.tail));
        let mut words: Vec<(u64, u64)> = tails.collect();
        words.extend(logged.changes.iter().flat_map(InPlace::words));
        let dies = moving.dies();
        if let Some(i) = dies {
            let st = &moving.parts[i].st;
            words.extend([(st.slot, st.word), (st.slot + inode::DELETE_EPOCH, 0)]);
        }
        b.fence()?;
        self.transaction(b, &words, |b| {
            for part in &moving.parts {
                self.put_tail(b, part.st, &part.p)?;
            }
            for c in &logged.changes {
                b.put(c.addr, &c.new, Structure::Dentry)?;
            }
            if let Some(i) = dies {
                let st = &moving.parts[i].st;
                self.put_deleted(b, st, st.word & !0xff)?;
            }
            Ok(())
        })?;
        for part in &mut moving.parts {
            std::mem::take(&mut part.p).apply(part.st);
        }
        if let Some(i) = dies {
            moving.parts[i].st.word &= !0xff;
        }
        Ok(())
    }

    /// Brings the host's memory up to what is on media; the pages' counts of dead entries follow there.
    fn take_over(&self, b: &mut Batch<'_>, moving: &mut Moving<'_, '_, '_>, logged: &Logged) -> Result<()> {
        let (call, r, to, kind, back) =
            (moving.call, moving.r, moving.to, moving.moved_kind(), moving.back());
        let (up, down) = (moving.moves_up(), moving.moves_back());
        let parts = &mut moving.parts;
        match back {
            Some((ino, kind)) => {
                parts[0].st.dir_mut().insert(r.from, ino, kind, logged.new_from);
            }
            None => {
                parts[0].st.dir_mut().remove(r.from);
                self.born_dead(b, parts[0].st, logged.new_from)?;
            }
        }
        parts[to].st.dir_mut().insert(r.to, r.inode.ino().0, kind, logged.new_to);
        self.born_dead(b, parts[0].st, logged.old_from)?;
        if let Some(addr) = logged.old_to {
            self.born_dead(b, parts[to].st, addr)?;
        }
        for (part, addr) in parts[moving.moved..].iter_mut().zip(&logged.links) {
            let n = part.attr.nlink;
            self.link_changed(b, part.inode, part.st, *addr, (n, call))?;
        }
        for part in [&parts[0], &parts[to]] {
            let new = part.attr;
            part.inode.update(|a| (a.nlink, a.mtime, a.ctime) = (new.nlink, new.mtime, new.ctime));
        }
        if up {
            node(r.inode).parent.store(r.to_dir.ino().0, Relaxed);
        }
        if let Some(t) = r.target.filter(|_| down) {
            node(t).parent.store(r.from_dir.ino().0, Relaxed);
        }
        Ok(())
    }
}
