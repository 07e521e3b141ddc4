//! [`Children`]: names of files that are in persistent memory alone, by directory; and files that were, and
//! are below now.
//!
//! In host memory. The names are rebuilt from the inodes at the mount.
//!
//! A file that has left persistent memory keeps the number that it had until the unmount, since programs may
//! have it open; what the lower file system calls it is translated. At the next mount it has its lower
//! number.

use crate::layout::alone::NamePlace;
use crate::layout::inode::Identity;
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub struct Children {
    by_dir: BTreeMap<Identity, BTreeMap<Vec<u8>, u64>>,
    /// Lower number -> the number that the file has above.
    above: BTreeMap<u64, u64>,
    below: BTreeMap<u64, u64>,
}

impl Children {
    /// There is no such name, in any directory.
    pub fn is_empty(&self) -> bool {
        self.by_dir.is_empty()
    }

    /// The number of the file of this name.
    pub fn find(&self, dir: Identity, name: &[u8]) -> Option<u64> {
        self.by_dir.get(&dir)?.get(name).copied()
    }

    /// All names in a directory, with the files' numbers.
    pub fn of(&self, dir: Identity) -> Option<&BTreeMap<Vec<u8>, u64>> {
        self.by_dir.get(&dir)
    }

    /// Enters a name; says whether it was new.
    pub fn enter(&mut self, place: &NamePlace, ino: u64) -> bool {
        self.by_dir.entry(place.dir).or_default().insert(place.name.clone(), ino).is_none()
    }

    /// Removes a name.
    pub fn remove(&mut self, place: &NamePlace) {
        if let Some(names) = self.by_dir.get_mut(&place.dir) {
            names.remove(&place.name);
            if names.is_empty() {
                self.by_dir.remove(&place.dir);
            }
        }
    }

    /// The file that is known as `ino` above is `lower` below now.
    pub fn moved(&mut self, ino: u64, lower: u64) {
        self.above.insert(lower, ino);
        self.below.insert(ino, lower);
    }

    /// The number above of a lower inode.
    pub fn above(&self, lower: u64) -> u64 {
        self.above.get(&lower).copied().unwrap_or(lower)
    }

    /// The lower number of a file that has moved.
    pub fn below(&self, ino: u64) -> Option<u64> {
        self.below.get(&ino).copied()
    }

    /// The file that is known as `ino` above is gone.
    pub fn forget(&mut self, ino: u64) {
        if let Some(lower) = self.below.remove(&ino) {
            self.above.remove(&lower);
        }
    }
}
