//! [`MemFs`]: test support: a file system that keeps its media in memory and checks that the vfs keeps its word.
//!
//! ```text
//!   number -> { attributes | blocks: page -> Page | entries: name -> number, cookie | reserved pages }
//! ```
//!
//! Nothing of it is durable or counted, and it has no drive. What it is for: tests and benches of the vfs and of what
//! stands above it. It asserts the contract of [`FileSystem`](granary_fs::FileSystem): locks are held, names exist or do not, write-back of
//! one inode is never concurrent with itself or with a truncation, written pages were reserved. It is as hostile as the
//! contract allows: only dirty lines reach the media, bytes beyond the end of a file are garbage, inode numbers are
//! reused at once, calls take time before and after they take effect, and can be made to fail.

mod check;
mod state;

use granary_fs::{
    Allocate, Attr, Attributes, CachePolicy, Call, Created, Data, DirEntry, DirtyPage, Entrance, Features,
    FileKind, FsError, Ino, Inode, Life, Loaded, Names, NewNode, Quirks, Rename, Result, SetAttr, Space,
    StatFs, WriteBackCause,
};
use granary_sim::rng::Stream;
use granary_sim::sleep;
use granary_units::{Dest, Nanos, PAGE_SIZE, Page, Payload};
use parking_lot::Mutex;
use state::{Entry, MemInode, State};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const PAGE: u64 = PAGE_SIZE as u64;

/// With so many pages nobody counts them.
const UNLIMITED: u64 = 1 << 30;

/// How a [`MemFs`] behaves.
#[derive(Clone, Debug)]
pub struct MemFsConfig {
    /// Time that a call takes, half before and half after it takes effect.
    pub latency: Nanos,
    /// Whether the page cache serves it; otherwise everything is direct (as DAX).
    pub page_cache: bool,
    /// Pages in all.
    pub blocks: u64,
    /// Most hard links.
    pub max_links: u32,
}

impl Default for MemFsConfig {
    fn default() -> MemFsConfig {
        MemFsConfig { latency: Nanos::ZERO, page_cache: true, blocks: UNLIMITED, max_links: 32_000 }
    }
}

/// See the module.
pub struct MemFs {
    config: MemFsConfig,
    state: Mutex<State>,
    /// Calls that change names or attributes, reserve or read fail with this probability.
    faults: Mutex<Option<(Stream, f64)>>,
    /// `write_pages` fails.
    write_faults: AtomicBool,
    /// Calls on extended attributes fail with this.
    xattr_fault: Mutex<Option<FsError>>,
    ended: AtomicBool,
}

impl MemFs {
    /// An empty file system: a root directory, mode 755, of root.
    pub fn new(config: MemFsConfig) -> MemFs {
        MemFs {
            config,
            state: Mutex::new(State::new()),
            faults: Mutex::new(None),
            write_faults: AtomicBool::new(false),
            xattr_fault: Mutex::new(None),
            ended: AtomicBool::new(false),
        }
    }

    /// From now on calls fail with probability `p`, drawn from `stream`; `None` ends it. They fail with
    /// [`MemFs::injected`] before they have any effect.
    pub fn set_faults(&self, faults: Option<(Stream, f64)>) {
        *self.faults.lock() = faults;
    }

    /// From now on `write_pages` fails, or no longer.
    pub fn set_write_faults(&self, fails: bool) {
        self.write_faults.store(fails, Relaxed);
    }

    /// From now on getting and setting extended attributes fails with this error; `None` ends it.
    pub fn set_xattr_fault(&self, fault: Option<FsError>) {
        *self.xattr_fault.lock() = fault;
    }

    fn xattr_fault(&self) -> Result<()> {
        self.xattr_fault.lock().clone().map_or(Ok(()), Err)
    }

    /// Whether it has been unmounted.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// The injected error.
    pub fn injected() -> FsError {
        FsError::Corrupt("injected".to_owned())
    }

    fn fault(&self) -> Result<()> {
        let fails = self.faults.lock().as_mut().is_some_and(|(stream, p)| stream.chance(*p));
        if fails { Err(MemFs::injected()) } else { Ok(()) }
    }

    fn pause(&self) {
        if self.config.latency.0 > 0 {
            sleep(Nanos(self.config.latency.0 / 2));
        }
    }

    /// The frame of a call: time passes, it takes effect at once, time passes.
    fn step<T>(&self, effect: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        self.pause();
        let result = effect(&mut self.state.lock());
        self.pause();
        result
    }
}

fn assert_exclusive(inode: &Inode) {
    assert!(inode.rwsem.is_locked_exclusive(), "{} is not locked exclusively", inode.ino());
}

