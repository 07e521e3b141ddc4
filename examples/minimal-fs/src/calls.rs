//! The five traits.

use crate::Minimal;
use crate::tree::{ENTRY, LETTER, NODE, Node, PAGE, ROOT, Tree};
use granary_units::{PAGE_SIZE, Page};
use granary_vfs::{
    Attr, Attributes, Call, Created, Data, DirEntry, DirtyPage, Features, FileKind, FsError, Ino, Inode,
    Life, Loaded, Names, NewNode, Rename, Result, SetAttr, Space, StatFs, Time, WriteBackCause,
    file_system_lacks,
};
use std::sync::Arc;

const SIZE: u64 = PAGE_SIZE as u64;

type Emit<'a> = dyn FnMut(DirEntry<'_>) -> bool + 'a;

impl Tree {
    /// Changes attributes, in memory and in the tree.
    fn change(&mut self, inode: &Inode, change: impl FnOnce(&mut Attr)) -> Result<()> {
        self.changed = true;
        let node = self.node(inode)?;
        let (size, blocks) = (node.attr.size, node.pages.len() as u64 * (SIZE / 512));
        inode.update(change);
        inode.update(|a| a.blocks = blocks);
        node.attr = Attr { size, ..inode.attr() };
        Ok(())
    }

    fn find(&mut self, dir: &Inode, name: &[u8]) -> Result<Option<(u64, u64)>> {
        let mut all = self.node(dir)?.entries.iter();
        Ok(all.find(|(_, (n, _))| n == name).map(|(at, (_, ino))| (*at, *ino)))
    }

    fn enter(&mut self, dir: &Inode, name: &[u8], ino: u64) -> Result<()> {
        self.nodes.get_mut(&ino).ok_or(FsError::Stale)?.parent = dir.ino().0;
        let dir = self.node(dir)?;
        dir.last += 1;
        dir.entries.insert(dir.last, (name.to_vec(), ino));
        Ok(())
    }

    fn leave(&mut self, dir: &Inode, name: &[u8]) -> Result<()> {
        let (at, _) = self.find(dir, name)?.ok_or(FsError::NoEntry)?;
        self.node(dir)?.entries.remove(&at);
        Ok(())
    }

    /// A directory's entries have changed, and how many directories it has.
    fn stamp(&mut self, dir: &Inode, time: Time, dirs: i32) -> Result<()> {
        self.change(dir, |a| {
            (a.mtime, a.ctime, a.nlink) = (time, time, a.nlink.saturating_add_signed(dirs));
        })
    }
}

fn loaded(attr: Attr) -> Loaded {
    Loaded { attr, private: Arc::new(()) }
}

impl Minimal {
    /// Writes the tree where it has changed: all that came before is safe on return.
    fn commit(&self) -> Result<()> {
        let mut media = self.media.lock();
        let mut tree = self.tree.lock();
        if !std::mem::take(&mut tree.changed) {
            return Ok(());
        }
        let bytes = tree.encode();
        drop(tree);
        bytes.and_then(|bytes| media.write(&bytes)).inspect_err(|_| self.tree.lock().changed = true)
    }
}

impl Names for Minimal {
    file_system_lacks!(create_unnamed);

    fn lookup(&self, _: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        Ok(self.tree.lock().find(dir, name)?.map(|(_, ino)| Ino(ino)))
    }

    fn readdir(&self, _: &Call<'_>, dir: &Inode, from: u64, emit: &mut Emit<'_>) -> Result<()> {
        let tree = self.tree.lock();
        let entries = &tree.nodes.get(&dir.ino().0).ok_or(FsError::Stale)?.entries;
        for (&next, (name, ino)) in entries.range(from.saturating_add(1)..) {
            let kind = tree.nodes.get(ino).ok_or(FsError::Stale)?.attr.kind;
            if !emit(DirEntry { name, ino: Ino(*ino), kind, next }) {
                break;
            }
        }
        Ok(())
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        self.tree.lock().node(dir).map_or(0, |n| n.last)
    }

    fn parent(&self, _: &Call<'_>, dir: &Inode) -> Result<Ino> {
        Ok(Ino(self.tree.lock().node(dir)?.parent))
    }

    fn is_empty_dir(&self, _: &Call<'_>, dir: &Inode) -> Result<bool> {
        Ok(self.tree.lock().node(dir)?.entries.is_empty())
    }

    fn readlink(&self, _: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        Ok(self.tree.lock().node(inode)?.target.clone())
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        let mut tree = self.tree.lock();
        let attr = Attr { size: new.target.len() as u64, ..new.attr(call.time) };
        // Numbers that a power failure gave back are born again, but later.
        let node = Node::new(attr, (call.time.0 ^ call.time.0 >> 32) as u32, dir.ino().0, new.target);
        tree.fits(NODE + ENTRY + LETTER * (new.target.len() + name.len()) as u64)?;
        let ino = tree.next;
        tree.next += 1;
        tree.nodes.insert(ino, node);
        tree.enter(dir, name, ino)?;
        tree.stamp(dir, call.time, (new.kind == FileKind::Dir).into())?;
        Ok(Created { ino: Ino(ino), loaded: loaded(attr) })
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let mut tree = self.tree.lock();
        tree.fits(ENTRY + LETTER * name.len() as u64)?;
        tree.enter(dir, name, inode.ino().0)?;
        tree.change(inode, |a| (a.nlink, a.ctime) = (a.nlink + 1, call.time))?;
        tree.stamp(dir, call.time, 0)
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let mut tree = self.tree.lock();
        let is_dir = inode.view(|a| a.kind == FileKind::Dir);
        tree.leave(dir, name)?;
        tree.change(inode, |a| (a.nlink, a.ctime) = (a.links_left(), call.time))?;
        tree.stamp(dir, call.time, -i32::from(is_dir))
    }

