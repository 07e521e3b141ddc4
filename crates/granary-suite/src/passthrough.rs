//! [`Passthrough`]: test support: the smallest stacked file system, whose every call goes to a [`Lower`] layer.
//!
//! ```text
//!   inode N on top -> { node N below }       numbers, attributes and bytes are the lower layer's
//! ```
//!
//! What it is for: tests of [`Lower`], and an example of how to stand on it. It acts below as the superuser, since the vfs on top
//! has asked whether the caller may. Where the layer on top has a page cache of its own, space is reserved and the size grows
//! below at once, so that only bytes are late; the modification time then moves again when they arrive, and access times stay in
//! memory. It owns the lower vfs: its unmount unmounts that.

use granary_units::{Dest, PAGE_SIZE, Page, Payload};
use granary_vfs::{
    Allocate, Attributes, CachePolicy, Call, Change, Created, Cred, Data, DirEntry, DirtyPage, Features,
    FileKind, FsError, Ino, Inode, Life, Loaded, Lower, Names, NewNode, NodeRef, Quirks, Rename, RenameFlags,
    Result, SetAttr, SetTime, Space, StatFs, Through, Time, Vfs, WriteBackCause, flag,
};
use parking_lot::Mutex;
use std::sync::Arc;

const PAGE: u64 = PAGE_SIZE as u64;

/// How a [`Passthrough`] behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassthroughConfig {
    /// Whether it has pages in the cache of the vfs on top.
    pub page_cache: bool,
    /// Which way bytes go below.
    pub through: Through,
}

/// See the module.
pub struct Passthrough {
    lower: Lower,
    config: PassthroughConfig,
}

/// An inode's private part: its node below, until it is evicted or released.
struct Below(Mutex<Option<NodeRef>>);

/// The same call as the superuser's.
fn as_root<'a>(call: &Call<'a>) -> Call<'a> {
    static ROOT: Cred = Cred::ROOT;
    Call { cred: &ROOT, ..*call }
}

fn below(inode: &Inode) -> Result<NodeRef> {
    inode.private::<Below>().0.lock().clone().ok_or(FsError::Stale)
}

impl Passthrough {
    /// One on this vfs.
    pub fn new(lower: Arc<Vfs>, config: PassthroughConfig) -> Passthrough {
        Passthrough { lower: Lower::new(lower), config }
    }

    /// The layer that it stands on.
    pub fn lower(&self) -> &Lower {
        &self.lower
    }

    fn loaded(&self, node: NodeRef) -> Loaded {
        let attr = self.lower.stat(&node).attr;
        Loaded { attr, private: Arc::new(Below(Mutex::new(Some(node)))) }
    }

    fn made(&self, node: NodeRef) -> Created {
        Created { ino: node.ino(), loaded: self.loaded(node) }
    }

    /// After a call that changed it below: the attributes are as there, but for an access time that is later here.
    fn follow(&self, inode: &Inode) -> Result<()> {
        let attr = self.lower.stat(&below(inode)?).attr;
        inode.update(|a| {
            let atime = a.atime.max(attr.atime);
            *a = attr;
            a.atime = atime;
        });
        Ok(())
    }

    /// The inode leaves memory: so may its node.
    fn let_go(&self, inode: &Inode) {
        drop(inode.private::<Below>().0.lock().take());
        self.lower.reap();
    }
}

impl Names for Passthrough {
    fn lookup(&self, call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        Ok(self.lower.lookup(&as_root(call), &below(dir)?, name)?.map(|node| node.ino()))
    }

    fn readdir(
        &self,
        call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        self.lower.readdir(&as_root(call), &below(dir)?, from, emit)
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        below(dir).map_or(u64::MAX, |node| self.lower.dir_end(&node))
    }

    fn parent(&self, call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        let above = self.lower.lookup(&as_root(call), &below(dir)?, b"..")?;
        above.map(|node| node.ino()).ok_or(FsError::Stale)
    }

    fn is_empty_dir(&self, call: &Call<'_>, dir: &Inode) -> Result<bool> {
        self.lower.is_empty_dir(&as_root(call), &below(dir)?)
    }

    fn readlink(&self, call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        self.lower.readlink(&as_root(call), &below(inode)?)
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        let node = self.lower.create(&as_root(call), &below(dir)?, name, new)?;
        self.follow(dir)?;
        Ok(self.made(node))
    }

    fn create_unnamed(&self, call: &Call<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        Ok(self.made(self.lower.create_unnamed(&as_root(call), &below(dir)?, new)?))
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.lower.link(&as_root(call), &below(inode)?, &below(dir)?, name)?;
        self.follow(dir)?;
        self.follow(inode)
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let (call, dir_below) = (&as_root(call), below(dir)?);
        match inode.view(|a| a.kind) {
            FileKind::Dir => self.lower.rmdir(call, &dir_below, name)?,
            _ => self.lower.unlink(call, &dir_below, name)?,
        }
        self.follow(dir)?;
        self.follow(inode)
    }

    fn rename(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        let (from, to) = (below(r.from_dir)?, below(r.to_dir)?);
        let flags = RenameFlags { no_replace: r.target.is_none(), exchange: r.exchange };
        self.lower.rename(&as_root(call), (&from, r.from), (&to, r.to), flags)?;
        [r.from_dir, r.to_dir, r.inode].into_iter().chain(r.target).try_for_each(|inode| self.follow(inode))
    }
}

impl Data for Passthrough {
    granary_vfs::file_system_lacks!(rewrites_cut_page, flush_on_close);

