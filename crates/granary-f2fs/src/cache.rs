//! [`LogicalCache`]: blocks that move on the drive, kept by what they are (node of an inode, block of a
//! directory) and not by where they lie. The node and directory mappings of the kernel's page cache.
//!
//! ```text
//!   key (owner inode, number)  ->  Entry { content, loaded, dirty }
//!   dirty: keys in order, so that one inode's are together
//! ```
//!
//! Invariants: a block is read once however many tasks want it; a dirty block, or one that somebody holds,
//! stays. The cache never writes. Eviction is CLOCK, as in `granary_kit::BlockCache` (whose blocks have fixed
//! places).

use crate::layout::BlockBytes;
use crate::names::Names;
use granary_fs::Result;
use granary_sim::sync::Mutex;
use granary_units::Page;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Owner inode, and node number or block of the directory.
pub(crate) type Key = (u32, u32);

/// A block in memory.
pub(crate) struct CachedBlock {
    pub key: Key,
    content: RwLock<Page>,
    loaded: AtomicBool,
    loading: Mutex<()>,
    referenced: AtomicBool,
    dirty: AtomicBool,
    /// Of a directory block: which names it may have.
    pub names: Names,
}

impl CachedBlock {
    /// Looks at the content; `f` must not wait.
    pub fn with<T>(&self, f: impl FnOnce(&BlockBytes) -> T) -> T {
        self.content.read().with_bytes(f)
    }

    /// Bytes `at..at + N` of the content.
    pub fn bytes_at<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        self.content.read().copy_out(at, &mut out);
        out
    }

    /// The content now; later changes do not touch it.
    pub fn snapshot(&self) -> Page {
        self.content.read().clone()
    }

    pub fn is_dirty(&self) -> bool {
        self.dirty.load(Relaxed)
    }
}

#[derive(Default)]
struct Inner {
    map: FxHashMap<Key, Arc<CachedBlock>>,
    clock: VecDeque<Arc<CachedBlock>>,
    dirty: BTreeMap<Key, Arc<CachedBlock>>,
    /// Keys of the blocks that were changed last, and may be bytes. A key here does not hold its block.
    wide: VecDeque<Key>,
}

/// Blocks that were changed last, which are kept as bytes for the next change. Others of a few lines are
/// packed: an inode with its footer and some addresses. Looking at one costs a copy.
const WIDE: usize = 1024;
/// References of the cache itself: map and clock.
const OWN_REFS: usize = 2;

fn is_current(map: &FxHashMap<Key, Arc<CachedBlock>>, e: &Arc<CachedBlock>) -> bool {
    map.get(&e.key).is_some_and(|b| Arc::ptr_eq(b, e))
}

impl Inner {
    fn insert(&mut self, e: &Arc<CachedBlock>, capacity: usize) {
        self.map.insert(e.key, Arc::clone(e));
        self.clock.push_back(Arc::clone(e));
        if self.clock.len() > 2 * self.map.len() + 64 {
            let Inner { map, clock, .. } = self;
            clock.retain(|b| is_current(map, b));
        }
        self.evict(capacity);
    }

    /// A block has been turned into bytes; the one that was longest ago is packed, unless somebody is at it.
    fn widened(&mut self, key: Key) {
        self.wide.push_back(key);
        if self.wide.len() > WIDE
            && let Some(old) = self.wide.pop_front().and_then(|key| self.map.get(&key))
            && let Some(mut content) = old.content.try_write()
        {
            *content = content.packed(Page::KEPT_LINES);
        }
    }

    fn evict(&mut self, capacity: usize) {
        let mut looks = 2 * self.clock.len().min(64);
        while self.map.len() > capacity && looks > 0 {
            looks -= 1;
            let Some(e) = self.clock.pop_front() else { return };
            if !is_current(&self.map, &e) {
                continue;
            }
            let held = Arc::strong_count(&e) > OWN_REFS || e.is_dirty();
            if held || e.referenced.swap(false, Relaxed) {
                self.clock.push_back(e);
            } else {
                self.map.remove(&e.key);
            }
        }
    }
}

/// See the module.
pub(crate) struct LogicalCache {
    capacity: usize,
    inner: parking_lot::Mutex<Inner>,
}

impl LogicalCache {
    pub fn new(capacity: usize) -> LogicalCache {
        LogicalCache { capacity: capacity.max(16), inner: parking_lot::Mutex::default() }
    }

    fn make(key: Key, content: Page, loaded: bool) -> Arc<CachedBlock> {
        Arc::new(CachedBlock {
            key,
            content: RwLock::new(content),
            loaded: AtomicBool::new(loaded),
            loading: Mutex::new(()),
            referenced: AtomicBool::new(true),
            dirty: AtomicBool::new(false),
            names: Names::default(),
        })
    }

    /// The block, loaded by `load` where it is not in memory.
    pub fn get(&self, key: Key, load: impl FnOnce() -> Result<Page>) -> Result<Arc<CachedBlock>> {
        let entry = {
            let mut inner = self.inner.lock();
            match inner.map.get(&key) {
                Some(e) => {
                    if !e.referenced.load(Relaxed) {
                        e.referenced.store(true, Relaxed);
                    }
                    Arc::clone(e)
                }
                None => {
                    let e = LogicalCache::make(key, Page::ZERO, false);
                    inner.insert(&e, self.capacity);
                    e
                }
            }
        };
        if entry.loaded.load(Relaxed) {
            return Ok(entry);
        }
        let held = entry.loading.lock();
        if !entry.loaded.load(Relaxed) {
            match load() {
                Ok(page) => {
                    *entry.content.write() = page;
                    entry.loaded.store(true, Relaxed);
                }
                Err(e) => {
                    let mut inner = self.inner.lock();
                    if is_current(&inner.map, &entry) {
                        inner.map.remove(&key);
                    }
                    return Err(e);
                }
            }
        }
        drop(held);
        Ok(entry)
    }

