//! [`Handles`]: open files by the number that the kernel knows them by.

use fuser::FileHandle;
use granary_vfs::{FsError, OpenFile, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// What is open.
#[derive(Clone)]
pub(crate) enum Open {
    /// A file of the file system.
    File(Arc<OpenFile>),
    /// The statistics as they were when they were opened.
    Text(Arc<str>),
}

#[derive(Default)]
struct Slab {
    slots: Vec<Option<Open>>,
    free: Vec<usize>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Handles(Mutex<Slab>);

impl Handles {
    pub(crate) fn insert(&self, open: Open) -> FileHandle {
        let mut slab = self.0.lock();
        let at = match slab.free.pop() {
            Some(at) => at,
            None => {
                slab.slots.push(None);
                slab.slots.len() - 1
            }
        };
        slab.slots[at] = Some(open);
        FileHandle(at as u64)
    }

    pub(crate) fn get(&self, fh: FileHandle) -> Result<Open> {
        self.0.lock().slots.get(fh.0 as usize).cloned().flatten().ok_or(FsError::BadFd)
    }

    /// The file of this number.
    pub(crate) fn file(&self, fh: FileHandle) -> Result<Arc<OpenFile>> {
        match self.get(fh)? {
            Open::File(file) => Ok(file),
            Open::Text(_) => Err(FsError::NotPermitted),
        }
    }

    pub(crate) fn remove(&self, fh: FileHandle) -> Option<Open> {
        let mut slab = self.0.lock();
        let at = fh.0 as usize;
        let open = slab.slots.get_mut(at)?.take()?;
        slab.free.push(at);
        Some(open)
    }

    /// Everything that is still open.
    pub(crate) fn take_all(&self) -> Vec<Open> {
        let mut slab = self.0.lock();
        slab.free.clear();
        std::mem::take(&mut slab.slots).into_iter().flatten().collect()
    }
}
