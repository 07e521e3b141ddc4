//! [`Vfs`]: a mounted file system.

use crate::config::VfsConfig;
use crate::error::Result;
use crate::fs::{FileSystem, StatFs};
use std::sync::Arc;

/// A mounted file system.
pub struct Vfs {
    fs: Arc<dyn FileSystem>,
    config: VfsConfig,
}

impl Vfs {
    /// Mounts `fs`, which has opened (and recovered) its media.
    ///
    /// # Errors
    /// Where the root directory cannot be loaded.
    pub fn mount(fs: Arc<dyn FileSystem>, config: VfsConfig) -> Result<Arc<Vfs>> {
        fs.load_inode(fs.root())?;
        Ok(Arc::new(Vfs { fs, config }))
    }

    /// The file system.
    pub fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// The configuration.
    pub fn config(&self) -> &VfsConfig {
        &self.config
    }

    /// Space and inodes.
    ///
    /// # Errors
    /// The file system's.
    pub fn statfs(&self) -> Result<StatFs> {
        self.fs.statfs()
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// The file system's.
    pub fn sync(&self) -> Result<()> {
        self.fs.sync()
    }

    /// Writes everything back and ends cleanly. Processes (their descriptors and working directories) must be gone.
    ///
    /// # Errors
    /// `Busy` where something is in use; the file system's.
    pub fn unmount(&self) -> Result<()> {
        self.fs.unmount()
    }
}