    /// The block if it is in memory.
    pub fn cached(&self, key: Key) -> Option<Arc<CachedBlock>> {
        let e = self.inner.lock().map.get(&key).cloned()?;
        e.loaded.load(Relaxed).then_some(e)
    }

    /// A block made now, with this content, dirty.
    pub fn fresh(&self, key: Key, content: &BlockBytes) -> Arc<CachedBlock> {
        let mut page = Page::ZERO;
        *page.bytes_mut() = *content;
        let e = LogicalCache::make(key, page, true);
        e.dirty.store(true, Relaxed);
        let mut inner = self.inner.lock();
        inner.dirty.insert(key, Arc::clone(&e));
        inner.insert(&e, self.capacity);
        inner.widened(key);
        e
    }

    /// Changes a block, which is dirty afterwards; `f` must not wait.
    pub fn change<T>(&self, e: &Arc<CachedBlock>, f: impl FnOnce(&mut BlockBytes) -> T) -> T {
        let (result, widened) = {
            let mut content = e.content.write();
            let was_bytes = content.as_bytes().is_some();
            (f(content.bytes_mut()), !was_bytes)
        };
        self.mark(e);
        if widened {
            self.inner.lock().widened(e.key);
        }
        result
    }

    /// Makes a block dirty.
    pub fn mark(&self, e: &Arc<CachedBlock>) {
        if !e.dirty.load(Relaxed) {
            let mut inner = self.inner.lock();
            if is_current(&inner.map, e) && !e.dirty.swap(true, Relaxed) {
                inner.dirty.insert(e.key, Arc::clone(e));
            }
        }
    }

    /// Takes a dirty block to be written: it is clean from now on. The content is changed once more by `f`.
    pub fn clean(&self, e: &Arc<CachedBlock>, f: impl FnOnce(&mut BlockBytes)) -> Page {
        {
            let mut inner = self.inner.lock();
            inner.dirty.remove(&e.key);
            e.dirty.store(false, Relaxed);
        }
        let mut content = e.content.write();
        f(content.bytes_mut());
        let few = content.packed(Page::KEPT_LINES);
        if !few.is_same(&content) {
            *content = few;
        }
        content.clone()
    }

    /// Drops a block that was freed.
    pub fn forget(&self, key: Key) {
        let mut inner = self.inner.lock();
        if let Some(e) = inner.map.remove(&key) {
            e.dirty.store(false, Relaxed);
        }
        inner.dirty.remove(&key);
    }

    /// The dirty blocks of one owner, in order.
    pub fn dirty_of(&self, owner: u32) -> Vec<Arc<CachedBlock>> {
        self.inner.lock().dirty.range((owner, 0)..=(owner, u32::MAX)).map(|(_, e)| Arc::clone(e)).collect()
    }

    /// All dirty blocks, in order.
    pub fn dirty(&self) -> Vec<Arc<CachedBlock>> {
        self.inner.lock().dirty.values().cloned().collect()
    }

    pub fn dirty_count(&self) -> usize {
        self.inner.lock().dirty.len()
    }

    /// Drops everything that is clean and not held (as `echo 3 > drop_caches`).
    pub fn drop_clean(&self) {
        let mut inner = self.inner.lock();
        let Inner { map, clock, .. } = &mut *inner;
        clock.retain(|b| is_current(map, b));
        map.retain(|_, e| e.is_dirty() || Arc::strong_count(e) > OWN_REFS);
        clock.retain(|b| is_current(map, b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::BLOCK_SIZE;

    /// However many blocks are dirty, only those changed last are bytes, and packing changes no content.
    #[test]
    fn blocks_not_changed_for_long_are_packed() {
        let cache = LogicalCache::new(1 << 20);
        let many = WIDE as u32 * 3;
        for ino in 0..many {
            let mut content = [0; BLOCK_SIZE];
            content[..4].copy_from_slice(&ino.to_le_bytes());
            cache.fresh((ino, 0), &content);
        }
        let entry = |ino| cache.cached((ino, 0)).expect("in memory");
        let wide = |cache: &LogicalCache| {
            cache.dirty().iter().filter(|e| e.content.read().as_bytes().is_some()).count()
        };
        assert!((1..=WIDE).contains(&wide(&cache)), "{} of {many} are bytes", wide(&cache));
        for ino in (0..many).step_by(7) {
            cache.change(&entry(ino), |b| b[BLOCK_SIZE - 1] = 1);
        }
        assert!((1..=WIDE).contains(&wide(&cache)));
        for ino in 0..many {
            let page = cache.clean(&entry(ino), |b| b[2000] = 9);
            let b = page.to_bytes();
            let changed = u8::from(ino.is_multiple_of(7));
            assert_eq!((&b[..4], b[2000], b[BLOCK_SIZE - 1]), (&ino.to_le_bytes()[..], 9, changed));
            assert!(entry(ino).with(|kept| *kept == b));
        }
        assert_eq!((wide(&cache), cache.dirty_count()), (0, 0));
    }
}
