//! [`Vfs`]: a mounted file system; operations by inode, in the shape of FUSE's low-level calls.
//!
//! ```text
//!   lookup.rs     one name, "..", loading and letting go of inodes      names.rs  dentry and inode cache
//!   namespace.rs  create, link, remove                                  node.rs   an inode in memory
//!   rename.rs     rename and its lock order                             perm.rs   who may do what
//!   attrs.rs      stat, setattr, truncate
//!   io.rs         open, read, write through the page cache              direct.rs past it
//!   readdir.rs    directories                                           flush.rs  write-back, fsync, sync
//!   space.rs      fallocate, data and holes                             xattrs.rs extended attributes
//!   caches.rs     drop_caches                                           copy.rs   copy_file_range, O_TMPFILE
//!   mmap.rs       mappings, msync                                       entrance.rs cost of entering
//! ```
//!
//! Lock order (Linux's): the rename lock; directories, ancestor first; files, by number; an inode's
//! write-back lock. The short locks of the caches come last and are never held across a wait.
//!
//! All changes of one call become visible together. Names change while all inodes involved are locked, and
//! attributes are read under the inode's lock, so that a history of calls has a serial order.
//!
//! CPU time (`granary_sim::HostCosts`): `inode_op`, `namespace_op`, `page` and `copy` are charged here;
//! `path_component` by [`crate::Process`]. The first layer that knows of a new system call counts it and
//! charges `syscall` (`Vfs::enter`). Calls from a stacked file system ([`crate::Lower`]) are counted and
//! charged already.

mod acls;
mod attrs;
mod caches;
mod copy;
mod dentries;
mod direct;
mod effects;
mod entrance;
mod flush;
mod inodes;
mod io;
mod lookup;
mod mmap;
mod names;
mod namespace;
mod node;
pub(crate) mod perm;
mod readdir;
mod rename;
mod space;
mod write_error;
mod xattrs;

pub use attrs::Change;
pub use io::OpenFile;
pub use mmap::MemoryMap;
pub use namespace::NewFile;
pub use node::{Farewell, Node, NodeRef};
pub use readdir::DirStream;

pub(crate) use node::NO_MAPPING;
pub(crate) use rename::Side;

use crate::cache::{self, CacheStats, Gated, PageCache};
use crate::config::VfsConfig;
use effects::Effects;
use granary_fs::{
    Call, Caller, Cred, Features, FileSystem, FsError, Origin, Result, StatFs, Sweep, Swept, Time,
};
use granary_sim::sync::Mutex;
use granary_sim::{Daemon, core};
use granary_units::PAGE_SIZE;
use names::NameCache;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Largest file that the page cache can hold pages of: 2^32 pages.
const MAX_CACHED_SIZE: u64 = (PAGE_SIZE as u64) << 32;

/// A mounted file system.
pub struct Vfs {
    fs: Arc<dyn FileSystem>,
    config: VfsConfig,
    features: Features,
    names: Arc<NameCache>,
    pub(crate) cache: Gated,
    root: NodeRef,
    /// Held while a rename involves more than one directory, or a directory is renamed: keeps the tree's
    /// shape.
    rename_lock: Mutex<()>,
    /// Shared: an inode is being made. Exclusive: one that a handle names is being loaded, of whatever
    /// number, which happens on the wall clock only. So it is no lock of virtual time, whose schedules it
    /// would change: there nobody ever waits for it.
    births: parking_lot::RwLock<()>,
    flushers: Mutex<Vec<Daemon>>,
    /// The flushers were woken because too much is dirty, and have not said yet that it no longer is.
    kicked: AtomicBool,
    /// See [`Vfs::calls`].
    calls: AtomicU64,
    /// Numbers given to programs.
    processes: AtomicU32,
    /// Uses of nodes by the file system's own daemons: begun and ended
    /// ([`DirtyPages`](granary_fs::DirtyPages)).
    lent: [AtomicU64; 2],
    /// Test support: the order of changes.
    effects: Effects,
}

