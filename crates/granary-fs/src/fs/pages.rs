//! Dirty pages on their way to media.

use crate::attr::Ino;
use crate::error::Result;
use crate::inode::Inode;
use granary_units::{PAGE_SIZE, Page};

/// A dirty page to be written.
#[derive(Clone, Debug)]
pub struct DirtyPage {
    /// Page number in the file.
    pub index: u64,
    /// Content; zero from `valid` on.
    pub page: Page,
    /// Bytes of it that belonged to the file when it was gathered, or [`PAGE_SIZE`] where the caller has put
    /// zeros behind.
    pub valid: usize,
    /// Bit n: 64 B line n differs from what was last written. None may: a page that was written over with
    /// what it held (known where pages are compared with duplicates); its file may still have to grow on
    /// media.
    pub lines: u64,
}

impl DirtyPage {
    /// Where its bytes end in the file: with this page as the last one written, the size on media may grow up
    /// to here, but not beyond the file's. (The file may have grown since the page was gathered, over bytes
    /// that are not in it.)
    pub fn end(&self) -> u64 {
        self.index * PAGE_SIZE as u64 + self.valid as u64
    }
}

/// Why pages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBackCause {
    /// `fsync`, `fdatasync`, O_SYNC, `sync`: a caller waits.
    Sync,
    /// Old dirty pages, or memory pressure.
    Background,
}

/// The page cache, as a file system sees it whose commits write pages of files themselves.
pub trait DirtyPages: Send + Sync {
    /// Writes page `index` of inode `ino` where it is in the cache and dirty, and `may` agrees, which is told
    /// where the page's bytes end in the file. A page of an inode that is being written back is left to who
    /// does that. `write` starts the write; an error is the inode's to remember. Waits for no lock that is
    /// held where a transaction is begun.
    fn write_dirty_page(
        &self,
        ino: Ino,
        index: u64,
        may: &dyn Fn(&Inode, u64) -> Result<bool>,
        write: &mut dyn FnMut(&Inode, &DirtyPage) -> Result<()>,
    );
}
