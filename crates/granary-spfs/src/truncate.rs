//! Changing the size of a tiered file.
//!
//! ```text
//!   size, fence ── limit := min(limit, size), fence ── extents behind it away, zeros behind the end in its
//!                                                      cluster
//! ```
//!
//! The first store decides: recovery does the rest. `limit` makes the lower file's bytes behind the cut
//! nobody's, before and after a power failure that takes its own truncation back. It is cut below for its
//! space only.

use crate::fs::Spfs;
use crate::layout::inode;
use crate::tier::Tier;
use granary_fs::{Call, Result};
use granary_pm::BLOCK;
use granary_vfs::NodeRef;

impl Spfs {
    /// Gives a tiered file another size. `below`: none where there is no lower file.
    pub(crate) fn resize(
        &self,
        call: &Call<'_>,
        below: Option<&NodeRef>,
        t: &mut Tier,
        size: u64,
    ) -> Result<()> {
        let time = call.time.0 as u64;
        let fields = [(inode::FILE_SIZE, size), (inode::MTIME, time), (inode::CTIME, time)];
        self.store.put_fields(t.number, &fields)?;
        let old = std::mem::replace(&mut t.size, size);
        (t.mtime, t.ctime) = (call.time, call.time);
        if size < t.limit {
            self.store.put_fields(t.number, &[(inode::LIMIT, size)])?;
            t.limit = size;
        }
        if size >= old {
            return Ok(());
        }
        self.store.cut(t, size.div_ceil(BLOCK) as u32)?;
        self.store.zero_tail(t)?;
        if let Some(below) = below.filter(|below| self.lower.stat(below).attr.size > t.limit) {
            // Where it fails the limit says the same.
            let _ = self.lower.truncate(&call.as_root(), below, t.limit);
        }
        Ok(())
    }
}
