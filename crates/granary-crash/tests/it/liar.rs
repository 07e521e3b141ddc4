//! [`Liar`]: a file system that breaks one promise and keeps all others.

use granary_device::DriveError;
use granary_fs::{
    Attributes, Call, Created, Data, DirtyPage, FileKind, FileSystem, FsError, Inode, Life, Names, NewNode,
    Rename, Result, Space, StatFs, WriteBackCause, forward_attributes, forward_data, forward_life,
    forward_names, forward_space,
};
use granary_units::Nanos;
use std::sync::Arc;

/// The promise that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// `fsync` does nothing.
    Fsync,
    /// `fsync` never tells of an error.
    Swallow,
    /// `sync` does nothing.
    Sync,
    /// A rename to a free name in another directory: a second name, and some time later no first one.
    Rename,
    /// `fsync` does what `fdatasync` is asked for.
    Times,
    /// The first page of a write-back never reaches the drive.
    LostPage,
    /// A new file gets the number of its directory: as where a damaged bitmap says that it is free.
    Reused,
    /// Every write-back fails.
    WriteBack,
    /// The drive fails every symbolic link.
    Symlink,
    /// `statfs` tells of a thousand free blocks that nobody has.
    Free,
    /// `statfs` tells of a thousand free blocks too few: as where two files get the same ones.
    Taken,
}

/// Wraps a file system.
pub struct Liar {
    pub inner: Arc<dyn FileSystem>,
    pub lie: Lie,
}

impl Names for Liar {
    forward_names!(
        inner: lookup, readdir, dir_end, parent, is_empty_dir, readlink, link, unlink
    );

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        if self.lie == Lie::Symlink && new.kind == FileKind::Symlink {
            return Err(FsError::Drive(DriveError::Failed("made to fail".into())));
        }
        let made = self.inner.create(call, dir, name, new)?;
        Ok(Created { ino: if self.lie == Lie::Reused { dir.ino() } else { made.ino }, ..made })
    }

    fn create_unnamed(&self, call: &Call<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        let made = self.inner.create_unnamed(call, dir, new)?;
        Ok(Created { ino: if self.lie == Lie::Reused { dir.ino() } else { made.ino }, ..made })
    }

    fn rename(&self, call: &Call<'_>, rename: &Rename<'_>) -> Result<()> {
        let is_dir = rename.inode.attr().kind == FileKind::Dir;
        if self.lie != Lie::Rename || is_dir || rename.target.is_some() {
            return self.inner.rename(call, rename);
        }
        self.inner.link(call, rename.to_dir, rename.to, rename.inode)?;
        granary_sim::sleep(Nanos::from_micros(20));
        self.inner.unlink(call, rename.from_dir, rename.from, rename.inode)
    }
}

impl Data for Liar {
    forward_data!(
        inner: read_pages, reserve, wrote, read_direct, write_direct, rewrites_cut_page, flush_on_close
    );

    fn write_pages(
        &self,
        call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        why: WriteBackCause,
    ) -> Result<()> {
        if self.lie == Lie::WriteBack {
            return Err(FsError::NoSpace);
        }
        let lost = self.lie == Lie::LostPage && pages.len() > 1;
        self.inner.write_pages(call, inode, &pages[usize::from(lost)..], why)
    }

    fn fsync(&self, call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()> {
        match self.lie {
            Lie::Fsync => Ok(()),
            Lie::Swallow => {
                let _ = self.inner.fsync(call, inode, data_only);
                Ok(())
            }
            lie => self.inner.fsync(call, inode, data_only || lie == Lie::Times),
        }
    }
}

impl Space for Liar {
    forward_space!(inner: fallocate, seek_data, seek_hole, empty_until, trim, grow, sweep);

    fn statfs(&self, call: &Call<'_>) -> Result<StatFs> {
        let mut told = self.inner.statfs(call)?;
        match self.lie {
            Lie::Free => told.free_blocks += 1_000,
            Lie::Taken => told.free_blocks = told.free_blocks.saturating_sub(1_000),
            _ => {}
        }
        Ok(told)
    }
}

impl Attributes for Liar {
    forward_attributes!(inner: setattr, touch_atime, getxattr, setxattr, listxattr, generation);
}

impl Life for Liar {
    forward_life!(
        inner: name, features, opened, closed, drop_clean, process_ended, memory, attach, root, load_inode, evict, release, drop_caches, unmount
    );

    fn sync(&self, call: &Call<'_>) -> Result<()> {
        if self.lie == Lie::Sync { Ok(()) } else { self.inner.sync(call) }
    }

    fn check(&self, call: &Call<'_>) -> Result<Vec<String>> {
        // Leaks are not what these lies are about; the oracle has to find them.
        if self.lie == Lie::LostPage { Ok(Vec::new()) } else { self.inner.check(call) }
    }
}
