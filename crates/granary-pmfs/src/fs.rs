//! [`FileSystem`] for [`Pmfs`].

use crate::layout::FANOUT;
use crate::layout::inode::{PLACE, generation, links, parse};
use crate::mount::write_super;
use crate::table::per_piece;
use crate::{MAX_FILE_SIZE, Pmfs, node};
use granary_device::Structure;
use granary_pm::{BLOCK, pages};
use granary_units::{Dest, Page, Payload};
use granary_vfs::{
    Allocate, Created, Cx, DirEntry, DirtyPage, Features, FileKind, FileSystem, FsError, Ino, Inode, Loaded,
    NewNode, Rename, Result, SetAttr, StatFs, Time, WriteBackCause,
};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering::Relaxed;

impl FileSystem for Pmfs {
    fn name(&self) -> &'static str {
        "pmfs"
    }

    fn features(&self) -> Features {
        Features { page_cache: false, max_file_size: MAX_FILE_SIZE, max_links: 65000, many_subdirs: false }
    }

    fn root(&self) -> Ino {
        Ino(1)
    }

    fn load_inode(&self, ino: Ino) -> Result<Loaded> {
        let addr = self.inode_addr(ino)?;
        let mut place = [0; PLACE as usize];
        self.pm.load(addr, &mut place[..80], Structure::Inode)?;
        if links(&place) == 0 {
            return Err(FsError::Stale);
        }
        let (attr, tree) = parse(&place, ino)?;
        self.checked(tree.root)?;
        if attr.size > MAX_FILE_SIZE || (attr.kind == FileKind::Symlink && attr.size >= BLOCK) {
            return Err(granary_pm::corrupt(format!("{ino}: a size of {}", attr.size)));
        }
        let parent = if attr.kind == FileKind::Dir {
            let dotdot = self.find(tree, attr.size.min(BLOCK), b"..")?;
            dotdot.ok_or_else(|| granary_pm::corrupt(format!("{ino}: a directory without \"..\"")))?.ino
        } else {
            0
        };
        Ok(self.loaded((ino, generation(&place)), addr, attr, tree, parent))
    }

    fn generation(&self, inode: &Inode) -> u32 {
        node(inode).generation
    }

    fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        let tree = *node(dir).tree.read();
        Ok(self.find(tree, dir.size(), name)?.map(|p| Ino(p.ino)))
    }

    fn readdir(&self, dir: &Inode, from: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let tree = *node(dir).tree.read();
        // "." and ".." take the first 32 bytes of the first block.
        self.scan(tree, dir.size(), from.max(32), &mut |offset, _, d, _| {
            if d.ino == 0
                || d.is_damaged()
                || emit(DirEntry { name: d.name, ino: Ino(d.ino), kind: d.kind, next: offset + 1 })
            {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok(())
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        // Positions are bytes of the directory.
        dir.size()
    }

    fn parent(&self, dir: &Inode) -> Result<Ino> {
        Ok(Ino(node(dir).parent.load(Relaxed)))
    }

    fn is_empty_dir(&self, dir: &Inode) -> Result<bool> {
        let tree = *node(dir).tree.read();
        let first = self.scan(tree, dir.size(), 32, &mut |_, _, d, _| match d.ino {
            0 => ControlFlow::Continue(()),
            // What it names would be lost.
            ino if d.is_damaged() => ControlFlow::Break(Err(granary_pm::corrupt(format!(
                "{}: an entry for inode {ino} has no name that can be",
                dir.ino()
            )))),
            _ => ControlFlow::Break(Ok(false)),
        })?;
        first.unwrap_or(Ok(true))
    }

    fn readlink(&self, inode: &Inode) -> Result<Vec<u8>> {
        let mut target = vec![0; inode.size() as usize];
        self.read_file(inode, 0, Dest::Bytes(&mut target))?;
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
        self.set_attributes(cx, inode, set)
    }

    fn touch_atime(&self, inode: &Inode, time: Time) -> Result<()> {
        // In place, eight bytes, without a fence (`pmfs_dirty_inode`).
        inode.update(|a| a.atime = time);
        self.stores(|b| {
            b.put_u64(node(inode).addr + 16, time.0 as u64, Structure::Inode)?;
            b.write_back()
        })
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
        self.read_file(inode, pos, dest)
    }

    fn write_direct(&self, cx: &Cx<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        self.write_file(cx, inode, pos, data)
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

    fn zero_beyond_end(&self) -> bool {
        // `zero_gap`: before the size grows, so that no other size is ever seen.
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
        let (places, used) = {
            let t = self.table.lock();
            (t.pieces.len() as u64 * per_piece(self.piece()) - 1, t.used())
        };
        // The table has so many pieces and no more.
        let most = FANOUT * per_piece(self.piece()) - 1;
        let inodes = (places + free / self.piece() * per_piece(self.piece())).min(most);
        let blocks = self.data_end - self.superblock.table() - 1;
        Ok(StatFs {
            blocks,
            free_blocks: free,
            // Nodes of trees: what is offered can be filled.
            reserved_blocks: StatFs::index_of_all(free, FANOUT),
            inodes,
            free_inodes: inodes.saturating_sub(used),
        })
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
