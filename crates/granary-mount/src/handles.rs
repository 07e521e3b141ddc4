//! [`Handles`]: open files and directories by the number that the kernel knows them by.

use granary_fs::{FsError, Result};
use granary_fuse::Handle;
use parking_lot::Mutex;
use std::sync::Arc;

struct Slab<T> {
    slots: Vec<Option<Arc<T>>>,
    free: Vec<usize>,
}

/// See the module.
pub(crate) struct Handles<T>(Mutex<Slab<T>>);

impl<T> Default for Handles<T> {
    fn default() -> Handles<T> {
        Handles(Mutex::new(Slab { slots: Vec::new(), free: Vec::new() }))
    }
}

impl<T> Handles<T> {
    /// The number of no open file.
    pub(crate) const NONE: Handle = Handle(u64::MAX);

    pub(crate) fn insert(&self, file: Arc<T>) -> Handle {
        let mut slab = self.0.lock();
        let at = match slab.free.pop() {
            Some(at) => at,
            None => {
                slab.slots.push(None);
                slab.slots.len() - 1
            }
        };
        slab.slots[at] = Some(file);
        Handle(at as u64)
    }

    /// The object with this number.
    pub(crate) fn get(&self, fh: Handle) -> Result<Arc<T>> {
        self.0.lock().slots.get(fh.0 as usize).cloned().flatten().ok_or(FsError::BadFd)
    }

    pub(crate) fn remove(&self, fh: Handle) -> Option<Arc<T>> {
        let mut slab = self.0.lock();
        let at = fh.0 as usize;
        let file = slab.slots.get_mut(at)?.take()?;
        slab.free.push(at);
        Some(file)
    }

    /// Everything that is still open.
    pub(crate) fn take_all(&self) -> Vec<Arc<T>> {
        let mut slab = self.0.lock();
        slab.free.clear();
        std::mem::take(&mut slab.slots).into_iter().flatten().collect()
    }
}
