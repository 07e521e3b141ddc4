//! [`Inode`]: an inode in memory, shared by the vfs and the file system.
//!
//! ```text
//!   rwsem      held by the vfs: exclusively while the inode's content or (for a directory) its entries
//!              change,
//!              shared while they are read. Order: parent before child; two directories by inode number.
//!   attr       the attributes; short lock, never held across a wait
//!   private    the file system's own part, made by load_inode/create
//! ```

use crate::attr::{Attr, FileKind, Ino};
use crate::fs::Loaded;
use crate::watch::{self, Changed, Watcher};
use granary_sim::sync::RwLock;
use granary_units::{LINE_SIZE, prefetch_at};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::Arc;

/// An inode in memory.
pub struct Inode {
    ino: Ino,
    /// Linux's `i_rwsem`: see the module's drawing. Taken by the vfs, not by file systems.
    pub rwsem: RwLock<()>,
    attr: Mutex<Attr>,
    private: Arc<dyn Any + Send + Sync>,
}

impl Inode {
    /// An inode as the file system loaded or created it.
    pub fn new(ino: Ino, loaded: Loaded) -> Inode {
        Inode { ino, rwsem: RwLock::new(()), attr: Mutex::new(loaded.attr), private: loaded.private }
    }

    /// Inode number.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// The attributes now.
    pub fn attr(&self) -> Attr {
        *self.attr.lock()
    }

    /// Size in bytes now.
    pub fn size(&self) -> u64 {
        self.attr.lock().size
    }

    /// Looks at some of the attributes, without a copy of all.
    pub fn view<T>(&self, look: impl FnOnce(&Attr) -> T) -> T {
        look(&self.attr.lock())
    }

    /// Changes the attributes in memory. The file system calls this in the same transaction in which it
    /// persists the change; the vfs never does on its own.
    pub fn update<T>(&self, change: impl FnOnce(&mut Attr) -> T) -> T {
        let mut attr = self.attr.lock();
        let before = watch::watcher().map(|watcher| (watcher, *attr));
        let done = change(&mut attr);
        if let Some((watcher, before)) = before {
            self.tell(&before, &attr, watcher);
        }
        done
    }

    /// Tells the watcher of a change that nobody can have seen, because the attributes are locked. Of
    /// directories every change may matter to who walks a path: access control lists change with nothing but
    /// a time, which may be the same.
    #[cold]
    fn tell(&self, before: &Attr, new: &Attr, watcher: &dyn Watcher) {
        let rights = |a: &Attr| (a.mode, a.uid, a.gid, a.flags);
        let names = new.kind == FileKind::Dir || rights(before) != rights(new);
        let what = [Some(Changed::Attributes(self.ino)), names.then_some(Changed::Names)];
        if before == new && !names {
            return;
        }
        what.into_iter().flatten().for_each(|what| watcher.begins(what));
        what.into_iter().flatten().for_each(|what| watcher.ended(what));
    }

    /// The file system's private part.
    ///
    /// # Panics
    /// Where it has another type: one file system was handed another's inode.
    pub fn private<T: 'static>(&self) -> &T {
        self.private.downcast_ref().expect("the inode belongs to this file system")
    }

    /// The file system's private part will be used soon: its lines are fetched into the processor's cache
    /// together.
    #[inline]
    pub fn prefetch_private(&self) {
        /// Lines; the bytes behind them can wait.
        const MOST: usize = 8;
        let first = Arc::as_ptr(&self.private).addr();
        let end = first + size_of_val(&*self.private).min(MOST * LINE_SIZE);
        (first..end).step_by(LINE_SIZE).for_each(prefetch_at);
    }

    /// The same, to keep.
    ///
    /// # Panics
    /// As above.
    pub fn share_private<T: Send + Sync + 'static>(&self) -> Arc<T> {
        Arc::clone(&self.private).downcast().expect("the inode belongs to this file system")
    }
}
