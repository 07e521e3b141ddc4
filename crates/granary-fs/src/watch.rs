//! [`Watcher`]: somebody outside keeps copies of what the vfs has told, and must learn before that changes.
//!
//! ```text
//!   change of attributes   Inode::update: locked ── change ── begins ── ended ── unlocked
//!   change of a name       begins ── the name cache ── ended
//! ```
//!
//! These are the only two ways: every file system changes attributes through
//! [`Inode::update`](crate::Inode::update), and a name that the name cache does not know is looked up under
//! its directory's lock, which who changes it holds until the cache says so.
//!
//! One watcher for the process: the processes of mounts have one, simulations none. Contents it does *not*
//! tell of; who watches serves all that can change them.

use crate::attr::Ino;
use std::sync::OnceLock;

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Where paths lead, and who may walk them: names, directories, permissions.
    Names,
    /// Attributes of the inodes of this number, of whatever file system.
    Attributes(Ino),
}

/// See the module. Its methods are called with locks held: they must not wait, and call nothing here.
pub trait Watcher: Send + Sync {
    /// It changes; nobody has seen that yet.
    fn begins(&self, what: Changed);
    /// It has changed.
    fn ended(&self, what: Changed);
}

static WATCHER: OnceLock<&'static dyn Watcher> = OnceLock::new();

/// From now on this one is told. The first stays.
pub fn watch(watcher: &'static dyn Watcher) {
    let _ = WATCHER.set(watcher);
}

/// The watcher, if there is one.
pub(crate) fn watcher() -> Option<&'static dyn Watcher> {
    WATCHER.get().copied()
}

/// Does what changes names.
pub fn changing_names<T>(change: impl FnOnce() -> T) -> T {
    let Some(watcher) = watcher() else { return change() };
    watcher.begins(Changed::Names);
    let done = change();
    watcher.ended(Changed::Names);
    done
}
