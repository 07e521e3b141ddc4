//! Snapshots in a life: one is taken between two parts of a round, and each that was taken must show the same
//! behind a recovery.

use super::life::Life;
use crate::oracle::{Picture, Promises};
use granary_device::Devices;
use granary_fs::{Cred, FsError};
use granary_vfs::{Process, Vfs, VfsConfig};
use std::sync::Arc;

/// More are not taken: each is looked at behind each recovery.
const MOST: usize = 3;

impl Life {
    /// Unmounts, takes a snapshot, and mounts again.
    pub(super) fn take_snapshot(
        &self,
        vfs: Arc<Vfs>,
        devices: &Devices,
        promises: &Promises,
    ) -> Result<Arc<Vfs>, Vec<String>> {
        if promises.snapshots().len() >= MOST {
            return Ok(vfs);
        }
        unmount(vfs)?;
        promises.keep_everything();
        let taken = self.target.snapshot(devices);
        let number = taken.map_err(|e| vec![format!("a snapshot is taken: {e}")])?;
        promises.keep_snapshot(number, self.picture(devices, number)?);
        self.attach(self.mount(devices)?)
    }

    /// Unmounts, and looks at all snapshots; the file system is mounted again.
    pub(super) fn look_at_snapshots(
        &self,
        vfs: Arc<Vfs>,
        devices: &Devices,
        promises: &Promises,
    ) -> Result<Arc<Vfs>, Vec<String>> {
        unmount(vfs)?;
        for (number, before) in promises.snapshots() {
            let differences = before.differences(&self.picture(devices, number)?);
            if !differences.is_empty() {
                let told = |what| format!("snapshot {number} has changed: {what}");
                return Err(differences.into_iter().map(told).collect());
            }
        }
        self.attach(self.mount(devices)?)
    }

    fn picture(&self, devices: &Devices, number: u64) -> Result<Picture, Vec<String>> {
        let wrong = |what: &str, e: FsError| vec![format!("snapshot {number}: {what}: {e}")];
        let fs = self.target.mount_snapshot(devices, number).map_err(|e| wrong("mount", e))?;
        let config = VfsConfig { read_only: true, ..self.target.vfs() };
        let vfs = Vfs::mount(fs, config).map_err(|e| wrong("vfs mount", e))?;
        let mut process = Process::new(Arc::clone(&vfs), Cred::ROOT);
        let picture = Picture::of(&mut process);
        process.exit();
        vfs.unmount().map_err(|e| wrong("unmount", e))?;
        picture.map_err(|what| vec![format!("snapshot {number}: {what}")])
    }
}

fn unmount(vfs: Arc<Vfs>) -> Result<(), Vec<String>> {
    vfs.unmount().map_err(|e| vec![format!("unmount around a snapshot: {e}")])
}
