//! The [`FileSystem`] trait over the operations of the other modules.

use crate::layout::dentry::BLOCK;
use crate::layout::node::{INLINE_AT, NODE_ADDRS, ROOT_INO};
use crate::layout::{BLOCK_SIZE, corrupt};
use crate::node::node;
use crate::{F2fs, MAX_FILE_SIZE, Unsynced};
use granary_units::{Dest, Page, Payload};
use granary_vfs::{
    Allocate, Created, Cx, DirEntry, DirtyPage, Features, FileSystem, Ino, Inode, Loaded, NewNode, Rename,
    Result, SetAttr, StatFs, Time, WriteBackCause,
};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Most hard links (F2FS_LINK_MAX is 2^32 - 1; ours leaves room for the count itself).
const LINK_MAX: u32 = u32::MAX - 1;

impl FileSystem for F2fs {
    fn name(&self) -> &'static str {
        "f2fs"
    }

    fn features(&self) -> Features {
        Features { page_cache: true, max_file_size: MAX_FILE_SIZE, max_links: LINK_MAX, many_subdirs: false }
    }

    fn root(&self) -> Ino {
        Ino(ROOT_INO as u64)
    }

    fn load_inode(&self, ino: Ino) -> Result<Loaded> {
        Ok(self.load(ino)?.loaded())
    }

    fn generation(&self, inode: &Inode) -> u32 {
        node(inode).state.lock().generation
    }

    fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        self.dir_lookup(dir, name)
    }

    fn readdir(&self, dir: &Inode, from: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.dir_read(dir, from, emit)
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        // Positions are slots; those of entries in the inode are fewer than a block has.
        dir.size().div_ceil(BLOCK_SIZE as u64).max(1) * BLOCK.slots as u64
    }

    fn parent(&self, dir: &Inode) -> Result<Ino> {
        Ok(Ino(node(dir).state.lock().parent as u64))
    }

    fn is_empty_dir(&self, dir: &Inode) -> Result<bool> {
        self.dir_is_empty(dir)
    }

    fn readlink(&self, inode: &Inode) -> Result<Vec<u8>> {
        let (node, len) = (node(inode), inode.size() as usize);
        if len > BLOCK_SIZE {
            return Err(corrupt(format!("symbolic link of {len} bytes")));
        }
        if node.state.lock().is_inline() {
            return Ok(self.inode_node(node.ino)?.with(|b| b[INLINE_AT..INLINE_AT + len].to_vec()));
        }
        let mut page = [Page::ZERO];
        self.read_run(inode, 0, &mut page)?;
        Ok(page[0].to_bytes()[..len].to_vec())
    }

    fn create(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        self.make(cx, dir, Some(name), new)
    }

    fn create_unnamed(&self, cx: &Cx<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        self.make(cx, dir, None, new)
    }

    fn link(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.add_link(cx, dir, name, inode)
    }

    fn unlink(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.remove_name(cx, dir, name, inode)
    }

    fn rename(&self, cx: &Cx<'_>, rename: &Rename<'_>) -> Result<()> {
        self.move_name(cx, rename)
    }

    fn setattr(&self, cx: &Cx<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.set_attributes(cx, inode, set)
    }

    fn touch_atime(&self, inode: &Inode, time: Time) -> Result<()> {
        inode.update(|a| a.atime = time);
        self.mark_inode(inode, false);
        Ok(())
    }

    fn evict(&self, inode: &Inode) -> Result<()> {
        self.end_inode(inode)
    }

    fn release(&self, inode: &Inode) -> Result<()> {
        let left = {
            let s = node(inode).state.lock();
            s.dirty || s.unsynced != Unsynced::default()
        };
        if left && !self.broken.load(Relaxed) { self.unload(node(inode)) } else { Ok(()) }
    }

    fn read_pages(&self, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        self.read_run(inode, first, out)
    }

    fn reserve(&self, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.promise_range(inode, pos, len)
    }

    fn wrote(&self, cx: &Cx<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.stamp_write(cx, inode, pos + len);
        Ok(())
    }

    fn write_pages(&self, inode: &Inode, pages: &[DirtyPage], why: WriteBackCause) -> Result<()> {
        self.write_back(inode, pages, why)
    }

    fn read_direct(&self, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        self.read_past(inode, pos, dest)
    }

    fn write_direct(&self, cx: &Cx<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        self.write_past(cx, inode, pos, data)
    }

    fn fallocate(&self, cx: &Cx<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.change_space(cx, inode, how, pos, len)
    }

    fn rewrites_cut_page(&self, inode: &Inode, size: u64) -> Result<bool> {
        self.has_block(inode, size)
    }

    fn seek_data(&self, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        self.next_data(inode, pos)
    }

    fn seek_hole(&self, inode: &Inode, pos: u64) -> Result<u64> {
        self.next_hole(inode, pos)
    }

    fn getxattr(&self, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_xattr(inode, name)
    }

    fn setxattr(&self, cx: &Cx<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.set_xattr(cx, inode, name, value)
    }

    fn listxattr(&self, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        self.list_xattrs(inode)
    }

    fn fsync(&self, inode: &Inode, data_only: bool) -> Result<()> {
        self.sync_inode(inode, data_only)
    }

    fn sync(&self) -> Result<()> {
        self.sync_all()
    }

    fn drop_caches(&self) {
        self.nodes.drop_clean();
        self.dents.drop_clean();
        self.tables.drop_clean();
    }

    fn trim(&self, blocks: Range<u64>, least: u64) -> Result<u64> {
        // All that is dead and no checkpoint needs; which part of the drive it is in makes no difference to it.
        let _ = blocks;
        let before = self.stats.lock().discarded;
        while self.discard_some(64, least.try_into().unwrap_or(u32::MAX)) == 64 {}
        Ok(self.stats.lock().discarded - before)
    }

    fn statfs(&self) -> Result<StatFs> {
        let s = *self.space.lock();
        let free_blocks = s.user.saturating_sub(s.valid);
        let nids = (self.geo.nids() - crate::layout::node::FIRST_NID) as u64;
        let inodes = nids.min(s.user);
        let free_inodes = (nids.saturating_sub(s.nodes as u64)).min(free_blocks);
        // A block of nodes names so many of data: what is offered can be filled.
        let reserved_blocks = StatFs::index_of_all(free_blocks, NODE_ADDRS as u64);
        Ok(StatFs { blocks: s.user, free_blocks, reserved_blocks, inodes, free_inodes })
    }

    fn unmount(&self) -> Result<()> {
        let daemons = std::mem::take(&mut *self.daemons.lock());
        daemons.into_iter().for_each(granary_sim::Daemon::stop);
        self.checkpoint(true)?;
        if self.options.discard {
            self.discard_some(usize::MAX, 1);
        }
        Ok(())
    }

    fn check(&self) -> Result<Vec<String>> {
        self.check_all()
    }
}
