//! [`FileSystem`] for [`Nova`].

use crate::layout::inode;
use crate::mount::write_super;
use crate::namespace::node;
use crate::replay::MAX_FILE_SIZE;
use crate::{Nova, inodes};
use granary_device::Structure;
use granary_pm::pages;
use granary_units::{Dest, Page, Payload};
use granary_vfs::{
    Allocate, Created, Cx, DirEntry, DirtyPage, Features, FileSystem, FsError, Ino, Inode, Loaded, NewNode,
    Rename, Result, SetAttr, StatFs, Time, WriteBackCause,
};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

impl FileSystem for Nova {
    fn name(&self) -> &'static str {
        "nova"
    }

    fn features(&self) -> Features {
        Features { page_cache: false, max_file_size: MAX_FILE_SIZE, max_links: 65000, many_subdirs: false }
    }

    fn root(&self) -> Ino {
        self.root_ino()
    }

    fn load_inode(&self, ino: Ino) -> Result<Loaded> {
        let slot = self.slot(ino)?;
        let r = self.replay(ino, slot, true)?.ok_or(FsError::Stale)?;
        Ok(self.loaded((ino, r.generation), r.attr, r.state, r.parent))
    }

    fn generation(&self, inode: &Inode) -> u32 {
        node(inode).generation
    }

    fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        Ok(node(dir).state.read().dir().get(name).map(|d| Ino(d.ino)))
    }

    fn readdir(&self, dir: &Inode, from: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
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

    fn parent(&self, dir: &Inode) -> Result<Ino> {
        Ok(Ino(node(dir).parent.load(Relaxed)))
    }

    fn is_empty_dir(&self, dir: &Inode) -> Result<bool> {
        Ok(node(dir).state.read().dir().len() == 0)
    }

    fn readlink(&self, inode: &Inode) -> Result<Vec<u8>> {
        let mut target = vec![0; inode.size() as usize];
        self.read_file(node(inode), 0, Dest::Bytes(&mut target))?;
        Ok(target)
    }

    fn create(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        self.create_node(cx, dir, name, new)
    }

    fn create_unnamed(&self, cx: &Cx<'_>, _dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        self.create_unnamed_node(cx, new)
    }

    fn link(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.link_node(cx, dir, name, inode)
    }

    fn unlink(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.unlink_node(cx, dir, name, inode)
    }

    fn rename(&self, cx: &Cx<'_>, rename: &Rename<'_>) -> Result<()> {
        self.rename_node(cx, rename)
    }

    fn setattr(&self, cx: &Cx<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.set_attributes(cx, inode, node(inode), set)
    }

    fn touch_atime(&self, inode: &Inode, time: Time) -> Result<()> {
        // In place and without a fence: the original, too, relaxes this one (`nova_dirty_inode`).
        inode.update(|a| a.atime = time);
        let st = node(inode).state.read();
        let mut b = self.pm.batch();
        b.put_u64(st.slot + inode::ATIME, time.0 as u64, Structure::Inode)?;
        b.put_u32(st.slot + inode::ATIME_EPOCH, st.epoch, Structure::Inode)?;
        b.write_back()
    }

    fn evict(&self, inode: &Inode) -> Result<()> {
        self.evict_node(inode)
    }

    fn release(&self, inode: &Inode) -> Result<()> {
        self.nodes.lock().remove(&inode.ino().0);
        Ok(())
    }

    fn read_pages(&self, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        pages::read(self, inode, first, out)
    }

    fn reserve(&self, _inode: &Inode, _pos: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn wrote(&self, _cx: &Cx<'_>, _inode: &Inode, _pos: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn write_pages(&self, inode: &Inode, pages: &[DirtyPage], _why: WriteBackCause) -> Result<()> {
        pages::write(self, inode, pages)
    }

    fn read_direct(&self, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        self.read_file(node(inode), pos, dest)
    }

    fn write_direct(&self, cx: &Cx<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        self.write_file(cx, inode, node(inode), pos, data)
    }

    fn fallocate(&self, cx: &Cx<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.change_space(cx, inode, how, pos, len)
    }

    fn seek_data(&self, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        Ok(self.next_data(inode, pos))
    }

    fn seek_hole(&self, inode: &Inode, pos: u64) -> Result<u64> {
        Ok(self.next_hole(inode, pos))
    }

    fn zero_beyond_end(&self) -> bool {
        true
    }

    fn fsync(&self, _inode: &Inode, _data_only: bool) -> Result<()> {
        // Everything is durable when its call returns; the original issues a fence.
        self.pm.batch().fence()
    }

    fn sync(&self) -> Result<()> {
        self.pm.batch().fence()
    }

    fn trim(&self, blocks: Range<u64>, least: u64) -> Result<u64> {
        self.free.trim(&self.pm, blocks, least)
    }

    fn statfs(&self) -> Result<StatFs> {
        let free = self.free.available();
        let (mut places, used) = (0, self.used_inodes.load(Relaxed));
        for table in &self.tables {
            places += table.lock().pieces.len() as u64 * inodes::per_piece(self.piece) - 1;
        }
        let more = free / self.piece * inodes::per_piece(self.piece);
        let blocks = self.data_end - crate::mount::first_free(&self.superblock);
        let (inodes, free_inodes) = (places + more, places + more - used);
        Ok(StatFs { blocks, free_blocks: free, reserved_blocks: 0, inodes, free_inodes })
    }

    fn unmount(&self) -> Result<()> {
        self.pm.batch().fence()?;
        let Some(saved) = self.save_lists()? else {
            // No block is free for the lists: the next mount scans.
            return Ok(());
        };
        let mut sb = self.superblock;
        (sb.clean, sb.saved) = (true, saved);
        write_super(&self.pm, &sb)
    }

    fn check(&self) -> Result<Vec<String>> {
        self.check_all()
    }
}
