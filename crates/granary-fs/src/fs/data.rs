//! [`Data`]: the bytes of files.

use crate::error::Result;
use crate::fs::{Call, DirtyPage, WriteBackCause};
use crate::inode::Inode;
use granary_units::{Dest, Page, Payload};

/// The content of its files.
pub trait Data: Send + Sync {
    /// Fills consecutive pages of a file from media; holes are zeros.
    fn read_pages(&self, call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()>;

    /// Before pages of this range are dirtied: makes sure that they can be written later (delayed allocation
    /// reserves space here).
    ///
    /// # Errors
    /// `NoSpace`.
    fn reserve(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()>;

    /// After pages of this range were dirtied: grows the size where needed and stamps the times.
    fn wrote(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()>;

    /// Writes dirty pages (ascending) to the drive; on return the drive has them. Blocks are allocated and
    /// pointers changed as the protocol wants, durable at the next `fsync` at the latest.
    fn write_pages(
        &self,
        call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        why: WriteBackCause,
    ) -> Result<()>;

    /// Reads past the page cache (O_DIRECT, DAX): `pos..pos + dest.len()` lies within the file.
    fn read_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()>;

    /// Writes past the page cache and stamps size and times; on return the drive has the data (O_DIRECT), and
    /// for DAX file systems it is as durable as their `write` promises. The vfs has flushed and dropped
    /// cached pages of the range and zeroed the gap before `pos`.
    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()>;

    /// Makes the inode durable; its dirty pages have been given to `write_pages`. `data_only`: `fdatasync`,
    /// time stamps may be left.
    fn fsync(&self, call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()>;

    /// Whether the page that a truncation to `size`, within a page, cuts is to be written again, with zeros
    /// behind the cut: some kernels' file systems do (`ext4_block_truncate_page`, F2FS's
    /// `truncate_partial_data_page`). Asked before the file is cut, and only traffic depends on the answer:
    /// what media have beyond the end stays garbage.
    ///
    /// # Errors
    /// Of reading metadata.
    fn rewrites_cut_page(&self, call: &Call<'_>, inode: &Inode, size: u64) -> Result<bool>;

    /// Whether the dirty pages of `inode` are to be written when a descriptor that could write it is closed
    /// (ext4's auto_da_alloc, after a truncation to nothing). Asked once for each close.
    fn flush_on_close(&self, call: &Call<'_>, inode: &Inode) -> bool;
}

/// Within `impl Data for Wrapper`: passes the named calls on to the file system in the field of this name.
#[macro_export]
macro_rules! forward_data {
    ($inner:ident: $($call:ident),+ $(,)?) => { $($crate::forward_data_call!($inner $call);)+ };
}

/// One call of [`forward_data!`](crate::forward_data).
#[doc(hidden)]
#[macro_export]
macro_rules! forward_data_call {
    ($inner:ident read_pages) => {
        fn read_pages(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
            first: u64,
            out: &mut [$crate::units::Page],
        ) -> $crate::Result<()> {
            self.$inner.read_pages(call, inode, first, out)
        }
    };
    ($inner:ident reserve) => {
        fn reserve(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
            pos: u64,
            len: u64,
        ) -> $crate::Result<()> {
            self.$inner.reserve(call, inode, pos, len)
        }
    };
    ($inner:ident wrote) => {
        fn wrote(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
            pos: u64,
            len: u64,
        ) -> $crate::Result<()> {
            self.$inner.wrote(call, inode, pos, len)
        }
    };
    ($inner:ident write_pages) => {
        fn write_pages(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
            pages: &[$crate::DirtyPage],
            why: $crate::WriteBackCause,
        ) -> $crate::Result<()> {
            self.$inner.write_pages(call, inode, pages, why)
        }
    };
    ($inner:ident read_direct) => {
        fn read_direct(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
            pos: u64,
            dest: $crate::units::Dest<'_>,
        ) -> $crate::Result<()> {
            self.$inner.read_direct(call, inode, pos, dest)
        }
    };
    ($inner:ident write_direct) => {
        fn write_direct(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
            pos: u64,
            data: $crate::units::Payload<'_>,
        ) -> $crate::Result<()> {
            self.$inner.write_direct(call, inode, pos, data)
        }
    };
    ($inner:ident fsync) => {
        fn fsync(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
            data_only: bool,
        ) -> $crate::Result<()> {
            self.$inner.fsync(call, inode, data_only)
        }
    };
    ($inner:ident rewrites_cut_page) => {
        fn rewrites_cut_page(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
            size: u64,
        ) -> $crate::Result<bool> {
            self.$inner.rewrites_cut_page(call, inode, size)
        }
    };
    ($inner:ident flush_on_close) => {
        fn flush_on_close(&self, call: &$crate::Call<'_>, inode: &$crate::Inode) -> bool {
            self.$inner.flush_on_close(call, inode)
        }
    };
}
