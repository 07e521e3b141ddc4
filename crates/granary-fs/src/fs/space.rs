//! [`Space`]: blocks under files, and of the file system as a whole.

use crate::error::Result;
use crate::fs::{Allocate, Call, StatFs};
use crate::inode::Inode;
use granary_units::Nanos;
use std::ops::Range;

/// Blocks: which a file has, and how many are left.
pub trait Space: Send + Sync {
    /// Changes where a file has blocks, and stamps `ctime` (and `mtime`, except for `Reserve` within the
    /// size). `pos` and `len` are bytes; the end lies within
    /// [`Features::max_file_size`](crate::Features::max_file_size). With [`Allocate::grows`] the size becomes
    /// `pos + len` where it was less; the vfs has made sure that the old end's page is zero up to there.
    ///
    /// `Reserve`: every page that the range touches and that is a hole gets a block that reads as zeros;
    /// pages promised by [`Data::reserve`](crate::Data::reserve) may be left to their promise. `PunchHole`:
    /// pages wholly within the range become holes, and promises for them end; `ZeroRange`: they read as zeros
    /// and have blocks, as have pages at the edges. The bytes at the edges are the vfs's affair, unless
    /// [`Quirks::zeroes_edges`](crate::Quirks::zeroes_edges). Blocks beyond the end of the file must read as
    /// zeros when the file grows over them later, also after a power loss. After an error everything is as
    /// before.
    ///
    /// # Errors
    /// `NotSupported`; `NoSpace`.
    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()>;

    /// The first byte at or after `pos` (which is less than the size) that may be data: a file system that
    /// does not know its holes calls everything data. Pages promised by
    /// [`Data::reserve`](crate::Data::reserve) are data; blocks that hold nothing yet are not, where
    /// [`Space::empty_until`] tells of them. `None`: a hole up to the end.
    fn seek_data(&self, call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>>;

    /// The first byte at or after `pos` (which is less than the size) that is in a hole, or in blocks that
    /// hold nothing yet as above; at the latest the size.
    fn seek_hole(&self, call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64>;

    /// How far the blocks at `pos` hold nothing yet: what seeking takes for a hole but for the pages that the
    /// cache has of it (Linux: `IOMAP_UNWRITTEN`). `pos` itself where there are none, or they are not told
    /// from data.
    fn empty_until(&self, call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64>;

    /// Space and inodes.
    fn statfs(&self, call: &Call<'_>) -> Result<StatFs>;

    /// Dead blocks that nobody can have yet, and why, in a sentence for who asks why there is no space;
    /// `None` where nothing dead is kept.
    ///
    /// # Errors
    /// Those of the drive.
    fn kept_back(&self, _call: &Call<'_>) -> Result<Option<String>> {
        Ok(None)
    }

    /// Tells the drive which of `blocks` are free (fstrim), in runs of `least` blocks or more; returns their
    /// number. While the drive is told of a run, nobody can allocate from it; a run has
    /// [`TRIM_RUN`](crate::TRIM_RUN) blocks at most. It skips blocks that a power failure would give back to
    /// a file.
    ///
    /// # Errors
    /// `NotSupported`.
    fn trim(&self, call: &Call<'_>, blocks: Range<u64>, least: u64) -> Result<u64>;

    /// Uses the first `blocks` blocks of 4 KiB of the drive, which has become larger; while the file system
    /// is in use. A power failure leaves the old or the new size.
    ///
    /// # Errors
    /// `NotSupported` by file systems that cannot; `Invalid` for fewer blocks than there are or more than the
    /// drive has; `NoSpace` where what is added is too little for its own metadata, or the file system has
    /// grown too often.
    fn grow(&self, call: &Call<'_>, blocks: u64) -> Result<()>;

    /// Cleans until nothing is left that is worth it, as `nilfs-clean` and F2FS's ioctl for garbage
    /// collection do, and makes that durable. For a file system with a log; others have nothing to clean.
    ///
    /// # Errors
    /// `NotSupported` by file systems that never move blocks; `ReadOnly`; errors of the drive.
    fn sweep(&self, call: &Call<'_>, sweep: &Sweep) -> Result<Swept>;
}

/// Limits of a [`Space::sweep`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Segments with blocks younger than this stay (NILFS2's protection period); file systems without one
    /// ignore it.
    pub protection: Nanos,
}

/// Counters of one [`Space::sweep`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Segments that are free because of it.
    pub segments: u64,
    /// Blocks that were read and written to a new place.
    pub blocks_copied: u64,
    /// Blocks that the drive renamed (PebbleSSD section 4.2.1).
    pub blocks_remapped: u64,
}

/// Within `impl Space for Wrapper`: passes the named calls on to the file system in the field of this name.
#[macro_export]
macro_rules! forward_space {
    ($inner:ident: $($call:ident),+ $(,)?) => { $($crate::forward_space_call!($inner $call);)+ };
}

/// One call of [`forward_space!`](crate::forward_space).
#[doc(hidden)]
#[macro_export]
macro_rules! forward_space_call {
    ($inner:ident fallocate) => {
        fn fallocate(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
            how: $crate::Allocate,
            pos: u64,
            len: u64,
        ) -> $crate::Result<()> {
            self.$inner.fallocate(call, inode, how, pos, len)
        }
    };
    ($inner:ident seek_data) => {
        fn seek_data(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
            pos: u64,
        ) -> $crate::Result<::std::option::Option<u64>> {
            self.$inner.seek_data(call, inode, pos)
        }
    };
    ($inner:ident seek_hole) => {
        fn seek_hole(&self, call: &$crate::Call<'_>, inode: &$crate::Inode, pos: u64) -> $crate::Result<u64> {
            self.$inner.seek_hole(call, inode, pos)
        }
    };
    ($inner:ident empty_until) => {
        fn empty_until(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
            pos: u64,
        ) -> $crate::Result<u64> {
            self.$inner.empty_until(call, inode, pos)
        }
    };
    ($inner:ident statfs) => {
        fn statfs(&self, call: &$crate::Call<'_>) -> $crate::Result<$crate::StatFs> {
            self.$inner.statfs(call)
        }
    };
    ($inner:ident trim) => {
        fn trim(
            &self,
            call: &$crate::Call<'_>,
            blocks: ::std::ops::Range<u64>,
            least: u64,
        ) -> $crate::Result<u64> {
            self.$inner.trim(call, blocks, least)
        }
    };
    ($inner:ident grow) => {
        fn grow(&self, call: &$crate::Call<'_>, blocks: u64) -> $crate::Result<()> {
            self.$inner.grow(call, blocks)
        }
    };
    ($inner:ident sweep) => {
        fn sweep(&self, call: &$crate::Call<'_>, sweep: &$crate::Sweep) -> $crate::Result<$crate::Swept> {
            self.$inner.sweep(call, sweep)
        }
    };
}
