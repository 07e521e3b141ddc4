//! Rename, replace, exchange: one lite transaction over all logs involved.
//!
//! ```text
//!   new directory   dentry (new name -> inode)          old directory   dentry (old name -> 0 | exchanged inode)
//!   inode           link change (its change time)       replaced        link change; valid, delete epoch with the last
//!   in place        the old dentry's, the replaced dentry's and ".." entries: four words each in the journal
//! ```
//!
//! Source: NOVA section 4.4; reference/baselines.md section 6.3.

use crate::Nova;
use crate::layout::entry::{self, DENTRY_DEAD};
use crate::layout::inode;
use crate::log::Pending;
use crate::namespace::node;
use crate::node::{Dent, State};
use granary_mssd::Structure;
use granary_pm::bytes::u64_at;
use granary_pm::{Batch, corrupt};
use granary_vfs::{Attr, Cx, FileKind, Inode, Rename, Result};
use std::sync::atomic::Ordering::Relaxed;

/// A log that takes part.
struct Part<'a, 'i> {
    inode: &'i Inode,
    st: &'a mut State,
    p: Pending,
    attr: Attr,
}

impl<'a, 'i> Part<'a, 'i> {
    fn new(inode: &'i Inode, st: &'a mut State) -> Part<'a, 'i> {
        let p = Pending::new(st);
        Part { inode, st, p, attr: inode.attr() }
    }
}

/// An entry that changes in place: its address and first four words before and after.
struct InPlace {
    addr: u64,
    old: [u8; 32],
    new: [u8; 32],
}

impl InPlace {
    fn words(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (0..32).step_by(8).map(|i| (self.addr + i as u64, u64_at(&self.old, i)))
    }
}

impl Nova {
    fn in_place(&self, addr: u64, change: impl FnOnce(&mut [u8; 32])) -> Result<InPlace> {
        let mut old = [0; 32];
        self.pm.load(addr, &mut old, Structure::Dentry)?;
        let mut new = old;
        change(&mut new);
        Ok(InPlace { addr, old, new })
    }

    /// A ".." entry that leads to `parent`.
    fn new_parent(&self, st: &State, parent: &Inode) -> Result<InPlace> {
        let addr = st.dir().dotdot;
        let mut old = [0; 56];
        self.pm.load(addr, &mut old, Structure::Dentry)?;
        let (entry::Entry::Dentry { name, time, links, .. }, epoch, _) = entry::parse(&old)? else {
            return Err(corrupt(format!("no \"..\" at byte {addr:#x}")));
        };
        let new = entry::dentry(epoch, &name, parent.ino().0, FileKind::Dir, time, links);
        self.in_place(addr, |b| b.copy_from_slice(&new[..32]))
    }

    pub(crate) fn rename_node(&self, cx: &Cx<'_>, r: &Rename<'_>) -> Result<()> {
        let same = r.from_dir.ino() == r.to_dir.ino();
        let mut from = node(r.from_dir).state.write();
        let mut to = if same { None } else { Some(node(r.to_dir).state.write()) };
        let mut moved = node(r.inode).state.write();
        let mut target = r.target.map(|t| node(t).state.write());
        let mut parts = vec![Part::new(r.from_dir, &mut from)];
        if let Some(to) = &mut to {
            parts.push(Part::new(r.to_dir, to));
        }
        let (to_dir, moved_at) = (parts.len() - 1, parts.len());
        parts.push(Part::new(r.inode, &mut moved));
        if let Some((inode, st)) = r.target.zip(target.as_mut()) {
            parts.push(Part::new(inode, st));
        }
        self.stores(|b| self.rename_parts(b, cx, r, &mut parts, to_dir, moved_at))?;
        for part in &mut parts {
            if part.attr.nlink > 0 {
                self.clean_log(node(part.inode), part.st)?;
            }
        }
        Ok(())
    }

