//! Bumps the versions of the answers that programs get (`granary_direct::versions`).
//!
//! ```text
//!   names, attributes    the vfs's watcher: it sees every change
//!   contents             Adapter::changing around each request and command that changes a file's content,
//!                        and around each READ of the
//!                        kernel: a page that it has a program may map, and store into without a word to us
//! ```
//!
//! That is all that can change a content. Stores into a mapping need a page that the kernel has fetched by a
//! READ, or kept of a WRITE. After those there is no right copy until a command has had the kernel drop its
//! pages (views.rs). Writing back, cleaning and migrating change none.
//!
//! One set for the process, however many mounts it serves: file systems do not know of mounts.

use crate::adapter::Adapter;
use granary_direct::versions::{Versions, Watched, slot};
use granary_fs::{Changed, Watcher};
use granary_vfs::NodeRef;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

/// Those of this process, and the file to be handed to programs.
static VERSIONS: OnceLock<Option<(Versions, OwnedFd)>> = OnceLock::new();

struct Tells;

fn watched(what: Changed) -> Watched {
    match what {
        Changed::Names => Watched::Names,
        Changed::Attributes(ino) => Watched::Attributes(slot(ino.0)),
    }
}

impl Watcher for Tells {
    fn begins(&self, what: Changed) {
        if let Some((versions, _)) = made() {
            versions.begins(watched(what));
        }
    }

    fn ended(&self, what: Changed) {
        if let Some((versions, _)) = made() {
            versions.ended(watched(what));
        }
    }
}

fn made() -> Option<&'static (Versions, OwnedFd)> {
    VERSIONS.get()?.as_ref()
}

/// Makes them, once, before the first program connects. Where the system cannot, programs keep no copies.
pub(super) fn begin() {
    VERSIONS.get_or_init(|| Versions::make().ok());
    if made().is_some() {
        granary_fs::watch(&Tells);
    }
}

/// No copy is right any more.
pub(super) fn expire() {
    let Some((versions, _)) = made() else { return };
    let slots = 0..granary_direct::versions::SLOTS as u32;
    let all = slots.flat_map(|n| [Watched::Attributes(n), Watched::Contents(n)]).chain([Watched::Names]);
    for what in all {
        versions.begins(what);
        versions.ended(what);
    }
}

/// The file that programs map.
pub(super) fn file() -> Option<&'static OwnedFd> {
    made().map(|(_, file)| file)
}

/// A look at something that may change meanwhile.
pub(super) struct Look(Watched, u64);

impl Look {
    /// It begins.
    pub(super) fn at(what: Watched) -> Look {
        Look(what, made().map_or(0, |(versions, _)| versions.before(what)))
    }

    /// It has ended: the version of what was seen, 0: none.
    pub(super) fn version(&self) -> u64 {
        made().map_or(0, |(versions, _)| versions.version(self.0, self.1))
    }
}

impl Adapter {
    /// Does what changes the content of a file, or gives the kernel a page of it.
    pub(crate) fn changing<T>(&self, node: &NodeRef, change: impl FnOnce() -> T) -> T {
        let Some((versions, _)) = made().filter(|_| self.makes_directly) else { return change() };
        let what = Watched::Contents(slot(node.ino().0));
        versions.begins(what);
        let done = change();
        versions.ended(what);
        done
    }
}
