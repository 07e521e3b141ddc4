//! [`Files`]: the workers' locks of files. One worker at a time has a file's filemap (DevFS section 3.2).
//!
//! A command that concerns several files takes their locks by inode number, and holds no other: so there is
//! no deadlock.

use granary_fs::Inode;
use granary_sim::sync::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The locks of the files that are worked on.
#[derive(Default)]
pub(crate) struct Files {
    locks: parking_lot::Mutex<FxHashMap<u64, Arc<Mutex<()>>>>,
}

impl Files {
    /// Does `work` with the filemaps of these files.
    pub fn locked<T>(&self, files: &[&Inode], work: impl FnOnce() -> T) -> T {
        let mut numbers: Vec<u64> = files.iter().map(|inode| inode.ino().0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let locks: Vec<Arc<Mutex<()>>> = {
            let mut all = self.locks.lock();
            numbers.iter().map(|ino| all.entry(*ino).or_default().clone()).collect()
        };
        let held: Vec<_> = locks.iter().map(|lock| lock.lock()).collect();
        let out = work();
        drop(held);
        drop(locks);
        // Nobody else waits for it, or is about to.
        let mut all = self.locks.lock();
        for ino in numbers {
            if all.get(&ino).is_some_and(|lock| Arc::strong_count(lock) == 1) {
                all.remove(&ino);
            }
        }
        out
    }
}
