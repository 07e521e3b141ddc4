//! Files of persistent memory that are not below any more, and directories that are not.

use crate::fs::{Missing, Spfs};
use crate::layout::alone::{self, Alone};
use crate::layout::inode::Identity;
use crate::recover;
use granary_fs::Result;

impl Spfs {
    /// Files of persistent memory that are not below: removed beside the mount, or replaced by copies.
    ///
    /// # Errors
    /// The lower file system's.
    pub fn not_below(&self) -> Result<Vec<Missing>> {
        let mut all = Vec::new();
        for of in self.missing()? {
            all.extend(self.store.find(of)?.map(|(_, inode)| Missing::of(&inode)));
        }
        Ok(all)
    }

    fn missing(&self) -> Result<Vec<Identity>> {
        let all: Vec<Identity> = self.index.lock().keys().copied().collect();
        let mut missing = Vec::new();
        for of in all.into_iter().filter(|of| !alone::is(of.ino)) {
            if !recover::is_below(&self.lower, of)? {
                missing.push(of);
            }
        }
        Ok(missing)
    }

    /// Gives files in persistent memory alone whose directory was removed beside the mount a name in the root
    /// directory, before anybody calls; says which.
    ///
    /// # Errors
    /// The devices', the lower file system's.
    pub fn find_places(&self) -> Result<Vec<Vec<u8>>> {
        let own = |(of, (number, _)): (&Identity, &(u64, u64))| alone::is(of.ino).then_some((*of, *number));
        let all: Vec<(Identity, u64)> = self.index.lock().iter().filter_map(own).collect();
        let mut found = Vec::new();
        for (of, number) in all {
            let Ok(Alone { place: Some(lost), .. }) = Alone::load(&self.store.pm, number)? else { continue };
            if recover::directory(&self.lower, lost.dir)?.is_some() {
                continue;
            }
            let place = recover::place_in_root(&self.lower, number)?;
            self.store.rename(number, &place)?;
            let mut children = self.children.lock();
            children.remove(&lost);
            children.enter(&place, of.ino);
            found.push(place.name);
        }
        self.lower.reap();
        Ok(found)
    }

    /// Gives up what persistent memory has of files that are not below any more, before anybody calls.
    ///
    /// # Errors
    /// The devices'.
    pub fn give_up_missing(&self) -> Result<()> {
        self.missing()?.into_iter().try_for_each(|of| {
            self.index.lock().remove(&of);
            self.free(of)
        })
    }
}
