//! [`Client`]: calls a file system under the vfs's rules (locks, checked arguments), without a page cache:
//! every write goes to `write_pages` at once.

use granary_fs::{
    Call, DirtyPage, FileKind, FileSystem, FsError, Ino, Inode, NewNode, Rename, Result, SetAttr, Time,
    WriteBackCause,
};
use granary_units::{LINE_SIZE, PAGE_SIZE, Page, Payload};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A caller.
pub struct Client {
    pub fs: Arc<dyn FileSystem>,
    inodes: Mutex<BTreeMap<u64, Arc<Inode>>>,
}

fn call() -> Call<'static> {
    Call::kernel(Time(granary_sim::now().0 as i64))
}

impl Client {
    pub fn new(fs: Arc<dyn FileSystem>) -> Client {
        Client { fs, inodes: Mutex::new(BTreeMap::new()) }
    }

    pub fn inode(&self, ino: Ino) -> Result<Arc<Inode>> {
        if let Some(i) = self.inodes.lock().get(&ino.0) {
            return Ok(i.clone());
        }
        let loaded = self.fs.load_inode(&Call::offline(), ino)?;
        let fresh = Arc::new(Inode::new(ino, loaded));
        Ok(self.inodes.lock().entry(ino.0).or_insert(fresh).clone())
    }

    pub fn root(&self) -> Arc<Inode> {
        self.inode(self.fs.root()).expect("the root is there")
    }

    pub fn make(&self, dir: &Inode, name: &[u8], kind: FileKind, target: &[u8]) -> Result<Arc<Inode>> {
        let _lock = dir.rwsem.write();
        if self.fs.lookup(&Call::offline(), dir, name)?.is_some() {
            return Err(FsError::Exists);
        }
        let new = NewNode { kind, mode: 0o644, uid: 5, gid: 6, rdev: 0, target, direct_sync: false };
        let made = self.fs.create(&call(), dir, name, &new)?;
        let inode = Arc::new(Inode::new(made.ino, made.loaded));
        let old = self.inodes.lock().insert(made.ino.0, inode.clone());
        assert!(old.is_none(), "{} was given out while in use", made.ino);
        Ok(inode)
    }

    pub fn file(&self, dir: &Inode, name: &[u8]) -> Result<Arc<Inode>> {
        self.make(dir, name, FileKind::File, &[])
    }

    pub fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Option<Arc<Inode>>> {
        let _lock = dir.rwsem.read();
        self.fs.lookup(&Call::offline(), dir, name)?.map(|ino| self.inode(ino)).transpose()
    }

    /// Removes a name; with the last one the inode, unless it is kept open (then [`Client::close`] ends it).
    pub fn unlink(&self, dir: &Inode, name: &[u8], keep_open: bool) -> Result<Arc<Inode>> {
        let victim = {
            let _dir = dir.rwsem.write();
            let ino = self.fs.lookup(&Call::offline(), dir, name)?.ok_or(FsError::NoEntry)?;
            let victim = self.inode(ino)?;
            let _victim = victim.rwsem.write();
            if victim.attr().kind == FileKind::Dir && !self.fs.is_empty_dir(&Call::offline(), &victim)? {
                return Err(FsError::NotEmpty);
            }
            self.fs.unlink(&call(), dir, name, &victim)?;
            victim.clone()
        };
        if !keep_open {
            self.close(&victim)?;
        }
        Ok(victim)
    }

    /// Nobody uses the inode any more.
    pub fn close(&self, inode: &Arc<Inode>) -> Result<()> {
        if inode.attr().nlink == 0 {
            // Out of the table first: the number may be given out as soon as it is free.
            self.inodes.lock().remove(&inode.ino().0);
            self.fs.evict(&Call::offline(), inode)?;
        }
        Ok(())
    }

    pub fn link(&self, dir: &Inode, name: &[u8], inode: &Arc<Inode>) -> Result<()> {
        let _dir = dir.rwsem.write();
        let _inode = inode.rwsem.write();
        self.fs.link(&call(), dir, name, inode)
    }

    pub fn rename(&self, a: &Inode, from: &[u8], b: &Inode, to: &[u8], exchange: bool) -> Result<()> {
        let mut dirs = vec![a, b];
        dirs.sort_by_key(|d| d.ino());
        dirs.dedup_by_key(|d| d.ino());
        let locks: Vec<_> = dirs.iter().map(|d| d.rwsem.write()).collect();
        let moved = self.inode(self.fs.lookup(&Call::offline(), a, from)?.ok_or(FsError::NoEntry)?)?;
        let target = self.fs.lookup(&Call::offline(), b, to)?.map(|ino| self.inode(ino)).transpose()?;
        let r =
            Rename { from_dir: a, from, inode: &moved, to_dir: b, to, target: target.as_deref(), exchange };
        self.fs.rename(&call(), &r)?;
        drop(locks);
        match target {
            Some(t) if !exchange => self.close(&t),
            _ => Ok(()),
        }
    }

