//! [`Life`]: a file system and its inodes coming and going.

use crate::attr::Ino;
use crate::error::Result;
use crate::fs::{Call, DirtyPages, Features, Loaded};
use crate::inode::Inode;
use std::sync::Weak;

/// The file system itself, and its inodes in memory.
pub trait Life: Send + Sync {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// How it wants to be called.
    fn features(&self) -> Features;

    /// The pages of its files, from the mount on.
    fn attach(&self, pages: Weak<dyn DirtyPages>);

    /// The root directory.
    fn root(&self) -> Ino;

    /// Reads an inode from media: of any number, since handles may come from anywhere.
    ///
    /// # Errors
    /// `Stale` where the inode is free; `Corrupt`; drive errors (as for every call below).
    fn load_inode(&self, call: &Call<'_>, ino: Ino) -> Result<Loaded>;

    /// Frees an inode without links that nobody uses any more. Its number may be reused afterwards.
    fn evict(&self, call: &Call<'_>, inode: &Inode) -> Result<()>;

    /// An inode leaves memory (it has links): last chance to persist what only the private part knows.
    fn release(&self, call: &Call<'_>, inode: &Inode) -> Result<()>;

    /// A program has opened the file or directory; the kernel of a mount keeps its open files to itself.
    ///
    /// # Errors
    /// The reason why it cannot be opened: it is not open then.
    fn opened(&self, call: &Call<'_>, inode: &Inode) -> Result<()>;

    /// A file or directory that was [`Life::opened`] is closed.
    fn closed(&self, call: &Call<'_>, inode: &Inode);

    /// The process of this number ([`Caller::process`](crate::Caller)) has ended, was killed, or has closed
    /// its connection. Should it call again, it begins anew. Its loans (leases, a journal of its own) are
    /// revoked. If a part of that fails now (the drive fails), a later call that meets it has to deal with
    /// it: there is nobody to be told.
    fn process_ended(&self, call: &Call<'_>, process: u32);

    /// Its memory beside the vfs's caches, in bytes, by owner and purpose: `device.inode`. A file system over
    /// several devices also reports the space of its data on each: `space.ssd_block`. For records.
    fn memory(&self) -> Vec<(&'static str, u64)>;

    /// Lets go of metadata in memory that media have too, as `echo 2 > /proc/sys/vm/drop_caches`. A hint.
    fn drop_caches(&self, call: &Call<'_>);

    /// Lets go of clean data of this file that it holds beside the vfs's page cache (POSIX_FADV_DONTNEED). A
    /// hint.
    fn drop_clean(&self, call: &Call<'_>, inode: &Inode);

    /// Makes everything durable; all dirty pages have been given to `write_pages`.
    fn sync(&self, call: &Call<'_>) -> Result<()>;

    /// Ends cleanly: everything durable, daemons stopped, media marked clean. No calls follow.
    fn unmount(&self, call: &Call<'_>) -> Result<()>;

    /// Compares everything on media (and in memory) with everything else; one sentence per violation. The
    /// file system is quiet and synced.
    fn check(&self, call: &Call<'_>) -> Result<Vec<String>>;
}

/// Within `impl Life for Wrapper`: passes the named calls on to the file system in the field of this name.
#[macro_export]
macro_rules! forward_life {
    ($inner:ident: $($call:ident),+ $(,)?) => { $($crate::forward_life_call!($inner $call);)+ };
}

/// One call of [`forward_life!`](crate::forward_life).
#[doc(hidden)]
#[macro_export]
macro_rules! forward_life_call {
    ($inner:ident name) => {
        fn name(&self) -> &'static str {
            self.$inner.name()
        }
    };
    ($inner:ident features) => {
        fn features(&self) -> $crate::Features {
            self.$inner.features()
        }
    };
    ($inner:ident attach) => {
        fn attach(&self, pages: ::std::sync::Weak<dyn $crate::DirtyPages>) {
            self.$inner.attach(pages);
        }
    };
    ($inner:ident root) => {
        fn root(&self) -> $crate::Ino {
            self.$inner.root()
        }
    };
    ($inner:ident load_inode) => {
        fn load_inode(&self, call: &$crate::Call<'_>, ino: $crate::Ino) -> $crate::Result<$crate::Loaded> {
            self.$inner.load_inode(call, ino)
        }
    };
    ($inner:ident evict) => {
        fn evict(&self, call: &$crate::Call<'_>, inode: &$crate::Inode) -> $crate::Result<()> {
            self.$inner.evict(call, inode)
        }
    };
    ($inner:ident release) => {
        fn release(&self, call: &$crate::Call<'_>, inode: &$crate::Inode) -> $crate::Result<()> {
            self.$inner.release(call, inode)
        }
    };
    ($inner:ident drop_caches) => {
        fn drop_caches(&self, call: &$crate::Call<'_>) {
            self.$inner.drop_caches(call);
        }
    };
    ($inner:ident drop_clean) => {
        fn drop_clean(&self, call: &$crate::Call<'_>, inode: &$crate::Inode) {
            self.$inner.drop_clean(call, inode);
        }
    };
    ($inner:ident sync) => {
        fn sync(&self, call: &$crate::Call<'_>) -> $crate::Result<()> {
            self.$inner.sync(call)
        }
    };
    ($inner:ident unmount) => {
        fn unmount(&self, call: &$crate::Call<'_>) -> $crate::Result<()> {
            self.$inner.unmount(call)
        }
    };
    ($inner:ident check) => {
        fn check(&self, call: &$crate::Call<'_>) -> $crate::Result<::std::vec::Vec<::std::string::String>> {
            self.$inner.check(call)
        }
    };
    ($inner:ident opened) => {
        fn opened(&self, call: &$crate::Call<'_>, inode: &$crate::Inode) -> $crate::Result<()> {
            self.$inner.opened(call, inode)
        }
    };
    ($inner:ident closed) => {
        fn closed(&self, call: &$crate::Call<'_>, inode: &$crate::Inode) {
            self.$inner.closed(call, inode)
        }
    };
    ($inner:ident process_ended) => {
        fn process_ended(&self, call: &$crate::Call<'_>, process: u32) {
            self.$inner.process_ended(call, process)
        }
    };
    ($inner:ident memory) => {
        fn memory(&self) -> ::std::vec::Vec<(&'static str, u64)> {
            self.$inner.memory()
        }
    };
}
