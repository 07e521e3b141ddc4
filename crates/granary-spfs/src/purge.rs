//! Files that were removed while they were tiered.
//!
//! The lower file system may take the removal back at a power failure, as long as it is not durable there.
//! Then the file is there again, and must have what was acknowledged. So its inode stays in persistent memory
//! until a sync of the lower file system has returned.

use crate::fs::{Dead, Spfs};
use crate::layout::inode::Identity;
use crate::tier::Tier;
use granary_fs::{Call, Result};
use granary_sim::now;

impl Spfs {
    /// A tiered file has lost its last name and its last user.
    pub(crate) fn bury(&self, of: Identity) {
        self.index.lock().remove(&of);
        self.dead.lock().push(Dead { of, since: now() });
    }

    /// Frees what removed files had.
    pub(crate) fn purge(&self, call: &Call<'_>) -> Result<()> {
        let _step = granary_sim::step("spfs: removed files are freed");
        let dead = std::mem::take(&mut *self.dead.lock());
        if dead.is_empty() {
            return Ok(());
        }
        if let Err(e) = self.lower.sync(&call.as_root()) {
            self.dead.lock().extend(dead);
            return Err(e);
        }
        dead.into_iter().try_for_each(|dead| self.free(dead.of))
    }

    /// The same where the oldest has waited long enough.
    pub(crate) fn purge_old(&self) -> Result<()> {
        let oldest = self.dead.lock().first().map(|dead| dead.since);
        match oldest {
            Some(since) if now().0.saturating_sub(since.0) >= self.options.purge_after.0 => {
                self.purge(&self.kernel())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn free(&self, of: Identity) -> Result<()> {
        match self.store.find(of)? {
            Some((number, inode)) => self.store.free(&mut Tier::new(number, &inode, false), of),
            None => Ok(()),
        }
    }
}
