//! [`file_system_lacks!`](crate::file_system_lacks): the calls that a file system has nothing for, named one
//! by one.

/// Within the `impl` of one of the traits of a file system: bodies for calls that it has nothing for. The
/// answer is `NotSupported`, or what it must be where there is no such thing to know of: all of a file is
/// data, nothing to let go of, an inode number that never comes back has no generations. Where there is no
/// shorter way, it is the longer one: an fsync and an unmount sync all, a directory is empty when a reading
/// finds nothing. `direct` and `xattrs` stand for all calls of their kind; without
/// [`Features::direct_io`](crate::Features::direct_io), and with all in the page cache, nobody makes the
/// former.
///
/// ```ignore
/// impl Space for Simple {
///     granary_vfs::file_system_lacks!(fallocate, seek_data, seek_hole, empty_until, trim, grow, sweep);
///     fn statfs(&self, call: &Call<'_>) -> Result<StatFs> { /* ... */ }
/// }
/// ```
#[macro_export]
macro_rules! file_system_lacks {
    ($($call:ident),+ $(,)?) => { $($crate::file_system_lacks_call!($call);)+ };
}

/// One call of [`file_system_lacks!`](crate::file_system_lacks).
#[doc(hidden)]
#[macro_export]
macro_rules! file_system_lacks_call {
    (features) => {
        fn features(&self) -> $crate::Features {
            $crate::Features::PLAIN
        }
    };
    (fsync) => {
        fn fsync(&self, call: &$crate::Call<'_>, _: &$crate::Inode, _: bool) -> $crate::Result<()> {
            $crate::Life::sync(self, call)
        }
    };
    (unmount) => {
        fn unmount(&self, call: &$crate::Call<'_>) -> $crate::Result<()> {
            $crate::Life::sync(self, call)
        }
    };
    (dir_end) => {
        fn dir_end(&self, _: &$crate::Inode) -> u64 {
            u64::MAX
        }
    };
    (is_empty_dir) => {
        fn is_empty_dir(&self, call: &$crate::Call<'_>, dir: &$crate::Inode) -> $crate::Result<bool> {
            let mut empty = true;
            let mut any = |_: $crate::DirEntry<'_>| {
                empty = false;
                false
            };
            $crate::Names::readdir(self, call, dir, 0, &mut any)?;
            Ok(empty)
        }
    };
    (generation) => {
        fn generation(&self, _: &$crate::Inode) -> u32 {
            0
        }
    };
    (attach) => {
        fn attach(&self, _: ::std::sync::Weak<dyn $crate::DirtyPages>) {}
    };
    (opened) => {
        fn opened(&self, _: &$crate::Call<'_>, _: &$crate::Inode) -> $crate::Result<()> {
            Ok(())
        }
    };
    (memory) => {
        fn memory(&self) -> ::std::vec::Vec<(&'static str, u64)> {
            ::std::vec::Vec::new()
        }
    };
    (closed) => {
        fn closed(&self, _: &$crate::Call<'_>, _: &$crate::Inode) {}
    };
    (process_ended) => {
        fn process_ended(&self, _: &$crate::Call<'_>, _: u32) {}
    };
    (release) => {
        fn release(&self, _: &$crate::Call<'_>, _: &$crate::Inode) -> $crate::Result<()> {
            Ok(())
        }
    };
    (drop_caches) => {
        fn drop_caches(&self, _: &$crate::Call<'_>) {}
    };
    (drop_clean) => {
        fn drop_clean(&self, _: &$crate::Call<'_>, _: &$crate::Inode) {}
    };
    (create_unnamed) => {
        fn create_unnamed(
            &self,
            _: &$crate::Call<'_>,
            _: &$crate::Inode,
            _: &$crate::NewNode<'_>,
        ) -> $crate::Result<$crate::Created> {
            Err($crate::FsError::NotSupported)
        }
    };
    (reserve) => {
        fn reserve(&self, _: &$crate::Call<'_>, _: &$crate::Inode, _: u64, _: u64) -> $crate::Result<()> {
            Ok(())
        }
    };
    (wrote) => {
        fn wrote(&self, _: &$crate::Call<'_>, _: &$crate::Inode, _: u64, _: u64) -> $crate::Result<()> {
            Ok(())
        }
    };
    (rewrites_cut_page) => {
        fn rewrites_cut_page(&self, _: &$crate::Call<'_>, _: &$crate::Inode, _: u64) -> $crate::Result<bool> {
            Ok(false)
        }
    };
    (flush_on_close) => {
        fn flush_on_close(&self, _: &$crate::Call<'_>, _: &$crate::Inode) -> bool {
            false
        }
    };
    (direct) => {
        fn read_direct(
            &self,
            _: &$crate::Call<'_>,
            _: &$crate::Inode,
            _: u64,
            _: $crate::units::Dest<'_>,
        ) -> $crate::Result<()> {
            Err($crate::FsError::NotSupported)
        }

        fn write_direct(
            &self,
            _: &$crate::Call<'_>,
            _: &$crate::Inode,
            _: u64,
            _: $crate::units::Payload<'_>,
        ) -> $crate::Result<()> {
            Err($crate::FsError::NotSupported)
        }
    };
    (fallocate) => {
        fn fallocate(
            &self,
            _: &$crate::Call<'_>,
            _: &$crate::Inode,
            _: $crate::Allocate,
            _: u64,
            _: u64,
        ) -> $crate::Result<()> {
            Err($crate::FsError::NotSupported)
        }
    };
    (seek_data) => {
        fn seek_data(
            &self,
            _: &$crate::Call<'_>,
            _: &$crate::Inode,
            pos: u64,
        ) -> $crate::Result<::std::option::Option<u64>> {
            Ok(Some(pos))
        }
    };
    (seek_hole) => {
        fn seek_hole(&self, _: &$crate::Call<'_>, inode: &$crate::Inode, _: u64) -> $crate::Result<u64> {
            Ok(inode.size())
        }
    };
    (empty_until) => {
        fn empty_until(&self, _: &$crate::Call<'_>, _: &$crate::Inode, pos: u64) -> $crate::Result<u64> {
            Ok(pos)
        }
    };
    (trim) => {
        fn trim(&self, _: &$crate::Call<'_>, _: ::std::ops::Range<u64>, _: u64) -> $crate::Result<u64> {
            Err($crate::FsError::NotSupported)
        }
    };
    (grow) => {
        fn grow(&self, _: &$crate::Call<'_>, _: u64) -> $crate::Result<()> {
            Err($crate::FsError::NotSupported)
        }
    };
    (sweep) => {
        fn sweep(&self, _: &$crate::Call<'_>, _: &$crate::Sweep) -> $crate::Result<$crate::Swept> {
            Err($crate::FsError::NotSupported)
        }
    };
    (xattrs) => {
        fn getxattr(
            &self,
            _: &$crate::Call<'_>,
            _: &$crate::Inode,
            _: &[u8],
        ) -> $crate::Result<::std::option::Option<::std::vec::Vec<u8>>> {
            Err($crate::FsError::NotSupported)
        }
        fn setxattr(
            &self,
            _: &$crate::Call<'_>,
            _: &$crate::Inode,
            _: &[u8],
            _: ::std::option::Option<&[u8]>,
        ) -> $crate::Result<()> {
            Err($crate::FsError::NotSupported)
        }
        fn listxattr(
            &self,
            _: &$crate::Call<'_>,
            _: &$crate::Inode,
        ) -> $crate::Result<::std::vec::Vec<::std::vec::Vec<u8>>> {
            Err($crate::FsError::NotSupported)
        }
    };
}