    fn read_pages(&self, call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        let (node, mut bytes) = (below(inode)?, vec![0; out.len() * PAGE_SIZE]);
        let through = self.config.through;
        self.lower.read(&as_root(call), &node, first * PAGE, Dest::Bytes(&mut bytes), through)?;
        for (page, bytes) in out.iter_mut().zip(bytes.as_chunks::<PAGE_SIZE>().0) {
            *page = Page::from_bytes(bytes);
        }
        Ok(())
    }

    fn reserve(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let how = Allocate::Reserve { keep_size: true };
        self.lower.fallocate(&as_root(call), &below(inode)?, how, pos, len)
    }

    fn wrote(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        let end = pos + len;
        if end > inode.size() {
            self.lower.truncate(&as_root(call), &below(inode)?, end)?;
        }
        inode.update(|a| {
            a.size = a.size.max(end);
            (a.mtime, a.ctime) = (call.time, call.time);
        });
        Ok(())
    }

    fn write_pages(
        &self,
        call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _: WriteBackCause,
    ) -> Result<()> {
        let (call, node) = (&as_root(call), below(inode)?);
        let mut bytes = [0; PAGE_SIZE];
        for dirty in pages {
            // Below there are no bytes beyond the end.
            let end = dirty.end().min(inode.size());
            let pos = dirty.index * PAGE;
            let len = end.saturating_sub(pos) as usize;
            dirty.page.copy_out(0, &mut bytes[..len]);
            self.lower.write(call, &node, pos, Payload::Bytes(&bytes[..len]), self.config.through)?;
        }
        Ok(())
    }

    fn read_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        let through = if self.config.page_cache { Through::Direct } else { self.config.through };
        self.lower.read(&as_root(call), &below(inode)?, pos, dest, through).map(|_| ())
    }

    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        let through = if self.config.page_cache { Through::Direct } else { self.config.through };
        self.lower.write(&as_root(call), &below(inode)?, pos, data, through)?;
        self.follow(inode)
    }

    fn fsync(&self, call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()> {
        self.lower.fsync(&as_root(call), &below(inode)?, data_only)
    }
}

impl Space for Passthrough {
    granary_vfs::file_system_lacks!(empty_until, trim, grow, sweep);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.lower.fallocate(&as_root(call), &below(inode)?, how, pos, len)?;
        self.follow(inode)
    }

    fn seek_data(&self, call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        self.lower.seek_data(&as_root(call), &below(inode)?, pos)
    }

    fn seek_hole(&self, call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        self.lower.seek_hole(&as_root(call), &below(inode)?, pos)
    }

    fn statfs(&self, call: &Call<'_>) -> Result<StatFs> {
        self.lower.statfs(&as_root(call))
    }
}

impl Attributes for Passthrough {
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        let fixed = set.flags.is_some_and(|flags| flags & flag::FIXED != 0);
        if fixed && self.config.page_cache {
            // Pages that are still dirty on top could not be written any more.
            return Err(FsError::NotSupported);
        }
        let time = |time: Option<Time>| time.map_or(SetTime::Omit, SetTime::At);
        let &SetAttr { mode, uid, gid, size, flags, .. } = set;
        let (atime, mtime) = (time(set.atime), time(set.mtime));
        let change = Change { mode, uid, gid, size, atime, mtime, flags, chown: false };
        self.lower.setattr(&as_root(call), &below(inode)?, &change)?;
        if let Some(atime) = set.atime {
            inode.update(|a| a.atime = atime);
        }
        self.follow(inode)
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        inode.update(|a| a.atime = call.time);
        Ok(())
    }

    fn getxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.lower.getxattr(&as_root(call), &below(inode)?, name)
    }

    fn setxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.lower.setxattr(&as_root(call), &below(inode)?, name, value)?;
        self.follow(inode)
    }

    fn listxattr(&self, call: &Call<'_>, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        self.lower.listxattr(&as_root(call), &below(inode)?)
    }

    fn generation(&self, inode: &Inode) -> u32 {
        below(inode).map_or(0, |node| self.lower.generation(&node))
    }
}

impl Life for Passthrough {
    granary_vfs::file_system_lacks!(opened, closed, memory, attach);

    fn name(&self) -> &'static str {
        "passthrough"
    }

    fn features(&self) -> Features {
        Features {
            cache: if self.config.page_cache { CachePolicy::ALL } else { CachePolicy::NONE },
            direct_io: true,
            quirks: Quirks { zero_beyond_end: true, zeroes_edges: true, ..Quirks::NONE },
            ..self.lower.features()
        }
    }

    fn root(&self) -> Ino {
        self.lower.root().ino()
    }

    fn load_inode(&self, _call: &Call<'_>, ino: Ino) -> Result<Loaded> {
        Ok(self.loaded(self.lower.node(ino)?))
    }

    fn evict(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.let_go(inode);
        Ok(())
    }

    fn release(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.let_go(inode);
        Ok(())
    }

    fn drop_caches(&self, _call: &Call<'_>) {
        self.lower.vfs().drop_caches();
    }

    fn sync(&self, call: &Call<'_>) -> Result<()> {
        self.lower.sync(&as_root(call))
    }

    fn unmount(&self, _call: &Call<'_>) -> Result<()> {
        self.lower.vfs().unmount()
    }

    fn check(&self, _call: &Call<'_>) -> Result<Vec<String>> {
        self.lower.vfs().check()
    }
}
