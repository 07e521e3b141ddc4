//! The five traits.

use crate::Minimal;
use crate::tree::{ENTRY, Node, PIECE, ROOT, SIZE, Tree};
use granary_fs::*;
use granary_units::Page;
use std::sync::Arc;

type Emit<'a> = dyn FnMut(DirEntry<'_>) -> bool + 'a;

impl Names for Minimal {
    file_system_lacks!(create_unnamed, dir_end, is_empty_dir);

    fn lookup(&self, _: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        Ok(self.tree.lock().find(dir, name)?.map(|(_, ino)| Ino(ino)))
    }

    fn readdir(&self, _: &Call<'_>, dir: &Inode, from: u64, emit: &mut Emit<'_>) -> Result<()> {
        let Tree { nodes, .. } = &*self.tree.lock();
        let kind = |ino| nodes.get(ino).map_or(FileKind::File, |n| n.attr.kind);
        let mut all = nodes.get(&dir.ino().0).ok_or(FsError::Stale)?.entries.range(from.saturating_add(1)..);
        all.all(|(&next, (name, ino))| emit(DirEntry { name, ino: Ino(*ino), kind: kind(ino), next }));
        Ok(())
    }

    fn parent(&self, _: &Call<'_>, dir: &Inode) -> Result<Ino> {
        Ok(Ino(self.tree.lock().node(dir)?.parent))
    }

    fn readlink(&self, _: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        Ok(self.tree.lock().node(inode)?.target.clone())
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        let mut tree = self.tree.lock();
        tree.fits(PIECE + ENTRY)?;
        let attr = Attr { size: new.target.len() as u64, ..new.attr(call.time) };
        // A file that a power failure takes back can be made again only later: so no number comes back.
        let ino = (tree.last + 1).max(call.time.0.unsigned_abs());
        let (target, (entries, pages)) = (new.target.to_vec(), Default::default());
        tree.nodes.insert(ino, Node { attr, parent: ROOT, target, entries, pages });
        tree.last = ino;
        tree.set(call.time, (dir, name), Some(ino), (new.kind == FileKind::Dir).into())?;
        Ok(Created { ino: Ino(ino), loaded: Loaded { attr, private: Arc::new(()) } })
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let mut tree = self.tree.lock();
        tree.fits(ENTRY)?;
        tree.change(inode, |a| a.linked(call.time))?;
        tree.set(call.time, (dir, name), Some(inode.ino().0), 0)
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let mut tree = self.tree.lock();
        tree.change(inode, |a| a.unlinked(call.time))?;
        tree.set(call.time, (dir, name), None, -i32::from(inode.view(|a| a.kind == FileKind::Dir)))
    }

    fn rename(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        let mut tree = self.tree.lock();
        let (old, new) = r.links_moved();
        let back = r.exchanged().map(|target| target.ino().0);
        tree.set(call.time, (r.from_dir, r.from), back, old)?;
        tree.set(call.time, (r.to_dir, r.to), Some(r.inode.ino().0), new)?;
        if let Some(target) = r.replaced() {
            tree.change(target, |a| a.unlinked(call.time))?;
        }
        let mut moved = r.exchanged().into_iter().chain([r.inode]);
        moved.try_for_each(|moved| tree.change(moved, |a| a.changed(call.time)))
    }
}

impl Data for Minimal {
    file_system_lacks!(direct, rewrites_cut_page, flush_on_close, fsync);

    fn read_pages(&self, _: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        let mut tree = self.tree.lock();
        let pages = &tree.node(inode)?.pages;
        let page = |at| pages.get(&at).and_then(|p| p.first_chunk()).map_or(Page::ZERO, Page::from_bytes);
        (first..).zip(out).for_each(|(at, out)| *out = page(at));
        Ok(())
    }

    /// Holes get pages of zeros at once, so that write-back cannot fail for space.
    fn reserve(&self, _: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        let mut tree = self.tree.lock();
        let pages = &tree.node(inode)?.pages;
        let range = pos / SIZE..(pos + len).div_ceil(SIZE);
        let holes: Vec<u64> = range.filter(|at| !pages.contains_key(at)).collect();
        tree.fits(PIECE * holes.len() as u64)?;
        tree.node(inode)?.pages.extend(holes.into_iter().map(|at| (at, vec![0; SIZE as usize])));
        Ok(())
    }

    fn wrote(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.tree.lock().change(inode, |a| a.wrote(pos + len, call.time))
    }

    fn write_pages(&self, _: &Call<'_>, inode: &Inode, dirty: &[DirtyPage], _: WriteBackCause) -> Result<()> {
        let mut tree = self.tree.lock();
        for DirtyPage { index, page, .. } in dirty {
            // One that is not there was cut off.
            tree.node(inode)?.pages.entry(*index).and_modify(|p| *p = page.to_bytes().to_vec());
        }
        Ok(())
    }
}

impl Space for Minimal {
    file_system_lacks!(fallocate, seek_data, seek_hole, empty_until, trim, grow, sweep);

    fn statfs(&self, _: &Call<'_>) -> Result<StatFs> {
        let tree = self.tree.lock();
        let (blocks, free) = (tree.room / PIECE, tree.free() / PIECE);
        Ok(StatFs { blocks, free_blocks: free, reserved_blocks: 0, inodes: blocks, free_inodes: free })
    }
}

impl Attributes for Minimal {
    file_system_lacks!(xattrs, generation);

    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        let mut tree = self.tree.lock();
        if let Some(size) = set.size {
            tree.node(inode)?.pages.split_off(&size.div_ceil(SIZE));
        }
        tree.change(inode, |a| a.set(set, call.time))
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.tree.lock().change(inode, |a| a.accessed(call.time))
    }
}

impl Life for Minimal {
    file_system_lacks!(features, opened, closed, drop_clean, process_ended, memory);
    file_system_lacks!(attach, release, drop_caches, unmount);

    fn name(&self) -> &'static str {
        crate::ENTRY.name
    }

    fn root(&self) -> Ino {
        Ino(ROOT)
    }

    fn load_inode(&self, _: &Call<'_>, ino: Ino) -> Result<Loaded> {
        let attr = self.tree.lock().nodes.get(&ino.0).ok_or(FsError::Stale)?.attr;
        Ok(Loaded { attr, private: Arc::new(()) })
    }

    fn evict(&self, _: &Call<'_>, inode: &Inode) -> Result<()> {
        self.tree.lock().nodes.remove(&inode.ino().0).map(drop).ok_or(FsError::Stale)
    }

    /// Writes the tree where it has changed: all that came before is safe on return.
    fn sync(&self, _: &Call<'_>) -> Result<()> {
        let mut media = self.media.lock();
        let bytes = self.tree.lock().encode()?;
        media.write(bytes)
    }

    fn check(&self, _: &Call<'_>) -> Result<Vec<String>> {
        Ok(self.tree.lock().check())
    }
}
