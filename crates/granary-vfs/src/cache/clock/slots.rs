//! [`Slots`]: the slab of cached pages, the mappings, the clock hand and the queue of dirty files.
//!
//! ```text
//!   queue of dirty files:   head (dirty longest) <-> ... <-> tail, linked through the mappings
//! ```

use super::mapping::{Mapping, NONE};
use crate::cache::CacheStats;
use crate::cache::change::Track;
use crate::diff::changed_lines;
use crate::vfs::{NO_MAPPING, Node};
use granary_fs::Ino;
use granary_units::{LINE_SIZE, Nanos, Page, prefetch_at};
use rustc_hash::FxHashMap;
use std::sync::atomic::Ordering::Relaxed;

/// States of a slot; a page in write-back can be dirty too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Filling,
    Clean,
    Dirty,
    Writing,
}

/// A cached page: 16 bytes of page, 24 of bookkeeping.
struct Slot {
    page: Page,
    lines: u64,
    index: u32,
    mapping: u32,
    flags: u8,
}

/// A page as it was when it was clean, or when a mapping began to change it.
struct Duplicate {
    page: Page,
    /// Dirty lines that need no comparison.
    told: u64,
}

const LIVE: u8 = 1;
const FILLING: u8 = 2;
const WRITING: u8 = 4;
const REFERENCED: u8 = 8;

/// See the module.
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    hand: usize,
    capacity: usize,
    mappings: Vec<Option<Mapping>>,
    free_mappings: Vec<u32>,
    head: u32,
    tail: u32,
    /// By slot; only dirty pages have one.
    duplicates: FxHashMap<u32, Duplicate>,
    /// Slots that are dirty or in write-back.
    pub(super) dirty: u64,
    pub(super) stats: CacheStats,
}

impl Slots {
    pub(super) fn new(capacity: usize) -> Slots {
        Slots {
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            capacity,
            mappings: Vec::new(),
            free_mappings: Vec::new(),
            head: NONE,
            tail: NONE,
            duplicates: FxHashMap::default(),
            dirty: 0,
            stats: CacheStats::default(),
        }
    }

