//! [`Orphans`]: the list in memory.

use rustc_hash::FxHashMap;

/// The list in memory. 0 = none.
#[derive(Default)]
pub(crate) struct Orphans {
    pub head: u32,
    /// Inode -> (newer, older).
    pub links: FxHashMap<u32, (u32, u32)>,
}

impl Orphans {
    /// Takes over the list that mount found, newest first.
    pub fn adopt(&mut self, list: &[u32]) {
        self.head = list.first().copied().unwrap_or(0);
        for (i, ino) in list.iter().enumerate() {
            let newer = i.checked_sub(1).map_or(0, |j| list[j]);
            let older = list.get(i + 1).copied().unwrap_or(0);
            self.links.insert(*ino, (newer, older));
        }
    }

    /// The inodes on it, newest first.
    pub fn newest_first(&self) -> Vec<u32> {
        let mut list = Vec::new();
        let mut at = self.head;
        while let Some((_, older)) = self.links.get(&at) {
            list.push(at);
            at = *older;
        }
        list
    }
}
