//! [`Handles`]: open files by the number that the kernel knows them by.

use fuser::FileHandle;
use granary_vfs::{FsError, OpenFile, Result};
use parking_lot::Mutex;
use std::sync::Arc;

#[derive(Default)]
struct Slab {
    slots: Vec<Option<Arc<OpenFile>>>,
    free: Vec<usize>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Handles(Mutex<Slab>);

impl Handles {
    /// The number of no open file.
    pub(crate) const NONE: FileHandle = FileHandle(u64::MAX);

    pub(crate) fn insert(&self, file: Arc<OpenFile>) -> FileHandle {
        let mut slab = self.0.lock();
        let at = match slab.free.pop() {
            Some(at) => at,
            None => {
                slab.slots.push(None);
                slab.slots.len() - 1
            }
        };
        slab.slots[at] = Some(file);
        FileHandle(at as u64)
    }

    /// The file of this number.
    pub(crate) fn get(&self, fh: FileHandle) -> Result<Arc<OpenFile>> {
        self.0.lock().slots.get(fh.0 as usize).cloned().flatten().ok_or(FsError::BadFd)
    }

    pub(crate) fn remove(&self, fh: FileHandle) -> Option<Arc<OpenFile>> {
        let mut slab = self.0.lock();
        let at = fh.0 as usize;
        let file = slab.slots.get_mut(at)?.take()?;
        slab.free.push(at);
        Some(file)
    }

    /// Everything that is still open.
    pub(crate) fn take_all(&self) -> Vec<Arc<OpenFile>> {
        let mut slab = self.0.lock();
        slab.free.clear();
        std::mem::take(&mut slab.slots).into_iter().flatten().collect()
    }
}
