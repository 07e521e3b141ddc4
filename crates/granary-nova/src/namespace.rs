//! Names: create, link, unlink, and the end of an inode.
//!
//! ```text
//!   create   dentry | inode, not valid | fence | transaction {dir tail, valid}: dir tail, valid
//!   mkdir    the same, and a log page with "." and ".."; a symbolic link: a block with the target and its
//!            log
//!   unnamed  inode, not valid
//!   link     dentry, link change | transaction {dir tail, inode tail; valid with the first link}
//!   unlink   dentry without inode, link change | transaction {inode tail, dir tail} or, with the last link,
//!            {inode tail, valid, delete epoch, dir tail}; then the old dentry is marked dead
//!            where the logs find no page: in place (in_place.rs)
//!   evict    deleted flag, head and tail zeroed; blocks are free
//! ```
//!
//! An inode whose last link is gone is not valid on media from then on: after a power failure its blocks
//! belong to nobody, and the scan at mount finds them free. One that has no name yet is so from its
//! beginning.
//!
//! Source: NOVA section 4.4 and 4.5; reference/baselines.md section 6.3.

use crate::Nova;
use crate::layout::entry::{self, Write};
use crate::layout::inode::{self, LogPointers};
use crate::log::{Pending, growth};
use crate::node::{AttrEntry, Node, NodeState};
use granary_device::Structure;
use granary_fs::{
    Attr, Call, Created, DirEntry, FileKind, FsError, Ino, Inode, Loaded, Names, NewNode, Rename, Result,
};
use granary_pm::{BLOCK, Batch, From};
use granary_sim::sync::RwLock;
use granary_units::{Dest, Page, Payload};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const INODE: Structure = Structure::Inode;
const DENTRY: Structure = Structure::Dentry;
/// The inode's first byte: it is valid.
const VALID: u64 = 1;

/// The file system's part of an inode.
pub fn node(inode: &Inode) -> &Node {
    inode.private()
}

impl Nova {
    /// An inode for the vfs, remembered for checks.
    pub(crate) fn loaded(
        &self,
        (ino, generation): (Ino, u32),
        attr: Attr,
        state: NodeState,
        parent: u64,
    ) -> Loaded {
        let node =
            Arc::new(Node { ino, state: RwLock::new(state), parent: AtomicU64::new(parent), generation });
        self.nodes.lock().insert(ino.0, Arc::downgrade(&node));
        Loaded { attr, private: node }
    }

