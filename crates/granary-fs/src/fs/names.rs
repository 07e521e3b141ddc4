//! [`Names`]: directories: finding, entering and removing names.

use crate::attr::Ino;
use crate::error::Result;
use crate::fs::{Call, Created, DirEntry, NewNode, Rename};
use crate::inode::Inode;

/// Names of a file system. The rules are [`FileSystem`](crate::FileSystem)'s module's.
pub trait Names: Send + Sync {
    /// The inode that `name` stands for in `dir`.
    fn lookup(&self, call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>>;

    /// Calls `emit` for each entry after position `from` (0 = first), until it returns false. "." and ".."
    /// come from the vfs.
    fn readdir(
        &self,
        call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()>;

    /// No entry of `dir` has a [`DirEntry::next`] beyond this now. Where new names come last, a reading ends
    /// here; `u64::MAX` where positions are an order of the names themselves (hashes), which has an end of
    /// its own. Charges nothing.
    fn dir_end(&self, dir: &Inode) -> u64;

    /// The parent of a directory.
    fn parent(&self, call: &Call<'_>, dir: &Inode) -> Result<Ino>;

    /// Whether a directory has no entries.
    fn is_empty_dir(&self, call: &Call<'_>, dir: &Inode) -> Result<bool>;

    /// The target of a symbolic link.
    fn readlink(&self, call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>>;

    /// Makes a new inode and enters it as `name`.
    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created>;

    /// Makes a new inode without a name (`nlink` 0), in a directory only as far as it inherits from it. It
    /// lives as one whose last name was removed; but [`Names::link`] may give it a name. After a power loss
    /// before that recovery frees it.
    ///
    /// # Errors
    /// `NotSupported` unless a file system does it.
    fn create_unnamed(&self, call: &Call<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created>;

    /// Enters an existing inode as `name`. One without links was made by [`Names::create_unnamed`] and had no
    /// name yet.
    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()>;

    /// Removes the entry `name` of `inode`: a non-directory, or an empty directory. With its last link gone
    /// the inode (`nlink` 0) lives on, on media too, until [`Life::evict`](crate::Life::evict); after a power
    /// loss recovery frees it.
    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()>;

    /// Renames, replaces or exchanges.
    fn rename(&self, call: &Call<'_>, rename: &Rename<'_>) -> Result<()>;
}

/// Within `impl Names for Wrapper`: passes the named calls on to the file system in the field of this name.
#[macro_export]
macro_rules! forward_names {
    ($inner:ident: $($call:ident),+ $(,)?) => { $($crate::forward_names_call!($inner $call);)+ };
}

/// One call of [`forward_names!`](crate::forward_names).
#[doc(hidden)]
#[macro_export]
macro_rules! forward_names_call {
    ($inner:ident lookup) => {
        fn lookup(
            &self,
            call: &$crate::Call<'_>,
            dir: &$crate::Inode,
            name: &[u8],
        ) -> $crate::Result<::std::option::Option<$crate::Ino>> {
            self.$inner.lookup(call, dir, name)
        }
    };
    ($inner:ident readdir) => {
        fn readdir(
            &self,
            call: &$crate::Call<'_>,
            dir: &$crate::Inode,
            from: u64,
            emit: &mut dyn FnMut($crate::DirEntry<'_>) -> bool,
        ) -> $crate::Result<()> {
            self.$inner.readdir(call, dir, from, emit)
        }
    };
    ($inner:ident dir_end) => {
        fn dir_end(&self, dir: &$crate::Inode) -> u64 {
            self.$inner.dir_end(dir)
        }
    };
    ($inner:ident parent) => {
        fn parent(&self, call: &$crate::Call<'_>, dir: &$crate::Inode) -> $crate::Result<$crate::Ino> {
            self.$inner.parent(call, dir)
        }
    };
    ($inner:ident is_empty_dir) => {
        fn is_empty_dir(&self, call: &$crate::Call<'_>, dir: &$crate::Inode) -> $crate::Result<bool> {
            self.$inner.is_empty_dir(call, dir)
        }
    };
    ($inner:ident readlink) => {
        fn readlink(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
        ) -> $crate::Result<::std::vec::Vec<u8>> {
            self.$inner.readlink(call, inode)
        }
    };
    ($inner:ident create) => {
        fn create(
            &self,
            call: &$crate::Call<'_>,
            dir: &$crate::Inode,
            name: &[u8],
            new: &$crate::NewNode<'_>,
        ) -> $crate::Result<$crate::Created> {
            self.$inner.create(call, dir, name, new)
        }
    };
    ($inner:ident create_unnamed) => {
        fn create_unnamed(
            &self,
            call: &$crate::Call<'_>,
            dir: &$crate::Inode,
            new: &$crate::NewNode<'_>,
        ) -> $crate::Result<$crate::Created> {
            self.$inner.create_unnamed(call, dir, new)
        }
    };
    ($inner:ident link) => {
        fn link(
            &self,
            call: &$crate::Call<'_>,
            dir: &$crate::Inode,
            name: &[u8],
            inode: &$crate::Inode,
        ) -> $crate::Result<()> {
            self.$inner.link(call, dir, name, inode)
        }
    };
    ($inner:ident unlink) => {
        fn unlink(
            &self,
            call: &$crate::Call<'_>,
            dir: &$crate::Inode,
            name: &[u8],
            inode: &$crate::Inode,
        ) -> $crate::Result<()> {
            self.$inner.unlink(call, dir, name, inode)
        }
    };
    ($inner:ident rename) => {
        fn rename(&self, call: &$crate::Call<'_>, rename: &$crate::Rename<'_>) -> $crate::Result<()> {
            self.$inner.rename(call, rename)
        }
    };
}
