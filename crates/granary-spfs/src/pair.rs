//! Persistent memory and the file system below know each other: files of one must not be looked for in another.
//!
//! ```text
//!   first promotion    a number below, as an attribute of the root directory, fsync ── the same number in the superblock, fence
//!   mount              with files, and another number below: refused, nothing is changed
//! ```
//!
//! Persistent memory without files goes with any file system: its next promotion makes a new pair, and what was paired with that file
//! system before is refused from then on. So an old copy of persistent memory cannot drop or bring back files either. A lower file
//! system without attributes has no number, and nothing is compared. Where asking for the number or setting it fails otherwise, the mount
//! or the fsync that was to promote fails: a pair that is not known to be one is none.
//!
//! The attribute is not shown above.

use crate::Spfs;
use crate::layout::{LOWER, word};
use crate::store::Store;
use granary_device::Structure;
use granary_vfs::{Call, FsError, Lower, Result};

/// The attribute's name.
pub const NAME: &[u8] = b"user.granary.spfs";

/// Whether an error says that the lower file system has no such attributes. Every other one, EIO of a host's file system too, is
/// a failure, which says nothing of what is there.
fn lacks_attributes(e: &FsError) -> bool {
    matches!(e, FsError::NotSupported | FsError::NoAttribute)
}

/// Whether persistent memory may be mounted over this file system.
///
/// # Errors
/// `Mismatch` where it has files of another one; the devices'.
pub fn check(store: &Store, lower: &Lower) -> Result<()> {
    let number = word(&store.pm, LOWER, Structure::Superblock)?;
    let mut files = 0u64;
    store.names.for_each(&store.pm, &mut |_, _| {
        files += 1;
        Ok(())
    })?;
    if number == 0 || files == 0 {
        return Ok(());
    }
    let there = match lower.getxattr(&Call::kernel(lower.vfs().time()), &lower.root(), NAME) {
        Err(e) if lacks_attributes(&e) => None,
        there => there?,
    };
    if there.as_deref() == Some(&number.to_le_bytes()[..]) {
        return Ok(());
    }
    Err(FsError::Mismatch(format!(
        "this persistent memory has {files} files of another file system: mount it over that one, or make it anew and lose them"
    )))
}

impl Spfs {
    /// Sees to it that persistent memory is paired, before it has a file.
    pub(crate) fn pair(&self, call: &Call<'_>) -> Result<()> {
        let mut paired = self.paired.lock();
        if *paired {
            return Ok(());
        }
        let (pm, root) = (&self.store.pm, self.lower.root());
        let old = word(pm, LOWER, Structure::Superblock)?;
        // Another one than before, and than others': by when it was made.
        let number =
            (granary_sim::now().0 ^ (self.lower.vfs().time().0 as u64).rotate_left(20) ^ old.rotate_left(7))
                | 1;
        match self.lower.setxattr(call, &root, NAME, Some(&number.to_le_bytes())) {
            Ok(()) => {
                self.lower.fsync(call, &root, false)?;
                let mut b = pm.batch();
                b.put_u64(LOWER, number, Structure::Superblock)?;
                b.fence()?;
            }
            Err(e) if lacks_attributes(&e) => {}
            Err(e) => return Err(e),
        }
        *paired = true;
        Ok(())
    }
}
