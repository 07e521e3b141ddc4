//! [`Statistics`]: the file that tells the mount's counters, which is in no directory.
//!
//! ```text
//!   lookup of the name --> the text of this moment, under a node number of its own --> read ... --> forget
//! ```
//!
//! Every lookup makes a new node, and the name may not be cached: so each opening of the file shows the
//! counters as they are, has the right size, and what the kernel caches of it is never old. Numbers from 2^63
//! on are such nodes; no file system has as many inodes.

use crate::operations::Operations;
use crate::options::StatsHook;
use granary_fs::{FileKind, FsError, Result};
use granary_fuse::NodeId;
use granary_fuse::abi::Attr;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

const FIRST: u64 = 1 << 63;

struct Texts {
    next: u64,
    texts: BTreeMap<u64, Arc<str>>,
}

/// See the module.
pub(crate) struct Statistics {
    hook: StatsHook,
    texts: Mutex<Texts>,
}

/// Attributes that say as little as possible.
pub(crate) fn nothing() -> Attr {
    Attr { mode: u32::from(FileKind::File.code()) << 12 | 0o444, nlink: 1, blksize: 4096, ..Attr::default() }
}

fn attr(node: u64, text: &str) -> Attr {
    Attr { ino: node, size: text.len() as u64, ..nothing() }
}

impl Statistics {
    pub(crate) fn new(hook: StatsHook) -> Statistics {
        Statistics { hook, texts: Mutex::new(Texts { next: FIRST, texts: BTreeMap::new() }) }
    }

    /// Whether a node is the file.
    pub(crate) fn is(node: NodeId) -> bool {
        node.0 >= FIRST
    }

    /// Takes the text of this moment; the kernel gives it back with [`Statistics::forget`].
    pub(crate) fn look(&self, operations: &Operations) -> Attr {
        let text: Arc<str> = (self.hook)(operations).into();
        let mut t = self.texts.lock();
        let node = t.next;
        t.next += 1;
        let attr = attr(node, &text);
        t.texts.insert(node, text);
        attr
    }

    pub(crate) fn forget(&self, node: NodeId) {
        self.texts.lock().texts.remove(&node.0);
    }

    fn text(&self, node: NodeId) -> Result<Arc<str>> {
        self.texts.lock().texts.get(&node.0).cloned().ok_or(FsError::Stale)
    }

    pub(crate) fn attr(&self, node: NodeId) -> Result<Attr> {
        Ok(attr(node.0, &self.text(node)?))
    }

    pub(crate) fn read(&self, node: NodeId, pos: u64, out: &mut [u8]) -> Result<usize> {
        let text = self.text(node)?;
        let rest = text.as_bytes().get(pos.min(text.len() as u64) as usize..).unwrap_or_default();
        let n = rest.len().min(out.len());
        out[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
}

impl super::Adapter {
    pub(super) fn statistics(&self) -> Result<&Statistics> {
        self.stats.as_ref().ok_or(FsError::Stale)
    }
}