    fn rename_parts(
        &self,
        b: &mut Batch<'_>,
        cx: &Cx<'_>,
        r: &Rename<'_>,
        parts: &mut [Part<'_, '_>],
        to_dir: usize,
        moved: usize,
    ) -> Result<()> {
        let (ino, kind) = (r.inode.ino(), parts[moved].attr.kind);
        let back = r.target.filter(|_| r.exchange).map(|t| (t.ino(), t.view(|a| a.kind)));
        let target = (r.target.is_some()).then_some(moved + 1);
        let is_dir =
            |i: Option<usize>, parts: &[Part<'_, '_>]| i.is_some_and(|i| parts[i].attr.kind == FileKind::Dir);
        let (dir_moves, dir_target) = (kind == FileKind::Dir, is_dir(target, parts));
        // Links of the directories: what comes, what goes.
        if dir_moves {
            parts[0].attr.nlink -= 1;
            parts[to_dir].attr.nlink += 1;
        }
        if dir_target {
            parts[to_dir].attr.nlink -= 1;
            if r.exchange {
                parts[0].attr.nlink += 1;
            }
        }
        for i in [0, to_dir] {
            (parts[i].attr.mtime, parts[i].attr.ctime) = (cx.time, cx.time);
        }
        let urgent = false;
        let mut changes = Vec::new();
        let old = |part: &Part<'_, '_>, name: &[u8]| -> Result<Dent> {
            part.st.dir().get(name).cloned().ok_or_else(|| corrupt("a name that is renamed is not there"))
        };
        let old_from = old(&parts[0], r.from)?;
        let old_to = if r.target.is_some() { Some(old(&parts[to_dir], r.to)?) } else { None };
        for dent in [Some(&old_from), old_to.as_ref()].into_iter().flatten() {
            changes.push(self.in_place(dent.addr, |b| b[DENTRY_DEAD as usize] = 1)?);
        }

        let part = &mut parts[to_dir];
        let e = entry::dentry(part.p.epoch(part.st), r.to, ino.0, kind, cx.time, part.attr.nlink);
        let new_to = self.append(b, part.st, &mut part.p, r.to_dir.ino(), (&e, Structure::Dentry, urgent))?;
        let part = &mut parts[0];
        let (back_ino, back_kind) = back.map_or((0, kind), |(i, k)| (i.0, k));
        let e = entry::dentry(part.p.epoch(part.st), r.from, back_ino, back_kind, cx.time, part.attr.nlink);
        let new_from =
            self.append(b, part.st, &mut part.p, r.from_dir.ino(), (&e, Structure::Dentry, urgent))?;

        let mut links = Vec::new();
        for (i, part) in parts.iter_mut().enumerate().skip(moved) {
            if i > moved && !r.exchange {
                part.attr.nlink =
                    if part.attr.kind == FileKind::Dir { 0 } else { part.attr.nlink.saturating_sub(1) };
            }
            let n = part.attr.nlink;
            links.push(self.append_link(b, part.inode, part.st, &mut part.p, (n, cx, urgent))?);
        }
        let cross = to_dir > 0;
        if cross && dir_moves {
            changes.push(self.new_parent(parts[moved].st, r.to_dir)?);
        }
        if cross && r.exchange && dir_target {
            changes.push(self.new_parent(parts[moved + 1].st, r.from_dir)?);
        }

        let mut words: Vec<(u64, u64)> = parts.iter().map(|p| (p.st.slot + inode::TAIL, p.st.tail)).collect();
        words.extend(changes.iter().flat_map(InPlace::words));
        let dies = target.filter(|i| parts[*i].attr.nlink == 0);
        if let Some(i) = dies {
            let st = &parts[i].st;
            words.extend([(st.slot, st.word), (st.slot + inode::DELETE_EPOCH, 0)]);
        }
        b.fence()?;
        self.transaction(b, &words, |b| {
            for part in parts.iter() {
                self.put_tail(b, part.st, &part.p)?;
            }
            for c in &changes {
                b.put(c.addr, &c.new, Structure::Dentry)?;
            }
            if let Some(i) = dies {
                self.put_deleted(b, parts[i].st, parts[i].st.word & !0xff)?;
            }
            Ok(())
        })?;

        for part in parts.iter_mut() {
            let p = std::mem::take(&mut part.p);
            p.apply(part.st);
        }
        if let Some(i) = dies {
            parts[i].st.word &= !0xff;
        }
        // Both directories' indexes; the flags are on media already, the pages' counts follow.
        if back.is_none() {
            parts[0].st.dir_mut().remove(r.from);
            self.born_dead(b, parts[0].st, new_from)?;
        } else {
            parts[0].st.dir_mut().insert(r.from, back_ino, back_kind, new_from);
        }
        parts[to_dir].st.dir_mut().insert(r.to, ino.0, kind, new_to);
        self.born_dead(b, parts[0].st, old_from.addr)?;
        if let Some(old) = &old_to {
            self.born_dead(b, parts[to_dir].st, old.addr)?;
        }
        for (part, addr) in parts[moved..].iter_mut().zip(links) {
            let n = part.attr.nlink;
            self.link_changed(b, part.inode, part.st, addr, (n, cx))?;
        }
        for i in [0, to_dir] {
            let new = parts[i].attr;
            parts[i].inode.update(|a| (a.nlink, a.mtime, a.ctime) = (new.nlink, new.mtime, new.ctime));
        }
        if cross && dir_moves {
            node(r.inode).parent.store(r.to_dir.ino().0, Relaxed);
        }
        if let Some(t) = r.target.filter(|_| cross && r.exchange && dir_target) {
            node(t).parent.store(r.from_dir.ino().0, Relaxed);
        }
        b.write_back()
    }
}