    /// Slots in use.
    pub(super) fn used(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn mapping(&mut self, id: u32) -> &mut Mapping {
        self.mappings[id as usize].as_mut().expect("a node's mapping lives as long as the node")
    }

    /// The file's mapping, made where it has none.
    pub(super) fn mapping_of(&mut self, node: &Node) -> u32 {
        let id = node.mapping.load(Relaxed);
        if id != NO_MAPPING {
            return id;
        }
        let id = self.free_mappings.pop().unwrap_or_else(|| {
            self.mappings.push(None);
            (self.mappings.len() - 1) as u32
        });
        self.mappings[id as usize] = Some(Mapping::new(node.ino()));
        node.mapping.store(id, Relaxed);
        id
    }

    /// Frees a mapping without pages.
    pub(super) fn free_mapping(&mut self, id: u32) {
        self.unqueue(id);
        self.mappings[id as usize] = None;
        self.free_mappings.push(id);
    }

    /// Fetches both lines of a mapping into the processor's cache.
    #[inline]
    pub(super) fn prefetch(&self, id: u32) {
        if let Some(mapping) = self.mappings.get(id as usize) {
            let first = std::ptr::from_ref(mapping).addr();
            prefetch_at(first);
            prefetch_at(first + LINE_SIZE);
        }
    }

    /// The slot of a page.
    #[inline]
    pub(super) fn find(&self, id: u32, page: u32) -> Option<u32> {
        self.mappings.get(id as usize)?.as_ref()?.get(page)
    }

    pub(super) fn state(&self, slot: u32) -> State {
        let s = &self.slots[slot as usize];
        match s.flags {
            f if f & LIVE == 0 => State::Free,
            f if f & FILLING != 0 => State::Filling,
            f if f & WRITING != 0 => State::Writing,
            _ if s.lines != 0 => State::Dirty,
            _ => State::Clean,
        }
    }

    pub(super) fn page(&self, slot: u32) -> &Page {
        &self.slots[slot as usize].page
    }

    /// The page, which is being used.
    #[inline]
    pub(super) fn touch(&mut self, slot: u32) -> &Page {
        let s = &mut self.slots[slot as usize];
        s.flags |= REFERENCED;
        &s.page
    }

    /// Enters a page that is not there, clean or being filled. Evicts one where the cache is full; where all
    /// are in use it grows beyond its size for a while.
    pub(super) fn insert(&mut self, id: u32, index: u32, page: Page, state: State) -> u32 {
        while self.used() >= self.capacity && self.evict() {}
        let flags = if state == State::Filling { LIVE | FILLING } else { LIVE };
        let new = Slot { page, lines: 0, index, mapping: id, flags };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new;
                slot
            }
            None => {
                self.slots.push(new);
                (self.slots.len() - 1) as u32
            }
        };
        let slots = &self.slots;
        let mapping = self.mappings[id as usize].as_mut().expect("a live mapping");
        mapping.insert(index, slot, |s| slots[s as usize].lines != 0);
        slot
    }

    /// A page that was being filled is here.
    pub(super) fn filled(&mut self, slot: u32, page: Page) {
        let s = &mut self.slots[slot as usize];
        s.page = page;
        s.flags &= !FILLING;
        self.stats.filled += 1;
    }

    fn evict(&mut self) -> bool {
        for _ in 0..2 * self.slots.len() {
            self.hand = if self.hand + 1 < self.slots.len() { self.hand + 1 } else { 0 };
            if self.state(self.hand as u32) != State::Clean {
                continue;
            }
            let s = &mut self.slots[self.hand];
            if s.flags & REFERENCED != 0 {
                s.flags &= !REFERENCED;
                continue;
            }
            self.remove(self.hand as u32);
            self.stats.evicted += 1;
            return true;
        }
        false
    }

    /// Takes all clean pages out.
    pub(super) fn drop_clean(&mut self, of: Option<u32>) {
        for slot in 0..self.slots.len() as u32 {
            let wanted = of.is_none_or(|id| self.slots[slot as usize].mapping == id);
            if wanted && self.state(slot) == State::Clean {
                self.remove(slot);
            }
        }
    }

    /// Takes a page out, in any state.
    pub(super) fn remove(&mut self, slot: u32) {
        self.clean(slot, u64::MAX);
        let s = &mut self.slots[slot as usize];
        assert_eq!(s.flags & WRITING, 0, "page {} leaves while it is written", s.index);
        let (id, index) = (s.mapping, s.index);
        s.flags = 0;
        s.page = Page::ZERO;
        self.mapping(id).remove(index);
        self.free.push(slot);
    }

    /// Changes a page and marks lines dirty. Returns whether the page was duplicated for that.
    pub(super) fn modify(
        &mut self,
        slot: u32,
        mask: u64,
        time: Nanos,
        track: Track,
        change: impl FnOnce(&mut Page),
    ) -> bool {
        let duplicated = self.track(slot, mask, track);
        let s = &mut self.slots[slot as usize];
        change(&mut s.page);
        s.flags |= REFERENCED;
        let was_clean = s.lines == 0;
        s.lines |= mask;
        if !was_clean {
            return duplicated;
        }
        let (id, index, writing) = (s.mapping, s.index, s.flags & WRITING != 0);
        self.dirty += u64::from(!writing);
        let mapping = self.mapping(id);
        mapping.set_dirty(index, true);
        mapping.dirty += 1;
        if mapping.dirty == 1 && !mapping.queued {
            self.queue(id, time);
        }
        duplicated
    }

    /// Keeps the duplicate up to date before lines of `mask` change. Returns whether it was made.
    fn track(&mut self, slot: u32, mask: u64, track: Track) -> bool {
        let told = match track {
            Track::Told if self.duplicates.is_empty() => return false,
            Track::Told => mask,
            Track::Duplicate { told } => told,
        };
        if let Some(duplicate) = self.duplicates.get_mut(&slot) {
            duplicate.told |= told;
            return false;
        }
        if track == Track::Told {
            return false;
        }
        let s = &self.slots[slot as usize];
        let duplicate = Duplicate { page: s.page.clone(), told: s.lines | told };
        self.duplicates.insert(slot, duplicate);
        self.stats.most_duplicates = self.stats.most_duplicates.max(self.duplicates.len() as u64);
        true
    }

    /// Duplicates now.
    pub(super) fn duplicates(&self) -> u64 {
        self.duplicates.len() as u64
    }

    /// Some lines are no longer dirty; the page stays counted while it is in write-back. Returns those that
    /// were.
    fn clean(&mut self, slot: u32, mask: u64) -> u64 {
        let s = &mut self.slots[slot as usize];
        let taken = s.lines & mask;
        s.lines &= !mask;
        if taken == 0 || s.lines != 0 {
            return taken;
        }
        if !self.duplicates.is_empty() {
            self.duplicates.remove(&slot);
        }
        let s = &mut self.slots[slot as usize];
        let (id, index, writing) = (s.mapping, s.index, s.flags & WRITING != 0);
        self.dirty -= u64::from(!writing);
        let mapping = self.mapping(id);
        mapping.set_dirty(index, false);
        mapping.dirty -= 1;
        if mapping.dirty == 0 {
            self.unqueue(id);
        }
        taken
    }

    /// Takes a page's dirty lines, as far as `mask` says, into write-back. Returns those that must be
    /// written, and whether a comparison told; `None`: none is dirty.
    pub(super) fn begin_write(&mut self, slot: u32, mask: u64) -> Option<(u64, bool)> {
        if self.slots[slot as usize].lines & mask == 0 {
            return None;
        }
        // Lines that stay dirty are told from here on: what is taken now is no longer as the duplicate has
        // it.
        let duplicate = if self.duplicates.is_empty() { None } else { self.duplicates.remove(&slot) };
        let s = &mut self.slots[slot as usize];
        let changed = duplicate.as_ref().map_or(u64::MAX, |d| d.told | changed_lines(&d.page, &s.page));
        assert_eq!(s.flags & WRITING, 0, "page {} is written by two", s.index);
        s.flags |= WRITING;
        let id = s.mapping;
        self.mapping(id).writing += 1;
        Some((self.clean(slot, mask) & changed, duplicate.is_some()))
    }

    /// A page's write-back ended.
    pub(super) fn end_write(&mut self, slot: u32) {
        let s = &mut self.slots[slot as usize];
        s.flags &= !WRITING;
        let (id, clean) = (s.mapping, s.lines == 0);
        self.dirty -= u64::from(clean);
        self.mapping(id).writing -= 1;
    }

    /// Zeroes a page from byte `at` on; only the lines in `keep` may stay dirty.
    pub(super) fn cut(&mut self, slot: u32, at: usize, keep: u64) {
        self.slots[slot as usize].page.zero_from(at);
        self.clean(slot, !keep);
    }

    /// Drops the pages `from..to` of a file.
    pub(super) fn drop_pages(&mut self, id: u32, from: u64, to: u64) {
        let Ok(from) = u32::try_from(from) else { return };
        for (_, slot) in self.mapping(id).range(from, to) {
            self.remove(slot);
        }
    }

    /// The first page of a file at or after `from`, and its slot.
    pub(super) fn next_page(&self, id: u32, from: u32) -> Option<(u32, u32)> {
        self.mappings.get(id as usize)?.as_ref()?.next(from)
    }

    /// The first dirty page of a file at or after `from`.
    pub(super) fn next_dirty(&self, id: u32, from: u32) -> Option<(u32, u32)> {
        let mapping = self.mappings[id as usize].as_ref()?;
        if mapping.dirty == 0 {
            return None;
        }
        mapping.next_dirty(from, |s| self.slots[s as usize].lines != 0)
    }

    fn queue(&mut self, id: u32, time: Nanos) {
        let tail = self.tail;
        let mapping = self.mapping(id);
        (mapping.queued, mapping.since, mapping.prev, mapping.next) = (true, time, tail, NONE);
        match tail {
            NONE => self.head = id,
            _ => self.mapping(tail).next = id,
        }
        self.tail = id;
    }

    fn unqueue(&mut self, id: u32) {
        let mapping = self.mapping(id);
        if !mapping.queued {
            return;
        }
        mapping.queued = false;
        let (prev, next) = (mapping.prev, mapping.next);
        match prev {
            NONE => self.head = next,
            _ => self.mapping(prev).next = next,
        }
        match next {
            NONE => self.tail = prev,
            _ => self.mapping(next).prev = prev,
        }
    }

    pub(super) fn take_dirty(&mut self, before: Option<Nanos>) -> Option<Ino> {
        let id = self.head;
        if id == NONE {
            return None;
        }
        let mapping = self.mapping(id);
        if before.is_some_and(|t| mapping.since > t) {
            return None;
        }
        let ino = mapping.ino;
        self.unqueue(id);
        Some(ino)
    }

    pub(super) fn requeue(&mut self, id: u32, time: Nanos) {
        let mapping = self.mapping(id);
        if mapping.dirty > 0 && !mapping.queued {
            self.queue(id, time);
        }
    }

    pub(super) fn dirty_inodes(&self) -> Vec<Ino> {
        // Not the queue: a flusher may be at work on a file that is dirty again. A sync waits for the pages
        // that others are writing, too.
        let busy = |m: &&Mapping| m.dirty > 0 || m.writing > 0;
        let mut all: Vec<_> = self.mappings.iter().flatten().filter(busy).map(|m| (m.since, m.ino)).collect();
        all.sort();
        all.into_iter().map(|(_, ino)| ino).collect()
    }
}

#[cfg(test)]
mod tests;
