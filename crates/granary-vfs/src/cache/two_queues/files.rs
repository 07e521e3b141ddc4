//! [`Files`]: which files have dirty pages, in the order in which they got them.

use granary_fs::Ino;
use granary_units::Nanos;
use std::collections::BTreeMap;

#[derive(Clone, Copy)]
struct File {
    ino: Ino,
    /// Pages with dirty lines.
    dirty: u32,
    /// Pages in write-back.
    writing: u32,
    /// Since when it has waited, or did last.
    since: Nanos,
    /// Its place in the queue.
    place: Option<u64>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Files {
    files: BTreeMap<u64, File>,
    /// Files that wait, by place.
    queue: BTreeMap<u64, u64>,
    next: u64,
}

impl Files {
    fn file(&mut self, key: u64) -> &mut File {
        self.files.get_mut(&key).expect("a file with dirty pages, or in write-back")
    }

    /// A page of it got dirty lines.
    pub fn dirtied(&mut self, key: u64, ino: Ino, time: Nanos) {
        let new = File { ino, dirty: 0, writing: 0, since: time, place: None };
        let file = self.files.entry(key).or_insert(new);
        file.dirty += 1;
        if file.dirty == 1 {
            self.queue(key, time);
        }
    }

    /// A page of it has no dirty lines any more.
    pub fn cleaned(&mut self, key: u64) {
        let file = self.file(key);
        file.dirty -= 1;
        if file.dirty == 0
            && let Some(place) = file.place.take()
        {
            self.queue.remove(&place);
        }
    }

    /// A page of it is in write-back.
    pub fn writing(&mut self, key: u64) {
        self.file(key).writing += 1;
    }

    /// A page of it no longer is.
    pub fn written(&mut self, key: u64) {
        self.file(key).writing -= 1;
    }

    fn queue(&mut self, key: u64, time: Nanos) {
        let place = self.next;
        let file = self.file(key);
        if file.place.is_none() {
            (file.place, file.since) = (Some(place), time);
            self.queue.insert(place, key);
            self.next += 1;
        }
    }

    /// Puts it at the end of the queue where it has dirty pages and is not in it.
    pub fn requeue(&mut self, key: u64, time: Nanos) {
        if self.files.get(&key).is_some_and(|file| file.dirty > 0) {
            self.queue(key, time);
        }
    }

    /// Takes the first out of the queue; with `before`, only if it has waited since then.
    pub fn take(&mut self, before: Option<Nanos>) -> Option<Ino> {
        let (&place, &key) = self.queue.first_key_value()?;
        let file = self.files.get_mut(&key)?;
        if before.is_some_and(|time| file.since > time) {
            return None;
        }
        file.place = None;
        self.queue.remove(&place);
        Some(file.ino)
    }

    /// Files with pages that are dirty or in write-back, the oldest first.
    pub fn busy(&self) -> Vec<Ino> {
        let busy = self.files.values().filter(|file| file.dirty > 0 || file.writing > 0);
        let mut all: Vec<_> = busy.map(|file| (file.since, file.ino)).collect();
        all.sort();
        all.into_iter().map(|(_, ino)| ino).collect()
    }

    /// The file leaves memory.
    pub fn forget(&mut self, key: u64) {
        if let Some(place) = self.files.remove(&key).and_then(|file| file.place) {
            self.queue.remove(&place);
        }
    }
}