    /// Appends a link change; `apply` with [`Nova::link_changed`] after the commit.
    pub(crate) fn append_link(
        &self,
        b: &mut Batch<'_>,
        inode: &Inode,
        st: &mut NodeState,
        p: &mut Pending,
        (links, call): (u32, &Call<'_>),
    ) -> Result<u64> {
        let e = entry::link(p.epoch(st), links, call.time);
        self.append(b, st, p, inode.ino(), (&e, INODE, false))
    }

    /// The link change at `addr` is committed.
    pub(crate) fn link_changed(
        &self,
        b: &mut Batch<'_>,
        inode: &Inode,
        st: &mut NodeState,
        addr: u64,
        (links, call): (u32, &Call<'_>),
    ) -> Result<()> {
        self.link_superseded(b, st)?;
        st.last_link = addr;
        inode.update(|a| {
            a.changed(call.time);
            a.nlink = links;
        });
        Ok(())
    }

    /// Appends the entries of both logs; returns their addresses. Nobody sees them before the transaction.
    fn log_unlink(
        &self,
        b: &mut Batch<'_>,
        call: &Call<'_>,
        (dir, dst, dp): (&Inode, &mut NodeState, &mut Pending),
        name: &[u8],
        (inode, st, p): (&Inode, &mut NodeState, &mut Pending),
        (links, dir_links): (u32, u32),
    ) -> Result<(u64, u64)> {
        let e = entry::dentry(dp.epoch(dst), name, 0, inode.view(|a| a.kind), call.time, dir_links);
        let gone = self.append(b, dst, dp, dir.ino(), (&e, DENTRY, false))?;
        Ok((gone, self.append_link(b, inode, st, p, (links, call))?))
    }

    #[allow(clippy::too_many_arguments)] // two logs, and what both get
    fn commit_unlink(
        &self,
        b: &mut Batch<'_>,
        call: &Call<'_>,
        (dir, dst, dp): (&Inode, &mut NodeState, Pending),
        name: &[u8],
        (inode, st, p): (&Inode, &mut NodeState, Pending),
        (links, dir_links): (u32, u32),
        (gone, at): (u64, u64),
    ) -> Result<()> {
        let mut words = vec![(st.slot + inode::TAIL, st.tail), (dst.slot + inode::TAIL, dst.tail)];
        if links == 0 {
            words.extend([(st.slot, st.word), (st.slot + inode::DELETE_EPOCH, 0)]);
        }
        let word = st.word & !0xff;
        self.transaction(b, &words, |b| {
            b.fence()?;
            self.put_tail(b, st, &p)?;
            b.fence()?;
            if links == 0 {
                self.put_deleted(b, st, word)?;
            }
            b.fence()?;
            self.put_tail(b, dst, &dp)?;
            b.fence()
        })?;
        if links == 0 {
            st.word = word;
        }
        dp.apply(dst);
        p.apply(st);
        dir.update(|a| {
            a.modified(call.time);
            a.nlink = dir_links;
        });
        self.link_changed(b, inode, st, at, (links, call))?;
        self.born_dead(b, dst, gone)?;
        if let Some(old) = dst.dir_mut().remove(name) {
            self.dentry_dead(b, dst, old.addr)?;
        }
        b.write_back()
    }

    /// The inode no longer exists on media.
    pub(crate) fn put_deleted(&self, b: &mut Batch<'_>, st: &NodeState, word: u64) -> Result<()> {
        b.put_u64(st.slot, word, INODE)?;
        b.put_u64(st.slot + inode::DELETE_EPOCH, st.epoch as u64 + 1, INODE)
    }

    pub(crate) fn evict_node(&self, inode: &Inode) -> Result<()> {
        let mut st = node(inode).state.write();
        let kind_mode = st.word;
        self.stores(|b| {
            b.put_u64(st.slot, (kind_mode & !0xffff) | 0x100, INODE)?;
            // Without a tail nobody looks at the head: one word, which is never torn.
            b.put_u64(st.slot + inode::TAIL, 0, INODE)?;
            b.write_back()
        })?;
        for (block, n) in st.blocks() {
            self.free.give(block, n)?;
        }
        let (slot, word) = (st.slot, st.word);
        *st = NodeState::new(slot, word, inode.view(|a| a.kind));
        st.last_attr = AttrEntry::default();
        self.nodes.lock().remove(&inode.ino().0);
        self.give_inode(inode.ino());
        Ok(())
    }
}

impl Names for Nova {
    fn lookup(&self, _call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        Ok(node(dir).state.read().dir().get(name).map(|d| Ino(d.ino)))
    }

    fn readdir(
        &self,
        _call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let st = node(dir).state.read();
        for (&cookie, d) in st.dir().by_cookie.range(from.saturating_add(1)..) {
            if !emit(DirEntry { name: &d.name, ino: Ino(d.ino), kind: d.kind, next: cookie }) {
                break;
            }
        }
        Ok(())
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        node(dir).state.read().dir().last()
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        Ok(Ino(node(dir).parent.load(Relaxed)))
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        Ok(node(dir).state.read().dir().len() == 0)
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        let mut target = vec![0; inode.size() as usize];
        self.read_file(node(inode), 0, Dest::Bytes(&mut target))?;
        Ok(target)
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        let dir_node = node(dir);
        let mut dst = dir_node.state.write();
        let dst = &mut *dst;
        let (ino, slot) = self.take_inode()?;
        let generation = self.generations.next();
        let is_dir = new.kind == FileKind::Dir;
        let mut attr = new.attr(call.time);
        let mut st = NodeState::new(slot, inode::word(new.kind, new.mode, true, false), new.kind);
        let mut taken = Vec::new();
        let result = self.stores(|b| {
            let mut own = Pending::new(&st);
            let mut old = Vec::new();
            if is_dir {
                for name in [&b"."[..], b".."] {
                    let target = if name.len() == 1 { ino } else { dir.ino() };
                    let e = entry::dentry(own.epoch(&st), name, target.0, FileKind::Dir, call.time, 2);
                    let at = self.append(b, &mut st, &mut own, ino, (&e, DENTRY, false))?;
                    if name.len() == 1 {
                        st.dir_mut().dot = at;
                    } else {
                        st.dir_mut().dotdot = at;
                    }
                }
                attr.size = BLOCK;
            } else if new.kind == FileKind::Symlink {
                let block = self.free.take(self.cpu(), 1, From::Below, false).ok_or(FsError::NoSpace)?.0;
                taken.push(block);
                let mut page = Page::ZERO;
                page.write(0, Payload::Bytes(new.target));
                b.stream_page(block, &page, Structure::Data)?;
                attr.size = new.target.len() as u64;
                let w = Write { page: 0, block, pages: 1, dead: 0, mtime: call.time, size: attr.size };
                let e = entry::write(own.epoch(&st), &w);
                let at = self.append(b, &mut st, &mut own, ino, (&e, Structure::DataPointer, false))?;
                st.file_mut().put(0, block, 1, at, &mut old);
                attr.blocks = BLOCK / 512;
            }
            let links = dir.view(|a| a.nlink) + u32::from(is_dir);
            let mut p = Pending::new(dst);
            let e = entry::dentry(p.epoch(dst), name, ino.0, new.kind, call.time, links);
            let addr = self.append(b, dst, &mut p, dir.ino(), (&e, DENTRY, false))?;
            let log = LogPointers { head: st.pages.first().map_or(0, |p| p.block), tail: own.tail };
            b.put(slot, &inode::bytes((ino, generation), &attr, log), INODE)?;
            b.fence()?;
            own.apply(&mut st);
            let invalid = inode::word(new.kind, new.mode, false, false);
            let words = [(slot, invalid), (dst.slot + inode::TAIL, dst.tail)];
            self.transaction(b, &words, |b| {
                b.fence()?;
                self.put_tail(b, dst, &p)?;
                b.fence()?;
                b.put_u64(slot, st.word, INODE)
            })?;
            p.apply(dst);
            dst.dir_mut().insert(name, ino.0, new.kind, addr);
            dir.update(|a| {
                a.modified(call.time);
                a.nlink = links;
            });
            Ok(())
        });
        if let Err(e) = result {
            // Nothing of it counts: neither number nor blocks are anybody's.
            let pages: Vec<u64> = st.pages.iter().map(|p| p.block).collect();
            for block in pages.into_iter().chain(taken) {
                self.free.give(block, 1)?;
            }
            self.give_inode(ino);
            return Err(e);
        }
        self.clean_log(dir_node, dst)?;
        Ok(Created {
            ino,
            loaded: self.loaded((ino, generation), attr, st, if is_dir { dir.ino().0 } else { 0 }),
        })
    }

    /// A file without a name: it is not valid on media, like one that has lost its last name.
    fn create_unnamed(&self, call: &Call<'_>, _dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        let (ino, slot) = self.take_inode()?;
        let generation = self.generations.next();
        let attr = Attr { nlink: 0, ..new.attr(call.time) };
        let st = NodeState::new(slot, inode::word(new.kind, new.mode, false, false), new.kind);
        let made = self.stores(|b| {
            b.put(slot, &inode::bytes((ino, generation), &attr, LogPointers { head: 0, tail: 0 }), INODE)?;
            b.write_back()
        });
        if let Err(e) = made {
            self.give_inode(ino);
            return Err(e);
        }
        Ok(Created { ino, loaded: self.loaded((ino, generation), attr, st, 0) })
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let mut dst = node(dir).state.write();
        let dst = &mut *dst;
        let mut st = node(inode).state.write();
        let st = &mut *st;
        let (kind, links) = inode.view(|a| (a.kind, a.nlink + 1));
        self.stores(|b| {
            let dir_links = dir.view(|a| a.nlink);
            let mut dp = Pending::new(dst);
            let e = entry::dentry(dp.epoch(dst), name, inode.ino().0, kind, call.time, dir_links);
            let addr = self.append(b, dst, &mut dp, dir.ino(), (&e, DENTRY, false))?;
            let mut p = Pending::new(st);
            let at = match self.append_link(b, inode, st, &mut p, (links, call)) {
                Ok(at) => at,
                Err(e) => {
                    self.take_back(b, dst, &dp)?;
                    return Err(e);
                }
            };
            let mut words = vec![(dst.slot + inode::TAIL, dst.tail), (st.slot + inode::TAIL, st.tail)];
            // The first name makes it valid.
            let word = st.word | VALID;
            if word != st.word {
                words.push((st.slot, st.word));
            }
            self.transaction(b, &words, |b| {
                b.fence()?;
                self.put_tail(b, dst, &dp)?;
                self.put_tail(b, st, &p)?;
                if word != st.word {
                    b.fence()?;
                    b.put_u64(st.slot, word, INODE)?;
                }
                Ok(())
            })?;
            st.word = word;
            dp.apply(dst);
            p.apply(st);
            dst.dir_mut().insert(name, inode.ino().0, kind, addr);
            dir.update(|a| a.modified(call.time));
            self.link_changed(b, inode, st, at, (links, call))?;
            b.write_back()
        })?;
        self.clean_log(node(inode), st)?;
        self.clean_log(node(dir), dst)
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let mut dst = node(dir).state.write();
        let dst = &mut *dst;
        let mut st = node(inode).state.write();
        let st = &mut *st;
        let is_dir = inode.view(|a| a.kind) == FileKind::Dir;
        let links = if is_dir { 0 } else { inode.view(|a| a.nlink).saturating_sub(1) };
        let dir_links = dir.view(|a| a.nlink).saturating_sub(u32::from(is_dir));
        let is_full = self.stores(|b| {
            let (mut dp, mut p) = (Pending::new(dst), Pending::new(st));
            let counts = (links, dir_links);
            let logged = self.log_unlink(b, call, (dir, dst, &mut dp), name, (inode, st, &mut p), counts);
            match logged {
                Ok(at) => {
                    self.commit_unlink(b, call, (dir, dst, dp), name, (inode, st, p), counts, at)?;
                    Ok(false)
                }
                Err(FsError::NoSpace) => {
                    self.take_back(b, dst, &dp)?;
                    self.take_back(b, st, &p)?;
                    self.unlink_in_place(b, call, (dir, dst), name, (inode, st), counts)?;
                    Ok(true)
                }
                Err(e) => Err(e),
            }
        })?;
        if !is_full {
            self.clean_log(node(dir), dst)?;
            // The remaining entries say nothing but that names are gone. Keep no dead page, and no more
            // prepared pages than the log would grow by.
            return if dst.dir().len() == 0 { self.shrink_log(dst, growth) } else { Ok(()) };
        }
        if links > 0 {
            self.shrink_log(st, |_| 0)?;
        }
        self.shrink_log(dst, |_| 0)
    }

    fn rename(&self, call: &Call<'_>, rename: &Rename<'_>) -> Result<()> {
        self.rename_node(call, rename)
    }
}
