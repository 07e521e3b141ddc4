//! [`Attributes`]: properties of an inode beside its bytes and names.

use crate::attr::SetAttr;
use crate::error::Result;
use crate::fs::Call;
use crate::inode::Inode;

/// Attributes of inodes, extended ones too.
pub trait Attributes: Send + Sync {
    /// Changes attributes. With `size`, frees what lies beyond; pages in the cache are the vfs's affair.
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()>;

    /// Records `call.time` as the access time in memory and, when the file system's rules say so, on media
    /// later.
    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()>;

    /// The value of an extended attribute; `None`: there is none of this name. Names are whole ("user.x"), at
    /// most 255 bytes, without a zero byte, of a namespace that the vfs knows; values have at most 64 KiB.
    ///
    /// # Errors
    /// `NotSupported`.
    fn getxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Gives an extended attribute a value, or (`None`) removes it, which the caller has seen to exist;
    /// stamps `ctime`. After a power loss it has the old value or the new one; `fsync` makes it durable.
    ///
    /// # Errors
    /// `NotSupported`; `NoSpace` where this file system has no room for it (as ext4's ENOSPC beyond its one
    /// block).
    fn setxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()>;

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// `NotSupported`.
    fn listxattr(&self, call: &Call<'_>, inode: &Inode) -> Result<Vec<Vec<u8>>>;

    /// Tells lives of one inode number apart, also after a mount: with the number a handle of the file for as
    /// long as it lives.
    fn generation(&self, inode: &Inode) -> u32;
}

/// Within `impl Attributes for Wrapper`: passes the named calls on to the file system in the field of this
/// name.
#[macro_export]
macro_rules! forward_attributes {
    ($inner:ident: $($call:ident),+ $(,)?) => { $($crate::forward_attributes_call!($inner $call);)+ };
}

/// One call of [`forward_attributes!`](crate::forward_attributes).
#[doc(hidden)]
#[macro_export]
macro_rules! forward_attributes_call {
    ($inner:ident setattr) => {
        fn setattr(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
            set: &$crate::SetAttr,
        ) -> $crate::Result<()> {
            self.$inner.setattr(call, inode, set)
        }
    };
    ($inner:ident touch_atime) => {
        fn touch_atime(&self, call: &$crate::Call<'_>, inode: &$crate::Inode) -> $crate::Result<()> {
            self.$inner.touch_atime(call, inode)
        }
    };
    ($inner:ident getxattr) => {
        fn getxattr(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
            name: &[u8],
        ) -> $crate::Result<::std::option::Option<::std::vec::Vec<u8>>> {
            self.$inner.getxattr(call, inode, name)
        }
    };
    ($inner:ident setxattr) => {
        fn setxattr(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
            name: &[u8],
            value: ::std::option::Option<&[u8]>,
        ) -> $crate::Result<()> {
            self.$inner.setxattr(call, inode, name, value)
        }
    };
    ($inner:ident listxattr) => {
        fn listxattr(
            &self,
            call: &$crate::Call<'_>,
            inode: &$crate::Inode,
        ) -> $crate::Result<::std::vec::Vec<::std::vec::Vec<u8>>> {
            self.$inner.listxattr(call, inode)
        }
    };
    ($inner:ident generation) => {
        fn generation(&self, inode: &$crate::Inode) -> u32 {
            self.$inner.generation(inode)
        }
    };
}