    fn rename(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        let mut tree = self.tree.lock();
        if r.target.is_none() {
            tree.fits(LETTER * r.to.len().saturating_sub(r.from.len()) as u64)?;
        }
        let (old, new) = r.links_moved();
        tree.leave(r.from_dir, r.from)?;
        if let Some(target) = r.target {
            tree.leave(r.to_dir, r.to)?;
            if r.exchange {
                tree.enter(r.from_dir, r.from, target.ino().0)?;
            }
            let left = |a: &Attr| if r.exchange { a.nlink } else { a.links_left() };
            tree.change(target, |a| (a.nlink, a.ctime) = (left(a), call.time))?;
        }
        tree.enter(r.to_dir, r.to, r.inode.ino().0)?;
        tree.change(r.inode, |a| a.ctime = call.time)?;
        tree.stamp(r.from_dir, call.time, old)?;
        tree.stamp(r.to_dir, call.time, new)
    }
}

impl Data for Minimal {
    file_system_lacks!(direct, rewrites_cut_page, flush_on_close);

    fn read_pages(&self, _: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        let mut tree = self.tree.lock();
        let pages = &tree.node(inode)?.pages;
        (first..).zip(out).for_each(|(n, page)| *page = pages.get(&n).cloned().unwrap_or(Page::ZERO));
        Ok(())
    }

    /// Holes get pages of zeros at once, so that write-back cannot fail for space.
    fn reserve(&self, _: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        let mut tree = self.tree.lock();
        let pages = &tree.node(inode)?.pages;
        let range = pos / SIZE..(pos + len).div_ceil(SIZE);
        let holes: Vec<u64> = range.filter(|n| !pages.contains_key(n)).collect();
        tree.fits(PAGE * holes.len() as u64)?;
        tree.node(inode)?.pages.extend(holes.into_iter().map(|n| (n, Page::ZERO)));
        Ok(())
    }

    fn wrote(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        let (end, time) = (pos + len, call.time);
        let wrote = |a: &mut Attr| (a.size, a.mtime, a.ctime) = (a.size.max(end), time, time);
        self.tree.lock().change(inode, wrote)
    }

    fn write_pages(&self, _: &Call<'_>, inode: &Inode, dirty: &[DirtyPage], _: WriteBackCause) -> Result<()> {
        let mut tree = self.tree.lock();
        tree.changed = true;
        let node = tree.node(inode)?;
        for page in dirty {
            // One that is not there was cut off.
            node.pages.entry(page.index).and_modify(|p| *p = page.page.clone());
        }
        let end = dirty.last().map_or(0, DirtyPage::end);
        node.attr.size = node.attr.size.max(end.min(inode.size()));
        Ok(())
    }

    fn fsync(&self, _: &Call<'_>, _: &Inode, _: bool) -> Result<()> {
        self.commit()
    }
}

impl Space for Minimal {
    file_system_lacks!(fallocate, seek_data, seek_hole, empty_until, trim, grow, sweep);

    fn statfs(&self, _: &Call<'_>) -> Result<StatFs> {
        let tree = self.tree.lock();
        let (free, blocks, inodes) = (tree.free(), tree.room / PAGE, tree.room / NODE);
        Ok(StatFs { blocks, free_blocks: free / PAGE, reserved_blocks: 0, inodes, free_inodes: free / NODE })
    }
}

impl Attributes for Minimal {
    file_system_lacks!(xattrs);

    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        let mut tree = self.tree.lock();
        if let Some(size) = set.size {
            let node = tree.node(inode)?;
            node.pages.split_off(&size.div_ceil(SIZE));
            node.pages.entry(size / SIZE).and_modify(|p| p.zero_from((size % SIZE) as usize));
            node.attr.size = size;
        }
        tree.change(inode, |a| a.set(set, call.time))
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.tree.lock().change(inode, |a| a.atime = call.time)
    }

    fn generation(&self, inode: &Inode) -> u32 {
        self.tree.lock().node(inode).map_or(0, |n| n.generation)
    }
}

impl Life for Minimal {
    file_system_lacks!(opened, closed, memory, attach, release, drop_caches);

    fn name(&self) -> &'static str {
        crate::ENTRY.name
    }

    fn features(&self) -> Features {
        Features::PLAIN
    }

    fn root(&self) -> Ino {
        Ino(ROOT)
    }

    fn load_inode(&self, _: &Call<'_>, ino: Ino) -> Result<Loaded> {
        self.tree.lock().nodes.get(&ino.0).map(|n| loaded(n.attr)).ok_or(FsError::Stale)
    }

    fn evict(&self, _: &Call<'_>, inode: &Inode) -> Result<()> {
        self.tree.lock().nodes.remove(&inode.ino().0).map(drop).ok_or(FsError::Stale)
    }

    fn sync(&self, _: &Call<'_>) -> Result<()> {
        self.commit()
    }

    fn unmount(&self, _: &Call<'_>) -> Result<()> {
        self.commit()
    }

    fn check(&self, _: &Call<'_>) -> Result<Vec<String>> {
        Ok(self.tree.lock().check())
    }
}
