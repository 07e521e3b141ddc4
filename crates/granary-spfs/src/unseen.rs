//! Changes of lower directories that nobody above has made: the directories' times stay what they were.
//!
//! ```text
//!   exclusive:   times noted ── change, at the later of the two ── times put back
//!   shared:      every change of a lower directory that a call above makes, with what the node above learns
//!                of it
//! ```
//!
//! A file that leaves persistent memory is entered in its lower directory, which says so by its times. To
//! programs the file was there before. The change bears a time that is not older than either of the two,
//! because the power can fail before they are put back: promised times are never followed by older ones.
//!
//! A name that was removed below can be back after a power failure: its last owner's, or the one that a move
//! had entered. As long as a file here has the name, recovery removes it. So the removal is made durable
//! before the file gives the name up.

use crate::fs::Spfs;
use crate::layout::alone::NamePlace;
use granary_fs::{Call, FileKind, Ino, Inode, Result};
use granary_sim::sync::RwLockReadGuard;
use granary_vfs::{Change, NodeRef, SetTime};

impl Spfs {
    /// Changes a lower directory; its times stay. Where they cannot be put back (a directory of the host that
    /// is another one's), they are later than they were, which is nobody's error.
    ///
    /// # Errors
    /// Those of `change`.
    pub(crate) fn unseen<T>(&self, dir: &NodeRef, change: impl FnOnce(&Call<'_>) -> Result<T>) -> Result<T> {
        let _alone = self.directories.write();
        let was = self.lower.stat(dir).attr;
        let done = change(&Call::kernel(was.mtime.max(was.ctime)));
        let times = Change { mtime: SetTime::At(was.mtime), ..Change::NOTHING };
        let _ = self.lower.setattr(&Call::kernel(was.ctime), dir, &times);
        done
    }

    /// Held while a call changes the lower inode, where that is a directory. Before anything else of the
    /// inode is locked.
    pub(crate) fn seen(&self, inode: &Inode) -> Option<RwLockReadGuard<'_, ()>> {
        inode.view(|a| a.kind == FileKind::Dir).then(|| self.directories.read())
    }

    /// Takes back what a move has entered below. Where that fails, [`Spfs::clear`] tries again.
    pub(crate) fn take_back(&self, dir: &NodeRef, place: &NamePlace) {
        self.leftovers.lock().insert(place.clone());
        let _ = self.unseen(dir, |call| self.lower.unlink(call, dir, &place.name));
    }

    /// Nothing below has this name, not even after a power failure: for a file that is here alone and gives
    /// it up.
    ///
    /// # Errors
    /// The lower file system's.
    pub(crate) fn clear(&self, call: &Call<'_>, place: &NamePlace) -> Result<()> {
        if !self.leftovers.lock().contains(place) {
            return Ok(());
        }
        let dir = self.lower.node(Ino(place.dir.ino))?;
        self.remove_leftover(call, &dir, place)?;
        self.lower.fsync(call, &dir, false)?;
        self.leftovers.lock().remove(place);
        Ok(())
    }

    /// Removes what is still below under a name that a move was given up for.
    ///
    /// # Errors
    /// The lower file system's.
    pub(crate) fn remove_leftover(&self, call: &Call<'_>, dir: &NodeRef, place: &NamePlace) -> Result<()> {
        let left = self.leftovers.lock().contains(place);
        if left && self.lower.lookup(call, dir, &place.name)?.is_some() {
            self.unseen(dir, |call| self.lower.unlink(call, dir, &place.name))?;
        }
        Ok(())
    }
}