impl Vfs {
    /// Mounts `fs`, which has opened (and recovered) its media, and starts the write-back daemons, unless
    /// only to be read.
    ///
    /// # Errors
    /// Where the root directory cannot be loaded.
    pub fn mount(fs: Arc<dyn FileSystem>, config: VfsConfig) -> Result<Arc<Vfs>> {
        let cache = cache::make(&config);
        Vfs::mount_with(fs, config, cache)
    }

    /// The same with a page cache of one's own.
    ///
    /// # Errors
    /// As [`Vfs::mount`].
    pub fn mount_with(
        fs: Arc<dyn FileSystem>,
        config: VfsConfig,
        cache: Box<dyn PageCache>,
    ) -> Result<Arc<Vfs>> {
        let mut features = fs.features();
        if features.cache.any() {
            features.max_file_size = features.max_file_size.min(MAX_CACHED_SIZE);
        }
        let names = NameCache::new(config.dentries, config.inodes);
        let root = fs.root();
        let loaded = fs.load_inode(&Call::kernel(config.time()), root)?;
        let root = names.loaded(root, Some(Node::new(&names, root, loaded))).expect("the node given");
        root.set_parent(None);
        let vfs = Arc::new(Vfs {
            cache: Gated::new(cache, &config),
            fs,
            config,
            features,
            names,
            root,
            rename_lock: Mutex::new(()),
            births: parking_lot::RwLock::new(()),
            flushers: Mutex::new(Vec::new()),
            kicked: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            processes: AtomicU32::new(0),
            lent: Default::default(),
            effects: Effects::default(),
        });
        vfs.start_flushers();
        let pages: Weak<Vfs> = Arc::downgrade(&vfs);
        vfs.fs.attach(pages);
        Ok(vfs)
    }

    fn start_flushers(self: &Arc<Vfs>) {
        if self.features.cache.writes && !self.config.read_only {
            let flushers = (0..self.config.flushers.max(1)).map(|i| {
                let weak: Weak<Vfs> = Arc::downgrade(self);
                Daemon::start(&format!("write-back {i}"), move |stop| flush::flusher(&weak, stop))
            });
            *self.flushers.lock() = flushers.collect();
        }
    }

    /// The file system.
    pub fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// How the file system wants to be called; its largest file is no larger than the page cache can hold.
    pub fn features(&self) -> Features {
        self.features
    }

    /// The configuration.
    pub fn config(&self) -> &VfsConfig {
        &self.config
    }

    /// The root directory.
    pub fn root(&self) -> NodeRef {
        self.root.clone()
    }

    /// The page cache's counters.
    pub fn cache_stats(&self) -> CacheStats {
        self.cache.stats()
    }

    /// System calls that were made, failed ones too; page faults are none.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The largest size of a file.
    pub fn max_file_size(&self) -> u64 {
        self.features.max_file_size
    }

    /// The date now, in kernel ticks.
    pub fn time(&self) -> Time {
        self.config.time()
    }

