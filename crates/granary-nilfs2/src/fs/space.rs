//! [`Space`] of [`Nilfs2`]. The kernel's has no fallocate; FITRIM is not offered: cleaned segments are written again soon.

use crate::Nilfs2;
use crate::file::BS;
use granary_fs::{Call, Inode, Result, Space, StatFs, Sweep, Swept};

impl Space for Nilfs2 {
    granary_fs::file_system_lacks!(fallocate, empty_until, trim, grow);

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        let size = inode.size();
        let next = self.next_block(inode.ino().0, pos / BS)?;
        Ok(next.map(|index| pos.max(index * BS)).filter(|at| *at < size))
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        let (size, mut index) = (inode.size(), pos / BS);
        while index * BS < size && self.next_block(inode.ino().0, index)? == Some(index) {
            index += 1;
        }
        Ok(pos.max(index * BS).min(size))
    }

    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        self.stat()
    }

    fn kept_back(&self, _call: &Call<'_>) -> Result<Option<String>> {
        self.why_kept()
    }

    fn sweep(&self, _call: &Call<'_>, sweep: &Sweep) -> Result<Swept> {
        self.sweep_all(sweep)
    }
}
