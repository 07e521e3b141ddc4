//! [`Passthrough`]: test support: the smallest stacked file system, whose every call goes to a [`Lower`]
//! layer.
//!
//! ```text
//!   inode N on top -> { node N below }       numbers, attributes and bytes are the lower layer's
//! ```
//!
//! It serves tests of [`Lower`], and is an example of how to stand on it. It acts below as the superuser,
//! since the vfs on top has asked whether the caller may. The layer on top may have a page cache of its own.
//! Then space is reserved and the size grows below at once, so that only bytes are late. The modification
//! time moves again when they arrive, and access times stay in memory. It owns the lower vfs: its unmount
//! unmounts that.

use granary_fs::{
    Allocate, Attributes, CachePolicy, Call, Created, Data, DirtyPage, Features, FsError, Ino, Inode, Life,
    Loaded, Quirks, Result, SetAttr, Space, StatFs, Time, WriteBackCause, flag,
};
use granary_units::{Dest, PAGE_SIZE, Page, Payload};
use granary_vfs::{Change, Lower, NodeRef, SetTime, Through, Vfs};
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

    fn below(&self, inode: &Inode) -> Result<NodeRef> {
        below(inode)
    }

    /// Names of these inodes were changed below.
    fn renamed(&self, inodes: &[&Inode]) -> Result<()> {
        inodes.iter().try_for_each(|inode| self.follow(inode))
    }

    fn created(&self, node: NodeRef) -> Created {
        Created { ino: node.ino(), loaded: self.loaded(node) }
    }

    /// After a call that changed it below: the attributes are as there, but for an access time that is later
    /// here.
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

granary_vfs::names_of_lower!(Passthrough);

impl Data for Passthrough {
    granary_fs::file_system_lacks!(rewrites_cut_page, flush_on_close);

    fn read_pages(&self, call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        let (node, mut bytes) = (below(inode)?, vec![0; out.len() * PAGE_SIZE]);
        let through = self.config.through;
        self.lower.read(&call.as_root(), &node, first * PAGE, Dest::Bytes(&mut bytes), through)?;
        for (page, bytes) in out.iter_mut().zip(bytes.as_chunks::<PAGE_SIZE>().0) {
            *page = Page::from_bytes(bytes);
        }
        Ok(())
    }

    fn reserve(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        let how = Allocate::Reserve { keep_size: true };
        self.lower.fallocate(&call.as_root(), &below(inode)?, how, pos, len)
    }

    fn wrote(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        let end = pos + len;
        if end > inode.size() {
            self.lower.truncate(&call.as_root(), &below(inode)?, end)?;
        }
        inode.update(|a| a.wrote(end, call.time));
        Ok(())
    }

    fn write_pages(
        &self,
        call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _: WriteBackCause,
    ) -> Result<()> {
        let (call, node) = (&call.as_root(), below(inode)?);
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
        self.lower.read(&call.as_root(), &below(inode)?, pos, dest, through).map(|_| ())
    }

    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        let through = if self.config.page_cache { Through::Direct } else { self.config.through };
        self.lower.write(&call.as_root(), &below(inode)?, pos, data, through)?;
        self.follow(inode)
    }

    fn fsync(&self, call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()> {
        self.lower.fsync(&call.as_root(), &below(inode)?, data_only)
    }
}

impl Space for Passthrough {
    granary_fs::file_system_lacks!(empty_until, trim, grow, sweep);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.lower.fallocate(&call.as_root(), &below(inode)?, how, pos, len)?;
        self.follow(inode)
    }

    fn seek_data(&self, call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        self.lower.seek_data(&call.as_root(), &below(inode)?, pos)
    }

    fn seek_hole(&self, call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        self.lower.seek_hole(&call.as_root(), &below(inode)?, pos)
    }

    fn statfs(&self, call: &Call<'_>) -> Result<StatFs> {
        self.lower.statfs(&call.as_root())
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
        self.lower.setattr(&call.as_root(), &below(inode)?, &change)?;
        if let Some(atime) = set.atime {
            inode.update(|a| a.atime = atime);
        }
        self.follow(inode)
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        inode.update(|a| a.accessed(call.time));
        Ok(())
    }

    fn getxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.lower.getxattr(&call.as_root(), &below(inode)?, name)
    }

    fn setxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.lower.setxattr(&call.as_root(), &below(inode)?, name, value)?;
        self.follow(inode)
    }

    fn listxattr(&self, call: &Call<'_>, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        self.lower.listxattr(&call.as_root(), &below(inode)?)
    }

    fn generation(&self, inode: &Inode) -> u32 {
        below(inode).map_or(0, |node| self.lower.generation(&node))
    }
}

impl Life for Passthrough {
    granary_fs::file_system_lacks!(opened, closed, process_ended, memory, attach);

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

    fn drop_clean(&self, call: &Call<'_>, inode: &Inode) {
        if let Ok(below) = below(inode) {
            self.lower.let_go(&call.as_root(), &below);
        }
    }

    fn sync(&self, call: &Call<'_>) -> Result<()> {
        self.lower.sync(&call.as_root())
    }

    fn unmount(&self, _call: &Call<'_>) -> Result<()> {
        self.lower.vfs().unmount()
    }

    fn check(&self, _call: &Call<'_>) -> Result<Vec<String>> {
        self.lower.vfs().check()
    }
}