    /// The context of a call of `caller` that begins, or stamps what it changes, now.
    #[inline]
    pub(crate) fn call<'a>(&self, caller: &'a Caller) -> Call<'a> {
        let Caller { cred, process, origin } = caller;
        let time = match origin {
            Origin::Program => self.time(),
            Origin::Above(time) => *time,
        };
        Call { cred, time, processor: core(), process: *process, direct: false }
    }

    /// The context of the kernel's work for nobody in particular.
    pub(crate) fn kernel(&self) -> Call<'static> {
        Call::kernel(self.time())
    }

    /// A program of this user that begins, with a number that none before it had; the first is 1.
    pub fn caller(&self, cred: Cred) -> Caller {
        Caller::new(cred, self.processes.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }

    /// The process of this number has ended: see [`Life::process_ended`](granary_fs::Life::process_ended).
    pub fn process_ended(&self, process: u32) {
        self.fs.process_ended(&self.kernel(), process);
    }

    /// Test support: from now on changes are numbered.
    pub fn watch_changes(&self) {
        self.effects.watch();
    }

    /// Test support: the number of the caller's last change since it asked last, a hint at the order of
    /// changes.
    pub fn take_change(&self) -> Option<u64> {
        self.effects.take()
    }

    /// Space and inodes.
    ///
    /// # Errors
    /// The file system's.
    pub fn statfs(&self, caller: &Caller) -> Result<StatFs> {
        self.fs.statfs(&self.call(caller))
    }

    /// Makes the file system larger on a drive that has become larger: see
    /// [`Space::grow`](granary_fs::Space::grow).
    ///
    /// # Errors
    /// The file system's.
    pub fn grow(&self, blocks: u64) -> Result<()> {
        self.fs.grow(&self.kernel(), blocks)
    }

    /// Cleans until nothing is left: see [`Space::sweep`](granary_fs::Space::sweep). Dirty pages stay where
    /// they are.
    ///
    /// # Errors
    /// The file system's.
    pub fn sweep(&self, sweep: &Sweep) -> Result<Swept> {
        self.fs.sweep(&self.kernel(), sweep)
    }

    /// Compares everything on media (and in memory) with everything else: see
    /// [`Life::check`](granary_fs::Life::check).
    ///
    /// # Errors
    /// The file system's.
    pub fn check(&self) -> Result<Vec<String>> {
        self.fs.check(&self.kernel())
    }

    /// Writes everything back and ends cleanly. Processes (their descriptors and working directories) must be
    /// gone.
    ///
    /// # Errors
    /// `Busy` where something is in use; the file system's; else what kept data of a file from being written
    /// back, where nobody was told before: all the rest is on media then, and the file system is unmounted.
    pub fn unmount(self: &Arc<Vfs>) -> Result<()> {
        // A flusher uses the file that it writes back: the flushers end first.
        let flushers = std::mem::take(&mut *self.flushers.lock());
        flushers.into_iter().for_each(Daemon::stop);
        self.reap();
        let all = self.names.all();
        for dir in all.iter().filter(|n| n.is_dir()) {
            dir.set_parent(None);
        }
        if self.is_in_use(&all) {
            self.start_flushers();
            return Err(FsError::Busy);
        }
        // Nothing is in use.
        self.write_back_all(&self.kernel(), granary_fs::WriteBackCause::Sync);
        // A loss in one file does not keep the others from media.
        let mut failed = None;
        for node in all {
            self.cache.drop_all(&node);
            let released = self.fs.release(&self.kernel(), &node).err();
            failed = failed.or(node.take_error()).or(released);
            if node.ino() != self.root.ino() {
                self.names.take(node.ino());
            }
        }
        let failed = failed.or(self.names.take_error());
        self.fs.unmount(&self.kernel())?;
        failed.map_or(Ok(()), Err)
    }

    /// Whether a process uses one of these nodes. The file system's own daemons may be using some, for
    /// moments: they are waited for.
    fn is_in_use(&self, all: &[Arc<node::Node>]) -> bool {
        let lent = || self.lent.each_ref().map(|n| n.load(Ordering::Acquire));
        loop {
            let before = lent();
            if !all.iter().any(|n| n.users() > u32::from(n.ino() == self.root.ino())) {
                return false;
            }
            if before[0] == before[1] && before == lent() {
                return true;
            }
            granary_sim::sleep(granary_units::Nanos::from_micros(1));
            granary_sim::yield_now();
        }
    }
}

impl Drop for Vfs {
    fn drop(&mut self) {
        // Nodes know their cache and their parents: taking them out breaks these circles. No input or output
        // here, nothing waits: after a power failure this runs while the world is taken down.
        for node in self.names.all() {
            node.set_parent(None);
            drop(self.names.take(node.ino()));
        }
    }
}

/// Nodes of files that nobody has loaded, for tests of the page cache.
#[cfg(test)]
pub(crate) fn nodes(count: usize) -> Vec<Arc<Node>> {
    use granary_fs::{Attr, FileKind, Ino, Loaded};
    let home = NameCache::new(1, 1);
    let attr = Attr::new(FileKind::File, 0o644, Time(0));
    let node = |ino| Node::new(&home, Ino(ino), Loaded { attr, private: Arc::new(()) });
    (1..=count as u64).map(node).collect()
}