fn assert_locked(inode: &Inode) {
    assert!(inode.rwsem.is_locked(), "{} is not locked", inode.ino());
}

impl Names for MemFs {
    fn lookup(&self, _call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        assert_locked(dir);
        self.fault()?;
        self.step(|s| Ok(s.node(dir).entries.get(name).map(|e| e.ino)))
    }

    fn readdir(
        &self,
        _call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        assert_locked(dir);
        self.step(|s| {
            let node = s.node(dir);
            let mut all: Vec<_> = node.entries.iter().filter(|(_, e)| e.cookie > from).collect();
            all.sort_by_key(|(_, e)| e.cookie);
            for (name, e) in all {
                if !emit(DirEntry { name, ino: e.ino, kind: e.kind, next: e.cookie }) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        self.state.lock().node(dir).last_cookie()
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        self.step(|s| Ok(s.node(dir).parent))
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        assert_locked(dir);
        self.step(|s| Ok(s.node(dir).entries.is_empty()))
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        self.step(|s| Ok(s.node(inode).target.clone()))
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        assert_exclusive(dir);
        self.fault()?;
        self.step(|s| {
            let is_dir = new.kind == FileKind::Dir;
            let attr = Attr { size: new.target.len() as u64, ..new.attr(call.time) };
            let ino = s.allocate(MemInode::new(attr, dir.ino(), new.target.to_vec()));
            s.enter(dir, name, Entry { ino, kind: new.kind, cookie: 0 });
            s.stamp(dir, call.time, |a| a.nlink += u32::from(is_dir));
            Ok(Created { ino, loaded: Loaded { attr, private: Arc::new(()) } })
        })
    }

    fn create_unnamed(&self, call: &Call<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        self.fault()?;
        self.step(|s| {
            let attr = Attr { nlink: 0, ..new.attr(call.time) };
            let ino = s.allocate(MemInode::new(attr, dir.ino(), Vec::new()));
            Ok(Created { ino, loaded: Loaded { attr, private: Arc::new(()) } })
        })
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        assert_exclusive(dir);
        assert_exclusive(inode);
        self.fault()?;
        self.step(|s| {
            let kind = s.node(inode).attr.kind;
            s.enter(dir, name, Entry { ino: inode.ino(), kind, cookie: 0 });
            s.stamp(dir, call.time, |_| ());
            s.change(inode, |a| a.linked(call.time));
            Ok(())
        })
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        assert_exclusive(dir);
        assert_exclusive(inode);
        self.fault()?;
        self.step(|s| {
            s.take(dir, name, inode);
            s.unlinked(dir, inode, call.time);
            s.stamp(dir, call.time, |_| ());
            Ok(())
        })
    }

    fn rename(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        [r.from_dir, r.to_dir, r.inode].into_iter().chain(r.target).for_each(assert_exclusive);
        self.fault()?;
        self.step(|s| {
            let moved = s.take(r.from_dir, r.from, r.inode);
            let replaced = r.target.map(|t| (t, s.take(r.to_dir, r.to, t)));
            s.enter(r.to_dir, r.to, moved);
            s.moved(r.inode, r.from_dir, r.to_dir);
            match replaced {
                Some((t, entry)) if r.exchange => {
                    s.enter(r.from_dir, r.from, entry);
                    s.moved(t, r.to_dir, r.from_dir);
                    s.change(t, |a| a.changed(call.time));
                }
                Some((t, _)) => s.unlinked(r.to_dir, t, call.time),
                None => {}
            }
            s.change(r.inode, |a| a.changed(call.time));
            s.stamp(r.from_dir, call.time, |_| ());
            s.stamp(r.to_dir, call.time, |_| ());
            Ok(())
        })
    }
}

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

impl Space for MemFs {
    granary_fs::file_system_lacks!(empty_until, trim, grow, sweep);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        assert_exclusive(inode);
        self.fault()?;
        self.step(|s| {
            let whole = pos.div_ceil(PAGE)..((pos + len) / PAGE).max(pos.div_ceil(PAGE));
            let touched = pos / PAGE..(pos + len).div_ceil(PAGE);
            let (used, blocks) = (s.used(), self.config.blocks);
            let node = s.node(inode);
            assert!(!node.writing, "{} is allocated while it is written back", inode.ino());
            if how != Allocate::PunchHole {
                let new =
                    touched.clone().filter(|p| !node.blocks.contains_key(p) && !node.reserved.contains(p));
                if blocks < UNLIMITED && used + new.count() as u64 > blocks {
                    return Err(FsError::NoSpace);
                }
            }
            if how.zeroes() {
                for page in whole {
                    node.blocks.remove(&page);
                    node.reserved.remove(&page);
                }
            }
            if how != Allocate::PunchHole {
                for page in touched {
                    if !node.reserved.contains(&page) {
                        node.blocks.entry(page).or_insert(Page::ZERO);
                    }
                }
            }
            s.change(inode, |a| {
                a.allocated(how, pos + len, call.time);
            });
            let size = s.node(inode).attr.size;
            if how.grows() && pos + len == size {
                s.reach(inode, size);
            }
            Ok(())
        })
    }

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        self.step(|s| {
            let node = s.node(inode);
            let block = node.blocks.range(pos / PAGE..).next().map(|(&b, _)| b);
            let promised = node.reserved.range(pos / PAGE..).next().copied();
            Ok(block.into_iter().chain(promised).min().map(|b| (b * PAGE).max(pos)))
        })
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        self.step(|s| {
            let node = s.node(inode);
            let is_hole = |b: &u64| !node.blocks.contains_key(b) && !node.reserved.contains(b);
            let hole = (pos / PAGE..node.attr.size.div_ceil(PAGE)).find(is_hole);
            Ok(hole.map_or(node.attr.size, |b| (b * PAGE).max(pos)))
        })
    }

    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        self.step(|s| {
            let inodes = s.inodes.len() as u64;
            let (blocks, free_blocks) = (self.config.blocks, self.config.blocks - s.used());
            let free_inodes = (1 << 32) - inodes;
            Ok(StatFs { blocks, free_blocks, reserved_blocks: 0, inodes: 1 << 32, free_inodes })
        })
    }
}

