//! Registry entry of PMFS.

use crate::options::{MkfsOptions, MountOptions};
use granary_device::Need;
use granary_fs::FsEntry;
use granary_fs::entry::{CrashCase, nothing_periodic};

/// PMFS.
pub const PMFS: FsEntry = FsEntry {
    name: "pmfs",
    about: "PMFS (EuroSys'14): in-place updates under an undo journal, byte interface only",
    needs: &[Need::Bytes],
    write_log: false,
    below: None,
    options: None,
    periodic: nothing_periodic,
    mkfs: |devices, given| crate::mkfs(devices.serving(Need::Bytes)?, &given.read::<MkfsOptions>()?),
    mount: |devices, _how| Ok(crate::mount(devices.serving(Need::Bytes)?.clone(), &MountOptions::default())?),
    repair: None,
    checkpoints: None,
    // A journal of 1,023 entries: wraps all the time.
    crash: &[CrashCase {
        mkfs: "journal = '64KiB'",
        every_call_is_durable: true,
        cuts_are_finished: true,
        ..CrashCase::plain("pmfs")
    }],
};