    /// Writes through to the drive.
    pub fn write(&self, inode: &Inode, pos: u64, data: &[u8]) -> Result<()> {
        let _lock = inode.rwsem.write();
        let size = inode.size();
        self.fs.reserve(&Call::offline(), inode, pos, data.len() as u64)?;
        let first = pos / PAGE_SIZE as u64;
        let end = (pos + data.len() as u64).div_ceil(PAGE_SIZE as u64);
        // The gap between the old end and `pos` is zeroed in the page of the old end, as the vfs does.
        let tail =
            (size < pos && !size.is_multiple_of(PAGE_SIZE as u64) && size / (PAGE_SIZE as u64) < first)
                .then_some(size / PAGE_SIZE as u64);
        let mut dirty = Vec::new();
        for index in tail.into_iter().chain(first..end) {
            let begin = index * PAGE_SIZE as u64;
            let mut page = [Page::ZERO];
            self.fs.read_pages(&Call::offline(), inode, index, &mut page)?;
            let [mut page] = page;
            let mut lines = 0u64;
            let mut mark =
                |a: usize, b: usize| (a / LINE_SIZE..b.div_ceil(LINE_SIZE)).for_each(|l| lines |= 1 << l);
            if size < begin + PAGE_SIZE as u64 {
                let from = size.saturating_sub(begin) as usize;
                page.zero_from(from);
                mark(from, PAGE_SIZE);
            }
            let (a, b) = (pos.max(begin), (pos + data.len() as u64).min(begin + PAGE_SIZE as u64));
            if a < b {
                let part = &data[(a - pos) as usize..(b - pos) as usize];
                page.write((a - begin) as usize, Payload::Bytes(part));
                mark((a - begin) as usize, (b - begin) as usize);
            }
            dirty.push(DirtyPage { index, page, valid: PAGE_SIZE, lines });
        }
        self.fs.wrote(&call(), inode, pos, data.len() as u64)?;
        self.fs.write_pages(&Call::offline(), inode, &dirty, WriteBackCause::Sync)
    }

    pub fn truncate(&self, inode: &Inode, size: u64) -> Result<()> {
        let _lock = inode.rwsem.write();
        let old = inode.size();
        if size > old && !old.is_multiple_of(PAGE_SIZE as u64) {
            // As the vfs does: the rest of the last page becomes zeros before it belongs to the file.
            let index = old / PAGE_SIZE as u64;
            let mut page = [Page::ZERO];
            self.fs.read_pages(&Call::offline(), inode, index, &mut page)?;
            let [mut page] = page;
            page.zero_from((old % PAGE_SIZE as u64) as usize);
            let dirty = [DirtyPage {
                index,
                page,
                valid: PAGE_SIZE,
                lines: u64::MAX << (old % PAGE_SIZE as u64 / 64),
            }];
            self.fs.reserve(&Call::offline(), inode, old, 1)?;
            self.fs.write_pages(&Call::offline(), inode, &dirty, WriteBackCause::Sync)?;
        }
        self.fs.setattr(&call(), inode, &SetAttr { size: Some(size), ..SetAttr::default() })
    }

    pub fn read(&self, inode: &Inode) -> Result<Vec<u8>> {
        let _lock = inode.rwsem.read();
        let size = inode.size() as usize;
        let mut pages = vec![Page::ZERO; size.div_ceil(PAGE_SIZE)];
        self.fs.read_pages(&Call::offline(), inode, 0, &mut pages)?;
        let mut out = vec![0; pages.len() * PAGE_SIZE];
        for (page, out) in pages.iter().zip(out.chunks_mut(PAGE_SIZE)) {
            page.copy_out(0, out);
        }
        out.truncate(size);
        Ok(out)
    }

    pub fn list(&self, dir: &Inode) -> Result<Vec<(Vec<u8>, FileKind)>> {
        let _lock = dir.rwsem.read();
        let mut all = Vec::new();
        self.fs.readdir(&Call::offline(), dir, 0, &mut |e| {
            all.push((e.name.to_vec(), e.kind));
            true
        })?;
        all.sort();
        Ok(all)
    }
}

/// `len` bytes that differ with `seed`.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (seed.wrapping_mul(0x9e37_79b9).wrapping_add(i as u64 * 31) >> 3) as u8).collect()
}
