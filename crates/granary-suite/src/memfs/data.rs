//! Bytes.

use super::{MemFs, PAGE, UNLIMITED, assert_exclusive, assert_locked, begin_writing};
use granary_fs::{Call, Data, DirtyPage, FsError, Inode, Result, WriteBackCause};
use granary_units::{Dest, Page, Payload};
use std::sync::atomic::Ordering::Relaxed;

impl Data for MemFs {
    granary_fs::file_system_lacks!(rewrites_cut_page, flush_on_close);

    fn read_pages(&self, _call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        assert_locked(inode);
        self.fault()?;
        self.step(|s| {
            let node = s.node(inode);
            let end = first + out.len() as u64;
            assert!(end <= node.attr.size.div_ceil(PAGE), "pages beyond the end of {} are read", inode.ino());
            for (i, page) in out.iter_mut().enumerate() {
                *page = node.blocks.get(&(first + i as u64)).cloned().unwrap_or(Page::ZERO);
            }
            Ok(())
        })
    }

    fn reserve(&self, _call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        assert_exclusive(inode);
        self.fault()?;
        self.step(|s| {
            let pages: Vec<u64> = (pos / PAGE..(pos + len).div_ceil(PAGE)).collect();
            let node = s.node(inode);
            let new = pages.iter().filter(|p| !node.blocks.contains_key(p) && !node.reserved.contains(p));
            let new = new.count() as u64;
            if self.config.blocks < UNLIMITED && s.used() + new > self.config.blocks {
                return Err(FsError::NoSpace);
            }
            s.node(inode).reserved.extend(pages);
            Ok(())
        })
    }

    fn wrote(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        assert_exclusive(inode);
        self.step(|s| {
            s.change(inode, |a| a.wrote(pos + len, call.time));
            Ok(())
        })
    }

    fn write_pages(
        &self,
        _call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _: WriteBackCause,
    ) -> Result<()> {
        begin_writing(&mut self.state.lock(), inode);
        self.pause();
        let fails = self.write_faults.load(Relaxed);
        match &mut *self.state.lock() {
            s if fails => s.node(inode).on_media = None,
            s => s.store(inode, pages),
        }
        self.pause();
        self.state.lock().node(inode).writing = false;
        if fails { Err(MemFs::injected()) } else { Ok(()) }
    }

    fn read_direct(&self, _call: &Call<'_>, inode: &Inode, pos: u64, mut dest: Dest<'_>) -> Result<()> {
        assert_locked(inode);
        self.fault()?;
        self.step(|s| {
            s.load(inode, pos, &mut dest);
            Ok(())
        })
    }

    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        assert_exclusive(inode);
        self.fault()?;
        self.step(|s| {
            s.overwrite(inode, pos, data);
            s.change(inode, |a| a.wrote(pos + data.len() as u64, call.time));
            Ok(())
        })
    }

    fn fsync(&self, _call: &Call<'_>, inode: &Inode, _: bool) -> Result<()> {
        self.step(|s| {
            assert!(s.inodes.contains_key(&inode.ino()));
            Ok(())
        })
    }
}
