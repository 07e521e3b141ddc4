//! [`Gated`]: a page cache, and the writers that wait while too much of it is dirty.

use super::{PageCache, capacity};
use crate::config::VfsConfig;
use crate::gate::Gate;
use crate::vfs::Node;
use granary_fs::DirtyPage;
use std::ops::{Deref, Range};

/// See the module.
pub(crate) struct Gated {
    pages: Box<dyn PageCache>,
    background: u64,
    limit: u64,
    /// Opens when pages became clean.
    pub(crate) below_limit: Gate,
}

impl Gated {
    pub(crate) fn new(pages: Box<dyn PageCache>, config: &VfsConfig) -> Gated {
        let share = |percent: u32| capacity(config) * u64::from(percent) / 100;
        Gated {
            pages,
            background: share(config.dirty_background_percent),
            limit: share(config.dirty_limit_percent),
            below_limit: Gate::default(),
        }
    }

    /// Whether so much is dirty that write-back should start.
    #[inline]
    pub(crate) fn over_background(&self) -> bool {
        self.pages.dirty() > self.background
    }

    /// Whether so much is dirty that writers should wait.
    #[inline]
    pub(crate) fn over_limit(&self) -> bool {
        self.pages.dirty() > self.limit
    }

    /// As [`PageCache::written`]; writers that wait look again.
    pub(crate) fn written(&self, node: &Node, pages: &[DirtyPage]) {
        self.pages.written(node, pages);
        self.below_limit.open();
    }

    /// As [`PageCache::truncate`]; writers that wait look again.
    pub(crate) fn truncate(&self, node: &Node, size: u64) {
        self.pages.truncate(node, size);
        self.below_limit.open();
    }

    /// As [`PageCache::drop_range`]; writers that wait look again.
    pub(crate) fn drop_range(&self, node: &Node, pages: Range<u64>) {
        self.pages.drop_range(node, pages);
        self.below_limit.open();
    }

    /// As [`PageCache::drop_all`]; writers that wait look again.
    pub(crate) fn drop_all(&self, node: &Node) {
        self.pages.drop_all(node);
        self.below_limit.open();
    }
}

impl Deref for Gated {
    type Target = dyn PageCache;

    fn deref(&self) -> &Self::Target {
        &*self.pages
    }
}
