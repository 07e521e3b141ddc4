//! [`MemFs`]: test support: a file system that keeps its media in memory and checks that the vfs keeps its
//! word.
//!
//! ```text
//!   number -> { attributes | blocks: page -> Page | entries: name -> number, cookie | reserved pages }
//! ```
//!
//! It has no drive, and nothing of it is durable or counted. It serves tests and benches of the vfs and of
//! the layers above it. It asserts the contract of [`FileSystem`](granary_fs::FileSystem): locks are held,
//! names exist or do not, write-back of one inode is never concurrent with itself or with a truncation,
//! written pages were reserved. It is as hostile as the contract allows. Only dirty lines reach the media,
//! bytes beyond the end of a file are garbage, and inode numbers are reused at once. Calls take time before
//! and after they take effect, and can be made to fail.

mod check;
mod data;
mod names;
mod state;

use granary_fs::{
    Allocate, Attributes, CachePolicy, Call, Entrance, Features, FsError, Ino, Inode, Life, Loaded, Quirks,
    Result, SetAttr, Space, StatFs,
};
use granary_sim::rng::Stream;
use granary_sim::sleep;
use granary_units::{Nanos, PAGE_SIZE, Page};
use parking_lot::Mutex;
use state::State;
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
