//! [`Table`]: inode numbers, and the host's files that have them.
//!
//! ```text
//!   of the root's device:        the host's number, where it is less than 2^63
//!   all others, also what is mounted within: 2^63, 2^63 + 1, ...  by (device, number), for as long as the
//!                                                                 file lives
//! ```
//!
//! A file that was seen stays in the table, without a descriptor, until it is removed: some 150 bytes each.

use crate::host::{Host, Identity, Place, stat};
use granary_fs::{FsError, Ino, Result};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// From here on numbers are the table's own.
const OWN: u64 = 1 << 63;

type Device = (u32, u32);

#[derive(Default)]
struct State {
    hosts: FxHashMap<Ino, Arc<Host>>,
    own: FxHashMap<(Device, u64), Ino>,
    /// Own numbers given so far.
    given: u64,
}

/// See the module.
pub(crate) struct Table {
    device: Device,
    /// Its files are opened for reading.
    read_only: bool,
    state: Mutex<State>,
}

impl Table {
    /// A table for the tree below this directory; `read_only`: of files that nobody changes.
    pub(crate) fn new(root: impl AsFd, read_only: bool) -> Result<Table> {
        Ok(Table { device: Identity::of(&stat(root)?).dev, read_only, state: Mutex::default() })
    }

    /// The number of an entry of a directory on `device`.
    pub(crate) fn number(&self, device: Device, ino: u64) -> Ino {
        self.state.lock().number(self.device, device, ino)
    }

    /// The file that a descriptor is of, seen at `place`; it keeps the descriptor where it has none.
    ///
    /// # Errors
    /// `Stale` where somebody put another file under a number that is in use.
    pub(crate) fn adopt(&self, fd: OwnedFd, place: Option<(&Arc<Host>, &[u8])>) -> Result<Arc<Host>> {
        let identity = Identity::of(&stat(&fd)?);
        let fd = Arc::new(fd);
        let state = &mut *self.state.lock();
        let number = state.number(self.device, identity.dev, identity.ino);
        let host = match state.hosts.entry(number) {
            Entry::Occupied(known) if known.get().identity() == identity => {
                known.get().offer(&fd);
                Arc::clone(known.get())
            }
            Entry::Occupied(known) if known.get().is_open() => return Err(FsError::Stale),
            entry => {
                let at = place.map(|(dir, name)| Place { dir: Arc::clone(dir), name: name.to_vec() });
                let host = Arc::new(Host::new(number, identity, fd, at, self.read_only));
                entry.insert_entry(host).get().clone()
            }
        };
        if let Some((dir, name)) = place {
            host.is_at(dir, name, false);
        }
        Ok(host)
    }

    /// The file of this number.
    ///
    /// # Errors
    /// `Stale` where none was seen.
    pub(crate) fn host(&self, number: Ino) -> Result<Arc<Host>> {
        self.state.lock().hosts.get(&number).cloned().ok_or(FsError::Stale)
    }

    /// Forgets a file that is gone, so that its number may come again as soon as its descriptors are closed.
    pub(crate) fn forget(&self, host: &Host) {
        let state = &mut *self.state.lock();
        let Identity { dev, ino, .. } = host.identity();
        if state.hosts.get(&host.number()).is_some_and(|h| std::ptr::eq(&**h, host)) {
            state.hosts.remove(&host.number());
            state.own.remove(&(dev, ino));
        }
    }

    /// Lets go of all files but `root`: each knows the directory that it is in.
    pub(crate) fn clear(&self, root: &Arc<Host>) {
        let state = &mut *self.state.lock();
        state.hosts.retain(|_, host| Arc::ptr_eq(host, root));
        state.own.clear();
    }
}

impl State {
    fn number(&mut self, root: Device, device: Device, ino: u64) -> Ino {
        if device == root && ino < OWN {
            return Ino(ino);
        }
        *self.own.entry((device, ino)).or_insert_with(|| {
            self.given += 1;
            Ino(OWN + self.given - 1)
        })
    }
}