impl Attributes for MemFs {
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        assert_exclusive(inode);
        self.fault()?;
        self.step(|s| {
            if let Some(size) = set.size {
                s.cut(inode, size);
                s.reach(inode, size);
            }
            s.change(inode, |a| a.set(set, call.time));
            Ok(())
        })
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        inode.update(|a| a.accessed(call.time));
        Ok(())
    }

    fn getxattr(&self, _call: &Call<'_>, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        assert_locked(inode);
        self.fault()?;
        self.xattr_fault()?;
        self.step(|s| Ok(s.node(inode).xattrs.get(name).cloned()))
    }

    fn setxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        assert_exclusive(inode);
        self.fault()?;
        self.xattr_fault()?;
        self.step(|s| {
            let xattrs = &mut s.node(inode).xattrs;
            let old = match value {
                Some(value) => xattrs.insert(name.to_vec(), value.to_vec()),
                None => xattrs.remove(name),
            };
            assert!(value.is_some() || old.is_some(), "what does not exist is removed");
            s.change(inode, |a| a.changed(call.time));
            Ok(())
        })
    }

    fn listxattr(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        assert_locked(inode);
        self.step(|s| Ok(s.node(inode).xattrs.keys().cloned().collect()))
    }

    fn generation(&self, inode: &Inode) -> u32 {
        self.state.lock().inodes.get(&inode.ino()).map_or(0, |node| node.life)
    }
}

impl Life for MemFs {
    granary_fs::file_system_lacks!(opened, closed, drop_clean, process_ended, memory, attach, drop_caches);

    fn name(&self) -> &'static str {
        "memfs"
    }

    fn features(&self) -> Features {
        Features {
            cache: if self.config.page_cache { CachePolicy::ALL } else { CachePolicy::NONE },
            entrance: Entrance::Kernel,
            max_file_size: 1 << 43,
            max_links: self.config.max_links,
            many_subdirs: false,
            direct_io: true,
            quirks: Quirks::NONE,
        }
    }

    fn root(&self) -> Ino {
        Ino(1)
    }

    fn load_inode(&self, _call: &Call<'_>, ino: Ino) -> Result<Loaded> {
        self.step(|s| {
            let node = s.inodes.get(&ino).ok_or(FsError::Stale)?;
            Ok(Loaded { attr: node.attr, private: Arc::new(()) })
        })
    }

    fn evict(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.step(|s| {
            s.free(inode);
            Ok(())
        })
    }

    fn release(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.step(|s| {
            s.change(inode, |_| ());
            Ok(())
        })
    }

    fn sync(&self, _call: &Call<'_>) -> Result<()> {
        self.step(|_| Ok(()))
    }

    fn unmount(&self, _call: &Call<'_>) -> Result<()> {
        self.ended.store(true, Relaxed);
        Ok(())
    }

    fn check(&self, _call: &Call<'_>) -> Result<Vec<String>> {
        Ok(check::check(&self.state.lock()))
    }
}

/// Marks the begin of a write-back.
fn begin_writing(state: &mut State, inode: &Inode) {
    let node = state.node(inode);
    assert!(!node.writing, "two write_pages of {} at once", inode.ino());
    node.writing = true;
}
