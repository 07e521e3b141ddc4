//! The [`FileSystem`] trait over the operations of the other modules.

use crate::layout::inode::ROOT_INO;
use crate::layout::superblock::{CLEAN, CLEAN_LOOSE, DIRTY, Superblock};
use crate::node::Node;
use crate::options::DataMode;
use crate::{Ext4, MAX_FILE_SIZE};
use granary_device::Structure;
use granary_units::{Dest, Lpa, Page, Payload};
use granary_vfs::{
    Allocate, Created, Cx, DirEntry, DirtyPage, DirtyPages, Features, FileSystem, Ino, Inode, Loaded,
    NewNode, Rename, Result, SetAttr, StatFs, TRIM_RUN, Time, WriteBackCause,
};
use std::ops::Range;
use std::sync::Weak;

/// Most hard links (EXT4_LINK_MAX); a directory that would have more stops counting (namei.rs).
pub(crate) const LINK_MAX: u32 = 65000;

impl FileSystem for Ext4 {
    fn name(&self) -> &'static str {
        "ext4"
    }

    fn features(&self) -> Features {
        Features { page_cache: true, max_file_size: MAX_FILE_SIZE, max_links: LINK_MAX, many_subdirs: true }
    }

    fn attach(&self, pages: Weak<dyn DirtyPages>) {
        *self.pages.lock() = Some(pages);
    }

    fn root(&self) -> Ino {
        Ino(ROOT_INO as u64)
    }

    fn load_inode(&self, ino: Ino) -> Result<Loaded> {
        self.load(ino)
    }

    fn generation(&self, inode: &Inode) -> u32 {
        inode.private::<Node>().state.lock().generation
    }

    fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        self.dir_lookup(dir, name)
    }

    fn readdir(&self, dir: &Inode, from: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.dir_read(dir, from, emit)
    }

    fn dir_end(&self, _dir: &Inode) -> u64 {
        // Positions are hashes: half of the new names come before the place that was reached.
        u64::MAX
    }

    fn parent(&self, dir: &Inode) -> Result<Ino> {
        self.dir_parent(dir)
    }

    fn is_empty_dir(&self, dir: &Inode) -> Result<bool> {
        self.dir_is_empty(dir)
    }

    fn readlink(&self, inode: &Inode) -> Result<Vec<u8>> {
        let (node, len) = (inode.private::<Node>(), inode.size() as usize);
        if len < crate::layout::inode::ROOT_SIZE {
            return Ok(node.state.lock().root[..len].to_vec());
        }
        if len > crate::layout::BLOCK_SIZE {
            return Err(crate::layout::corrupt(format!("symbolic link of {len} bytes")));
        }
        let crate::extents::Mapping::Mapped { start, .. } = self.map_block(node, 0)? else {
            return Err(crate::layout::corrupt("a long symbolic link has no block"));
        };
        Ok(self.cache.get(Lpa(start), Structure::Data)?.with(|b| b[..len].to_vec()))
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
        self.journal.run(2, |h| self.mark_inode(h, inode))
    }

    fn evict(&self, inode: &Inode) -> Result<()> {
        self.end_inode(inode)
    }

    fn release(&self, inode: &Inode) -> Result<()> {
        self.groups.discard(inode.ino().0 as u32);
        self.drop_promises(inode, 0);
        Ok(())
    }

    fn read_pages(&self, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        self.read_run(inode, first, out)
    }

    fn reserve(&self, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.promise_range(inode, pos, len).map(drop)
    }

    fn wrote(&self, cx: &Cx<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.stamp_write(cx, inode, pos + len, false, false)
    }

    fn write_pages(&self, inode: &Inode, pages: &[DirtyPage], _why: WriteBackCause) -> Result<()> {
        self.write_back(inode, pages)
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

    fn seek_data(&self, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        self.next_data(inode, pos)
    }

    fn seek_hole(&self, inode: &Inode, pos: u64) -> Result<u64> {
        self.next_hole(inode, pos)
    }

    fn empty_until(&self, inode: &Inode, pos: u64) -> Result<u64> {
        self.unwritten_until(inode, pos)
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

    fn drop_caches(&self) {
        self.cache.drop_clean();
    }

    fn flush_before_replace(&self) -> bool {
        self.options.auto_da_alloc
    }

    fn watches_close(&self) -> bool {
        true
    }

    fn flush_on_close(&self, inode: &Inode) -> bool {
        let truncated = std::mem::take(&mut inode.private::<Node>().state.lock().flush_on_close);
        truncated && self.options.auto_da_alloc
    }

    fn writes_through(&self) -> bool {
        self.options.data == DataMode::Journal
    }

    fn rewrites_cut_page(&self, inode: &Inode, size: u64) -> Result<bool> {
        self.holds_data(inode, size)
    }

    fn punches_last_page(&self) -> bool {
        true
    }

    /// `ext4_should_use_dio`: journalled data has to pass through the journal.
    fn direct_io(&self) -> bool {
        self.options.data != DataMode::Journal
    }

    fn fsync(&self, inode: &Inode, data_only: bool) -> Result<()> {
        if self.options.data == DataMode::Journal {
            return self.fsync_journalled(inode);
        }
        let tid = {
            let s = inode.private::<Node>().state.lock();
            if data_only { s.datasync_tid } else { s.sync_tid }
        };
        self.journal.sync_tid(tid)
    }

    fn sync(&self) -> Result<()> {
        self.journal.sync()
    }

    fn trim(&self, blocks: Range<u64>, least: u64) -> Result<u64> {
        let (mut at, mut told) = (blocks.start, 0);
        while let Some((start, len)) = self.groups.take_next(at..blocks.end, least, TRIM_RUN)? {
            let done = self.port.trim(Lpa(start), len).map(|ticket| self.port.wait(ticket));
            self.groups.put_back(start, len);
            done?;
            told += len;
            at = start + len;
        }
        Ok(told)
    }

    fn statfs(&self) -> Result<StatFs> {
        let geo = &self.groups.geo;
        Ok(StatFs {
            blocks: geo.blocks,
            free_blocks: self.groups.space().available(),
            reserved_blocks: 0,
            inodes: geo.inodes() as u64,
            free_inodes: self.groups.free_inodes(),
        })
    }

    fn unmount(&self) -> Result<()> {
        self.journal.shut_down()?;
        self.journal.stop();
        for daemon in std::mem::take(&mut *self.daemons.lock()) {
            daemon.stop();
        }
        self.write_superblock(if self.loose { CLEAN_LOOSE } else { CLEAN })
    }

    fn check(&self) -> Result<Vec<String>> {
        self.check_all()
    }
}

impl Ext4 {
    /// Writes the superblock past the journal, as mount and unmount do.
    pub(crate) fn write_superblock(&self, state: u32) -> Result<()> {
        let free_blocks = self.groups.space().free;
        let free_inodes = self.groups.free_inodes() as u32;
        let page = self.superblock.change(|b| {
            let mut sb = Superblock::parse(b)?;
            sb.state = state.into();
            sb.free_blocks = free_blocks.into();
            sb.free_inodes = free_inodes.into();
            if state == DIRTY {
                sb.mounts = sb.mounts.get().wrapping_add(1).into();
            }
            sb.store(b);
            Ok::<_, granary_vfs::FsError>(Page::from_bytes(b))
        })?;
        self.port.write(Lpa(0), &[page], Structure::Superblock)?;
        self.journal.flush()
    }
}
